"""Which request is whose, which codes are answered, and what strangers can make of it: groups with
agents that only note what they are told.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumer.core import messages as msg
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.members.memory import Memory
from consumer.gateway.members.newcomers import AWAY_MS, PENDING_MAX
from consumer.gateway.members.wire_group import AgentWishes
from consumer.gateway.wire.actions import GroupLimits, WireTimes
from consumer.gateway.wire.requests import (
    Answer,
    BeatAnswer,
    Caller,
    CommitAnswer,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    SyncAnswer,
    SyncRequest,
)
from consumer.gateway.wire.subscription import encode_subscription
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Subscription, TopicPartition

TP = TopicPartition("t", 0)
TIMES = WireTimes()
MANY_TOPICS = encode_subscription([f"{n:050}" for n in range(1_100)])


class Agent:
    """Notes what it is told."""

    def __init__(self, wishes: AgentWishes, tell: Callable[[msg.ToFetcher], None]) -> None:
        self.wishes = wishes
        self.tell = tell
        self.name = "registered"
        self.registered = True
        self.told: list[msg.FromFetcher] = []

    def receive(self, message: msg.FromFetcher) -> None:
        """Noted."""
        self.told.append(message)

    def tick(self) -> None:
        """Nothing is ever due."""

    def next_wake_ms(self) -> int | None:
        """Never."""
        return None

    @property
    def finished(self) -> bool:
        """Once it was closed."""
        return any(isinstance(message, msg.Close) for message in self.told)


class World:
    """A gateway's groups, whose time stands still."""

    def __init__(self, limits: GroupLimits | None = None, memory: Memory | None = None) -> None:
        self.now = 1_000_000
        self.posted: list[Callable[[], None]] = []
        self.answers: dict[int, Answer] = {}
        self.agents: list[Agent] = []
        self.tickets = 0
        self.drawn = 0
        self.library = ""
        self.groups = WireGroups(
            lambda: self.now,
            self.posted.append,
            self._make,
            self._answer,
            lambda group, ask, answer: answer(msg.Resolved(ask.token, {}, ask.partitions)),
            self._draw,
            limits or GroupLimits(),
            TIMES,
            memory,
        )

    def _make(
        self,
        wishes: AgentWishes,
        told: Callable[[msg.ToFetcher], None],
        after: Callable[[], None],
    ) -> Agent:
        self.agents.append(Agent(wishes, told))
        return self.agents[-1]

    def _answer(self, ticket: int, answer: Answer) -> None:
        assert ticket not in self.answers, "answered twice"
        self.answers[ticket] = answer

    def _draw(self) -> str:
        self.drawn += 1
        return f"id{self.drawn}"

    def ask(self, request: object, connection: int = 1, is_shared: bool = False) -> Answer | None:
        """Its answer, if there is one yet."""
        self.tickets += 1
        ticket = self.tickets
        caller = Caller(connection, "me", "host", self.library, is_shared)
        self.groups.request(ticket, caller, request)  # type: ignore[arg-type]  # any of them
        self.run()
        return self.answers.get(ticket)

    def run(self) -> None:
        """What was posted."""
        while self.posted:
            self.posted.pop(0)()

    def tell(self, agent: int, message: msg.ToFetcher) -> None:
        """An agent says something."""
        self.agents[agent].tell(message)
        self.run()

    def wait(self, ms: int) -> None:
        """Time passes."""
        self.now += ms
        self.groups.tick()
        self.run()

    def join_later(self, member_id: str = "", group: str = "g", **more: object) -> int:
        """JoinGroup; its ticket."""
        assert self.ask(join(member_id, group, **more)) is None
        return self.tickets

    def join(self, member_id: str = "", group: str = "g", **more: object) -> JoinAnswer:
        """JoinGroup."""
        answer = self.ask(join(member_id, group, **more))
        assert isinstance(answer, JoinAnswer)
        return answer

    def member(self, **more: object) -> str:
        """A new member, joined and synced."""
        named = self.join(**more)
        joined = self.join(named.member_id, **more) if named.code else named
        assert joined.code is WireCode.NONE
        self.ask(SyncRequest(str(more.get("group", "g")), joined.member_id, joined.generation))
        return joined.member_id


def join(member_id: str = "", group: str = "g", **more: object) -> JoinRequest:
    """A client that lists range."""
    options: dict[str, object] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", encode_subscription(["t"])),),
        **more,
    }
    return JoinRequest(group, member_id, **options)  # type: ignore[arg-type]  # as it says


