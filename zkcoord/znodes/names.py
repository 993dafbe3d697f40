"""What may be a name: groups, topics, partitions, members, threads.

Names become path components and texts that other programs parse, so the rules are narrow and in one
place. Readers use the predicates (a bad name in ZooKeeper is a finding, never an error); what a
user chose goes through `validate_group` and `chosen_consumer_id`, which raise one sentence.

* Topics: Kafka's characters, at most 249, never `.` or `..` (ZooKeeper refuses them as path
  components).
* Groups: whatever Kafka allows (any text) and ZooKeeper takes as a path component: no `/`, no
  control character, nothing beyond U+FFFF, never `.` or `..`. Beyond that they are printable,
  because nobody could tell apart what cannot be seen, and at most 249 bytes long.
* Members: the same characters, since an old consumer's begins with its group's name. (The order of
  thread ids decides who gets what: up to U+FFFF Java's order and Python's agree.) Ours are ASCII.
* Numbers: ASCII digits without a leading zero. `int()` would also take spaces, signs, underscores
  and Arabic digits, and `00` is another node than `0`.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from urllib.parse import quote

from zkcoord import terminal
from zkcoord.core.model import Thread, TopicPartition
from zkcoord.errors import InvalidConsumerIdError, InvalidGroupError

NAME_CHARS_MAX = 249
MEMBER_CHARS_MAX = 640
KEPT_CHARS = 100
HOST_CHARS_MAX = 64
CONSUMER_ID_CHARS_MAX = 100
NODE_CHARS_MAX = 255
FIT_CHARS_MAX = 300
FIT_CHARS_KEPT = 200
FIT_DIGITS = 32
NUMBER_DIGITS_MAX = 9
BROKER_DIGITS_MAX, BROKER_ID_MAX = 10, 2**31 - 1
PORT_DIGITS_MAX, PORT_MAX = 5, 65_535
THREADS_KEPT_MAX = 1_024
shown = terminal.shown

RESERVED_GROUPS = frozenset(
    {"ids", "owners", "offsets", "commit-metadata", "coordinator", "groups"}
)

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_PLAIN = re.compile(r"[ -.0-~]+", re.ASCII)
_NO_COMPONENT = re.compile("[/\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_NODE = re.compile(r"[!-.0-~]{1,255}", re.ASCII)
_PARTITION = re.compile(r"([A-Za-z0-9._-]{1,249})-(0|[1-9][0-9]{0,8})", re.ASCII)
_CHOSEN = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)
_BORN = re.compile(r"-[0-9]{1,15}-[0-9a-f]{8}", re.ASCII)
_NONCE = re.compile(r"[0-9a-f]{8}", re.ASCII)
_DOTS = (".", "..")


def is_topic(name: str) -> bool:
    """Whether Kafka allows a topic of this name."""
    return _NAME.fullmatch(name) is not None and name not in _DOTS


def is_group(name: str) -> bool:
    """Whether `validate_group` accepts this name."""
    return (
        _is_component(name)
        and name not in RESERVED_GROUPS
        and (len(name) if name.isascii() else len(name.encode())) <= NAME_CHARS_MAX
    )


def is_plain_group(name: str) -> bool:
    """Whether this names one group where patterns with `*`, `?` and `[` may be given as well."""
    return is_group(name) and not set(name) & set("*?[")


def is_member(name: str) -> bool:
    """Whether this can be the name of a registration, ours or an old consumer's."""
    return len(name) <= MEMBER_CHARS_MAX and _is_component(name)


def kept(name: str) -> str:
    """What is kept of a node's name that may be of a megabyte: the name, or of one that is too long
    its beginning and what tells it from others, which is no node's name.
    """
    if len(name) <= MEMBER_CHARS_MAX:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{name[:KEPT_CHARS]}/... ({len(name)} characters, {digest[:FIT_DIGITS]})"


def _is_component(name: str) -> bool:
    """Whether a node may have this name, and people can see it."""
    return name not in _DOTS and (
        _PLAIN.fullmatch(name) is not None
        or (bool(name) and name.isprintable() and _NO_COMPONENT.search(name) is None)
    )


def is_node(name: str) -> bool:
    """Whether this can be the name of a command or a request. What cannot is not read: ZooKeeper
    takes names of a megabyte, and a thousand of them fit no request.
    """
    return _NODE.fullmatch(name) is not None


def is_number(text: str) -> bool:
    """Whether this is a partition's or a stream's number: 0 to 999,999,999 in its only spelling."""
    return (
        len(text) <= NUMBER_DIGITS_MAX
        and text.isdecimal()
        and text.isascii()
        and (text[0] != "0" or text == "0")
    )


def is_broker(text: str) -> bool:
    """Whether this is a broker's id: 0 to 2^31-1 in its only spelling."""
    return (
        len(text) <= BROKER_DIGITS_MAX
        and text.isdecimal()
        and text.isascii()
        and (text[0] != "0" or text == "0")
        and int(text) <= BROKER_ID_MAX
    )


