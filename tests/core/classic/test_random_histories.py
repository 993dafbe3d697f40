"""Random histories of a classic group: clients of all kinds, a store that is slow, fails or is lost
with its coordinator, and other coordinators that go on from what was persisted.

What must hold is checked at each answer. At the end time passes until everybody is forgotten; then
nobody waits any more. Weakened machines show that the checks see something.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import (
    Asked,
    ClassicAction,
    ClassicInput,
    ClassicReply,
    ClassicTick,
    NotPersisted,
    Persist,
    Persisted,
    Unload,
)
from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicBeat,
    ClassicDelete,
    ClassicDescribe,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicRequest,
    ClassicSaid,
    ClassicSync,
    ClassicSynced,
    CommitCheck,
    Leaver,
)
from zkcoord.core.classic.seats import Seats
from zkcoord.core.classic.state import ClassicOptions, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode

OPTIONS = ClassicOptions(initial_delay_ms=50, min_session_timeout_ms=100, max_size=4)
SEEDS = 400
STEPS = 160
VARIANT_SEEDS = 150
WAKES_MAX = 2_000
LISTS = (
    (("range", b"1"),),
    (("range", b"2"),),
    (("sticky", b"1"), ("range", b"1")),
    (("range", b"1"), ("sticky", b"1")),
)
Made = Callable[[ClassicOptions], ClassicGroup]


class BrokenError(AssertionError):
    """Something that must hold does not."""


def _must(right: bool, what: str) -> None:
    if not right:
        raise BrokenError(what)


@dataclass
class Client:
    """What one knows. Not all that it asks is sensible."""

    name: str
    instance: str | None
    member_id: str = ""
    generation: int = -1
    protocols: tuple[tuple[str, bytes], ...] = LISTS[0]
    session_ms: int = 300
    rebalance_ms: int = 300
    leads: tuple[tuple[str, str | None], ...] = ()


def bytes_of(generation: int, member_id: str, instance: str | None) -> bytes:
    """What a leader assigns to whom."""
    return f"{generation}/{instance or member_id}".encode()


class World:
    """Clients, a coordinator and what is persisted."""

    def __init__(self, seed: int, made: Made) -> None:
        self.random = random.Random(seed)
        self.made = made
        self.now_ms = 0
        self.group = made(OPTIONS)
        self.written: ClassicState | None = None
        self.in_flight: Persist | None = None
        self.clients = [Client(f"c{n}", None if n < 4 else f"i{n % 2}") for n in range(7)]
        self.open: dict[int, tuple[Client, ClassicRequest]] = {}
        self.tickets = 0
        self.answered = 0  # the highest generation that anybody was told
        self.members: dict[int, frozenset[str]] = {}  # of generations, as the leader was told
        self.promised: dict[str, int] = {}  # ids that were given out -> until when

    # what happens

    def run(self, steps: int) -> None:
        """Anything, then nothing."""
        for _ in range(steps):
            self.random.choices(
                (self.ask, self.passes, self.ends, self.restart, self.unload), (60, 25, 30, 2, 1)
            )[0]()
        self.end()

    def ask(self) -> None:
        """One client asks something."""
        client = self.random.choice(self.clients)
        asks = (
            self.join,
            self.sync,
            self.beat,
            self.leave,
            self.commit,
            lambda _: ClassicDescribe(),
            lambda _: ClassicDelete(),
        )
        request = self.random.choices(asks, (40, 30, 10, 5, 5, 1, 2))[0](client)
        self.tickets += 1
        self.open[self.tickets] = (client, request)
        self.step(Asked(self.tickets, request))

    def join(self, client: Client) -> ClassicRequest:
        """With its id, or as another one."""
        if self.random.random() < 0.1:
            client.member_id = ""
        if self.random.random() < 0.15:
            client.protocols = self.random.choice(LISTS)
        client.session_ms = self.random.choice((150, 400, 2_000))
        client.rebalance_ms = self.random.choice((100, 400, 2_000))
        return ClassicJoin(
            client.member_id,
            f"{client.name}-{self.tickets}",
            "consumer",
            client.protocols,
            client.session_ms,
            client.rebalance_ms,
            client.instance,
            named_first=self.random.random() < 0.7,
            may_skip=self.random.random() < 0.5,
        )

    def sync(self, client: Client) -> ClassicRequest:
        """Who leads assigns, now and then not to everybody."""
        given = tuple(
            (member_id, bytes_of(client.generation, member_id, instance))
            for member_id, instance in client.leads
            if self.random.random() < 0.95
        )
        return ClassicSync(client.member_id, client.generation, client.instance, assignments=given)

    def beat(self, client: Client) -> ClassicRequest:
        """Now and then of another generation."""
        generation = client.generation + self.random.choice((0, 0, 0, 0, 1))
        return ClassicBeat(client.member_id, generation, client.instance)

    def leave(self, client: Client) -> ClassicRequest:
        """Alone, with another one, or by instance."""
        other = self.random.choice(self.clients)
        leavers = [Leaver(client.member_id, client.instance)]
        if self.random.random() < 0.3:
            leavers.append(Leaver("" if other.instance else other.member_id, other.instance))
        for leaver in leavers:
            self.promised.pop(leaver.member_id, None)
        return ClassicLeave(tuple(leavers))

    def commit(self, client: Client) -> ClassicRequest:
        """A member's."""
        return CommitCheck(client.member_id, client.generation, client.instance)

    def passes(self) -> None:
        """Time."""
        self.now_ms += self.random.choice((1, 10, 60, 200))
        self.step(ClassicTick(), timed=True)

    def ends(self) -> None:
        """What is in flight is persisted, or not."""
        out, self.in_flight = self.in_flight, None
        if out is None:
            return
        if self.random.random() < 0.85:
            self.write(out)
            self.step(Persisted(out.token))
        else:
            self.step(NotPersisted(out.token))

    def write(self, out: Persist) -> None:
        """It is what the next coordinator reads."""
        before, self.written = self.written, out.state
        if out.state is None:  # another group of this name begins with the first generation
            self.answered = 0
            self.members.clear()
        if out.state is not None and before is not None:
            _must(out.state.generation >= before.generation, "a generation went back")

    def unload(self) -> None:
        """Another coordinator, and this one has heard of it."""
        self.step(Unload())
        _must(not self.open, "somebody was not told that another coordinator has the group")
        self.restart()

    def restart(self) -> None:
        """Another coordinator; what was in flight was persisted, or not."""
        out, self.in_flight = self.in_flight, None
        if out is not None and self.random.random() < 0.5:
            self.write(out)
        self.open.clear()  # connections
        self.promised.clear()
        self.group = self.made(OPTIONS)
        if self.written is not None:
            self.do(self.group.restore(self.now_ms, self.written), timed=True)

    def end(self) -> None:
        """Nobody asks any more."""
        for _ in range(WAKES_MAX):
            out, self.in_flight = self.in_flight, None
            if out is not None:
                self.write(out)
                self.step(Persisted(out.token))
                continue
            wake = self.group.next_wake_ms()
            if wake is None:
                break
            self.now_ms = max(self.now_ms, wake)
            self.step(ClassicTick(), timed=True)
        _must(not self.open, f"{len(self.open)} wait for ever: {list(self.open.values())[:1]}")
        _must(self.group.phase is ClassicPhase.EMPTY, f"it ends {self.group.phase.value}")

    # what is seen

    def step(self, told: ClassicInput, timed: bool = False) -> None:
        """Tell the machine."""
        if isinstance(told, Asked) and isinstance(told.request, ClassicJoin):
            self.promised.pop(told.request.member_id, None)
        self.do(self.group.step(self.now_ms, told), timed)
        if self.group.phase is ClassicPhase.DEAD and not isinstance(told, Unload):
            _must(not self.open, "somebody waits for a group that was deleted")
            self.restart()

    def do(self, actions: list[ClassicAction], timed: bool) -> None:
        """Check what it says, and do it."""
        for action in actions:
            if isinstance(action, Persist):
                _must(self.in_flight is None, "two are in flight")
                self.in_flight = action
                self.barrier_ended(action, timed)
            elif isinstance(action, ClassicReply):
                _must(action.ticket in self.open, "a ticket was answered twice")
                client, request = self.open.pop(action.ticket)
                self.heard(client, request, action.answer)

    def barrier_ended(self, action: Persist, timed: bool) -> None:
        """Who was given an id is waited for, as long as the rebalance may take."""
        state = action.state
        if state is None or state.phase is not ClassicPhase.COMPLETING or timed:
            return
        late = [i for i, until in self.promised.items() if until > self.now_ms]
        _must(not late, f"{late} were not waited for")

    def heard(self, client: Client, request: ClassicRequest, answer: ClassicAnswer) -> None:
        """A client is answered."""
        if isinstance(answer, ClassicJoined) and isinstance(request, ClassicJoin):
            self.joined(client, request, answer)
        elif isinstance(answer, ClassicSynced) and isinstance(request, ClassicSync):
            if answer.code is WireCode.NONE:
                self.synced(request, answer)
        else:
            _must(
                isinstance(answer, (ClassicSaid, ClassicLeft))
                or isinstance(request, ClassicDescribe),
                "another kind of answer",
            )
        if getattr(answer, "code", None) is WireCode.UNKNOWN_MEMBER_ID:
            client.member_id, client.generation, client.leads = "", -1, ()

    def joined(self, client: Client, request: ClassicJoin, answer: ClassicJoined) -> None:
        """What it was told rests on what is persisted."""
        if answer.code is WireCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            self.promised[answer.member_id] = self.now_ms + request.session_timeout_ms
        if answer.code is not WireCode.NONE:
            return
        state, generation = self.written, answer.generation
        _must(state is not None and state.generation == generation, "it was not persisted")
        assert state is not None
        ids = frozenset(member.member_id for member in state.members)
        _must(answer.member_id in ids, "its membership was not persisted")
        _must(answer.protocol == state.protocol, "another protocol was persisted")
        _must(generation >= self.answered, "a generation went back")
        self.answered = generation
        told = frozenset(peer.member_id for peer in answer.members)
        if told:
            _must(told == ids, "the leader was told of others than are persisted")
        if told and not answer.skip_assignment and state.phase is ClassicPhase.COMPLETING:
            _must(self.members.setdefault(generation, told) == told, "one generation, twice")
        client.member_id, client.generation = answer.member_id, generation
        client.leads = tuple((p.member_id, p.instance) for p in answer.members)

    def synced(self, request: ClassicSync, answer: ClassicSynced) -> None:
        """It has what is persisted, and that is its own."""
        state = self.written
        _must(
            state is not None
            and state.phase is ClassicPhase.STABLE
            and state.generation == request.generation,
            "the assignment was not persisted",
        )
        assert state is not None
        mine = [one for one in state.members if one.member_id == request.member_id]
        _must(bool(mine) and mine[0].assignment == answer.assignment, "others' bytes")
        own = bytes_of(request.generation, request.member_id, mine[0].instance)
        _must(answer.assignment in (own, b""), f"{answer.assignment!r} instead of {own!r}")