def test_a_client_is_named_first_and_joins_under_that_name() -> None:
    world = World()
    named = world.join()
    assert named == JoinAnswer(WireCode.MEMBER_ID_REQUIRED, "me-id1")
    assert world.agents == []
    assert world.join("me-id1") == JoinAnswer(WireCode.NONE, "me-id1", 1, "range")
    (agent,) = world.agents
    assert agent.wishes == AgentWishes("g", "me", "host", None, 0, ("range",), 60_000, alone=True)
    assert agent.told == [msg.Subscribe(Subscription({"t": 1}))]


def test_before_version_4_it_joins_at_once() -> None:
    world = World()
    assert world.join(named_first=False) == JoinAnswer(WireCode.NONE, "me-id1", 1, "range")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"group": ""}, WireCode.INVALID_GROUP_ID),
        ({"group": "a/b"}, WireCode.INVALID_GROUP_ID),
        ({"group": ".."}, WireCode.INVALID_GROUP_ID),
        ({"group": "x" * 300}, WireCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, WireCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, WireCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("stream", b""),)}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"\0"),)}, WireCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "../x"}, WireCode.INVALID_REQUEST),
        ({"instance": "i" * 250}, WireCode.INVALID_REQUEST),
        ({"protocols": (("range", MANY_TOPICS),)}, WireCode.INVALID_REQUEST),
        ({"member_id": "never-named"}, WireCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "never-named", "instance": "i"}, WireCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_what_is_refused_makes_nothing(more: dict[str, object], code: WireCode) -> None:
    world = World()
    assert world.join(**more).code is code
    assert world.agents == [] and world.groups.groups == {}


def test_topics_that_cannot_be_become_no_path() -> None:
    world = World()
    topics = ["t", "../../../zookeeper", "a/b", "", ".", "x" * 250]
    protocols = (("range", encode_subscription(topics)),)
    world.join(world.join(protocols=protocols).member_id, protocols=protocols)
    assert world.agents[0].told == [msg.Subscribe(Subscription({"t": 1}))]


@pytest.mark.parametrize(
    "request_",
    [
        SyncRequest("g", "nobody", 1),
        HeartbeatRequest("g", "nobody", 1),
        CommitRequest("g", "nobody", 1, {TP: (1, "")}),
    ],
)
def test_who_is_no_member_is_unknown(request_: object) -> None:
    world = World()
    answer = world.ask(request_)
    assert answer is not None and answer.code is WireCode.UNKNOWN_MEMBER_ID
    world.member()
    answer = world.ask(request_)
    assert answer is not None and answer.code is WireCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_begins_again_fences_the_one_before() -> None:
    world = World()
    first = world.member(instance="i")
    world.tell(0, msg.Assigned({TP: 5}, 1))
    second = world.join(instance="i")
    assert second.code is WireCode.NONE and second.member_id != first
    assert len(world.agents) == 1, "its place is taken over, nothing is given up"
    for request in (
        HeartbeatRequest("g", first, 1, "i"),
        SyncRequest("g", first, 1, "i"),
        CommitRequest("g", first, 1, {TP: (1, "")}, "i"),
        join(first, instance="i"),
    ):
        answer = world.ask(request)
        assert answer is not None and answer.code is WireCode.FENCED_INSTANCE_ID
    assert not any(isinstance(m, msg.Commit) for m in world.agents[0].told)


def test_leaving_by_id_by_instance_and_of_who_is_not_there() -> None:
    world = World()
    one, _ = world.member(), world.member(instance="i")
    named = world.join().member_id
    answer = world.ask(LeaveRequest("g", ((one, None), ("", "i"), ("", "j"), (named, None))))
    assert answer == LeaveAnswer(
        WireCode.NONE,
        (WireCode.NONE, WireCode.NONE, WireCode.UNKNOWN_MEMBER_ID, WireCode.NONE),
    )
    assert world.groups.is_leaving("g") and not world.groups.is_leaving("other")
    world.wait(TIMES.drain_quiet_ms)
    assert all(agent.finished for agent in world.agents)
    assert world.groups.groups == {} and not world.groups.is_leaving("g")
    gone = world.ask(LeaveRequest("g", ((one, None),), batch=False))
    assert gone == LeaveAnswer(WireCode.UNKNOWN_MEMBER_ID, (WireCode.UNKNOWN_MEMBER_ID,))


def test_other_assignors_are_another_registration_of_the_same_member() -> None:
    world = World()
    member = world.member()
    again = world.join(member, protocols=(("sticky", encode_subscription(["t"])),))
    assert (again.code, again.member_id, again.generation) == (WireCode.NONE, member, 2)
    assert [agent.wishes.assignors for agent in world.agents] == [("range",), ("sticky",)]
    assert world.agents[0].finished