def is_port(text: str) -> bool:
    """Whether this is a port that somebody can listen on: 1 to 65535, in ASCII digits."""
    return (
        0 < len(text) <= PORT_DIGITS_MAX
        and text.isdecimal()
        and text.isascii()
        and 0 < int(text) <= PORT_MAX
    )


def is_partition(topic: str, number: str) -> bool:
    """Whether these two path components name a partition."""
    return is_topic(topic) and is_number(number)


def printable(text: str, chars_max: int) -> str:
    """Text for a document that only takes printable characters: others become `?`, and the end is
    cut.
    """
    return "".join(c if c.isprintable() else "?" for c in text[:chars_max])


def validate_group(name: str) -> str:
    """The name itself, or `InvalidGroupError` with one sentence that says what to write instead."""
    if name in RESERVED_GROUPS:
        raise InvalidGroupError(
            f"the group name {shown(name)} is refused, because tools would take it for a part of"
            f" the layout: choose a name other than {', '.join(sorted(RESERVED_GROUPS))}"
        )
    if not is_group(name):
        raise InvalidGroupError(
            f"the group name {shown(name)} is refused, because {_why_no_group(name)}: choose"
            f" another, of 1 to {NAME_CHARS_MAX} bytes"
        )
    return name


def _why_no_group(name: str) -> str:
    if not name:
        return "it is empty"
    if name in _DOTS:
        return "ZooKeeper takes it for a place in a path"
    if "/" in name:
        return "a / parts paths in ZooKeeper"
    if not name.isprintable():
        return "it has a character that cannot be seen"
    if _NO_COMPONENT.search(name) is not None:
        return "it has a character that ZooKeeper refuses in paths (those beyond U+FFFF, and a few)"
    return f"it has {len(name.encode())} bytes"


def consumer_id(group: str, host: str, epoch_ms: int, nonce: str) -> str:
    """A new member's name, `<group>_<host>-<epoch ms>-<8 hex>`: new for every ZooKeeper session.
    Characters of `host` other than a topic may have become `_`, those of the group `%` and two
    digits for each byte.
    """
    fit = _UNFIT.sub("_", host)[:HOST_CHARS_MAX] or "localhost"
    return _named(group, fit, epoch_ms, nonce)


def chosen_consumer_id(group: str, chosen: str, epoch_ms: int, nonce: str) -> str:
    """A new member's name with the consumer id that the user chose in the place of the host. Raises
    `InvalidConsumerIdError`.
    """
    if _CHOSEN.fullmatch(chosen) is None:
        raise InvalidConsumerIdError(
            f"the consumer id {shown(chosen)} is refused: write 1 to {CONSUMER_ID_CHARS_MAX} of the"
            " characters A-Z a-z 0-9 . _ -"
        )
    return _named(group, chosen, epoch_ms, nonce)


def origin_of(group: str, member: str) -> str:
    """The host or chosen consumer id in a member's name; empty where the name was not made by the
    two functions above (an old consumer's is alike, and yields its host).
    """
    prefix = next((p for p in (f"{group}_", f"{_fit(group)}_") if member.startswith(p)), "")
    rest = member[len(prefix) :] if prefix else ""
    head, dash, nonce = rest.rpartition("-")
    origin, dash, born = head.rpartition("-")
    return origin if dash and _BORN.fullmatch(f"-{born}-{nonce}") is not None else ""


def _named(group: str, origin: str, epoch_ms: int, nonce: str) -> str:
    assert epoch_ms >= 0, epoch_ms
    assert _NONCE.fullmatch(nonce) is not None, nonce
    return f"{_fit(group)}_{origin}-{epoch_ms}-{nonce}"


def _fit(group: str) -> str:
    """A group's name within a member's: ASCII without spaces, short enough for it."""
    if _NAME.fullmatch(group) is not None:
        return group
    found = quote(group, safe="")
    if len(found) <= FIT_CHARS_MAX:
        return found
    digest = hashlib.sha256(group.encode()).hexdigest()
    return f"{found[:FIT_CHARS_KEPT]}%~{digest[:FIT_DIGITS]}"


@lru_cache(THREADS_KEPT_MAX)
def parse_thread(text: str) -> Thread | None:
    """A thread id, `<member>-<n>`; the number is after the LAST dash. None: it is not one. The
    latest are kept: a thread owns many partitions, and is named once for each.
    """
    member, dash, number = text.rpartition("-")
    return Thread(member, int(number)) if dash and is_member(member) and is_number(number) else None


def parse_partition(text: str) -> TopicPartition | None:
    """A partition's text, `<topic>-<n>`; topics may contain dashes, so the number is after the LAST
    one. None: it is not one.
    """
    match = _PARTITION.fullmatch(text)
    return (
        TopicPartition(match[1], int(match[2]))
        if match is not None and match[1] not in _DOTS
        else None
    )