@pytest.mark.parametrize("portion", range(8))
def test_random_histories(portion: int) -> None:
    for seed in range(portion, SEEDS, 8):
        World(seed, ClassicGroup).run(STEPS)


class AnswersFirst:
    """What it wants persisted it takes for persisted."""

    def __init__(self, options: ClassicOptions) -> None:
        self._inner = ClassicGroup(options)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def step(self, now_ms: int, told: ClassicInput) -> list[ClassicAction]:
        """Answers first."""
        done = self._inner.step(now_ms, told)
        persist = next((one for one in done if isinstance(one, Persist)), None)
        if persist is not None:
            done += self._inner.step(now_ms, Persisted(persist.token))
        return done


class Impatient(Seats):
    """Waits for nobody who was given an id."""

    @property
    def all_joined(self) -> bool:
        return len(self.joining) == len(self.seats)


def without_pending_members(options: ClassicOptions) -> ClassicGroup:
    """A machine of `Impatient` seats."""
    group = ClassicGroup(options)
    group._at.seats = Impatient()
    return group


class CountsAnew(ClassicGroup):
    """The generation that was persisted is used once more."""

    def restore(self, now_ms: int, state: ClassicState) -> list[ClassicAction]:
        done = super().restore(now_ms, state)
        self._at.generation = self._at.highest = max(state.generation - 1, 0)
        return done


VARIANTS: dict[str, tuple[Made, str]] = {
    "persist after answer": (AnswersFirst, "persisted"),  # type: ignore[dict-item]
    "no pending members": (without_pending_members, "not waited for"),
    "generation reused after restore": (CountsAnew, ""),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_weakened_machine_is_caught(name: str) -> None:
    made, said = VARIANTS[name]
    caught = []
    for seed in range(VARIANT_SEEDS):
        try:
            World(seed, made).run(STEPS)
        except BrokenError as error:
            caught.append(str(error))
    assert any(said in text for text in caught), caught[:5]
