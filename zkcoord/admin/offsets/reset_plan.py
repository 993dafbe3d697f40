"""Which offset a partition is reset to. Pure: from what is stored, what the log holds and
what the operator asked for.

A target outside of the log is moved to its nearest end, with a warning, as kafka-consumer-groups.sh
does. A file of offsets has its form too: `topic,partition,offset` a line, or
`group,topic,partition,offset`.
"""

from __future__ import annotations

import csv
import enum
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.errors import ConfigurationError
from zkcoord.znodes import names
from zkcoord.znodes.owner_offset_epoch import OFFSET_MAX

OFFSET_CHARS_MAX = 19
LINES_MAX = 1_000_000


class ResetKind(enum.Enum):
    """How a reset finds its targets."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    OFFSET = "to-offset"
    SHIFT = "shift-by"
    TIME = "to-datetime"
    FILE = "from-file"


@dataclass(frozen=True)
class Aim:
    """What the operator asked for. `number`: the offset of OFFSET, the shift of SHIFT, the time of
    TIME in ms since 1970; `offsets`: those of FILE.
    """

    kind: ResetKind
    number: int = 0
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


@value
class Log:
    """A partition's log: the first offset that it holds, the next one that it will give, and the
    first one at or after the time that was asked for (None: there is none).
    """

    start: int
    end: int
    at_time: int | None = None


@value
class Target:
    """Where a partition goes, and what the operator must know about it. `offset` None: it is left
    as it is.
    """

    offset: int | None
    warning: str = ""


def target_of(aim: Aim, tp: TopicPartition, stored: int | None, log: Log) -> Target:
    """The target of one partition. `stored` None: no offset of the present topic is stored."""
    if aim.kind is ResetKind.EARLIEST:
        return Target(log.start)
    if aim.kind is ResetKind.LATEST:
        return Target(log.end)
    if aim.kind is ResetKind.TIME:
        return (
            Target(log.end, f"{tp} has no record at or after that time: its end is taken")
            if log.at_time is None
            else Target(log.at_time)
        )
    if aim.kind is ResetKind.OFFSET:
        return _within(tp, aim.number, log)
    if aim.kind is ResetKind.FILE:
        return (
            _within(tp, aim.offsets[tp], log)
            if tp in aim.offsets
            else Target(None, f"{tp} is not in the file: it is left as it is")
        )
    if stored is None:
        return Target(
            None,
            f"{tp} has no stored offset that --{aim.kind.value} could start from: it is left as"
            " it is",
        )
    return (
        Target(stored) if aim.kind is ResetKind.CURRENT else _within(tp, stored + aim.number, log)
    )


def _within(tp: TopicPartition, wanted: int, log: Log) -> Target:
    if wanted < log.start:
        return Target(
            log.start, f"{tp}: {wanted} is before the first offset of the log: {log.start} is taken"
        )
    if wanted > log.end:
        return Target(log.end, f"{tp}: {wanted} is after the end of the log: {log.end} is taken")
    return Target(wanted)


def parse_topics(given: Sequence[str]) -> dict[str, tuple[int, ...] | None]:
    """`orders`, `orders:0,2`: topic -> partitions (None: all). Raises `ConfigurationError`."""
    found: dict[str, tuple[int, ...] | None] = {}
    for text in given:
        topic, colon, numbers = text.partition(":")
        parts = [part.strip() for part in numbers.split(",")] if colon else []
        if not names.is_topic(topic) or not all(map(names.is_number, parts)):
            raise ConfigurationError(
                f"--topic is {names.shown(text)}: write TOPIC, or TOPIC:0,1,2 for some of its"
                " partitions"
            )
        before = found.get(topic, ())
        found[topic] = (
            None if not colon or before is None else tuple(sorted({*before, *map(int, parts)}))
        )
    return found


def parse_file(text: str, group: str, path: str) -> dict[TopicPartition, int]:
    """The offsets of a file. Raises `ConfigurationError`, with the line."""
    offsets: dict[TopicPartition, int] = {}
    for number, fields in enumerate(_lines(text, path), 1):
        row = [cell.strip() for cell in fields]
        if not any(row):
            continue
        owner, cells = (row[0], row[1:]) if len(row) == 4 else (group, row)
        if (
            len(cells) != 3
            or not names.is_partition(cells[0], cells[1])
            or not _is_offset(cells[2])
        ):
            raise ConfigurationError(
                f"line {number} of {path} is {names.shown(','.join(fields))}: write"
                " topic,partition,offset"
            )
        if group not in (owner, fields[0]):
            raise ConfigurationError(
                f"line {number} of {path} is for the group {names.shown(owner)}: give a file of the"
                f" group {group} only"
            )
        tp = TopicPartition(cells[0], int(cells[1]))
        if tp in offsets:
            raise ConfigurationError(
                f"line {number} of {path} names {tp} a second time: leave one of them out"
            )
        offsets[tp] = int(cells[2])
    if not offsets:
        raise ConfigurationError(
            f"{path} holds no offsets: write topic,partition,offset on each line, as --export does"
        )
    return offsets


def _lines(text: str, path: str) -> Iterable[list[str]]:
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise ConfigurationError(
            f"{path} is not CSV ({error}): write topic,partition,offset on each line, as --export"
            " does"
        ) from error
    if len(rows) > LINES_MAX:
        raise ConfigurationError(f"{path} has more than {LINES_MAX} lines: split it")
    return rows


def _is_offset(text: str) -> bool:
    return (
        text.isascii()
        and text.isdigit()
        and len(text) <= OFFSET_CHARS_MAX
        and int(text) <= OFFSET_MAX
    )


def export(offsets: Iterable[tuple[TopicPartition, int]]) -> str:
    """A file that `parse_file` reads."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        (tp.topic, tp.partition, offset) for tp, offset in offsets
    )
    return out.getvalue()