def test_a_group_and_a_gateway_have_room_for_so_many() -> None:
    world = World(GroupLimits(max_size=2, members_max=3))
    world.member(), world.member()
    full = WireCode.GROUP_MAX_SIZE_REACHED
    assert world.join(world.join().member_id).code is full
    world.member(group="h")
    assert world.join(world.join(group="i").member_id, group="i").code is full
    assert world.join(group="j", instance="k").code is full
    assert len(world.agents) == 3


def test_ids_that_nobody_uses_are_forgotten() -> None:
    world = World()
    for n in range(PENDING_MAX + 100):
        world.groups.request(-1 - n, Caller(1, "x", ""), join(group=f"g{n}"))
    assert len(world.groups.groups) == PENDING_MAX
    kept = world.join("x-id10100", group="g10099")
    assert kept.code is WireCode.NONE
    assert world.join("x-id1", group="g0").code is WireCode.UNKNOWN_MEMBER_ID


def test_an_id_is_kept_for_the_session_timeout() -> None:
    world = World()
    named = world.join().member_id
    world.now += 10_000
    assert world.join(named).code is WireCode.UNKNOWN_MEMBER_ID


def test_a_parked_heartbeat_ends_with_its_clients_connection() -> None:
    world = World()
    member = world.member()
    world.tell(0, msg.Assigned({TP: 5}, 1))
    world.wait(300)
    assert world.ask(HeartbeatRequest("g", member, 1)) is None
    ticket = world.tickets
    world.groups.disconnected(1)
    assert ticket in world.answers, "who keeps what is not answered yet keeps it no longer"
    world.wait(1_000)
    assert world.agents[0].finished and world.groups.groups == {}


def newcomer(world: World) -> int:
    """Beside a member that has an assignment, one that waits for its first; its request."""
    world.member()
    world.tell(0, msg.Assigned({TP: 5, TopicPartition("t", 1): 5}, 1))
    world.wait(300)
    world.member()
    assert world.tickets not in world.answers
    return world.tickets


def given(world: World, ticket: int) -> int:
    """How many partitions it was answered."""
    answer = world.answers[ticket]
    assert isinstance(answer, SyncAnswer) and answer.code is WireCode.NONE
    return len(answer.partitions)


def test_who_is_to_have_more_waits_for_it_and_no_longer() -> None:
    world = World()
    ticket = newcomer(world)
    world.tell(1, msg.Assigned({TP: 5}, 1, more=True))
    world.wait(TIMES.flux_ms - 1)
    assert ticket not in world.answers
    world.tell(1, msg.Assigned({TopicPartition("t", 1): 5}, 2))
    world.wait(TIMES.settle_ms)
    assert given(world, ticket) == 2


def test_who_is_to_have_more_waits_for_none_that_is_stuck() -> None:
    world = World()
    ticket = newcomer(world)
    world.tell(1, msg.Assigned({TP: 5}, 1, more=True))
    world.wait(TIMES.flux_ms - 1)
    assert ticket not in world.answers
    world.wait(1)
    assert given(world, ticket) == 1


def test_who_gives_up_waits_for_what_it_is_to_have_instead() -> None:
    world = World()
    one = world.member()
    world.tell(0, msg.Assigned({TP: 5}, 1))
    world.wait(300)
    world.tell(0, msg.Revoke(9, (TP,), more=True))
    world.join(one)
    world.ask(SyncRequest("g", one, 2))
    ticket = world.tickets
    world.tell(0, msg.Assigned({TopicPartition("t", 1): 5}, 2))
    world.wait(TIMES.settle_ms)
    assert given(world, ticket) == 1


def test_where_moves_take_long_more_is_waited_for_longer() -> None:
    world = World()
    ticket = newcomer(world)
    slow = TIMES.flux_ms - 10
    world.tell(1, msg.Assigned({TP: 5}, 1, more=True))
    world.wait(slow)
    world.tell(1, msg.Assigned({TopicPartition("t", 1): 5}, 2, more=True))
    world.wait(2 * slow - 1)
    assert ticket not in world.answers
    world.wait(1)
    assert given(world, ticket) == 2


