"""What everybody can tell of a group is what its machine says, in words, in all scenarios and in
random histories. Only who reads a group that has decided nothing, or that was empty, hears less.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.core.classic.machine_side import MachineSide, options_of
from tests.core.classic.scenario import Play, Scenario, all_scenarios
from tests.core.classic.test_random_histories import World
from zkcoord.core.classic.barrier import Expiries
from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import Asked, ClassicAction, ClassicReply, Dismissed, Persist
from zkcoord.core.classic.requests import (
    BlobRef,
    ClassicAnswer,
    ClassicBeat,
    ClassicDescribe,
    ClassicDescribed,
    ClassicRequest,
    CommitCheck,
    DescribedPeer,
)
from zkcoord.core.classic.state import ClassicMember, ClassicOptions, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.classic.documents import ClassicRound, decode_round, encode_round
from zkcoord.znodes.classic.paths import member_digest
from zkcoord.znodes.classic.view import ClassicView

SEEDS = 16
STEPS = 120
GHOSTS = ("", "ghost")
TICKET = -1
Gone = dict[str, WireCode]

STATIC = ClassicMember(
    "m-1", "i-1", "client", "host", 30_000, 30_000, (("x", b""), ("y", BlobRef("b" * 64, 5)))
)
MEMBERS = (
    replace(STATIC, assignment=BlobRef("a" * 64, 3)),
    replace(STATIC, member_id="m-2", instance=None),
)
STABLE = ClassicState(ClassicPhase.STABLE, 3, "connect", "y", "m-1", MEMBERS)
COMPLETING = replace(STABLE, phase=ClassicPhase.COMPLETING)
EMPTY = ClassicState(ClassicPhase.EMPTY, 3, "connect")
NONE, UNKNOWN = WireCode.NONE, WireCode.UNKNOWN_MEMBER_ID
FENCED, OTHER = WireCode.FENCED_INSTANCE_ID, WireCode.ILLEGAL_GENERATION
BUSY = WireCode.REBALANCE_IN_PROGRESS


def gone(**codes: WireCode) -> Gone:
    """These members are gone: `m_1` is m-1."""
    return {member_digest(name.replace("_", "-")): code for name, code in codes.items()}


# in words


@pytest.mark.parametrize(
    ("state", "since", "phase"),
    [
        (None, ClassicRound(), "Empty"),
        (EMPTY, ClassicRound(), "Empty"),
        (EMPTY, ClassicRound(3), "Empty"),
        (COMPLETING, ClassicRound(), "CompletingRebalance"),
        (COMPLETING, ClassicRound(3), "PreparingRebalance"),
        (STABLE, ClassicRound(), "Stable"),
        (STABLE, ClassicRound(2), "Stable"),
        (STABLE, ClassicRound(3), "PreparingRebalance"),
    ],
)
def test_a_rebalance_is_of_the_generation_that_was_decided(
    state: ClassicState | None, since: ClassicRound, phase: str
) -> None:
    assert ClassicView(state, since).phase.value == phase


def test_who_is_in_it() -> None:
    view = ClassicView(STABLE)
    assert view.state == STABLE
    assert view.member("m-1") == MEMBERS[0] and view.member("m-2") == MEMBERS[1]
    assert view.member("m-3") is None
    assert view.of_instance("i-1") == "m-1" and view.of_instance("i-2") is None
    assert ClassicView(None).member("m-1") is None


def test_who_is_known() -> None:
    view = ClassicView(STABLE, ClassicRound(3, gone(m_2=FENCED)))
    assert view.knows("m-1", "i-1") is view.knows("m-1", None) is NONE
    assert view.knows("m-1", "i-2") is UNKNOWN and view.knows("m-3", "i-1") is FENCED
    assert view.knows("m-2", None) is FENCED and view.knows("m-3", None) is UNKNOWN


@pytest.mark.parametrize(
    ("state", "begun", "request_", "code"),
    [
        (None, None, ClassicBeat("m-1", 3), UNKNOWN),
        (STABLE, None, ClassicBeat("m-1", 3, "i-1"), NONE),
        (STABLE, None, ClassicBeat("m-1", 2), OTHER),
        (STABLE, None, ClassicBeat("m-2", 3), UNKNOWN),
        (STABLE, 3, ClassicBeat("m-1", 3), BUSY),
        (STABLE, 3, ClassicBeat("m-1", 2), OTHER),
        (STABLE, 3, ClassicBeat("m-2", 3), UNKNOWN),
        (COMPLETING, None, ClassicBeat("m-1", 3), NONE),
        (None, None, CommitCheck("", -1), NONE),
        (None, None, CommitCheck("", 0), OTHER),
        (None, None, CommitCheck("m-1", 3), OTHER),
        (None, None, CommitCheck("m-1", 3, None, True), UNKNOWN),
        (EMPTY, None, CommitCheck("", -1), NONE),
        (EMPTY, None, CommitCheck("m-1", 3), UNKNOWN),
        (STABLE, None, CommitCheck("", -1), UNKNOWN),
        (STABLE, None, CommitCheck("m-1", 3), NONE),
        (STABLE, 3, CommitCheck("m-1", 3), NONE),
        (STABLE, 3, CommitCheck("m-2", 3), UNKNOWN),
        (COMPLETING, None, CommitCheck("m-1", 3), BUSY),
        (COMPLETING, None, CommitCheck("m-1", 3, None, True), NONE),
    ],
)
def test_what_who_asks_is_told(
    state: ClassicState | None,
    begun: int | None,
    request_: ClassicBeat | CommitCheck,
    code: WireCode,
) -> None:
    view = ClassicView(state, ClassicRound(begun, gone(m_2=UNKNOWN)))
    said = view.beat(request_) if isinstance(request_, ClassicBeat) else view.commit(request_)
    assert said is code


def test_what_people_are_told() -> None:
    plain = [DescribedPeer(one.member_id, one.instance, "client", "host") for one in MEMBERS]
    told = tuple(
        replace(peer, metadata=BlobRef("b" * 64, 5), assignment=one.assignment)
        for peer, one in zip(plain, MEMBERS, strict=True)
    )
    assert ClassicView(None).described() == ClassicDescribed(NONE, "Dead")
    assert ClassicView(EMPTY).described() == ClassicDescribed(NONE, "Empty", "connect")
    assert ClassicView(STABLE).described() == ClassicDescribed(NONE, "Stable", "connect", "y", told)
    assert ClassicView(COMPLETING).described() == ClassicDescribed(
        NONE, "CompletingRebalance", "connect", "", tuple(plain)
    )
    assert ClassicView(STABLE, ClassicRound(3)).described() == ClassicDescribed(
        NONE, "PreparingRebalance", "connect", "", tuple(plain)
    )


# as the machine says


@contextlib.contextmanager
def nothing_changes(group: ClassicGroup) -> Iterator[None]:
    """Whoever asks is not heard of."""
    at = group._at
    before = at.expiries, at.exists
    at.expiries = Expiries()
    yield
    at.expiries, at.exists = before


def machines(group: ClassicGroup, request: ClassicRequest) -> ClassicAnswer:
    """What the machine answers."""
    with nothing_changes(group):
        (done,) = group.step(0, Asked(TICKET, request))
    assert isinstance(done, ClassicReply)
    return done.answer


def code_of(group: ClassicGroup, request: ClassicBeat | CommitCheck, gone: Gone) -> WireCode:
    """The same. A static member that is gone is told why it went, until another state is decided:
    also where another one has come in its place since, or has gone from there.
    """
    code = machines(group, request).code
    if request.instance is not None and code in (UNKNOWN, FENCED):
        return gone.get(request.member_id, code)
    return code


def who_asks(state: ClassicState | None, gone: Gone) -> Iterator[tuple[str, str | None]]:
    """Members that are in it or gone, as what they are, and others; who has joined since knows
    nothing to ask with.
    """
    members = () if state is None else state.members
    there = [one for one in members if one.member_id not in gone]
    names = (None, "nobody", *(one.instance for one in there[:1]))
    yield from ((one.member_id, one.instance) for one in members)
    yield from ((one, name) for one in GHOSTS for name in names)
    yield from ((one.member_id, name) for one in there[-1:] for name in names)


def compare(group: ClassicGroup, state: ClassicState | None, gone: Gone) -> int:
    """What everybody can tell is what the machine says; how many answers that were."""
    since = ClassicRound(
        group.generation if group.phase is ClassicPhase.PREPARING else None,
        {member_digest(one): code for one, code in gone.items()},
    )
    told = decode_round("g", encode_round(since))
    assert told == since
    view, count = ClassicView(state, since), 0
    is_decided = (state is None) is not group.exists
    is_decided &= state is None or state.generation == group.generation  # else all are gone
    begins = state is not None and state.phase is ClassicPhase.EMPTY is not group.phase
    if is_decided and not begins:
        assert view.phase is group.phase or group.phase is ClassicPhase.DEAD
    if is_decided and group.phase is not ClassicPhase.PREPARING:
        assert view.described() == machines(group, ClassicDescribe())
        count += 1
    if group.phase is ClassicPhase.DEAD or (state is None and group.exists):
        return count
    for member_id, instance in who_asks(state, gone):
        for generation in (-1, group.generation - 1, group.generation, group.generation + 1):
            beat = ClassicBeat(member_id, generation, instance)
            assert view.beat(beat) is code_of(group, beat, gone), beat
            count += 1
            for in_transaction in (False, True):
                if generation < 0 and (begins or not is_decided):
                    continue
                commit = CommitCheck(member_id, generation, instance, in_transaction)
                assert view.commit(commit) is code_of(group, commit, gone), commit
                count += 1
    return count


def are_gone(gone: Gone, state: ClassicState | None, actions: list[ClassicAction]) -> None:
    """Those members that were decided."""
    members = {one.member_id for one in state.members} if state is not None else set()
    for one in actions:
        if isinstance(one, Dismissed) and one.member_id in members:
            gone[one.member_id] = one.code


class ReadSide(MachineSide):
    """Whatever happens there is looked at."""

    def __init__(self, options: ClassicOptions) -> None:
        super().__init__(options)
        self.decided: ClassicState | None = None
        self.gone: Gone = {}
        self.count = 0

    def restart(self) -> None:
        self.decided = self.written
        self.gone.clear()
        super().restart()

    def _persisted(self, ok: bool, code: int = 15) -> None:
        assert self.in_flight is not None
        if ok:
            self.decided = self.in_flight.state
            self.gone.clear()
        super()._persisted(ok, code)

    def _do(self, actions: list[ClassicAction]) -> None:
        are_gone(self.gone, self.decided, actions)
        super()._do(actions)
        if not (self.group.phase is ClassicPhase.DEAD and self.decided is not None):  # unloaded
            self.count += compare(self.group, self.decided, self.gone)


class ReadWorld(World):
    """The same."""

    def __init__(self, seed: int) -> None:
        self.gone: Gone = {}
        self.count = 0
        super().__init__(seed, ClassicGroup)

    def write(self, out: Persist) -> None:
        self.gone.clear()
        super().write(out)

    def restart(self) -> None:
        self.gone.clear()
        super().restart()

    def do(self, actions: list[ClassicAction], timed: bool) -> None:
        are_gone(self.gone, self.written, actions)
        super().do(actions, timed)
        if not (self.group.phase is ClassicPhase.DEAD and self.written is not None):
            self.count += compare(self.group, self.written, self.gone)


@pytest.mark.parametrize("scenario", all_scenarios(), ids=lambda one: one.name)
def test_everybody_can_tell_what_the_machine_says(scenario: Scenario) -> None:
    Play(ReadSide(options_of(scenario))).run(scenario)


@pytest.mark.parametrize("portion", range(8))
def test_everybody_can_tell_it_in_random_histories(portion: int) -> None:
    for seed in range(portion, SEEDS, 8):
        world = ReadWorld(seed)
        world.run(STEPS)
        assert world.count > STEPS
