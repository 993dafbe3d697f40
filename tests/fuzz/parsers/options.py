"""Values of a consumer's options, and any text on its way to people."""

from __future__ import annotations

import json
from collections.abc import Iterable

from consumer.errors import ConsumerOptionError
from consumer.option_types import OPTION_TYPES, read_option
from consumer.streams import options as streams
from tests.fuzz.harness import Harness, equal, holds, text_of
from zkcoord import terminal
from zkcoord.words import is_text, is_utf8, yes_or_no

NAMES = tuple(sorted(name for name in OPTION_TYPES if "file" not in name))
"""Files are opened: which ones, no fuzzer has to choose."""


def value_of(text: str) -> object:
    """What JSON says, or the text."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found


def option(data: bytes) -> None:
    """One of them, as a text and as a value of any type: it is taken, or refused with its name."""
    name, text = NAMES[data[0] % len(NAMES)] if data else NAMES[0], text_of(data[1:])
    for given in (text, value_of(text)):
        try:
            read_option(name, given)
        except ConsumerOptionError as error:
            holds(name in str(error), error)


def old_options(data: bytes) -> None:
    """Those of the old consumer, `name=value` a line, refused with one of their names."""
    lines = text_of(data).split("\n")
    properties = {name: value_of(value) for name, _, value in (one.partition("=") for one in lines)}
    try:
        found = streams.read({"group.id": "g", **properties}, {})
    except ConsumerOptionError as error:
        holds(bool(str(error)), error)
        return
    holds(found.configs.get("group_id") is not None, found)


def told(data: bytes) -> None:
    """Nothing that a terminal obeys comes out, and what is harmless comes out as it is."""
    text = text_of(data)
    line, shown = terminal.printable(text), terminal.shown(text)
    holds(line.isprintable() and shown.isprintable() and shown.isascii(), line, shown)
    several = terminal.lines(text)
    holds(all(part.isprintable() for part in several.replace("\t", " ").split("\n")), several)
    equal(terminal.printable(line), line)
    if text.isprintable():
        equal((line, several), (text, text))
    holds(not is_text(text) or is_utf8(text), text)
    try:
        holds(yes_or_no(text) in (True, False))
    except ValueError as error:
        holds(not isinstance(error, UnicodeError), error)


def seeds() -> Iterable[bytes]:
    values = ("5", "true", "a:1,b:2", '["a:1"]', "range", "PLAINTEXT", "[0,10,1]", "null", "1e999")
    for number in range(len(NAMES)):
        yield bytes([number]) + values[number % len(values)].encode()


WORDS = (b"true", b"null", b"[", b"]", b'"', b"1e999", b"-1", b"NaN", b"9" * 30, b'{"a":1}')
OLD = b"group.id=g\nzookeeper.connect=h:1\nqueued.max.message.chunks=5\nrebalance.max.retries=4"
HARNESSES = (
    Harness(
        "consumer-option",
        ("consumer.option_types:read_option", "consumer.option_types:read_as"),
        option,
        seeds,
        WORDS,
        bytes_max=300,
    ),
    Harness(
        "old-consumer-options",
        ("consumer.streams.options:read",),
        old_options,
        lambda: [OLD, b"offsets.storage=kafka\nauto.offset.reset=smallest", b"x=1"],
        (*WORDS, b"\n", b"=", b"rebalance.backoff.ms=", b"auto.commit.enable="),
        bytes_max=300,
    ),
    Harness(
        "text-for-people",
        ("zkcoord.terminal:printable", "zkcoord.terminal:shown", "zkcoord.words:yes_or_no"),
        told,
        lambda: [b"plain", b"\x1b[2J\n\t", "\u202e\u2028".encode(), b"\xff\x00", b"on"],
        ("\x85".encode(), b"\x1b]0;", "\U000e0001".encode(), b"\xed\xa0\x80", b"yes"),
        bytes_max=300,
    ),
)
