"""JSON lines into facts. One parser per kind of process; a line that says nothing about a fact
gives none, a line that is not what it should be is counted and left out.

Consumers (`python -m consumer.verifiable`) and the producer write `{"event", "t", ...}` with
nanoseconds, partitions as topic-number. A scenario (whoever started, stopped and killed the
processes) writes in the same form: exit {process, killed}, stored {offsets}, steady (the warm-up is
over), step {name, quiet}, balanced {name, clock}. Coordinators' journals have `{"t" in ms, "kind",
...}`. The name of a member is the name of its process, which outlives its registrations. Lines of
consumers may name `orders`, {partition: version of its offset after what was written}; where a
client does not tell at which offset it begins, that of `assigned` is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from zkcoord.verdict.facts import (
    CommandSeen,
    Delivered,
    Fact,
    FirstFetch,
    OffsetCommitted,
    OffsetSeen,
    OwnershipEnd,
    Partition,
    PartitionAssigned,
    Produced,
    ProducerStopped,
    RebalanceSeen,
    Released,
    SessionEnded,
    Started,
    Steady,
    StepBalanced,
    StepBegan,
)

MS_NS = 1_000_000
SESSION_ENDS = ("session lost", "evicted")

Line = Mapping[str, Any]
UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""What reading a line as JSON, and then as facts, raises where it is not what it should be."""
Parse = Callable[[str, Line], Iterable[Fact]]


def partition(text: str) -> Partition:
    """The partition written as topic-number. Raises `ValueError`."""
    topic, dash, number = text.rpartition("-")
    if not dash or not topic:
        raise ValueError(f"{text!r} is not written as topic-number")
    return Partition(topic, int(number))


def consumer(member: str, line: Line) -> Iterator[Fact]:
    """Facts of a consumer's line. Raises `ValueError`, `TypeError` or `KeyError` for a line that is
    not one.
    """
    event, t = line["event"], int(line["t"])
    if event == "records":
        for name, ranges in line["ranges"].items():
            at, version = partition(name), order(line, name)
            yield from (
                Delivered(t, at, member, int(found[0]), int(found[1]), version) for found in ranges
            )
    elif event == "committed":
        yield from (
            OffsetCommitted(t, partition(name), member, int(offset), order(line, name))
            for name, offset in line.get("offsets", {}).items()
        )
    elif event == "assigned":
        yield from (
            PartitionAssigned(
                t,
                partition(name),
                member,
                None if offset is None else int(offset),
                order(line, name),
            )
            for name, offset in line["offsets"].items()
        )
    elif event == "revoked":
        yield from (
            Released(t, partition(name), member, OwnershipEnd.REVOKED, order(line, name))
            for name in line["positions"]
        )
    elif event == "lost":
        yield from (
            Released(t, partition(name), member, OwnershipEnd.LOST) for name in line["partitions"]
        )
    elif event == "first_fetch":
        yield FirstFetch(t, partition(line["partition"]), member)
    elif event == "notice" and line["kind"] == "command":
        yield CommandSeen(t, member)
    elif event == "notice" and line["kind"] in SESSION_ENDS:
        yield SessionEnded(t, member)
    elif event in ("closing", "closed"):
        yield Released(t, None, member, OwnershipEnd.CLOSED)
    elif event == "start":
        yield Started(t, member, str(line.get("host", "")))


def order(line: Line, name: str) -> int | None:
    """What a line says of the place of its write among all of that partition (`orders`: {partition:
    version}). Raises as `consumer` does.
    """
    found = line.get("orders", {}).get(name)
    return None if found is None else int(found)


def producer(_: str, line: Line) -> Iterator[Fact]:
    """Facts of the producer's line. Raises as `consumer` does."""
    t = int(line["t"])
    if line["event"] == "produced":
        yield from (Produced(t, partition(name), int(end)) for name, end in line["ends"].items())
    elif line["event"] == "stopped":
        yield ProducerStopped(t)


def scenario(_: str, line: Line) -> Iterator[Fact]:
    """Facts of a scenario's line. Raises as `consumer` does."""
    event, t = line["event"], int(line["t"])
    if event == "exit":
        yield Released(
            t,
            None,
            str(line["process"]),
            OwnershipEnd.KILLED if line["killed"] else OwnershipEnd.CLOSED,
        )
    elif event == "stored":
        for name, offset in line["offsets"].items():
            at, until = partition(name), line.get("until")
            yield OffsetSeen(t, at, int(offset), raises=until is None)
            if until is not None:
                yield OffsetSeen(int(until), at, int(offset), compares=False)
    elif event == "steady":
        yield Steady(t)
    elif event == "step":
        yield StepBegan(t, str(line["name"]), bool(line["quiet"]))
    elif event == "balanced":
        yield StepBalanced(t, str(line["name"]), int(line["clock"]))


def coordinator(_: str, line: Line) -> Iterator[Fact]:
    """Facts of a record of a coordinator's journal. Raises as `consumer` does."""
    if line["kind"] == "rebalance":
        yield RebalanceSeen(
            int(line["t"]) * MS_NS,
            str(line["cause"]),
            str(line["trigger"]),
            int(line["duration_ms"]),
            int(line["moved"]),
        )
