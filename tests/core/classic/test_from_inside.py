"""What clients do not see of the machine of classic groups: when it wants to be woken, what it
writes, and that what comes at the wrong time changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.classic.machine_side import play
from tests.core.classic.scenario import OPTIONS
from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import (
    Asked,
    ClassicTick,
    NotPersisted,
    Persist,
    Persisted,
)
from zkcoord.core.classic.requests import ClassicJoin, ClassicSync, ClassicSynced
from zkcoord.core.classic.state import (
    ASSIGNMENT_BYTES_MAX,
    ClassicMember,
    ClassicPhase,
    ClassicState,
)
from zkcoord.core.classic.table import TRANSITIONS, ClassicTransitionError, Trigger
from zkcoord.core.error_codes import WireCode

NOW_MS = 1_000
LATER_MS = 10_000_000


def restored(rebalance_timeout_ms: int, max_size: int) -> ClassicGroup:
    """A stable group of two static members, of whom the first leads."""
    members = tuple(
        ClassicMember(
            name, f"of-{name}", "", "", 30_000, rebalance_timeout_ms, (("range", b"m"),), b"1"
        )
        for name in ("a", "b")
    )
    group = ClassicGroup(replace(OPTIONS, max_size=max_size))
    state = ClassicState(ClassicPhase.STABLE, 1, "consumer", "range", "a", members)
    group.restore(NOW_MS, state)
    return group


def rejoins(name: str, rebalance_timeout_ms: int) -> ClassicJoin:
    """One of these, with nothing new."""
    return ClassicJoin(
        name, "", "consumer", (("range", b"m"),), 30_000, rebalance_timeout_ms, f"of-{name}"
    )


def test_a_group_that_is_unloaded_wants_nothing() -> None:
    side = play(
        """
        group a b
        c enter -> waits
        unload
        """
    )
    assert side.group.next_wake_ms() is None
    assert side.group.step(LATER_MS, ClassicTick()) == []


def test_no_tick_does_anything_while_something_is_persisted() -> None:
    side = play(
        """
        joined a b
        hold
        a sync give=a:1 -> waits
        """
    )
    assert side.group.next_wake_ms() is None
    assert side.group.step(LATER_MS, ClassicTick()) == []


def test_the_end_of_another_write_is_nothing() -> None:
    side = play(
        """
        joined a
        hold
        a sync give=a:1 -> waits
        """
    )
    assert side.in_flight is not None
    token = side.in_flight.token
    assert side.group.step(side.now_ms, Persisted(token - 1)) == []
    assert side.group.step(side.now_ms, NotPersisted(token + 1)) == []
    assert side.group.step(side.now_ms, Persisted(token))
    assert side.group.step(side.now_ms, Persisted(token)) == []


def test_what_the_table_does_not_have_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TRANSITIONS, (ClassicPhase.EMPTY, Trigger.JOIN))
    with pytest.raises(ClassicTransitionError):
        play("a join id=new -> 79")


def test_a_new_generation_is_persisted_without_assignments() -> None:
    side = play(
        """
        group a b
        b join p=range:x -> waits
        a join -> 0 gen=2
        """
    )
    assert side.written is not None and side.written.phase is ClassicPhase.COMPLETING
    assert [one.assignment for one in side.written.members] == [b"", b""]


def test_the_id_that_an_instance_had_wakes_nobody() -> None:
    side = play(
        """
        group a:one s=500
        a join id=new s=30000 -> 0 gen=1
        """
    )
    assert side.group.next_wake_ms() == side.now_ms + 30_000


@pytest.mark.parametrize("timeout_ms", [400, 0])
def test_static_members_who_do_not_come_are_waited_for_as_long_again(timeout_ms: int) -> None:
    group = restored(timeout_ms, max_size=1)
    first = NOW_MS + timeout_ms
    assert group.next_wake_ms() == first
    assert group.step(first, ClassicTick()) == []
    assert group.next_wake_ms() == first + max(timeout_ms, 1)


@pytest.mark.parametrize("timeout_ms", [400, 0])
def test_after_a_lost_generation_all_have_their_whole_time(timeout_ms: int) -> None:
    group = restored(timeout_ms, max_size=4)
    group.step(NOW_MS, Asked(1, rejoins("a", timeout_ms)))
    done = group.step(NOW_MS, Asked(2, rejoins("b", timeout_ms)))
    token = next(one.token for one in done if isinstance(one, Persist))
    group.step(NOW_MS + 200, NotPersisted(token))
    assert group.next_wake_ms() == NOW_MS + 200 + max(timeout_ms, 1)


def test_an_id_that_is_given_back_wakes_nobody() -> None:
    side = play(
        """
        group a
        b join id=new s=300 -> 79
        b leave -> 0 0
        """
    )
    assert side.group.next_wake_ms() == side.now_ms + 30_000


def test_where_nobody_asks_for_its_assignment_the_group_is_empty_at_once() -> None:
    side = play("joined a b r=500")
    done = side.group.step(side.now_ms + 500, ClassicTick())
    states = [one.state for one in done if isinstance(one, Persist)]
    assert [one and one.phase for one in states] == [ClassicPhase.EMPTY]


def test_an_assignment_that_just_fits() -> None:
    side = play("joined a")
    assert side.written is not None
    member_id, data = side.written.members[0].member_id, bytes(ASSIGNMENT_BYTES_MAX)
    ticket = side.send(ClassicSync(member_id, 1, assignments=((member_id, data),)), 5)
    assert side.answer(ticket, True) == ClassicSynced(WireCode.NONE, "consumer", "range", data)
