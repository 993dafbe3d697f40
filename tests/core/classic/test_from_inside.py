"""What clients do not see of the machine of classic groups: when it wants to be woken, what it
writes, what it says of itself, and that what comes at the wrong time changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.core.classic.machine_side import MachineSide, play
from tests.core.classic.scenario import OPTIONS, Play, Scenario
from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import (
    Asked,
    ClassicTick,
    Moved,
    NotPersisted,
    Persist,
    Persisted,
)
from zkcoord.core.classic.requests import (
    ClassicDelete,
    ClassicJoin,
    ClassicLeave,
    ClassicSync,
    ClassicSynced,
    Leaver,
)
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


def restored(
    rebalance_timeout_ms: int, max_size: int, is_heard: Callable[[str], bool] = lambda one: False
) -> ClassicGroup:
    """A stable group of two static members, of whom the first leads."""
    members = tuple(
        ClassicMember(
            name, f"of-{name}", "", "", 30_000, rebalance_timeout_ms, (("range", b"m"),), b"1"
        )
        for name in ("a", "b")
    )
    group = ClassicGroup(replace(OPTIONS, max_size=max_size), is_heard)
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


def test_a_second_syncgroup_takes_the_place_of_the_first_which_is_answered() -> None:
    side = play("joined a b")
    member_id = side.group.members[1].member_id
    first, second = (side.send(ClassicSync(member_id, 1), 5) for _ in range(2))
    busy = ClassicSynced(WireCode.REBALANCE_IN_PROGRESS)
    assert side.answer(first, True) == busy and side.answer(second, False) is None


def test_an_assignment_that_just_fits() -> None:
    side = play("joined a")
    assert side.written is not None
    member_id, data = side.written.members[0].member_id, bytes(ASSIGNMENT_BYTES_MAX)
    ticket = side.send(ClassicSync(member_id, 1, assignments=((member_id, data),)), 5)
    assert side.answer(ticket, True) == ClassicSynced(WireCode.NONE, "consumer", "range", data)


def test_who_is_heard_of_by_others_is_not_silent() -> None:
    heard = {"a", "b"}
    group = restored(400, 4, lambda member_id: member_id in heard)
    assert group.step(NOW_MS + 30_000, ClassicTick()) == []
    assert group.next_wake_ms() == NOW_MS + 60_000
    heard.remove("b")
    moved = [one for one in group.step(NOW_MS + 60_000, ClassicTick()) if isinstance(one, Moved)]
    assert [one.reason for one in moved] == ["b is silent"]
    assert [one.member_id for one in group.members] == ["a"]


def test_an_id_that_was_given_out_is_not_heard_of() -> None:
    side = MachineSide(OPTIONS, lambda options: ClassicGroup(options, lambda member_id: True))
    Play(side).run(Scenario("pending", ((1, "a join id=new s=500 -> 79"),)))
    assert side.group.next_wake_ms() == side.now_ms + 500
    assert side.group.step(side.now_ms + 500, ClassicTick()) == []
    assert side.group.next_wake_ms() is None


def test_who_is_in_a_group_and_who_leads_it() -> None:
    side = play(
        """
        group a b
        c enter -> waits
        """
    )
    ids = [one.member_id for one in side.group.members]
    assert [one.partition("-")[0] for one in ids] == ["a", "b", "c"]
    assert side.group.leader == ids[0]
    assert all(side.group.holds(one) for one in ids) and not side.group.holds("ghost")


def test_who_has_only_been_given_an_id_is_not_in_the_group() -> None:
    side = play("a join id=new -> 79")
    assert not side.group.members and not side.group.holds("a-1")


@pytest.mark.parametrize(
    ("lines", "is_forgotten"),
    [
        ("", True),
        ("a join id=new -> 79", False),
        ("a join id=new s=500 -> 79; wait 500", True),
        ("a enter -> waits", False),
        ("a enter -> waits; a leave -> 0 0", False),
        ("joined a", False),
        ("group a b; a join -> waits", False),
        ("group a", False),
        ("group a; hold; a leave -> waits", False),
        ("group a; a leave -> 0 0", True),
        ("group a; a leave -> 0 0; hold; delete -> waits", False),
        ("group a; a leave -> 0 0; delete -> 0", True),
        ("group a; a leave -> 0 0; b join id=new -> 79; delete -> 0", True),
        ("group a; unload", True),
    ],
)
def test_what_is_known_only_as_it_was_persisted_is_forgotten(
    lines: str, is_forgotten: bool
) -> None:
    side = play("\n".join(lines.split("; ")))
    assert side.group.is_forgotten is is_forgotten


def kept(group: ClassicGroup) -> set[bytes]:
    """What is to be kept of what clients have brought."""
    return {data for data in group.brought() if isinstance(data, bytes)}


def test_what_members_have_brought_and_what_waits_is_to_be_kept() -> None:
    group = restored(10_000, 10)
    assert kept(group) == {b"m", b"1"}
    group.step(NOW_MS, Asked(1, replace(rejoins("a", 10_000), protocols=(("range", b"new"),))))
    assert kept(group) == {b"m", b"1", b"new"}, "who is not persisted yet"
    group.step(NOW_MS, Asked(2, rejoins("b", 10_000)))  # all have joined: that is being persisted
    other = ClassicJoin("", "c", "consumer", (("range", b"c"),), 30_000, 10_000, "of-c")
    group.step(NOW_MS, Asked(3, other))
    group.step(NOW_MS, Asked(4, ClassicSync("a", 2, assignments=(("a", b"given"),))))
    group.step(NOW_MS, Asked(5, ClassicLeave((Leaver("b", "of-b"),))))
    assert kept(group) >= {b"m", b"new", b"c", b"given"}, "requests that wait"


def test_what_is_being_persisted_is_to_be_kept() -> None:
    group = restored(10_000, 10)
    for ticket, name in enumerate(("a", "b")):
        group.step(
            NOW_MS, Asked(ticket, replace(rejoins(name, 10_000), protocols=(("range", b"n"),)))
        )
    persists = [one for one in group.step(NOW_MS, ClassicTick()) if isinstance(one, Persist)]
    assert not persists
    group.step(NOW_MS, Persisted(1))
    group.step(NOW_MS, Asked(7, ClassicSync("a", 2, "of-a", assignments=(("b", b"given"),))))
    assert b"given" in kept(group), "an assignment that nobody has yet"


def test_a_group_that_is_being_deleted_keeps_what_it_has() -> None:
    group = ClassicGroup(OPTIONS)
    group.restore(NOW_MS, ClassicState(ClassicPhase.EMPTY, 1, "consumer"))
    group.step(NOW_MS, Asked(1, ClassicDelete()))
    assert kept(group) == set()
