"""How values of options are read: whole numbers, times, words, and Spark's JSON of partitions and
offsets. Each function raises `ConsumerOptionError` with one sentence. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from consumer import option_types
from consumer.errors import ConsumerOptionError
from consumer.option_types import quoted, read_as
from consumer.options import DURATION_MS_MAX
from zkcoord.core.model import TopicPartition
from zkcoord.znodes import names as names_of_nodes
from zkcoord.znodes.owner_offset_epoch import OFFSET_MAX
from zkcoord.znodes.strict_json import Reason, strict_json

EARLIEST, LATEST = -2, -1
PARTITION_MAX = 2**31 - 1
JSON_BYTES_MAX = 4 * 1024 * 1024
WORDS = {"earliest": EARLIEST, "latest": LATEST}
_DURATION = re.compile(
    r"\s*([0-9]{1,15})\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)?\s*", re.IGNORECASE
)

_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_NUMBER = re.compile(r"[0-9]{1,18}")

_TRUE_OR_FALSE = replace(option_types.flag(), says="write true or false")

Offsets = int | Mapping[TopicPartition, int]


def names(text: str) -> tuple[str, ...]:
    """Names with commas between, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def assigned(text: str | None) -> tuple[TopicPartition, ...]:
    """Spark's JSON of partitions by topic; none without a text."""
    if text is None:
        return ()
    found = _document(text)
    if not all(
        names_of_nodes.is_topic(topic)
        and isinstance(numbers, list)
        and all(type(n) is int and 0 <= n <= PARTITION_MAX for n in numbers)
        for topic, numbers in found.items()
    ) or not any(found.values()):
        raise ConsumerOptionError(
            f"""assign is {quoted(text)}: write JSON such as '{{"orders":[0,1]}}'"""
        )
    return tuple(sorted({TopicPartition(t, n) for t, numbers in found.items() for n in numbers}))


def offsets(given: Mapping[str, str], name: str, default: int) -> Offsets:
    """A word, or Spark's JSON of offsets by topic and partition, in which -2 is the first record
    and -1 the end.
    """
    text = given.get(name)
    if text is None:
        return default
    if text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    found = _document(text)
    if not all(
        names_of_nodes.is_topic(topic)
        and isinstance(numbers, dict)
        and all(
            _PARTITION.fullmatch(n)
            and int(n) <= PARTITION_MAX
            and type(offset) is int
            and EARLIEST <= offset <= OFFSET_MAX
            for n, offset in numbers.items()
        )
        for topic, numbers in found.items()
    ) or not any(found.values()):
        raise ConsumerOptionError(
            f"{name} is {quoted(text)}: write earliest, latest, or JSON such as"
            """ '{"orders":{"0":1000,"1":-2}}' (-2: the first record, -1: the end)"""
        )
    return {
        TopicPartition(topic, int(n)): offset
        for topic, numbers in found.items()
        for n, offset in numbers.items()
    }


def _document(text: str) -> Mapping[str, Any]:
    """The JSON object, nothing where it is none or is ambiguous (a key that is there twice)."""
    found = strict_json(text.encode("utf-8", "surrogatepass"), JSON_BYTES_MAX)
    return {} if isinstance(found, Reason) else found


def count(given: Mapping[str, str], name: str) -> int | None:
    """A number above 0; None where it is not given."""
    text = given.get(name)
    if text is None:
        return None
    digits = text.strip()
    if not _NUMBER.fullmatch(digits) or int(digits) < 1:
        raise ConsumerOptionError(f"{name} is {quoted(text)}: give a whole number above 0")
    return int(digits)


def flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    """true or false."""
    return bool(read_as(_TRUE_OR_FALSE, name, given.get(name, default)))


def one_of(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """One of the words; the first is the default."""
    text = given.get(name, words[0]).strip().lower()
    if text not in words:
        raise ConsumerOptionError(f"{name} is {given[name]!r}: write {' or '.join(words)}")
    return text


def duration(given: Mapping[str, str], name: str, default_ms: int) -> int:
    """A time with its unit, in ms."""
    text = given.get(name)
    if text is None:
        return default_ms
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConsumerOptionError(f"{name} is {quoted(text)}: write a time such as 30s or 5m")
    unit = (match[2] or "ms").lower()
    scale = (
        1
        if unit.startswith(("ms", "milli"))
        else {"s": 1_000, "m": 60_000, "h": 3_600_000}[unit[0]]
    )
    return int(match[1]) * scale


def milliseconds(given: Mapping[str, str], name: str, least: int) -> int:
    """A time in ms."""
    text = given[name].strip()
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= DURATION_MS_MAX:
        raise ConsumerOptionError(
            f"{name} is {quoted(text)}: give a number of milliseconds, {least} at least"
        )
    return int(text)


def pair(given: Mapping[str, str], name: str) -> tuple[str, str]:
    """Name and password."""
    user, colon, password = given[name].partition(":")
    if not colon:
        raise ConsumerOptionError(f"{name} must be written user:password")
    return user, password
