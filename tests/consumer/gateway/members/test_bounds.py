"""What strangers and odd clients can make a gateway keep, make or move: nothing that the others
notice.
"""

from __future__ import annotations

from dataclasses import replace

from consumer.core import messages as msg
from consumer.gateway.wire.requests import (
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    LeaveAnswer,
    LeaveRequest,
)
from consumer.gateway.wire.subscription import encode_subscription
from tests.consumer.gateway.members.test_groups import TP, World
from tests.consumer.gateway.members.test_handing_over import CLIENT, Remembering
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.gateway_nodes import RememberedClient, decode_client, encode_client

SESSION_MS = 1_800_000
TIMES = 50


def test_who_has_left_is_not_kept_for_its_connection() -> None:
    """Each further request on it looks at all of them."""
    world = World()
    for _ in range(TIMES):
        member = world.member()
        world.ask(LeaveRequest("g", ((member, None),)))
    kept = sum(map(len, world.groups._of_connection.values()))
    assert kept <= 2, f"{kept} members of which none is left"


def test_connections_that_are_gone_are_not_kept_of_a_member() -> None:
    """Clients come back on new ones for as long as they live."""
    world = World()
    member = world.member()
    for connection in range(2, TIMES):
        world.ask(HeartbeatRequest("g", member, 1), connection)
        world.groups.disconnected(connection)
    assert world.groups.groups["g"].members[member].connections == {1}


def test_who_names_one_member_wrongly_and_another_one_rightly_removes_that_one() -> None:
    """As an operator does, who removes static members by their names."""
    memory = Remembering(replace(CLIENT, instance="elsewhere"))
    world = World(memory=memory)
    here = world.member()
    answer = world.ask(LeaveRequest("g", (("bogus", "elsewhere"), (here, None))))
    assert answer == LeaveAnswer(
        WireCode.NONE, (WireCode.UNKNOWN_MEMBER_ID, WireCode.NONE)
    ) and here not in {wire.member_id for wire, _ in world.groups.agents("g")}


def test_an_agent_is_not_made_for_each_time_that_a_client_names_other_assignors() -> None:
    """Each is a session with ZooKeeper and a thread."""
    world = World()
    member = world.member()
    for n in range(TIMES):
        name = ("range", "roundrobin")[n % 2]
        joined = world.join(member, protocols=((name, encode_subscription(["t"])),))
        assert isinstance(joined, JoinAnswer)
    assert len(world.agents) < TIMES / 2


def test_what_wakes_a_member_later_is_not_kept_for_each_of_its_requests() -> None:
    """With a session timeout of half an hour each request leaves something for half an hour."""
    world = World()
    world.member()  # whose time is over sooner
    member = world.member(session_timeout_ms=SESSION_MS)
    world.wait(3_000)  # until its first SyncGroup is answered
    for _ in range(1_000):
        world.wait(1)
        world.ask(HeartbeatRequest("g", member, 99))
    assert len(world.groups._wakes) < 100


def test_a_commit_does_not_overtake_one_of_its_connection_that_is_looked_for() -> None:
    """A heartbeat, a commit and another one of a client that comes from another gateway: the first
    commit is still looked for when the second one comes.
    """
    memory = Remembering(CLIENT)
    memory.holds = True
    world = World(memory=memory)
    world.ask(HeartbeatRequest("g", "m", 4))
    world.ask(CommitRequest("g", "m", 4, {TP: (5, "")}))
    memory.let_go()
    world.run()
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.ask(CommitRequest("g", "m", 4, {TP: (7, "")}))
    memory.let_go()
    world.run()
    stored = [m.offsets[TP] for m in world.agents[0].told if isinstance(m, msg.Commit)]
    assert stored == [5, 7]


def test_who_names_the_instance_of_another_client_moves_nobody_here() -> None:
    """Another gateway serves it: who has not its member id is fenced, and that is all."""
    world = World(memory=Remembering(replace(CLIENT, instance="i")))
    answer = world.ask(HeartbeatRequest("g", "bogus", 4, "i"))
    assert answer is not None and answer.code is WireCode.FENCED_INSTANCE_ID
    assert world.agents == [], "who is served elsewhere is registered here"


def test_what_is_remembered_of_a_client_can_be_read_whatever_it_is_called() -> None:
    """Kafka's client ids have up to 32,767 characters."""
    long = replace(CLIENT, client_id="x" * 1_001)
    assert isinstance(decode_client(long.node, encode_client(long)), RememberedClient)