@pytest.mark.parametrize("is_shared", [False, True])
def test_who_hears_only_by_its_own_heartbeats_waits_for_those_who_do_too(is_shared: bool) -> None:
    world = World()
    one, two = world.member(), world.member()
    first, second = TP, TopicPartition("t", 1)
    world.tell(0, msg.Assigned({first: 5}, 1))
    world.tell(1, msg.Assigned({second: 5}, 1))
    world.wait(300)
    world.tell(1, msg.Revoke(9, (second,)))
    world.wait(2_500)
    world.join(one)
    world.ask(SyncRequest("g", one, 2), is_shared=is_shared)
    world.wait(20)
    ticket = world.tickets
    assert (ticket in world.answers) is not is_shared
    world.join(two)
    world.tell(0, msg.Assigned({second: 5}, 2))
    world.wait(300)
    given = world.answers[ticket]
    assert isinstance(given, SyncAnswer) and len(given.partitions) == (2 if is_shared else 1)


def test_who_hears_only_by_its_own_heartbeats_asks_again_once_while_others_move() -> None:
    world = World()
    one, _ = world.member(), world.member()
    world.tell(0, msg.Assigned({TP: 5}, 1))
    world.tell(1, msg.Assigned({TopicPartition("t", 1): 5}, 1))
    world.wait(300)
    world.join(one)
    world.ask(SyncRequest("g", one, 2), is_shared=True)
    world.wait(300)
    beat = HeartbeatRequest("g", one, 2)
    assert world.ask(beat, is_shared=True) == BeatAnswer(WireCode.NONE)
    world.tell(1, msg.Revoke(9, (TopicPartition("t", 1),)))
    assert world.ask(beat, is_shared=True) == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)
    world.wait(10)
    world.join(one)
    world.ask(SyncRequest("g", one, 3), is_shared=True)
    world.wait(1_000)
    beat = HeartbeatRequest("g", one, 3)
    last = world.ask(beat, is_shared=True)
    assert last == BeatAnswer(WireCode.NONE), "who is stuck is waited for no more"


def test_who_is_patient_does_not_wait_for_one_that_is_stuck() -> None:
    world = World()
    one, _ = world.member(), world.member()
    world.tell(0, msg.Assigned({TP: 5}, 1))
    world.tell(1, msg.Assigned({TopicPartition("t", 1): 5}, 1))
    world.wait(300)
    world.tell(1, msg.Revoke(9, (TopicPartition("t", 1),)))
    world.join(one)
    assert world.ask(SyncRequest("g", one, 2), is_shared=True) is None
    ticket = world.tickets
    world.wait(WireTimes().patient_ms)
    assert isinstance(world.answers.get(ticket), SyncAnswer)


def test_when_the_gateway_ends_everybody_leaves() -> None:
    world = World()
    member = world.member()
    world.tell(0, msg.Assigned({TP: 5}, 1))
    world.wait(300)
    world.groups.close()
    world.run()
    assert world.groups.finished and world.agents[0].finished
    assert world.ask(HeartbeatRequest("g", member, 1)) == BeatAnswer(WireCode.NOT_COORDINATOR)


def test_a_parked_sync_ends_with_its_clients_connection() -> None:
    world = World()
    joined = world.join(world.join().member_id)
    assert world.ask(SyncRequest("g", joined.member_id, joined.generation)) is None
    ticket = world.tickets
    world.groups.disconnected(1)
    assert ticket in world.answers


def test_a_negative_offset_is_refused() -> None:
    world = World()
    member = world.member()
    world.tell(0, msg.Assigned({TP: 5}, 1))
    world.wait(300)
    answer = world.ask(CommitRequest("g", member, 1, {TP: (-1, "")}))
    assert answer == CommitAnswer(WireCode.NONE, {TP: WireCode.INVALID_REQUEST})


def test_a_heartbeat_does_not_stand_in_the_way_of_fetches_on_its_connection() -> None:
    world = World()
    member_id = world.member()
    world.tell(0, msg.Assigned({TopicPartition("t", 0): 0}, 1))
    world.wait(5_000)
    beat = HeartbeatRequest("g", member_id, 1)
    assert world.ask(beat) is None
    assert world.ask(beat, is_shared=True) == BeatAnswer(WireCode.NONE)


def test_who_shares_no_assignor_with_its_group_is_told_so_for_a_while() -> None:
    """With its first SyncGroup, and where it joins again under its id: some libraries say it to
    their applications only then.
    """
    world = World()
    member = world.member()
    ticket = world.tickets
    why = "the group uses sticky"
    world.tell(0, msg.Failed(msg.FailureCode.REJECTED, why, "INCONSISTENT_GROUP_PROTOCOL"))
    code = WireCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.answers[ticket] == SyncAnswer(code)
    assert world.join(member).code is code and world.groups.groups == {}
    world.wait(AWAY_MS)
    assert world.join(member).code is WireCode.UNKNOWN_MEMBER_ID
