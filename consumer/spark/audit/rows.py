"""Facts as rows of a table, and reports as text: what travels between Spark's tasks. Pure.

A row is sorted by (topic, number, block, t, rank, line) and means a fact; `place` are the columns
that sort, `what` the others. Facts that concern no partition have the topic "".

`block` is 0 where time orders everything, else the place of the ownership in ZooKeeper's order that
the row belongs to. `rank` and `line` keep the lines of one file in their order where times are
equal.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from zkcoord.verdict.facts import (
    Delivered,
    Fact,
    OffsetCommitted,
    OffsetSeen,
    OwnershipEnd,
    Partition,
    PartitionAssigned,
    PartitionFact,
    Produced,
    RebalanceSeen,
    RecordsFound,
    Released,
    Started,
)
from zkcoord.verdict.rules import Finding, PartitionReport, Rule

UNKNOWN = -1
BEFORE_ALL, AFTER_ALL = -2, 2**63 - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class RowKind(enum.IntEnum):
    """What a row is. From ENDED on it concerns no partition."""

    ASSIGNED = 1
    RELEASED = 2
    DELIVERED = 3
    COMMITTED = 4
    STORED = 5
    PRODUCED = 6
    FOUND = 7
    ENDED = 8
    STARTED = 9
    ALIVE = 10
    REBALANCED = 11
    UNREADABLE = 12
    HOLE = 13


class FactRow(NamedTuple):
    """One fact. `a`, `b`: offsets, or what else the kind needs; `orders`: ZooKeeper's order of what
    was written, `UNKNOWN` where it is not told; `text`: an end, a host, a cause.
    """

    topic: str
    number: int
    block: int
    t: int
    rank: int
    line: int
    kind: int
    member: str
    a: int = 0
    b: int = 0
    orders: int = UNKNOWN
    text: str = ""


SCHEMA = (
    "topic string, number int, block long, t long, rank int, line long, kind int, member string, a"
    " long, b long, orders long, text string"
)
PLACE = ("topic", "number", "block", "t", "rank", "line")


def row_of(fact: Fact, rank: int, line: int) -> FactRow | None:
    """A fact as a row; None for what an audit has no use for (the steps of a scenario, gaps)."""
    if isinstance(fact, RebalanceSeen):
        return FactRow(
            "",
            0,
            0,
            fact.t_ns,
            rank,
            line,
            RowKind.REBALANCED,
            fact.trigger,
            fact.duration_ms,
            fact.moved,
            text=fact.cause,
        )
    if isinstance(fact, Started):
        return FactRow(
            "", 0, 0, fact.t_ns, rank, line, RowKind.STARTED, fact.member, text=fact.host
        )
    if isinstance(fact, Released) and fact.partition is None:
        return FactRow(
            "", 0, 0, fact.t_ns, rank, line, RowKind.ENDED, fact.member, text=fact.end.value
        )
    at = getattr(fact, "partition", None)
    if at is None:
        return None
    place = (at.topic, at.number, 0, fact.t_ns, rank, line)
    if isinstance(fact, Delivered):
        return FactRow(
            *place, RowKind.DELIVERED, fact.member, fact.first, fact.last, _told(fact.order)
        )
    if isinstance(fact, OffsetCommitted):
        return FactRow(
            *place, RowKind.COMMITTED, fact.member, fact.offset, orders=_told(fact.order)
        )
    if isinstance(fact, PartitionAssigned):
        return FactRow(
            *place, RowKind.ASSIGNED, fact.member, _told(fact.offset), orders=_told(fact.order)
        )
    if isinstance(fact, Released):
        return FactRow(
            *place, RowKind.RELEASED, fact.member, orders=_told(fact.order), text=fact.end.value
        )
    if isinstance(fact, OffsetSeen):
        return FactRow(*place, RowKind.STORED, "", fact.offset, fact.compares + 2 * fact.raises)
    if isinstance(fact, Produced):
        return FactRow(*place, RowKind.PRODUCED, "", fact.end)
    return None


def fitting(row: FactRow) -> FactRow:
    """The same. Raises `OverflowError` or `UnicodeError` where a column cannot hold it."""
    numbers = (row.t, row.a, row.b, row.orders)
    if (
        not (INT_MIN <= row.number <= INT_MAX and min(numbers) >= LONG_MIN)
        or max(numbers) > LONG_MAX
    ):
        raise OverflowError(f"a number of line {row.line} is too large")
    f"{row.topic}{row.member}{row.text}".encode()  # half a character is no UTF-8
    return row


def _told(number: int | None) -> int:
    return UNKNOWN if number is None else number


def fact_of(
    at: Partition, t: int, kind: int, member: str, a: int, b: int, orders: int, text: str
) -> PartitionFact:
    """The fact of a row that concerns a partition."""
    order = None if orders == UNKNOWN else orders
    if kind == RowKind.DELIVERED:
        return Delivered(t, at, member, a, b, order)
    if kind == RowKind.FOUND:
        return RecordsFound(0, at, a, b, orders, member)
    if kind == RowKind.COMMITTED:
        return OffsetCommitted(t, at, member, a, order)
    if kind == RowKind.ASSIGNED:
        return PartitionAssigned(t, at, member, None if a == UNKNOWN else a, order)
    if kind == RowKind.RELEASED:
        return Released(t, at, member, OwnershipEnd(text), order)
    if kind == RowKind.STORED:
        return OffsetSeen(t, at, a, bool(b & 1), bool(b & 2))
    assert kind == RowKind.PRODUCED, f"no row of a partition has the kind {kind}"
    return Produced(t, at, a)


def report_text(report: PartitionReport) -> str:
    """A partition's report, for `report_of`; gaps are left out."""
    findings = [
        {**asdict(finding), "rule": finding.rule.value, "partition": None}
        for finding in report.examples
    ]
    return json.dumps(
        {
            "topic": report.partition.topic,
            "number": report.partition.number,
            "amounts": {rule.value: amount for rule, amount in report.amounts.items()},
            "examples": findings,
            "produced": report.produced,
            "delivered": report.delivered,
            "found": report.found,
            "excused": report.excused,
            "owners": report.owners,
        }
    )


def report_of(text: str) -> PartitionReport:
    """The report again."""
    told: Mapping[str, Any] = json.loads(text)
    at = Partition(told["topic"], told["number"])
    examples = [
        Finding(**{**finding, "rule": Rule(finding["rule"]), "partition": at})
        for finding in told["examples"]
    ]
    amounts = {Rule(name): amount for name, amount in told["amounts"].items()}
    return PartitionReport(
        at,
        amounts,
        examples,
        told["produced"],
        told["delivered"],
        told["found"],
        told["excused"],
        told["owners"],
    )
