"""Registrations: what a consumer says about itself, readable by old consumers too.

An old consumer reads every registration of its group and dies of a bad one, so ours stay within
what it accepts: `version` 1, `subscription` {topic: streams} (or {regex: streams} with `pattern`
white_list or black_list), `timestamp` as a string, and everything else as strings. Lists are
comma-joined; assignor and protocol names contain no comma. The expression is escaped once (JSON's
own escaping). The field `zkcoord`, our protocol's version, tells ours from an old consumer's
registration, which has none of the extras.

Reading is lenient only where old writers force it: an unknown `pattern` word of a legacy
registration means static, as does one without topics, `version` and `timestamp` are not looked at,
names that no topic can have are topics that do not exist, and a legacy expression is normalised as
its own readers do (comma means or, spaces and outer quotes go). What old consumers of some release
can read and we cannot is an old consumer all the same: a `Member` that says why it is `unfollowed`.

Both ways apply the same rules: what `encode_registration` refuses (`InvalidSubscriptionError`) is
what `decode_registration` would call malformed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from zkcoord.core.model import Malformed, Member, Pattern, PatternKind, Subscription
from zkcoord.core.shared import KEEPER, KEEPS_OUT
from zkcoord.errors import InvalidSubscriptionError
from zkcoord.znodes import names
from zkcoord.znodes.java_patterns import Refusal
from zkcoord.znodes.legacy_json import PATTERNS, decode_legacy_document, unusable
from zkcoord.znodes.names import printable
from zkcoord.znodes.patterns import check_old_regex, check_regex
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import (
    REASON_CHARS_MAX,
    USER_DATA_CHARS_MAX,
    JsonObject,
    Texts,
    UnfitField,
    free_text,
    integer,
    mapping,
    number_in,
    reading,
    string,
    to_bytes,
)

PROTOCOL_VERSION = 1
COOPERATIVE = "cooperative"
GRACE_MS = 0
REBALANCE_TIMEOUT_MS = 60_000
STREAMS_MAX = 10_000
TEXT_CHARS_MAX = 255
LIST_CHARS_MAX = 1_024
OPTIONS_KEPT_MAX = 1_000
DURATION_MS_MAX = 2**31 - 1
SUBSCRIPTION_BYTES_MAX = 60 * 1024
TOPICS_BYTES_MAX = SUBSCRIPTION_BYTES_MAX - 14 * 1024
TOPIC_BYTES_MORE = 5
"""What a topic takes beside its name: quotes, colon, one stream, comma."""
INTERNAL = "internal_topics"
YES = "true"

_WORD = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_PATTERN_KINDS = {kind.value: kind for kind in PatternKind}


def decode_registration(name: str, data: bytes, stat: Stat) -> Member | Malformed:
    """The member that the registration `name` (its last path component) stands for. Never
    raises.
    """
    if not names.is_member(name):
        return Malformed("registration", name, "its name is not printable, or too long")
    if name == KEEPER:
        return KEEPS_OUT
    if stat.ephemeral_owner == 0:
        return Malformed(
            "registration", name, "it is not ephemeral, so it would outlive its consumer"
        )
    found = reading("registration", name, data, lambda document: _member(name, stat, document))
    return _perhaps_old(found, data, stat) if isinstance(found, Malformed) else found


def is_somebodys(name: str) -> bool:
    """Whether a registration of this name is a member's, or an old consumer's."""
    return names.is_member(name) and name != KEEPER


def _perhaps_old(bad: Malformed, data: bytes, stat: Stat) -> Member | Malformed:
    """What cannot be read here, unless old consumers can: then somebody consumes by it."""
    read = decode_legacy_document(bad.name, data)
    if isinstance(read, Malformed) or "zkcoord" in read.fields or unusable(read):
        return bad
    found = read.fields["subscription"]
    try:
        subscription, unfollowed = _old_subscription(read.fields), ""
    except UnfitField as unfit:
        one_pattern = read.fields.get("pattern") in PATTERNS and len(found) == 1
        subscription = Subscription(streams=next(iter(found.values())) if one_pattern else 0)
        unfollowed = printable(str(unfit), REASON_CHARS_MAX)
    return Member(
        bad.name,
        stat.czxid,
        stat.ephemeral_owner,
        subscription,
        legacy=True,
        unfollowed=unfollowed,
    )


def encode_registration(
    subscription: Subscription,
    *,
    timestamp_ms: int,
    assignors: Sequence[str] = (),
    protocols: Sequence[str] = (COOPERATIVE,),
    instance: str | None = None,
    process: str = "",
    grace_ms: int = GRACE_MS,
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    user_data: str = "",
    client: str = "",
    host: str = "",
    session_timeout_ms: int = 0,
    library: str = "",
    gateway: str = "",
    ended: str = "",
) -> bytes:
    """A registration's data. Raises `InvalidSubscriptionError`, one sentence, for what no reader
    could use.
    """
    pattern = subscription.pattern
    document: JsonObject = {
        "version": 1,
        "subscription": (
            dict(subscription.topics) if pattern is None else {pattern.regex: subscription.streams}
        ),
        "pattern": PatternKind.STATIC.value if pattern is None else pattern.kind.value,
        "timestamp": str(timestamp_ms),
        "zkcoord": str(PROTOCOL_VERSION),
        "assignors": ",".join(assignors),
        "protocols": ",".join(protocols),
        "process": process,
        "grace_ms": str(grace_ms),
        "rebalance_timeout_ms": str(rebalance_timeout_ms),
        "session_timeout_ms": str(session_timeout_ms),
        "user_data": user_data,
        "client": client,
        "host": host,
    }
    for key, text in (("library", library), ("gateway", gateway), ("ended", ended)):
        if text:
            document[key] = text
    if instance is not None:
        document["instance"] = instance
    if pattern is not None and pattern.internal:
        document[INTERNAL] = YES
    data = to_bytes(document)
    back = reading(
        "registration", "", data, lambda read: _member("", _NO_STAT, read), SUBSCRIPTION_BYTES_MAX
    )
    if isinstance(back, Malformed):
        raise InvalidSubscriptionError(
            f"this consumer cannot be registered, because {back.reason}: correct its subscription"
            " or options"
        )
    return data


def topics_fit(topics: Collection[str]) -> bool:
    """Whether a subscription to these topics fits into a registration, whatever else that says."""
    return sum(map(len, topics)) + TOPIC_BYTES_MORE * len(topics) <= TOPICS_BYTES_MAX


_NO_STAT = Stat(0, 0, 0, 0, 0, 0)


_TEXTS = Texts(
    {
        "zkcoord": (TEXT_CHARS_MAX, None),
        "pattern": (TEXT_CHARS_MAX, None),
        "assignors": (LIST_CHARS_MAX, ""),
        "protocols": (LIST_CHARS_MAX, COOPERATIVE),
        "process": (TEXT_CHARS_MAX, ""),
        "grace_ms": (TEXT_CHARS_MAX, str(GRACE_MS)),
        "rebalance_timeout_ms": (TEXT_CHARS_MAX, str(REBALANCE_TIMEOUT_MS)),
        "client": (TEXT_CHARS_MAX, ""),
        "host": (TEXT_CHARS_MAX, ""),
        "session_timeout_ms": (TEXT_CHARS_MAX, "0"),
    }
)


def _member(name: str, stat: Stat, document: JsonObject) -> Member:
    if "zkcoord" not in document:
        return Member(
            name,
            stat.czxid,
            stat.ephemeral_owner,
            _old_subscription(document),
            legacy=True,
        )
    texts = _TEXTS.read(document)
    zkcoord, pattern, assignors, protocols, process, grace, timeout, client, host, session = texts
    names_of_assignors, names_of_protocols, grace_ms, rebalance_timeout_ms, session_timeout_ms = (
        _options(zkcoord, assignors, protocols, grace, timeout, session)
    )
    instance = string(document, "instance", TEXT_CHARS_MAX) if "instance" in document else None
    if instance is not None and not names.is_topic(instance):
        raise UnfitField(
            f"the instance id is not 1 to {names.NAME_CHARS_MAX} of the characters A-Z a-z 0-9"
            " . _ -"
        )
    return Member(  # by position: names take longer than all else that making one does
        name,
        stat.czxid,
        stat.ephemeral_owner,
        _subscription(document, pattern),
        names_of_assignors,
        names_of_protocols,
        instance,
        process,
        grace_ms,
        rebalance_timeout_ms,
        free_text(document, "user_data", USER_DATA_CHARS_MAX),
        client,
        host,
        session_timeout_ms,
        _seldom(document, "library"),
        _seldom(document, "gateway"),
        False,
        "",
        _seldom(document, "ended"),
    )


def _seldom(document: JsonObject, key: str) -> str:
    """A text that most registrations do not have."""
    return string(document, key, TEXT_CHARS_MAX) if key in document else ""


def _subscription(document: JsonObject, word: str) -> Subscription:
    if word not in _PATTERN_KINDS:
        raise UnfitField("pattern is not static, white_list or black_list")
    kind = _PATTERN_KINDS[word]
    found = mapping(document, "subscription")
    if kind is PatternKind.STATIC and len(found) == 1:
        ((topic, streams),) = found.items()
        if type(streams) is int:
            return _to_one(topic, streams)
    for key in found:
        integer(found, key, 1, STREAMS_MAX)
    if kind is PatternKind.STATIC:
        for topic in found:
            if not names.is_topic(topic):
                raise UnfitField(f"{names.shown(topic)} is not a topic's name")
        return Subscription(topics=found)
    regex, streams = _only(found)
    checked = check_regex(regex)
    if isinstance(checked, Malformed):
        raise UnfitField(f"the pattern {checked.name} is of no use: {checked.reason}")
    internal = string(document, INTERNAL, TEXT_CHARS_MAX, "")
    if internal not in ("", YES):
        raise UnfitField(f"{INTERNAL} is something else than {YES}")
    return Subscription(pattern=Pattern(kind, checked, internal == YES), streams=streams)


def _only(found: JsonObject) -> tuple[str, int]:
    if len(found) != 1:
        raise UnfitField("a pattern's subscription has exactly one expression")
    ((regex, streams),) = found.items()
    return regex, streams


def _old_subscription(document: JsonObject) -> Subscription:
    """An old consumer's, as its own readers understand it."""
    # null is no kind of pattern before 1.0
    null = "pattern" in document and document["pattern"] is None
    word = "" if null else string(document, "pattern", TEXT_CHARS_MAX)
    found = mapping(document, "subscription")
    for key in found:
        integer(found, key, 1, STREAMS_MAX)
    kind = _PATTERN_KINDS.get(word, PatternKind.STATIC) if found else PatternKind.STATIC
    if kind is PatternKind.STATIC:
        if len(found) == 1:
            ((topic, streams),) = found.items()
            if names.is_topic(topic):
                return _to_one(topic, streams)
        if "" in found:
            raise UnfitField("a topic's name is empty")
        return Subscription(topics={t: n for t, n in found.items() if names.is_topic(t)})
    regex, streams = _only(found)
    checked = check_old_regex(regex)
    if isinstance(checked, Refusal):
        raise UnfitField(f"the pattern {names.shown(regex)} is of no use: {checked.reason}")
    return Subscription(pattern=Pattern(kind, checked), streams=streams)


