"""What is told of a rebalance: why it began, whom it waits for, how it went."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.classic.machine_side import play
from tests.core.classic.scenario import OPTIONS
from zkcoord.core.classic import barrier
from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import (
    Asked,
    CauseKind,
    ClassicAction,
    ClassicTick,
    NotPersisted,
    Persist,
    Persisted,
    Rebalanced,
)
from zkcoord.core.classic.requests import (
    ClassicJoin,
    ClassicLeave,
    ClassicRequest,
    ClassicSync,
    Leaver,
)
from zkcoord.core.classic.state import ClassicPhase, ClassicState

SESSION_MS, REBALANCE_MS = 30_000, 10_000
INITIAL_MS = OPTIONS.initial_delay_ms


class Group:
    """A machine whose clock the test turns; what is to be persisted is, at once, but on request."""

    def __init__(self, state: ClassicState | None = None, max_size: int = 4) -> None:
        self.machine = ClassicGroup(replace(OPTIONS, max_size=max_size))
        self.now = 1_000
        self.tickets = 0
        self.told: list[Rebalanced] = []
        self.written: ClassicState | None = None
        self.refuses = False
        if state is not None:
            self._take(self.machine.restore(self.now, state))

    def _take(self, actions: list[ClassicAction]) -> None:
        for action in actions:
            if isinstance(action, Rebalanced):
                self.told.append(action)
            elif isinstance(action, Persist):
                told = NotPersisted(action.token) if self.refuses else Persisted(action.token)
                if not self.refuses:
                    self.written = action.state
                self._take(self.machine.step(self.now, told))

    def ask(self, request: ClassicRequest) -> None:
        self.tickets += 1
        self._take(self.machine.step(self.now, Asked(self.tickets, request)))

    def joins(
        self, name: str, member_id: str = "", data: bytes = b"x", instance: str | None = None
    ) -> None:
        """The first time, or again by its id."""
        self.ask(
            ClassicJoin(
                member_id,
                name,
                "consumer",
                (("range", data),),
                SESSION_MS,
                REBALANCE_MS,
                instance,
                named_first=False,
            )
        )

    def syncs(self, name: str, given: bytes = b"all") -> None:
        self.ask(
            ClassicSync(name, self.machine.generation, assignments=((name, given),), instance=None)
        )

    def leaves(self, name: str) -> None:
        self.ask(ClassicLeave((Leaver(name),)))

    def wait(self, ms: int) -> None:
        until = self.now + ms
        while (wake := self.machine.next_wake_ms()) is not None and wake <= until:
            self.now = max(self.now, wake)
            self._take(self.machine.step(self.now, ClassicTick()))
        self.now = until

    def formed(self, *names: str) -> None:
        for name in names:
            self.joins(name)
        self.wait(2 * INITIAL_MS)
        for name in names:
            self.syncs(name)
        assert self.machine.phase is ClassicPhase.STABLE
        self.told.clear()


def test_a_first_rebalance_waits_for_whoever_comes() -> None:
    group = Group()
    assert group.machine.waits() is None
    group.joins("a")
    waits = group.machine.waits()
    assert waits is not None and waits.is_initial
    assert (waits.cause.kind, waits.cause.trigger) == (CauseKind.JOINED, "a")
    assert (waits.since_ms, waits.until_ms) == (1_000, 1_000 + INITIAL_MS)
    assert waits.unjoined == waits.pending == waits.unsynced == ()
    group.wait(INITIAL_MS)
    waits = group.machine.waits()
    assert waits is not None and not waits.is_initial
    assert (waits.unsynced, waits.leader, waits.unjoined) == (("a",), "a", ())
    assert waits.until_ms == group.now + REBALANCE_MS
    group.wait(40)
    group.syncs("a")
    assert group.machine.waits() is None
    (told,) = group.told
    assert told.cause.kind is CauseKind.JOINED and told.cause.words.startswith("a joins; ")
    assert (told.generation, told.members, told.again, told.out) == (1, 1, 0, ())
    assert (told.joins_ms, told.duration_ms) == (INITIAL_MS, INITIAL_MS + 40)
    assert (told.last, told.leader) == ("a", "a")


def test_who_has_not_joined_again_is_named_and_who_came_last() -> None:
    group = Group()
    group.formed("a", "b")
    group.wait(100)
    began = group.now
    group.joins("c")
    waits = group.machine.waits()
    assert waits is not None and waits.unjoined == ("a", "b") and not waits.is_initial
    assert (waits.since_ms, waits.until_ms) == (began, began + REBALANCE_MS)
    group.wait(30)
    group.joins("", "b")
    assert (waits := group.machine.waits()) is not None and waits.unjoined == ("a",)
    group.wait(70)
    group.joins("", "a")
    waits = group.machine.waits()
    assert waits is not None and waits.unsynced == ("a", "b", "c") and waits.leader == "a"
    group.syncs("b")
    assert (waits := group.machine.waits()) is not None and waits.unsynced == ("a", "c")
    group.wait(5)
    group.syncs("a")
    (told,) = group.told
    assert (told.cause.kind, told.cause.trigger) == (CauseKind.JOINED, "c")
    assert (told.last, told.joins_ms, told.duration_ms) == ("a", 100, 105)
    assert (told.members, told.leader, told.generation) == (3, "a", 2)


def test_an_id_that_was_given_out_is_waited_for() -> None:
    group = Group()
    group.formed("a")
    group.ask(ClassicJoin("", "p", "consumer", (("range", b"x"),), SESSION_MS, REBALANCE_MS))
    group.joins("", "a", b"other")
    waits = group.machine.waits()
    assert waits is not None and waits.pending == ("p",) and waits.unjoined == ()
    assert waits.cause.kind is CauseKind.CHANGED and waits.cause.trigger == "a"
    group.wait(REBALANCE_MS)
    group.syncs("a")
    (told,) = group.told
    assert (told.members, told.joins_ms) == (1, REBALANCE_MS)


def test_who_did_not_come_is_out() -> None:
    group = Group()
    group.formed("a", "b")
    group.joins("c")
    group.wait(10)
    group.joins("", "a")
    group.wait(REBALANCE_MS)
    group.syncs("a")
    (told,) = group.told
    assert (told.out, told.members, told.joins_ms) == (("b",), 2, REBALANCE_MS)
    assert told.last == "a"


def test_a_leader_that_does_not_assign_is_out_and_it_begins_again() -> None:
    group = Group()
    group.formed("a", "b")
    group.joins("", "a")  # the leader asks for a rebalance
    group.joins("", "b")
    group.syncs("b")
    group.wait(REBALANCE_MS)
    assert group.machine.phase is ClassicPhase.PREPARING
    assert (waits := group.machine.waits()) is not None and waits.unjoined == ("b",)
    assert waits.cause.kind is CauseKind.JOINED_AGAIN and waits.cause.trigger == "a"
    group.wait(7)
    group.joins("", "b")
    group.wait(2)
    group.syncs("b")
    (told,) = group.told
    assert (told.out, told.again, told.leader) == (("a",), 1, "b")
    assert (told.duration_ms, told.joins_ms) == (REBALANCE_MS + 9, REBALANCE_MS + 7)
    assert told.cause.kind is CauseKind.JOINED_AGAIN


def test_while_an_assignment_is_persisted_nobody_is_waited_for() -> None:
    side = play(
        """
        joined a b
        hold
        a sync give=a:1 -> waits
        """
    )
    assert side.group.waits() is None
    side.machine_only("fail", [], {})
    assert (waits := side.group.waits()) is not None and len(waits.unjoined) == 2


def test_after_the_last_syncgroup_nobody_is_waited_for_wherever_the_group_goes() -> None:
    side = play(
        """
        joined a
        hold
        a sync give=a:1 -> waits
        """
    )
    assert side.group.waits() is None
    side.machine_only("unload", [], {})
    assert side.group.waits() is None


def test_the_last_that_leaves_ends_it() -> None:
    group = Group()
    group.formed("a")
    group.leaves("a")
    (told,) = group.told
    assert (told.cause.kind, told.cause.trigger) == (CauseKind.LEFT, "a")
    assert (told.members, told.last, told.leader) == (0, "", "")
    assert told.generation == group.machine.generation
    assert group.machine.waits() is None


def test_who_leaves_by_its_instance_is_named_so() -> None:
    group = Group()
    group.joins("a", instance="one")
    group.joins("b")
    group.wait(2 * INITIAL_MS)
    group.ask(ClassicSync("a", 1, "one"))
    group.told.clear()
    group.ask(ClassicLeave((Leaver("", "one"),)))
    waits = group.machine.waits()
    assert waits is not None and waits.cause.trigger == "one"


def test_who_was_no_member_did_not_leave() -> None:
    group = Group()
    group.formed("a", "b", "c")
    group.ask(ClassicLeave((Leaver(""), Leaver("ghost"), Leaver("b"), Leaver("c"))))
    waits = group.machine.waits()
    assert waits is not None and waits.cause.trigger == "b"
    assert waits.cause.words.startswith("b; c left; ")


def test_who_is_silent() -> None:
    group = Group()
    group.formed("a", "b")
    group.wait(SESSION_MS - 1)
    group.syncs("b")  # it is heard of
    group.wait(1)
    waits = group.machine.waits()
    assert waits is not None and waits.cause.kind is CauseKind.SILENT
    assert (waits.cause.trigger, waits.unjoined) == ("a", ("b",))
    group.joins("", "b")
    group.syncs("b")
    (told,) = group.told
    assert told.out == (), "it was the cause, and nobody waited for it"


def test_who_is_silent_while_others_wait_is_out() -> None:
    group = Group()
    group.formed("a", "b")
    group.wait(SESSION_MS - REBALANCE_MS + 10)
    group.joins("c")
    group.joins("", "a")
    group.wait(REBALANCE_MS - 10)
    group.syncs("a")
    (told,) = group.told
    assert told.out == ("b",) and told.duration_ms == REBALANCE_MS - 10


def test_an_instance_that_comes_back_with_another_protocol() -> None:
    group = Group()
    group.joins("a", instance="one")
    group.wait(2 * INITIAL_MS)
    group.ask(ClassicSync("a", 1, "one"))
    group.told.clear()
    lists = (("sticky", b"x"), ("range", b"x"))
    group.ask(ClassicJoin("", "a2", "consumer", lists, SESSION_MS, REBALANCE_MS, "one"))
    waits = group.machine.waits()
    assert waits is not None and waits.cause.kind is CauseKind.REPLACED
    assert waits.cause.trigger == "a2"


def test_an_assignment_that_is_too_large_or_not_written_begins_it_again() -> None:
    group = Group()
    group.joins("a")
    group.wait(2 * INITIAL_MS)
    group.syncs("a", bytes(5_000_000))
    waits = group.machine.waits()
    assert waits is not None and waits.cause.kind is CauseKind.JOINED
    group.joins("", "a")
    group.refuses = True
    group.syncs("a")
    group.refuses = False
    assert group.told == []
    group.joins("", "a")
    group.syncs("a")
    (told,) = group.told
    assert told.again == 2


def test_each_cause_is_told_where_it_began() -> None:
    group = Group()
    group.formed("a", "b")
    assert group.written is not None
    after = Group(group.written, max_size=1)
    waits = after.machine.waits()
    assert waits is not None and waits.cause.kind is CauseKind.TOO_MANY
    taken = replace(group.written, phase=ClassicPhase.COMPLETING)
    after = Group(taken)
    waits = after.machine.waits()
    assert waits is not None and waits.cause.kind is CauseKind.TAKEN_OVER
    assert (waits.since_ms, waits.unsynced, waits.leader) == (1_000, ("a", "b"), "a")
    after.wait(5)
    after.syncs("a")
    (told,) = after.told
    assert (told.joins_ms, told.duration_ms, told.last) == (0, 5, "")


def test_of_many_that_are_out_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "OUT_SAID_MAX", 1)
    group = Group()
    group.formed("a", "b", "c")
    group.joins("d")
    group.wait(REBALANCE_MS)
    group.syncs("d")
    (told,) = group.told
    assert told.out == ("a",) and told.members == 1
