"""Facts as rows and back; reports as text and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.spark.audit.rows import Kind, fact_of, report_of, report_text, row_of
from zkcoord.verdict.facts import (
    Assigned,
    CommandSeen,
    Committed,
    Delivered,
    End,
    Fact,
    Partition,
    Produced,
    Rebalanced,
    Released,
    Started,
    Steady,
    Stored,
)
from zkcoord.verdict.rules import NO_GAP, PartitionJudge

AT = Partition("orders", 3)
OF_PARTITIONS: list[Fact] = [
    Assigned(7, AT, "c1", 5),
    Assigned(7, AT, "c1", 5, 9),
    Released(7, AT, "c1", End.REVOKED, 2),
    Released(7, AT, "c1", End.LOST),
    Delivered(7, AT, "c1", 5, 9),
    Delivered(7, AT, "c1", 5, 9, 3),
    Committed(7, AT, "c1", 6),
    Committed(7, AT, "c1", 6, 0),
    Stored(7, AT, 4),
    Produced(7, AT, 8),
]


@pytest.mark.parametrize("fact", OF_PARTITIONS, ids=repr)
def test_a_partitions_fact_comes_back(fact: Fact) -> None:
    row = row_of(fact, 1, 2)
    assert (
        row is not None
        and (row.topic, row.number, row.rank, row.line) == (*AT, 1, 2)
        and row.kind < Kind.ENDED
    )
    assert fact_of(AT, row.t, row.kind, row.member, row.a, row.b, row.orders, row.text) == fact


def test_facts_of_processes_concern_no_partition() -> None:
    for fact, kind in (
        (Released(7, None, "c1", End.CLOSED), Kind.ENDED),
        (Started(7, "c1", "here"), Kind.STARTED),
        (Rebalanced(7, "member joined", "c1", 3, 2), Kind.REBALANCED),
    ):
        row = row_of(fact, 0, 0)
        assert row is not None and row.kind == kind and row.topic == "" and row.kind >= Kind.ENDED
    assert row_of(Steady(7), 0, 0) is None and row_of(CommandSeen(7, "c1"), 0, 0) is None


def test_a_report_comes_back() -> None:
    judge = PartitionJudge(AT)
    for fact in (
        Assigned(1, AT, "a", 0),
        Produced(2, AT, 12),
        Delivered(3, AT, "a", 0, 4),
        Delivered(4, AT, "a", 3, 9),
        Released(5, None, "a", End.CLOSED),
    ):
        judge.fact(fact)
    report = replace(
        judge.report(), longest_kept=NO_GAP, longest_moved=NO_GAP, longest_unproduced=NO_GAP
    )
    assert len(report.examples) == 2 and report_of(report_text(report)) == report
