"""Another coordinator at every moment: after each transaction of the first one, before it has heard
of it. Nobody is lost, no generation is decided twice, and who was told something finds it again.
"""

from __future__ import annotations

import pytest

from tests.core.classic.scenario import OPTIONS
from tests.sim.tree import Tree, Txn
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicBeat,
    ClassicJoin,
    ClassicJoined,
    ClassicRequest,
    ClassicSync,
    ClassicSynced,
)
from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.zk.classic import incoming, lanes
from zkcoord.zk.port import Create
from zkcoord.znodes.classic import documents
from zkcoord.znodes.classic.documents import ClassicAsk, decode_state, encode_ask
from zkcoord.znodes.classic.paths import LANE_DIGITS, request_name

MOMENTS = 24
ROUNDS_MAX = 40
STEP_MS = 1_000
AGAIN = (
    WireCode.REBALANCE_IN_PROGRESS,
    WireCode.UNKNOWN_MEMBER_ID,
    WireCode.COORDINATOR_NOT_AVAILABLE,
    WireCode.MEMBER_ID_REQUIRED,
    WireCode.ILLEGAL_GENERATION,
)


class Member:
    """A client that joins, asks for its assignment, and sends heartbeats when it has one."""

    def __init__(self, side: ServedSide, name: str) -> None:
        self.side = side
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.tries = 0
        self.assignment: bytes | None = None
        self.told: list[ClassicJoined] = []
        self._asks: ClassicRequest | None = None
        self._ticket = 0

    def go_on(self) -> None:
        """Ask what is to be asked next, once the last was answered."""
        if self._asks is not None:
            answer = self.side.answer(self._ticket, False)
            if answer is None:
                return
            self._heard(answer)
        if self.assignment is not None:
            beat = ClassicBeat(self.member_id, self.generation)
            said = self.side.answer(self.side.send(beat, 4), False)
            if said is None or said.code is WireCode.NONE:
                return
            self.assignment = None
        self._ask()

    def _ask(self) -> None:
        self.tries += 1
        if self._asks is None:
            fresh = f"{self.name}-{self.tries}"
            protocols = (("range", self.name.encode()),)
            self._asks = ClassicJoin(self.member_id, fresh, "consumer", protocols, 30_000, 10_000)
        self._ticket = self.side.send(self._asks, 9)

    def _heard(self, answer: ClassicAnswer) -> None:
        self._asks = None
        if answer.code in AGAIN:
            if isinstance(answer, ClassicJoined):
                self.member_id = (
                    answer.member_id if answer.code is WireCode.MEMBER_ID_REQUIRED else ""
                )
            return
        assert answer.code is WireCode.NONE, answer
        if isinstance(answer, ClassicJoined):
            self.told.append(answer)
            self.member_id, self.generation = answer.member_id, answer.generation
            given = tuple((one.member_id, one.member_id.encode()) for one in answer.members)
            self._asks = ClassicSync(
                self.member_id, self.generation, None, "consumer", "range", given
            )
        elif isinstance(answer, ClassicSynced):
            assert answer.assignment == self.member_id.encode()
            self.assignment = answer.assignment


class Witness:
    """Everything that was ever decided, and one takeover: when so many transactions of the first
    coordinator have happened, before it hears of the last.
    """

    def __init__(self, side: ServedSide, moment: int) -> None:
        self.decided: list[ClassicState] = []
        self._side = side
        self._left = moment
        side.zk.observers.append(self._saw)

    def _saw(self, txn: Txn, tree: Tree) -> None:
        data = self._side.data(PATHS.state(GROUP))
        if data is not None:
            state = decode_state(GROUP, data)
            assert not isinstance(state, Malformed), state
            if not self.decided or self.decided[-1] != state:
                self.decided.append(state)
        if txn.session == self._side.coordinator.session_id and self._left:
            self._left -= 1
            if not self._left:
                assert self._side.groups is not None
                self._side.groups.lost()

    @property
    def takes_over(self) -> bool:
        """Whether it is time for another coordinator."""
        groups = self._side.groups
        return groups is not None and groups.is_lost


def play(moment: int) -> tuple[ServedSide, list[Member], Witness]:
    """Two members form a group, a third one joins."""
    side = ServedSide(OPTIONS)
    witness = Witness(side, moment)
    members = [Member(side, "a"), Member(side, "b")]
    for number in range(ROUNDS_MAX):
        if witness.takes_over:
            side.restart()
        for member in members:
            member.go_on()
        side.wait(STEP_MS if number % 4 == 3 else 10)
        if all(member.assignment is not None for member in members):
            if len(members) == 3:
                break
            members.append(Member(side, "c"))
    return side, members, witness


