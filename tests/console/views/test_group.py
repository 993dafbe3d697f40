"""What the page of one group says."""

from __future__ import annotations

from dataclasses import replace

from tests.console.pictures import line, snapshot
from zkcoord.cli.groups_text import group_json
from zkcoord.console.views.group import (
    MEMBERS_SHOWN,
    blockers,
    members_of,
    of_record,
    partition_rows,
    unowned,
)
from zkcoord.core.model import (
    Command,
    GroupMetadata,
    GroupMode,
    GroupState,
    Mode,
    Option,
    TopicPartition,
)
from zkcoord.health.rules import HealthVerdict
from zkcoord.zk.sync.group_snapshot import CoordinatorSeen

NOW_MS = 1_700_000_010_000
FREE = TopicPartition("orders", 9)


def test_partitions_the_worst_first() -> None:
    group = snapshot("billing", {"m1": {"orders": [0, 1]}}, free=[FREE])
    rows = partition_rows(group, line("billing", HealthVerdict.STALL, lag=7))
    assert [(row.tp.partition, row.owner, row.verdict) for row in rows] == [
        (0, "m1", "STALL"),
        (1, "m1", ""),
        (9, "", ""),
    ]
    assert (rows[0].offset, rows[0].end, rows[0].lag, rows[0].seconds) == (93, 100, 7, "7.0")
    assert unowned(rows, group) == [FREE]
    assert [row.tp.partition for row in partition_rows(group, None)] == [0, 1, 9]


def test_members_and_what_they_own() -> None:
    owns = {f"m{n:03}": {"orders": [n]} for n in range(MEMBERS_SHOWN + 5)}
    group = snapshot("billing", {**owns, "a": {"orders": [200, 201, 203], "b": [1]}})
    members = members_of(group, group_json(group, {}))
    assert len(members) == MEMBERS_SHOWN
    assert members[0]["owns"] == "b[1], orders[200-201,203]" and members[0]["count"] == 4
    assert members[1]["owns"] == "orders[0]"


def test_who_was_told_and_has_not_answered() -> None:
    many = tuple(TopicPartition("orders", n) for n in range(8))
    stop = Command("m1", 1, Option.STOP, 7, 1, 3, stop=many)
    moving = GroupMetadata(3, GroupState.PREPARING_REBALANCE, since_ms=NOW_MS - 2_500)
    group = replace(
        snapshot("billing", {"m1": {"orders": [0]}}, metadata=moving), commands={"m1": (stop,)}
    )
    (sentence,) = blockers(group, NOW_MS)
    assert sentence == (
        "m1 was told to give up orders-0, orders-1, orders-2, orders-3, orders-4, orders-5 and 2"
        " more and has not answered yet; the group rebalances for 2.5 s."
    )
    (sentence,) = blockers(group, NOW_MS - 60_000)
    assert "for" not in sentence.partition("yet")[2], "a clock that is behind says nothing"


def test_quarantine_problems_and_no_coordinator() -> None:
    failed = GroupMetadata(
        3, GroupState.QUARANTINED, failure="m9 did not answer", problems=("odd",)
    )
    group = snapshot("billing", {"m1": {"orders": [0]}}, metadata=failed)
    group = replace(group, coordinator=CoordinatorSeen(None, 7))
    assert list(blockers(group, NOW_MS)) == [
        "The group is quarantined, and everybody keeps what it has: m9 did not answer.",
        "No coordinator leads: nothing is moved until one does.",
        "Problem: odd",
    ]
    assert not list(blockers(snapshot("billing", {"m1": {"orders": [0]}}), NOW_MS))


def test_a_paused_group_says_so_and_lacks_no_member() -> None:
    mode = Mode(GroupMode.COORDINATED, by="ann", paused=True)
    group = snapshot("my billing", {"m1": {}}, free=[FREE], metadata=GroupMetadata(3, paused="ann"))
    group = replace(group, subscribed={"m1": {"orders": 1}}, mode=mode)
    rows = partition_rows(group, None)
    assert list(blockers(group, NOW_MS)) == [
        "The group is paused by ann: nobody is to consume until `zkcoord groups resume 'my billing'"
        " --execute`."
    ]
    assert unowned(rows, group) == []
    early = replace(group, metadata=GroupMetadata(3))
    assert "not taken that up yet" in next(blockers(early, NOW_MS))
    resumed = replace(group, mode=replace(mode, paused=False), metadata=GroupMetadata(4))
    assert list(blockers(resumed, NOW_MS)) == [], "a mode alone blocks nothing"
    assert unowned(rows, resumed) == [FREE]
    shared = replace(resumed, mode=Mode(GroupMode.MIXED))
    assert "mode mixed" in next(blockers(shared, NOW_MS))


def test_the_address_of_a_rebalance() -> None:
    assert of_record({"t": 5, "generation": 3}) == "5-3"
    assert of_record({"t": 5}) == of_record({"t": 5, "generation": ["x" * 999]}) == "5-0"
