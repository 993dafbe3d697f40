"""Static members and a real coordinator: a restart within its grace is nobody else's business,
whoever dies meanwhile; after it the partitions are given to others.
"""

from __future__ import annotations

import pytest

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Coordinator, Member, Rig
from tests.protocol.test_takeover import closed, expired, session_ms, settled
from zkcoord.core.model import GroupState, TopicPartition

GRACE_MS = 60_000


def member(rig: Rig, instance: str, process: str, grace_ms: int = GRACE_MS) -> Member:
    """One process of an instance."""
    return rig.member(
        f"{instance}-{process}",
        "t",
        instance=instance,
        process=f"{instance}-{process}",
        grace_ms=grace_ms,
    )


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
            c.leads
            and c.driver.core.groups[GROUP].state is GroupState.STABLE
            and not c.driver.core.writing
        ),
        "a stable group",
    )


def heard(m: Member) -> int:
    """How often its application was told of a change."""
    return sum(len(m.said(kind)) for kind in (msg.Assigned, msg.Revoke, msg.Resumed, msg.Lost))


def test_a_restart_within_its_grace_gets_the_same_partitions_and_nobody_else_notices(
    rig: Rig,
) -> None:
    partitions = rig.topic("t", 6)
    c = rig.coordinator()
    members = [member(rig, f"i{n}", "a") for n in range(3)]
    balanced(c, members, partitions)
    survivors, before = members[1:], [heard(m) for m in members[1:]]
    had = members[0].fetching()
    members[0].leave(dict.fromkeys(had, 7))
    c.wait(
        lambda: len(c.driver.core.groups[GROUP].view.members) == 2 and not c.driver.core.writing,
        "the departure",
    )
    back = member(rig, "i0", "b").fetches(*had)
    assert back.positions == dict.fromkeys(had, 7) and [heard(m) for m in survivors] == before
    assert all(rig.commands(m.member) == [] for m in survivors)


def test_a_newcomer_takes_over_from_a_live_process_with_its_partitions(rig: Rig) -> None:
    """The one before gives up; what it had committed is where the newcomer begins; the others hear
    nothing.
    """
    partitions = rig.topic("t", 4)
    c = rig.coordinator()
    members = [member(rig, f"i{n}", "a") for n in range(2)]
    balanced(c, members, partitions)
    old, other = members
    had, before = old.fetching(), heard(other)
    assert old.commit(dict.fromkeys(had, 9)).outcome is msg.CommitOutcome.OK
    new = member(rig, "i0", "b").fetches(*had)
    old.wait(lambda: old.driver.finished, "the end of the one before")
    assert [f.code for f in old.said(msg.Failed)] == [msg.FailureCode.FENCED_INSTANCE_ID]
    assert new.positions == dict.fromkeys(had, 9) and heard(other) == before


def test_after_its_grace_its_partitions_are_given_to_others(rig: Rig) -> None:
    partitions = rig.topic("t", 4)
    c = rig.coordinator()
    members = [member(rig, f"i{n}", "a", grace_ms=300) for n in range(2)]
    balanced(c, members, partitions)
    members[0].leave()
    members[1].fetches(*partitions)


def test_one_that_wants_nothing_when_it_goes_leaves_nothing_that_waits(rig: Rig) -> None:
    partitions = rig.topic("t", 4)
    c = rig.coordinator()
    members = [member(rig, f"i{n}", "a") for n in range(2)]
    balanced(c, members, partitions)
    members[0].subscribe()
    members[1].fetches(*partitions)
    members[0].leave()
    group = c.driver.core.groups[GROUP]
    c.wait(lambda: len(group.view.members) == 1 and not c.driver.core.writing, "the departure")
    assert group.static_members.away() == {}


@pytest.mark.parametrize("end", [closed, expired], ids=["closed", "expired"])
def test_a_rolling_restart_survives_the_coordinators_death(rig: Rig, end: object) -> None:
    """Six members are restarted one after another; the coordinator dies while the third is away,
    and its successor keeps the promise. Each restarted one gets what it had; nobody else is told
    anything, at any time.
    """
    partitions = rig.topic("t", 12)
    first = rig.coordinator("first", session_ms=session_ms(end), proxy=rig.proxy())
    second = rig.coordinator("second", lead=False)
    members = [member(rig, f"i{n}", "a") for n in range(6)]
    balanced(first, members, partitions)
    for at in range(6):
        survivors = members[:at] + members[at + 1 :]
        before, had = [heard(m) for m in survivors], members[at].fetching()
        members[at].leave(dict.fromkeys(had, at + 1))
        leader = second if second.leads else first
        leader.wait(
            lambda leader=leader: (
                len(leader.driver.core.groups[GROUP].view.members) == 5
                and not leader.driver.core.writing
            ),
            "the departure",
        )  # type: ignore[misc]
        if at == 2:
            end(first)  # type: ignore[operator]
            settled(second, 5)
        members[at] = member(rig, f"i{at}", "b").fetches(*had)
        assert members[at].positions == dict.fromkeys(had, at + 1)
        assert [heard(m) for m in survivors] == before, f"restart number {at}"
    assert sorted(tp for m in members for tp in m.fetching()) == list(partitions)
