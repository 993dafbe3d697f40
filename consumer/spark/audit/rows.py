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
    Assigned,
    Committed,
    Delivered,
    End,
    Fact,
    Found,
    Partition,
    PartitionFact,
    Produced,
    Rebalanced,
    Released,
    Started,
    Stored,
)
from zkcoord.verdict.rules import Finding, PartitionReport, Rule

UNKNOWN = -1
BEFORE_ALL, AFTER_ALL = -2, 2**63 - 1


class Kind(enum.IntEnum):
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


class Row(NamedTuple):
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


def row_of(fact: Fact, rank: int, line: int) -> Row | None:
    """A fact as a row; None for what an audit has no use for (the steps of a scenario, gaps)."""
    if isinstance(fact, Rebalanced):
        return Row(
            "",
            0,
            0,
            fact.t_ns,
            rank,
            line,
            Kind.REBALANCED,
            fact.trigger,
            fact.duration_ms,
            fact.moved,
            text=fact.cause,
        )
    if isinstance(fact, Started):
        return Row("", 0, 0, fact.t_ns, rank, line, Kind.STARTED, fact.member, text=fact.host)
    if isinstance(fact, Released) and fact.partition is None:
        return Row("", 0, 0, fact.t_ns, rank, line, Kind.ENDED, fact.member, text=fact.end.value)
    at = getattr(fact, "partition", None)
    if at is None:
        return None
    place = (at.topic, at.number, 0, fact.t_ns, rank, line)
    if isinstance(fact, Delivered):
        return Row(*place, Kind.DELIVERED, fact.member, fact.first, fact.last, _told(fact.order))
    if isinstance(fact, Committed):
        return Row(*place, Kind.COMMITTED, fact.member, fact.offset, orders=_told(fact.order))
    if isinstance(fact, Assigned):
        return Row(*place, Kind.ASSIGNED, fact.member, fact.offset, orders=_told(fact.order))
    if isinstance(fact, Released):
        return Row(
            *place, Kind.RELEASED, fact.member, orders=_told(fact.order), text=fact.end.value
        )
    if isinstance(fact, Stored):
        return Row(*place, Kind.STORED, "", fact.offset)
    if isinstance(fact, Produced):
        return Row(*place, Kind.PRODUCED, "", fact.end)
    return None


def _told(order: int | None) -> int:
    return UNKNOWN if order is None else order


def fact_of(
    at: Partition, t: int, kind: int, member: str, a: int, b: int, orders: int, text: str
) -> PartitionFact:
    """The fact of a row that concerns a partition."""
    order = None if orders == UNKNOWN else orders
    if kind == Kind.DELIVERED:
        return Delivered(t, at, member, a, b, order)
    if kind == Kind.FOUND:
        return Found(0, at, a, b, orders, member)
    if kind == Kind.COMMITTED:
        return Committed(t, at, member, a, order)
    if kind == Kind.ASSIGNED:
        return Assigned(t, at, member, a, order)
    if kind == Kind.RELEASED:
        return Released(t, at, member, End(text), order)
    if kind == Kind.STORED:
        return Stored(t, at, a)
    assert kind == Kind.PRODUCED, f"no row of a partition has the kind {kind}"
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
