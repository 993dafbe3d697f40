"""The eager form: everybody stops everything before anybody starts anything; a group is eager until
all its members know the cooperative form, so a rolling restart moves it.
"""

from __future__ import annotations

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Coordinator, Member, Rig
from zkcoord.core.model import GroupState, Malformed, TopicPartition
from zkcoord.zk.port import Change
from zkcoord.znodes import codec

EAGER = ("eager",)


def balanced(c: Coordinator, members: list[Member], partitions: tuple[TopicPartition, ...]) -> None:
    """Every partition is fetched, evenly, and nothing is on its way."""
    share = len(partitions) // len(members)
    for m in members:
        m.wait(
            lambda: (
                sorted(tp for x in members for tp in x.fetching()) == list(partitions)
                and all(len(x.fetching()) == share for x in members)
            ),
            "a balanced group",
        )
    c.wait(
        lambda: (
            c.driver.core.groups[GROUP].state is GroupState.STABLE and not c.driver.core.writing
        ),
        "a stable group",
    )


def form(rig: Rig) -> str:
    """The form of rebalance that the group's node reports."""
    node = rig.node(rig.layout.group(GROUP))
    assert node is not None
    report = codec.decode_metadata(GROUP, node[0])
    assert not isinstance(report, Malformed)
    return report.protocol


def owner_changes(rig: Rig, since: int) -> list[tuple[Change, str]]:
    """Owner nodes made and deleted, in order."""
    return [
        (change, path)
        for change, path in rig.trace[since:]
        if "/owners/t/" in path and change in (Change.CREATED, Change.DELETED)
    ]


def test_a_join_in_an_eager_group_stops_everything_before_anything_starts(rig: Rig) -> None:
    partitions = rig.topic("t", 6)
    c = rig.coordinator()
    members = [rig.member(f"m{n}", "t", protocols=EAGER) for n in range(2)]
    balanced(c, members, partitions)
    assert form(rig) == "eager"
    since, told = len(rig.trace), [len(m.said(msg.Revoke)) for m in members]
    members.append(rig.member("late", "t"))
    balanced(c, members, partitions)
    changes = [change for change, _ in owner_changes(rig, since)]
    assert changes[:6] == [Change.DELETED] * 6 and changes[6:] == [Change.CREATED] * 6
    assert [
        sum(len(r.partitions) for r in m.said(msg.Revoke)[n:]) for m, n in zip(members, told)
    ] == [3, 3]


def test_a_rolling_restart_moves_a_group_from_one_form_to_the_other(rig: Rig) -> None:
    """As long as one member knows only the eager form the group is eager; with the last one it
    becomes cooperative, and the next join stops only what moves.
    """
    partitions = rig.topic("t", 6)
    c = rig.coordinator()
    members = [rig.member(f"old{n}", "t", protocols=EAGER) for n in range(2)]
    balanced(c, members, partitions)
    for n in range(2):
        assert form(rig) == "eager"
        members[n].leave()
        members[n] = rig.member(f"new{n}", "t")
        balanced(c, members, partitions)
    assert form(rig) == "cooperative"
    since = len(rig.trace)
    members.append(rig.member("late", "t"))
    balanced(c, members, partitions)
    assert (
        sorted(change.name for change, _ in owner_changes(rig, since))
        == ["CREATED"] * 2 + ["DELETED"] * 2
    )


def test_a_member_without_a_form_in_common_is_sent_away(rig: Rig) -> None:
    rig.topic("t", 2)
    rig.coordinator()
    rig.member("old", "t", protocols=EAGER).joined()
    odd = rig.member("odd", "t", protocols=("cooperative",))
    odd.wait(lambda: odd.driver.finished, "its end")
    (failed,) = odd.said(msg.Failed)
    assert failed.rejection == "INCONSISTENT_GROUP_PROTOCOL" and "eager" in failed.message
