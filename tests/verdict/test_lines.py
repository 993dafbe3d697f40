"""JSON lines into facts."""

from __future__ import annotations

import pytest

from zkcoord.verdict import lines
from zkcoord.verdict.facts import (
    CommandSeen,
    Delivered,
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

AT = Partition("my-orders", 3)


def test_partitions_are_written_topic_number() -> None:
    assert lines.partition("my-orders-3") == AT and str(AT) == "my-orders-3"
    for bad in ("orders", "-3", "orders-", "orders-x"):
        with pytest.raises(ValueError):
            lines.partition(bad)


def test_a_consumers_lines() -> None:
    def facts(**line: object) -> list[object]:
        return list(lines.consumer("c1", {"t": 7, **line}))

    assert facts(event="assigned", offsets={"my-orders-3": 5}) == [
        PartitionAssigned(7, AT, "c1", 5)
    ]
    assert facts(event="assigned", offsets={"my-orders-3": None}) == [
        PartitionAssigned(7, AT, "c1", None)
    ]
    assert facts(event="revoked", positions={"my-orders-3": 9}) == [
        Released(7, AT, "c1", OwnershipEnd.REVOKED)
    ]
    assert facts(event="lost", partitions=["my-orders-3"], reason="gone") == [
        Released(7, AT, "c1", OwnershipEnd.LOST)
    ]
    assert facts(
        event="records", count=3, ranges={"my-orders-3": [[5, 6, 2, 1], [8, 8, 1, 1]]}
    ) == [Delivered(7, AT, "c1", 5, 6), Delivered(7, AT, "c1", 8, 8)]
    assert facts(event="committed", offsets={"my-orders-3": 7}) == [OffsetCommitted(7, AT, "c1", 7)]
    assert facts(event="committed", error="no") == []
    assert facts(event="first_fetch", partition="my-orders-3") == [FirstFetch(7, AT, "c1")]
    assert facts(event="notice", kind="command", detail={}) == [CommandSeen(7, "c1")]
    assert (
        facts(event="notice", kind="session lost", detail={})
        == facts(event="notice", kind="evicted", detail={})
        == [SessionEnded(7, "c1")]
    )
    assert facts(event="notice", kind="lease lapsed", detail={}) == []
    assert facts(event="closing") == [Released(7, None, "c1", OwnershipEnd.CLOSED)]
    assert facts(event="revoke", partitions=["my-orders-3"]) == []
    assert facts(event="start", host="here") == [Started(7, "c1", "here")]
    assert facts(event="start") == [Started(7, "c1", "")]


def test_lines_may_say_where_their_writes_stand_in_zookeepers_order() -> None:
    def facts(**line: object) -> list[object]:
        return list(lines.consumer("c1", {"t": 7, "orders": {"my-orders-3": 12}, **line}))

    assert facts(event="assigned", offsets={"my-orders-3": 5, "my-orders-4": 6}) == [
        PartitionAssigned(7, AT, "c1", 5, 12),
        PartitionAssigned(7, Partition("my-orders", 4), "c1", 6),
    ]
    assert facts(event="revoked", positions={"my-orders-3": 9}) == [
        Released(7, AT, "c1", OwnershipEnd.REVOKED, 12)
    ]
    assert facts(event="committed", offsets={"my-orders-3": 7}) == [
        OffsetCommitted(7, AT, "c1", 7, 12)
    ]
    assert facts(event="records", ranges={"my-orders-3": [[5, 6, 2, 1]]}) == [
        Delivered(7, AT, "c1", 5, 6, 12)
    ]
    for orders in ([], {"my-orders-3": "x"}):
        with pytest.raises((ValueError, AttributeError)):
            facts(event="committed", offsets={"my-orders-3": 7}, orders=orders)


def test_the_other_processes_lines() -> None:
    assert list(lines.producer("p", {"event": "produced", "t": 7, "ends": {"my-orders-3": 5}})) == [
        Produced(7, AT, 5)
    ]
    assert list(lines.producer("p", {"event": "stopped", "t": 7, "ends": {}})) == [
        ProducerStopped(7)
    ]
    assert list(
        lines.scenario("s", {"event": "exit", "t": 7, "process": "c1", "killed": True})
    ) == [Released(7, None, "c1", OwnershipEnd.KILLED)]
    assert list(
        lines.scenario("s", {"event": "exit", "t": 7, "process": "c1", "killed": False})
    ) == [Released(7, None, "c1", OwnershipEnd.CLOSED)]
    assert list(
        lines.scenario("s", {"event": "stored", "t": 7, "offsets": {"my-orders-3": 5}})
    ) == [OffsetSeen(7, AT, 5)]
    assert list(lines.scenario("s", {"event": "steady", "t": 7})) == [Steady(7)]
    assert list(lines.scenario("s", {"event": "step", "t": 7, "name": "x", "quiet": True})) == [
        StepBegan(7, "x", True)
    ]
    assert list(lines.scenario("s", {"event": "balanced", "t": 7, "name": "x", "clock": 5})) == [
        StepBalanced(7, "x", 5)
    ]
    assert list(lines.scenario("s", {"event": "mark", "t": 7, "label": "x"})) == []
    assert list(
        lines.coordinator(
            "k",
            {
                "t": 7,
                "kind": "rebalance",
                "cause": "member joined",
                "trigger": "m",
                "duration_ms": 3,
                "moved": 2,
            },
        )
    ) == [RebalanceSeen(7_000_000, "member joined", "m", 3, 2)]
    assert list(lines.coordinator("k", {"t": 7, "kind": "term", "event": "elected"})) == []
