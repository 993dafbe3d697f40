"""What a harness is: a parser, what must hold for whatever bytes it is given, and where to begin.

`check` raises for a finding (`Broken`, or whatever the parser lets out); else it says nothing. It
must be deterministic, open no connection and write only below its own temporary folder.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from zkcoord.core.model import Malformed

REASON_CHARS_MAX = 1_000
INPUT_BYTES_MAX = 4_096


class Broken(AssertionError):
    """A property that does not hold, with what was seen."""


@dataclass(frozen=True)
class Work:
    """How many lines of Python, and how many bytes of memory at its height, a parser may take:
    so much for an input of no size, and so much more for each byte.
    """

    lines: int = 20_000
    lines_per_byte: int = 60
    memory: int = 2_000_000
    memory_per_byte: int = 2_000


@dataclass(frozen=True)
class Harness:
    """`covers`: the parsers, each as `module:function` or `module:Class.method`; `words`: what a
    dictionary adds; `bytes_max`: of what is made.
    """

    name: str
    covers: tuple[str, ...]
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...] = ()
    work: Work = Work()
    bytes_max: int = INPUT_BYTES_MAX


def holds(what: bool, *seen: object) -> None:
    """Raise where it does not."""
    if not what:
        raise Broken(" / ".join(repr(one)[:300] for one in seen))


def equal(one: object, other: object) -> None:
    """Raise where they are not."""
    holds(one == other, one, other)


def sayable(found: Malformed) -> None:
    """A refusal can be printed in one line, however odd the bytes."""
    holds(bool(found.reason) and found.reason.isprintable(), found)
    holds(len(found.reason) < REASON_CHARS_MAX, len(found.reason))


def one_sentence(error: BaseException) -> None:
    """What a user is told: in one line, without characters that a terminal obeys."""
    said = str(error)
    holds(bool(said) and said.isprintable(), said)
    said.encode("utf-8")


def decoding(
    decode: Callable[[bytes], Any], encode: Callable[[Any], bytes] | None = None
) -> Callable[[bytes], None]:
    """A decoder that answers `Malformed`, and says the same of what its encoder writes."""

    def check(data: bytes) -> None:
        found = decode(data)
        if isinstance(found, Malformed):
            sayable(found)
        elif encode is not None:
            equal(decode(encode(found)), found)

    return check


def refusing(
    parse: Callable[[bytes], Any], errors: type[BaseException] | tuple[type[BaseException], ...]
) -> Callable[[bytes], None]:
    """A parser that raises these, one sentence each, and nothing else."""

    def check(data: bytes) -> None:
        try:
            parse(data)
        except errors as error:
            one_sentence(error)

    return check


def text_of(data: bytes) -> str:
    """Any text, of any bytes: half of surrogate pairs, too."""
    return data.decode("utf-8", "surrogateescape")


def outcome(call: Callable[[], object]) -> BaseException | None:
    """What a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def lines_of(call: Callable[[], None], limit: int) -> int:
    """How many lines of Python a call takes: counted, not timed. No more than `limit` are counted
    far: beyond twice as many it is ended.
    """
    count = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count > 2 * limit:
                raise Broken(f"more than {2 * limit} lines")
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: local)
    try:
        outcome(call)
    finally:
        sys.settrace(before)
    return count


def memory_of(call: Callable[[], None]) -> int:
    """How many bytes more a call holds at its height."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        outcome(call)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def overworked(harness: Harness, data: bytes) -> str:
    """What of its work is too much for an input of this size; "": nothing."""
    lines_max = harness.work.lines + harness.work.lines_per_byte * len(data)
    memory_max = harness.work.memory + harness.work.memory_per_byte * len(data)
    outcome(lambda: harness.check(data))  # what is made once, and kept
    lines = lines_of(lambda: harness.check(data), lines_max)
    if lines > lines_max:
        return f"{lines} lines for {len(data)} bytes, {lines_max} are allowed"
    memory = memory_of(lambda: harness.check(data))
    if memory > memory_max:
        return f"{memory} bytes of memory for {len(data)} bytes, {memory_max} are allowed"
    return ""