@lru_cache(OPTIONS_KEPT_MAX)
def _to_one(topic: str, streams: int) -> Subscription:
    """The subscription to one topic; `streams` is no bool. The latest are kept: the members of a
    group share theirs.
    """
    found = {topic: streams}
    integer(found, topic, 1, STREAMS_MAX)
    if not names.is_topic(topic):
        raise UnfitField(f"{names.shown(topic)} is not a topic's name")
    return Subscription(topics=found)


@lru_cache(OPTIONS_KEPT_MAX)
def _options(
    zkcoord: str, assignors: str, protocols: str, grace: str, timeout: str, session: str
) -> tuple[tuple[str, ...], tuple[str, ...], int, int, int]:
    """Assignors, protocols, grace, rebalance and session timeout (ms). The latest are kept: nearly
    all members of all groups have one of a few sets of options.
    """
    number_in(zkcoord, "zkcoord")
    return (
        _words("assignors", assignors),
        _words("protocols", protocols),
        number_in(grace, "grace_ms", DURATION_MS_MAX),
        number_in(timeout, "rebalance_timeout_ms", DURATION_MS_MAX),
        number_in(session, "session_timeout_ms", DURATION_MS_MAX),
    )


def _words(key: str, text: str) -> tuple[str, ...]:
    """A list of names."""
    words = tuple(text.split(",")) if text else ()
    if any(_WORD.fullmatch(word) is None for word in words):
        raise UnfitField(f"{key} is not a comma-separated list of names")
    return words
