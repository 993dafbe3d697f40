"""Facts as rows and back; reports as text and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from consumer.spark.audit.rows import (
    FactRow,
    RowKind,
    fact_of,
    fitting,
    report_of,
    report_text,
    row_of,
)
from zkcoord.verdict.facts import (
    CommandSeen,
    Delivered,
    Fact,
    OffsetCommitted,
    OffsetSeen,
    OwnershipEnd,
    Partition,
    PartitionAssigned,
    Produced,
    RebalanceSeen,
    Released,
    Started,
    Steady,
)
from zkcoord.verdict.rules import NO_GAP, PartitionJudge

AT = Partition("orders", 3)
OF_PARTITIONS: list[Fact] = [
    PartitionAssigned(7, AT, "c1", 5),
    PartitionAssigned(7, AT, "c1", 5, 9),
    PartitionAssigned(7, AT, "c1", None, 9),
    Released(7, AT, "c1", OwnershipEnd.REVOKED, 2),
    Released(7, AT, "c1", OwnershipEnd.LOST),
    Delivered(7, AT, "c1", 5, 9),
    Delivered(7, AT, "c1", 5, 9, 3),
    OffsetCommitted(7, AT, "c1", 6),
    OffsetCommitted(7, AT, "c1", 6, 0),
    OffsetSeen(7, AT, 4),
    OffsetSeen(7, AT, 4, raises=False),
    OffsetSeen(7, AT, 4, compares=False),
    Produced(7, AT, 8),
]


@pytest.mark.parametrize("fact", OF_PARTITIONS, ids=repr)
def test_a_partitions_fact_comes_back(fact: Fact) -> None:
    row = row_of(fact, 1, 2)
    assert (
        row is not None
        and (row.topic, row.number, row.rank, row.line) == (*AT, 1, 2)
        and row.kind < RowKind.ENDED
    )
    assert fact_of(AT, row.t, row.kind, row.member, row.a, row.b, row.orders, row.text) == fact


def test_facts_of_processes_concern_no_partition() -> None:
    for fact, kind in (
        (Released(7, None, "c1", OwnershipEnd.CLOSED), RowKind.ENDED),
        (Started(7, "c1", "here"), RowKind.STARTED),
        (RebalanceSeen(7, "member joined", "c1", 3, 2), RowKind.REBALANCED),
    ):
        row = row_of(fact, 0, 0)
        assert (
            row is not None and row.kind == kind and row.topic == "" and row.kind >= RowKind.ENDED
        )
    assert row_of(Steady(7), 0, 0) is None and row_of(CommandSeen(7, "c1"), 0, 0) is None


@pytest.mark.parametrize(
    "changed",
    [{"number": 2**31}, {"t": 2**63}, {"a": -(2**63) - 1}, {"orders": 10**30}]
    + [{text: "\ud800"} for text in ("topic", "member", "text")],
)
def test_a_row_that_no_column_can_hold_is_refused(changed: dict[str, Any]) -> None:
    """Arrow would end the audit."""
    row = FactRow("t", 2**31 - 1, 0, 2**63 - 1, 0, 1, RowKind.FOUND, "m", -(2**63), 0, -1, "\u00e4")
    assert fitting(row) is row
    with pytest.raises((OverflowError, UnicodeError)):
        fitting(row._replace(**changed))


def test_a_report_comes_back() -> None:
    judge = PartitionJudge(AT)
    for fact in (
        PartitionAssigned(1, AT, "a", 0),
        Produced(2, AT, 12),
        Delivered(3, AT, "a", 0, 4),
        Delivered(4, AT, "a", 3, 9),
        Released(5, None, "a", OwnershipEnd.CLOSED),
    ):
        judge.fact(fact)
    report = replace(
        judge.report(), longest_kept=NO_GAP, longest_moved=NO_GAP, longest_unproduced=NO_GAP
    )
    assert len(report.examples) == 2 and report_of(report_text(report)) == report