@pytest.mark.parametrize("moment", range(1, MOMENTS))
def test_another_coordinator_at_every_moment(moment: int) -> None:
    side, members, witness = play(moment)
    assert all(member.assignment is not None for member in members), [
        (member.name, member.member_id, member.tries) for member in members
    ]
    view = side.view()
    assert view.phase is ClassicPhase.STABLE
    assert {one.member_id for one in view.state.members} == {one.member_id for one in members}
    members_of: dict[int, frozenset[str]] = {}
    last = 0
    for state in witness.decided:
        assert state.generation >= last, "a generation goes back"
        last = state.generation
        ids = frozenset(one.member_id for one in state.members)
        assert members_of.setdefault(last, ids) == ids, "a generation is decided twice"
    for member in members:
        for told in member.told:
            assert told.member_id in members_of[told.generation]
    blobs = side.zk.tree.children[PATHS.blobs(GROUP)]
    assert len(blobs) <= 2 * len(members), "what no state names is not kept"
    assert not side.failures


def test_moments_are_those_of_the_whole_play() -> None:
    """Later than the last moment nothing is written any more."""
    side, members, witness = play(MOMENTS)
    assert not witness.takes_over and all(member.assignment is not None for member in members)


def node_of(name: str) -> str:
    """That of a request of a client."""
    return request_name(GROUP, "0" * LANE_DIGITS + name.encode().hex().ljust(24, "0"))


def asks(side: ServedSide, name: str, protocols: bytes = b"x") -> None:
    """A client joins while nobody leads: the node of its request, in parts where it is long."""
    join = ClassicJoin("", name, "consumer", (("range", protocols),), 30_000, 10_000, None, False)
    whole, *parts = encode_ask(ClassicAsk(GROUP, join))
    node = node_of(name)
    for number, part in enumerate(parts, 1):
        side.write([Create(PATHS.part(node, number), part, ephemeral=True)])
    side.write([Create(PATHS.request(node), whole, ephemeral=True)])


def leader_of(side: ServedSide) -> str:
    side.wait(3 * OPTIONS.initial_delay_ms)
    return side.view().state.leader


@pytest.mark.parametrize("order", [("z", "m", "a"), ("m", "a", "z")])
def test_what_waits_at_a_takeover_is_taken_up_in_the_order_in_which_it_was_made(
    order: tuple[str, ...],
) -> None:
    side = ServedSide(OPTIONS)
    assert side.groups is not None
    side.groups.lost()
    for name in order:
        asks(side, name)
    side.restart()
    assert leader_of(side) == order[0]
    assert [one.member_id for one in side.view().state.members] == list(order)


def test_one_that_is_long_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PART_BYTES", 200)
    monkeypatch.setattr(incoming, "READS_AT_ONCE_MAX", 2)
    side = ServedSide(OPTIONS)
    assert side.groups is not None
    side.groups.lost()
    for name, said in (("z", b"x" * 600), ("m", b"x"), ("y", b"x" * 300), ("a", b"x")):
        asks(side, name, said)
    side.restart()
    assert leader_of(side) == "z"
    assert [one.member_id for one in side.view().state.members] == ["z", "m", "y", "a"]


def test_what_is_made_while_it_looks_comes_after_what_was_there() -> None:
    side = ServedSide(OPTIONS)
    assert side.groups is not None
    side.groups.lost()
    asks(side, "z")
    side.restart()
    side.groups._incoming.begin()  # as where more were there than it keeps
    side.groups._incoming.made(node_of("b"))
    asks(side, "b")
    assert leader_of(side) == "z"
    assert [one.member_id for one in side.view().state.members] == ["z", "b"]
    assert side.groups._incoming.unread == 0


def test_one_whose_part_is_gone_is_left_out_and_the_next_is_taken() -> None:
    side = ServedSide(OPTIONS)
    node = "0" * 32
    side.write([Create(PATHS.request(node), b'{"version": 1, "parts": 2}', ephemeral=True)])
    asks(side, "a")
    assert leader_of(side) == "a"


def test_more_than_are_kept_are_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "REQUESTS_WAITING_MAX", 1)
    side = ServedSide(OPTIONS)
    assert side.groups is not None
    side.groups.lost()
    order = ["z", "m", "a", "k"]
    for name in order:
        asks(side, name)
    side.restart()
    assert leader_of(side) == "z"
    assert [one.member_id for one in side.view().state.members] == order
