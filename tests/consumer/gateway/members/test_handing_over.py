"""Clients that come from another gateway, and what is left for another one: groups with a memory
that is a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from consumer.core import messages as msg
from consumer.gateway.members.memory import Found, Key
from consumer.gateway.members.recalls import KEYS_PER_TURN, WAITING_MAX
from consumer.gateway.wire.actions import WrittenDown
from consumer.gateway.wire.requests import (
    BeatAnswer,
    CommitAnswer,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    LeaveAnswer,
    LeaveRequest,
    SyncAnswer,
    SyncRequest,
)
from tests.consumer.gateway.members.test_groups import TIMES, TP, World, join
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Subscription
from zkcoord.znodes.gateway_nodes import RememberedClient, instance_of_client

GONE = WireCode.UNKNOWN_MEMBER_ID
CLIENT = RememberedClient(
    "m", None, 4, "range", ("range",), ("t",), frozenset([TP]), 10_000, 60_000, "me", "host"
)


class Remembering:
    """`Memory`. With `holds` reads wait for `let_go`; `fenced`: who writes is no member."""

    def __init__(self, *clients: RememberedClient, group: str = "g") -> None:
        self.clients = {(group, client.node): client for client in clients}
        self.reads: list[tuple[Key, ...]] = []
        self.writers: list[str] = []
        self.gone: set[str] = set()
        self.unknown = False
        self.claimed: list[tuple[str, Callable[[], None]]] = []
        self.holds = False
        self.away = False
        self.fenced = False
        self.holds_writes = False
        self._writes: list[Callable[[], None]] = []
        self._held: list[Callable[[], None]] = []

    def read(self, keys: Sequence[Key], done: Callable[[Found | None], None]) -> None:
        """See `Memory`."""
        self.reads.append(tuple(keys))

        def answer() -> None:
            done(None if self.away else [self.clients.get(key) for key in keys])

        if self.holds:
            self._held.append(answer)
        else:
            answer()

    def let_go(self) -> None:
        """One read is answered."""
        self._held.pop(0)()

    def write(
        self,
        group: str,
        client: RememberedClient,
        member: str,
        known: bool,
        done: Callable[[WrittenDown], None],
    ) -> None:
        """See `Memory`."""

        def written() -> None:
            self.writers.append(member)
            if not self.fenced:
                self.clients[group, client.node] = client
            done(WrittenDown.GONE if self.fenced else WrittenDown.DONE)

        if self.holds_writes:
            self._writes.append(written)
        else:
            written()

    def let_go_of_writes(self) -> None:
        """All writes are answered, and later ones at once."""
        self.holds_writes = False
        while self._writes:
            self._writes.pop(0)()

    def claim(self, group: str, client: RememberedClient, too_late: Callable[[], None]) -> None:
        """See `Memory`."""
        self.claimed.append((client.member_id, too_late))

    def release(self, group: str, node: str, member: str, done: Callable[[bool], None]) -> None:
        """See `Memory`."""

        def found(clients: Found | None) -> None:
            is_elsewhere = bool(clients and clients[0] and clients[0].by)
            if not is_elsewhere:
                self.forget(group, node, member)
            done(is_elsewhere)

        self.read([(group, node)], found)

    def is_member(self, group: str, member: str, done: Callable[[bool | None], None]) -> None:
        """See `Memory`."""
        done(None if self.unknown else member not in self.gone)

    def forget(self, group: str, node: str, member: str) -> None:
        """See `Memory`."""
        self.clients.pop((group, node), None)


def test_what_a_client_was_told_is_remembered() -> None:
    memory = Remembering()
    world = World(memory=memory)
    member = world.member()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.wait(TIMES.forming_ms)
    (client,) = memory.clients.values()
    assert client == replace(CLIENT, member_id=member, generation=1, lists=("range",))
    assert memory.writers == ["registered"]
    assert world.agents[0].wishes.instance == instance_of_client(member) == client.node
    assert (world.agents[0].wishes.grace_ms, world.agents[0].wishes.alone) == (10_000, True)


def test_the_library_of_a_client_comes_along() -> None:
    memory = Remembering(replace(CLIENT, library="lib 1"))
    world = World(memory=memory)
    world.ask(HeartbeatRequest("g", "m", 4))
    assert world.agents[0].wishes.library == "lib 1" and world.groups.taken_over == 1
    assert world.groups.groups["g"].members["m"].to_remember().library == "lib 1"


@pytest.mark.parametrize(
    "odd",
    [
        replace(CLIENT, topics=tuple(f"{n:050}" for n in range(1_100))),
        replace(CLIENT, assignors=("range", "no assignor, with a comma")),
    ],
)
def test_what_no_gateway_writes_is_nobody(odd: RememberedClient) -> None:
    world = World(memory=Remembering(odd))
    assert world.ask(HeartbeatRequest("g", "m", 4)) == BeatAnswer(GONE)
    assert not world.agents


@pytest.mark.parametrize(
    ("request_of", "answer"),
    [
        (HeartbeatRequest("g", "m", 4), BeatAnswer(WireCode.NONE)),
        (CommitRequest("g", "m", 4, {TP: (5, "")}), CommitAnswer(WireCode.NONE)),
        (SyncRequest("g", "m", 5), SyncAnswer(WireCode.NONE, (TP,), "range")),
    ],
)
def test_a_client_of_another_gateway_goes_on_here(request_of: object, answer: object) -> None:
    world = World(memory=Remembering(CLIENT))
    assert world.ask(request_of) is None
    (agent,) = world.agents
    assert agent.wishes.instance == CLIENT.node and not agent.wishes.alone
    assert agent.told == [msg.Subscribe(Subscription({"t": 1}))]
    world.tell(0, msg.Assigned({TP: 0}, 1))
    for message in agent.told:
        if isinstance(message, msg.Commit):
            world.tell(0, msg.CommitDone(message.token, msg.CommitOutcome.OK))
    world.wait(TIMES.heartbeat_first_ms)
    assert world.answers[1] == answer


def test_a_client_of_another_gateway_joins_again_under_its_id() -> None:
    world = World(memory=Remembering(CLIENT))
    assert world.join("m") == JoinAnswer(WireCode.NONE, "m", 5, "range")
    assert len(world.agents) == 1


def test_the_instance_of_another_gateway_has_its_place_and_a_later_generation() -> None:
    memory = Remembering(replace(CLIENT, instance="i"))
    world = World(memory=memory)
    again = world.join(instance="i")
    assert (again.code, again.generation) == (WireCode.NONE, 5) and again.member_id != "m"
    (agent,) = world.agents
    assert agent.wishes.instance == "i" and not agent.wishes.alone
    fenced = world.ask(HeartbeatRequest("g", "m", 4, "i"))
    assert fenced == BeatAnswer(WireCode.FENCED_INSTANCE_ID)


def test_a_client_of_another_gateway_leaves_here() -> None:
    memory = Remembering(CLIENT)
    world = World(memory=memory)
    left = world.ask(LeaveRequest("g", (("m", None),)))
    assert left == LeaveAnswer(WireCode.NONE, (WireCode.NONE,))
    assert memory.clients == {}
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.tell(0, msg.Revoke(1, (TP,)))
    world.wait(TIMES.drain_quiet_ms)
    assert world.agents[0].finished and world.groups.finished


def test_nobody_remembers_it() -> None:
    world = World(memory=Remembering())
    assert world.ask(HeartbeatRequest("g", "m", 4)) == BeatAnswer(GONE)
    assert world.agents == [] and world.groups.groups == {}


def test_where_it_cannot_be_read_one_tries_again() -> None:
    memory = Remembering(CLIENT)
    memory.away = True
    world = World(memory=memory)
    code = WireCode.COORDINATOR_NOT_AVAILABLE
    assert world.ask(HeartbeatRequest("g", "m", 4)) == BeatAnswer(code)
    assert world.ask(SyncRequest("g", "m", 4)) == SyncAnswer(code)
    assert world.ask(CommitRequest("g", "m", 4, {TP: (5, "")})) == CommitAnswer(code)
    assert world.ask(join("m")) == JoinAnswer(code, "m")
    assert world.ask(LeaveRequest("g", (("m", None),))) == LeaveAnswer(code, (code,))
    assert world.agents == []


def test_many_strangers_cost_one_read_after_the_other() -> None:
    memory = Remembering(CLIENT)
    memory.holds = True
    world = World(memory=memory)
    tickets = WAITING_MAX + 2
    for n in range(tickets - 1):
        world.ask(HeartbeatRequest("g", f"stranger-{n}", 1))
    world.ask(HeartbeatRequest("g", "m", 4))
    assert len(memory.reads) == 1
    refused = [t for t, answer in world.answers.items()]
    assert refused == [tickets], "there is room for so many only"
    memory.let_go()
    assert len(memory.reads) == 2 and len(memory.reads[1]) == KEYS_PER_TURN


def test_one_request_names_only_so_many() -> None:
    world = World(memory=Remembering())
    many = tuple((f"m{n}", None) for n in range(KEYS_PER_TURN + 1))
    answer = world.ask(LeaveRequest("g", many))
    assert isinstance(answer, LeaveAnswer)
    assert answer.code is WireCode.COORDINATOR_NOT_AVAILABLE


def test_the_gateway_ends_and_the_places_of_its_clients_wait() -> None:
    memory = Remembering()
    world = World(memory=memory)
    world.member()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.wait(TIMES.forming_ms)
    world.groups.close()
    world.run()
    assert world.agents[0].told[-1:] == [msg.Close({}, 0)]
    assert not any(isinstance(message, msg.Revoked) for message in world.agents[0].told)
    assert len(memory.clients) == 1 and world.groups.finished


def test_a_gateway_that_ends_takes_nobody_on() -> None:
    memory = Remembering(CLIENT)
    memory.holds = True
    world = World(memory=memory)
    assert world.ask(HeartbeatRequest("g", "m", 4)) is None
    world.groups.close()
    memory.let_go()
    code = WireCode.NOT_COORDINATOR
    assert world.answers[1] == BeatAnswer(code)
    assert world.ask(HeartbeatRequest("g", "m", 4)) == BeatAnswer(code)
    assert world.join().code is code
    assert world.agents == [] and world.groups.finished


def test_the_gateway_ends_while_somebody_is_on_its_way_out() -> None:
    world = World(memory=Remembering())
    member = world.member()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.ask(LeaveRequest("g", ((member, None),)))
    assert not world.agents[0].finished
    world.groups.close()
    world.run()
    assert world.agents[0].finished and world.groups.finished


def test_who_has_a_client_of_ours_now_is_asked_there() -> None:
    memory = Remembering()
    world = World(memory=memory)
    member = world.member()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.wait(TIMES.forming_ms)
    beat = world.ask(HeartbeatRequest("g", member, 1))
    assert beat is None
    world.tell(0, msg.Failed(msg.FailureCode.FENCED_INSTANCE_ID, "another has it"))
    assert list(world.answers.values())[-1] == BeatAnswer(WireCode.NOT_COORDINATOR)
    assert len(memory.clients) == 1, "what is remembered is the other one's now"


@pytest.mark.parametrize("instance", ["../x", "a/b", ".", "x" * 250, CLIENT.node])
def test_what_no_client_may_name_is_not_looked_for(instance: str) -> None:
    memory = Remembering(CLIENT)
    world = World(memory=memory)
    assert world.ask(HeartbeatRequest("g", "m", 4, instance)) == BeatAnswer(GONE)
    assert world.join(instance=instance).code is WireCode.INVALID_REQUEST
    assert memory.reads == [] and world.agents == []


def test_a_client_that_is_here_is_not_read_again() -> None:
    memory = Remembering()
    world = World(memory=memory)
    member = world.member()
    reads = len(memory.reads)
    world.ask(HeartbeatRequest("g", member, 1))
    world.ask(join(member))
    assert len(memory.reads) == reads


def test_a_request_whose_connection_is_gone_makes_nobody_a_member_of_it() -> None:
    memory = Remembering(CLIENT)
    memory.holds = True
    world = World(memory=memory)
    assert world.ask(HeartbeatRequest("g", "m", 4)) is None
    world.groups.disconnected(1)
    assert world.answers[1] == BeatAnswer(WireCode.COORDINATOR_NOT_AVAILABLE)
    memory.let_go()
    world.run()
    assert world.ask(HeartbeatRequest("g", "m", 4), connection=2) is None
    world.groups.disconnected(2)
    world.wait(TIMES.disconnect_grace_ms)
    assert world.groups.agents("g") == [], "it is not held by a connection that is no more"


@pytest.mark.parametrize("behind", [None, HeartbeatRequest("g", "m", 4)])
def test_a_commit_that_comes_from_another_gateway_holds_up_nothing_that_came_behind_it(
    behind: HeartbeatRequest | None,
) -> None:
    """Also where both came before it was known whose client it is."""
    memory = Remembering(CLIENT)
    memory.holds = True
    world = World(memory=memory)
    assert world.ask(CommitRequest("g", "m", 4, {TP: (5, "")})) is None
    if behind is not None:
        assert world.ask(behind) is None
    else:
        world.groups.another_request(1)
    memory.let_go()
    world.run()
    assert world.answers[1] == CommitAnswer(WireCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert 2 not in world.answers, "a heartbeat, if it is that, is the last, and parked"


def test_a_heartbeat_that_comes_from_another_gateway_holds_up_nothing_that_came_behind_it() -> None:
    memory = Remembering(CLIENT)
    memory.holds = True
    world = World(memory=memory)
    assert world.ask(HeartbeatRequest("g", "m", 4)) is None
    assert world.ask(CommitRequest("g", "m", 4, {TP: (5, "")})) is None
    memory.let_go()
    world.run()
    assert world.answers == {1: BeatAnswer(WireCode.NONE)}


def test_a_member_that_is_lost_while_its_client_is_not_here_is_not_taken_back() -> None:
    memory = Remembering(CLIENT)
    world = World(memory=memory)
    world.ask(HeartbeatRequest("g", "m", 4))
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.tell(0, msg.Lost((TP,), "", 2))
    assert not world.agents[0].finished, "its client is here, and hears of it"
    world.tell(0, msg.Assigned({TP: 0}, 3))
    world.groups.disconnected(1)
    world.tell(0, msg.Lost((TP,), "", 4))
    assert world.agents[0].finished and world.groups.agents("g") == []


@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest("g", "m", 5),
        SyncRequest("g", "m", 5),
        CommitRequest("g", "m", 5, {TP: (1, "")}),
    ],
)
def test_a_client_that_was_at_another_gateway_meanwhile_is_looked_for_again(
    request_: HeartbeatRequest | SyncRequest | CommitRequest,
) -> None:
    """Its generation says so: what is known here is from before."""
    memory = Remembering(CLIENT)
    world = World(memory=memory)
    world.ask(HeartbeatRequest("g", "m", 4))
    world.tell(0, msg.Assigned({TP: 0}, 1))
    memory.clients["g", CLIENT.node] = replace(CLIENT, generation=5)
    world.ask(request_)
    ((wire, _),) = world.groups.agents("g")
    assert wire.generation == 5 and world.agents[0].finished and len(world.agents) == 2
    refused = WireCode.ILLEGAL_GENERATION
    assert world.ask(HeartbeatRequest("g", "m", 4)) == BeatAnswer(refused), "an earlier one"


def test_a_generation_that_nobody_was_given_is_refused_and_costs_nothing_else() -> None:
    memory = Remembering(CLIENT)
    world = World(memory=memory)
    world.ask(HeartbeatRequest("g", "m", 4))
    world.tell(0, msg.Assigned({TP: 0}, 1))
    refused = BeatAnswer(WireCode.ILLEGAL_GENERATION)
    assert world.ask(HeartbeatRequest("g", "m", 5)) == refused
    assert [wire.generation for wire, _ in world.groups.agents("g")] == [4]
    assert not world.agents[0].finished and len(world.agents) == 1


def test_who_has_lost_its_membership_tells_its_client_nothing_of_what_it_had() -> None:
    memory = Remembering()
    world = World(memory=memory)
    joined = world.join(world.join().member_id)
    world.tell(0, msg.Assigned({TP: 0}, 1))
    memory.fenced = True
    sync = SyncRequest("g", joined.member_id, joined.generation)
    world.ask(sync)
    world.wait(TIMES.forming_ms)
    assert SyncAnswer(WireCode.REBALANCE_IN_PROGRESS) in world.answers.values()
    assert memory.clients == {}
    ((wire, _),) = world.groups.agents("g")
    assert not wire.held


def test_a_client_that_was_forgotten_while_it_came_here_is_remembered_again() -> None:
    """The gateway before took it for gone just then."""
    memory = Remembering(CLIENT)
    world = World(memory=memory)
    world.ask(HeartbeatRequest("g", "m", 4))
    memory.clients.clear()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    assert list(memory.clients.values()) == [CLIENT]
    world.tell(0, msg.Assigned({}, 1))
    assert memory.writers == ["registered"], "once"


def test_what_was_told_before_its_agent_was_registered_is_remembered_once_it_is() -> None:
    memory = Remembering()
    world = World(memory=memory)
    joined = world.join(world.join().member_id)
    world.agents[0].name = ""
    world.ask(SyncRequest("g", joined.member_id, joined.generation))
    world.wait(TIMES.sync_park_ms)
    assert memory.writers == [""]
    for name in ("registered", "registered", "again"):
        world.agents[0].name = name
        world.tell(0, msg.Assigned({}, 1))
    assert memory.writers == ["", "registered", "again"]


def test_a_client_that_comes_is_claimed_or_told_that_it_is_too_late() -> None:
    memory = Remembering(CLIENT)
    world = World(memory=memory)
    assert world.ask(HeartbeatRequest("g", "m", 4)) is None
    ((member, too_late),) = memory.claimed
    assert member == "m" and not world.answers
    too_late()
    assert world.answers == {1: BeatAnswer(GONE)}
    world.run()
    assert msg.Subscribe(Subscription({})) in world.agents[0].told, "its place waits for nobody"


@pytest.mark.parametrize("elsewhere", [True, False])
def test_who_is_missed_does_not_leave_where_another_gateway_goes_on_with_it(
    elsewhere: bool,
) -> None:
    memory = Remembering()
    world = World(memory=memory)
    world.member()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.wait(TIMES.forming_ms)
    (client,) = memory.clients.values()
    if elsewhere:
        memory.clients["g", client.node] = replace(client, by="the other one")
    memory.holds = True
    world.groups.disconnected(1)
    world.wait(TIMES.disconnect_grace_ms)
    told = len(world.agents[0].told)
    assert world.agents[0].told[told:] == [] and world.groups.leaving == 1
    memory.let_go()
    world.wait(0)
    wants_nothing = msg.Subscribe(Subscription({}))
    expected = msg.Close({}, 0) if elsewhere else wants_nothing
    assert world.agents[0].told[told:] == [expected]
    assert ("g", client.node) in memory.clients or not elsewhere


def test_a_gateway_that_ends_waits_for_nobody_who_is_missed() -> None:
    memory = Remembering()
    world = World(memory=memory)
    world.member()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.wait(TIMES.forming_ms)
    memory.holds = True
    world.groups.disconnected(1)
    world.wait(TIMES.disconnect_grace_ms)
    world.groups.close()
    world.wait(0)
    assert world.agents[0].told[-1] == msg.Close({}, 0)
    told = len(world.agents[0].told)
    memory.let_go()
    world.wait(0)
    assert len(world.agents[0].told) == told
