"""A coordinator's death is not a rebalance: its successor sends a balanced group nothing, and a
join right after is served.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, SESSION_MS, SHORT_SESSION_MS, Coordinator, Member, Rig
from tests.protocol.spy import creates
from zkcoord.core.model import GroupState
from zkcoord.zk.port import Create, SetData


def closed(first: Coordinator) -> None:
    """A clean stop, or a guardian that closes the session of the dead."""
    first.stop()


def expired(first: Coordinator) -> None:
    """Its host is gone: the server ends the session by its timeout."""
    assert first.proxy is not None
    first.proxy.refuse()
    first.proxy.cut()


ENDS = pytest.mark.parametrize("end", [closed, expired], ids=["closed", "expired"])


def session_ms(end: object) -> int:
    """The leader's session: short only where the test waits for its timeout, and even there the
    group must be balanced before.
    """
    return 2 * SHORT_SESSION_MS if end is expired else SESSION_MS


def balanced(
    rig: Rig, count: int, end: Callable[[Coordinator], None]
) -> tuple[Coordinator, Coordinator, list[Member]]:
    """A leader behind a proxy, a candidate, and members that fetch all of a topic."""
    partitions = rig.topic("t", 8)
    first = rig.coordinator("first", session_ms=session_ms(end), proxy=rig.proxy())
    second = rig.coordinator("second", lead=False)
    members = [rig.member(f"m{n}", "t") for n in range(count)]
    for m in members:
        m.wait(
            lambda: (
                sorted(tp for x in members for tp in x.fetching()) == list(partitions)
                and all(len(x.fetching()) == len(partitions) // count for x in members)
            ),
            "a balanced group",
        )
    # one that had to connect again reads it anew
    first.wait(
        lambda: (
            (group := first.driver.core.groups.get(GROUP)) is not None
            and group.state is GroupState.STABLE
            and not first.driver.core.writing
        ),
        "a stable group",
    )
    return first, second, members


def settled(second: Coordinator, members: int) -> None:
    """It leads, has read the group, and has decided."""
    second.wait(lambda: second.leads, "the lead")
    second.wait(
        lambda: (
            GROUP in second.driver.core.groups
            and len(second.driver.core.groups[GROUP].view.members) == members
            and second.driver.core.groups[GROUP].deadlines.assign_at_ms is None
            and second.driver.core.groups[GROUP].state is GroupState.STABLE
        ),
        "its decision",
    )
    second.wait(
        lambda: not second.driver.core.writing and not second.driver.core.reading,
        "the end of its writes",
    )


@ENDS
def test_a_successor_sends_a_balanced_group_nothing(
    rig: Rig, end: Callable[[Coordinator], None]
) -> None:
    """No command, no callback, no write at all but the election; then a join is served, and only
    what must move moves.
    """
    first, second, members = balanced(rig, 4, end)
    heard, revoked = (
        [len(m.said(msg.Assigned)) + len(m.said(msg.Revoke)) for m in members],
        sum(len(m.said(msg.Revoke)) for m in members),
    )
    commands = len(rig.created("/channel/"))
    end(first)
    settled(second, 4)
    writes = [s for s in second.spy.multis() if s.happened]
    assert len(writes) == 1 and [type(op) for op in writes[0].ops] == [
        Create,
        SetData,
    ], "it wrote more than its election"
    assert len(rig.created("/channel/")) == commands
    assert [len(m.said(msg.Assigned)) + len(m.said(msg.Revoke)) for m in members] == heard and all(
        m.said(msg.Lost) == [] for m in members
    )
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 1, "its partition")
    assert (
        sum(len(m.said(msg.Revoke)) for m in members) == revoked + 1
        and second.driver.core.groups[GROUP].generation > first.driver.core.epoch * 0
    )


@ENDS
def test_a_join_in_the_vacancy_is_served_by_the_successor(
    rig: Rig, end: Callable[[Coordinator], None]
) -> None:
    first, second, members = balanced(rig, 2, end)
    late = rig.member("late")
    end(first)
    late.subscribe("t")
    late.wait(lambda: len(late.fetching()) == 2, "its partitions")
    assert sum(len(m.fetching()) for m in members) == 6 and second.leads


def test_the_generation_goes_on_rising(rig: Rig) -> None:
    """The successor takes it from the group's node."""
    first, second, _ = balanced(rig, 2, closed)
    generation = first.driver.core.groups[GROUP].generation
    closed(first)
    settled(second, 2)
    assert second.driver.core.groups[GROUP].generation == generation > 0
    late = rig.member("late", "t")
    late.wait(lambda: len(late.fetching()) == 2, "its partitions")
    assert second.driver.core.groups[GROUP].generation == generation + 1


def test_a_successor_finishes_what_the_dead_one_began(rig: Rig) -> None:
    """The first sent the stop and died; the second deletes it, computes the same target, and brings
    it to its end.
    """
    first, second, (a, b) = balanced(rig, 2, closed)
    before = {m: len(m.said(msg.Revoke)) for m in (a, b)}
    a.answers_revokes = b.answers_revokes = False
    late = rig.member("late", "t")
    a.wait(
        lambda: all(len(m.said(msg.Revoke)) == before[m] + 1 for m in (a, b)), "both revocations"
    )
    closed(first)
    for m in (a, b):
        m.wait(lambda: len(m.said(msg.Revoke)) == before[m] + 2, "the second revocation")
        assert m.said(msg.Resumed)
        m.ask(lambda: m.answer(m.said(msg.Revoke)[-1]))
    late.wait(lambda: len(late.fetching()) == 2, "its partitions")
    assert second.leads and len(second.spy.multis(creates("/channel/"))) >= 2
