"""Clients of client-led groups that go, come back, come to another gateway; gateways and
coordinators that are gone for a while.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from consumer.gateway.client_led import asking, watching
from consumer.gateway.client_led.member import COMES_MS, LedMember, WaitingOffsets
from consumer.gateway.wire.requests import (
    CommitAnswer,
    CommitRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    MayCommitRequest,
    SyncRequest,
)
from tests.consumer.gateway.client_led.led_side import TIMES, TP, LedGateway
from tests.core.classic.scenario import OPTIONS
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.zk.classic.blobs import parts_of
from zkcoord.zk.port import Delete, SetData

SESSION_MS = 10_000
MOMENT_MS = 50


class Scene:
    """Gateways with clients, each on a connection of its own, before one coordinator."""

    def __init__(self, gateways: int = 1, session_ms: int = 600_000) -> None:
        self.served = ServedSide(OPTIONS)
        self.gateways = [LedGateway(self.served, f"g{n}", session_ms) for n in range(gateways)]
        self.ids: dict[int, str] = {}
        self.generation = -1

    @property
    def one(self) -> LedGateway:
        """The first gateway."""
        return self.gateways[0]

    def wait(self, ms: int) -> None:
        """Time passes."""
        until = self.served.kernel.now + ms
        while True:
            groups = self.served.groups
            wakes = [until, *(one.next_wake_ms() for one in self.gateways)]
            wakes.append(groups.next_wake_ms() if groups is not None else None)
            at_ms = min(one for one in wakes if one is not None)
            self.served.kernel.run_until(max(at_ms, self.served.kernel.now))
            for gateway in self.gateways:
                gateway.settle()
            if groups is not None:
                self.served.answer(0, False)
            if at_ms >= until:
                return

    def joins(self, client: int, gateway: LedGateway | None = None, **more: Any) -> int:
        """JoinGroup of a client, which has this number, and a connection of it; the ticket."""
        asked = JoinRequest(
            more.get("group", GROUP),
            self.ids.get(client, ""),
            SESSION_MS,
            SESSION_MS,
            "connect",
            (("own", f"m{client}".encode()),),
            more.get("instance"),
            named_first=False,
        )
        return (gateway or self.one).ask(asked, client)

    def form(self, *clients: int) -> None:
        """They are one generation, and have what the first one gives: their numbers."""
        tickets = {client: self.joins(client) for client in clients}
        self.wait(3 * OPTIONS.initial_delay_ms)
        for client, ticket in tickets.items():
            answer: Any = self.one.answers[ticket]
            assert answer.code is WireCode.NONE
            self.ids[client], self.generation = answer.member_id, answer.generation
        given = tuple((self.ids[client], str(client).encode()) for client in clients)
        tickets = {
            client: self.syncs(client, given if client == clients[0] else ()) for client in clients
        }
        self.wait(MOMENT_MS)
        for client, ticket in tickets.items():
            answer = self.one.answers[ticket]
            assert (answer.code, answer.opaque) == (WireCode.NONE, str(client).encode())

    def syncs(self, client: int, given: tuple[tuple[str, bytes], ...] = ()) -> int:
        """SyncGroup; the ticket."""
        asked = SyncRequest(GROUP, self.ids[client], self.generation, assignments=given)
        return self.one.ask(asked, client)

    def beats(
        self, client: int, gateway: LedGateway | None = None, parks: bool = False
    ) -> WireCode | None:
        """Heartbeat: what is answered at once."""
        gateway = gateway or self.one
        asked = HeartbeatRequest(GROUP, self.ids[client], self.generation)
        return self.code(gateway.ask(asked, client, parks), gateway)

    def code(self, ticket: int, gateway: LedGateway | None = None) -> WireCode | None:
        """What was answered."""
        answer = (gateway or self.one).answers.get(ticket)
        return None if answer is None else answer.code

    def requests(self) -> list[str]:
        """What is asked of the coordinator and was not taken away."""
        above = f"{PATHS.requests}/"
        return [path for path in self.served.zk.tree.nodes if path.startswith(above)]

    def presences(self) -> int:
        """How many members are said to be served."""
        above = f"{PATHS.presences(GROUP)}/"
        return sum(1 for path in self.served.zk.tree.nodes if path.startswith(above))


@pytest.fixture
def scene() -> Scene:
    """Two members of one gateway."""
    found = Scene(2)
    found.form(1, 2)
    return found


def test_nothing_is_left_of_what_was_answered(scene: Scene) -> None:
    assert scene.requests() == [] and scene.presences() == 2
    assert scene.one.led.groups[GROUP].asks == set()


def test_a_client_that_is_gone_is_out_after_the_grace(scene: Scene) -> None:
    scene.one.led.disconnected(2)
    scene.wait(TIMES.disconnect_grace_ms - MOMENT_MS)
    assert scene.beats(1) is WireCode.NONE
    scene.wait(2 * MOMENT_MS)
    assert scene.beats(1) is WireCode.REBALANCE_IN_PROGRESS
    assert scene.presences() == 1
    assert scene.beats(2) is WireCode.UNKNOWN_MEMBER_ID


def test_a_client_that_comes_back_in_time_is_in(scene: Scene) -> None:
    scene.one.led.disconnected(2)
    scene.wait(TIMES.disconnect_grace_ms - MOMENT_MS)
    assert scene.beats(2) is WireCode.NONE
    scene.wait(2 * TIMES.disconnect_grace_ms)
    assert scene.beats(1) is WireCode.NONE


def test_a_silent_client_is_out_after_its_session_timeout(scene: Scene) -> None:
    scene.wait(SESSION_MS // 2)
    assert scene.beats(1) is WireCode.NONE
    scene.wait(SESSION_MS // 2 - 3 * MOMENT_MS)
    assert scene.beats(1) is WireCode.NONE
    scene.wait(4 * MOMENT_MS)
    assert scene.beats(1) is WireCode.REBALANCE_IN_PROGRESS


def test_a_parked_heartbeat_is_answered_when_a_rebalance_begins(scene: Scene) -> None:
    asked = HeartbeatRequest(GROUP, scene.ids[1], scene.generation)
    ticket = scene.one.ask(asked, 1, parks=True)
    scene.wait(MOMENT_MS)
    assert scene.code(ticket) is None
    scene.joins(3)
    scene.wait(MOMENT_MS)
    assert scene.code(ticket) is WireCode.REBALANCE_IN_PROGRESS


def test_a_parked_heartbeat_gives_way_to_another_request(scene: Scene) -> None:
    asked = HeartbeatRequest(GROUP, scene.ids[1], scene.generation)
    first = scene.one.ask(asked, 1, parks=True)
    scene.wait(1_000)
    second = scene.one.ask(asked, 1, parks=True)
    assert scene.code(first) is WireCode.NONE and scene.code(second) is None
    scene.wait(SESSION_MS // 3 + MOMENT_MS)
    assert scene.code(second) is WireCode.NONE, "before its session timeout"


def test_a_client_goes_on_at_another_gateway(scene: Scene) -> None:
    one, other = scene.gateways
    assert scene.beats(2, other) is WireCode.NONE
    scene.wait(MOMENT_MS)
    assert list(one.led.groups[GROUP].members) == [scene.ids[1]]
    one.led.disconnected(2)
    scene.wait(2 * TIMES.disconnect_grace_ms)
    assert scene.beats(1) is WireCode.NONE, "the first gateway does not take it for gone"
    assert scene.beats(2, other) is WireCode.NONE
    other.led.disconnected(2)
    scene.wait(2 * TIMES.disconnect_grace_ms)
    assert scene.beats(1) is WireCode.REBALANCE_IN_PROGRESS, "the second one does"


def test_who_waits_at_one_gateway_and_comes_to_another_is_that_ones(scene: Scene) -> None:
    one, other = scene.gateways
    scene.joins(3)
    waits = scene.joins(2)
    scene.wait(MOMENT_MS)
    assert scene.code(waits) is None
    scene.joins(2, other)
    scene.wait(MOMENT_MS)
    assert scene.code(waits) is WireCode.REBALANCE_IN_PROGRESS
    assert scene.ids[2] not in one.led.groups[GROUP].members, "or it would be given up here"
    assert scene.ids[2] in other.led.groups[GROUP].members


def test_who_joins_and_closes_its_connection_is_not_waited_for(scene: Scene) -> None:
    ticket = scene.joins(3)
    scene.wait(MOMENT_MS)
    assert scene.beats(1) is WireCode.REBALANCE_IN_PROGRESS
    scene.one.led.disconnected(3)
    assert scene.code(ticket) is WireCode.NOT_COORDINATOR, "which nobody hears"
    again = [scene.joins(client) for client in (1, 2)]
    scene.wait(MOMENT_MS)
    answers: list[Any] = [scene.one.answers[one] for one in again]
    assert [one.code for one in answers] == [WireCode.NONE] * 2
    assert {name for name, _, _ in answers[0].members} == {scene.ids[1], scene.ids[2]}
    assert scene.requests() == []


def test_a_join_that_waits_is_asked_again_on_a_new_session() -> None:
    scene = Scene(session_ms=1_000)
    ticket = scene.joins(1)
    old = scene.requests()
    assert len(old) == 1
    scene.served.zk.end_session(scene.one.session.session_id)
    scene.wait(MOMENT_MS)
    scene.wait(3 * OPTIONS.initial_delay_ms)
    assert scene.code(ticket) is WireCode.NONE
    scene.wait(MOMENT_MS)
    assert scene.presences() == 1 and scene.requests() == []


def test_without_a_coordinator_a_request_is_refused_in_time(scene: Scene) -> None:
    assert scene.served.groups is not None
    scene.served.groups.lost()
    scene.served.groups = None
    ticket = scene.one.ask(LeaveRequest(GROUP, ((scene.ids[2], None),)), 2)
    scene.wait(5_000)
    assert scene.beats(1) is scene.beats(2) is WireCode.NONE, "what was decided stays"
    assert scene.code(ticket) is None
    scene.wait(6_000)
    assert scene.code(ticket) is WireCode.COORDINATOR_NOT_AVAILABLE
    assert scene.requests() == []


def test_a_commit_is_judged_again_when_the_state_has_changed(scene: Scene) -> None:
    def rebalanced() -> None:
        """Member 2 leaves, and 1 is the next generation, before the commit is stored."""
        scene.one.stored.before = lambda: None
        scene.one.ask(LeaveRequest(GROUP, ((scene.ids[2], None),)), 2)
        scene.joins(1)
        scene.wait(MOMENT_MS)

    scene.one.stored.before = rebalanced
    asked = CommitRequest(GROUP, scene.ids[1], scene.generation, {TP: (7, "")})
    ticket = scene.one.ask(asked, 1)
    scene.wait(MOMENT_MS)
    assert scene.code(ticket) is WireCode.ILLEGAL_GENERATION
    assert scene.one.stored.offsets == {}


def may(scene: Scene, client: int, gateway: LedGateway | None = None, **more: Any) -> int:
    """Whether a member may commit to Kafka: the ticket."""
    generation = more.pop("generation", scene.generation)
    asked = MayCommitRequest(GROUP, scene.ids[client], generation, **more)
    return (gateway or scene.one).ask(asked, client)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_who_may_commit_to_kafka(scene: Scene, in_transaction: bool) -> None:
    kind = {"in_transaction": in_transaction}
    assert scene.code(may(scene, 1, **kind)) is WireCode.NONE
    scene.ids[3] = "nobody"
    assert scene.code(may(scene, 3, **kind)) is WireCode.UNKNOWN_MEMBER_ID
    later = may(scene, 1, generation=scene.generation + 1, **kind)
    assert scene.code(later) is WireCode.ILLEGAL_GENERATION
    instance = may(scene, 1, instance="i", **kind)
    assert scene.code(instance) is WireCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("in_transaction", [False, True])
def test_what_may_be_committed_to_kafka_is_read_anew(scene: Scene, in_transaction: bool) -> None:
    """The gateway has not heard yet that the group has gone on without it."""
    port = scene.one.session.port
    assert port is not None
    real = port.sync

    def sync(done: Any) -> None:
        """Before it is answered, member 2 leaves, and 1 is the next generation."""
        other = scene.gateways[1]
        other.ask(LeaveRequest(GROUP, ((scene.ids[2], None),)), 2)
        scene.joins(1, other)
        real(done)

    port.sync = sync  # type: ignore[method-assign]
    ticket = may(scene, 1, in_transaction=in_transaction)
    scene.wait(MOMENT_MS)
    assert scene.code(ticket) is WireCode.ILLEGAL_GENERATION


def test_without_zookeeper_nobody_may_commit_to_kafka(scene: Scene) -> None:
    scene.one.led.watching._port = None
    assert scene.code(may(scene, 1)) is WireCode.COORDINATOR_NOT_AVAILABLE


def test_what_a_member_commits_that_has_just_come_must_not_go_back(scene: Scene) -> None:
    """It may be of a connection that nobody has closed, and its client further at another gateway
    (simulator, change 3232).
    """
    one, other = scene.gateways

    def commits(client: int, gateway: LedGateway) -> bool:
        asked = CommitRequest(GROUP, scene.ids[client], scene.generation, {TP: (7, "")})
        gateway.ask(asked, client)
        scene.wait(MOMENT_MS)
        return gateway.stored.forward[-1]

    assert not commits(2, one), "it was given its id here"
    assert commits(2, other)
    scene.beats(2, other)
    scene.wait(COMES_MS)
    assert not commits(2, other)


def test_commits_of_a_member_are_stored(scene: Scene) -> None:
    asked = CommitRequest(GROUP, scene.ids[1], scene.generation, {TP: (7, "why")})
    ticket = scene.one.ask(asked, 1)
    scene.wait(MOMENT_MS)
    answer: Any = scene.one.answers[ticket]
    assert (answer.code, answer.others) == (WireCode.NONE, {TP: WireCode.NONE})
    assert scene.one.stored.offsets == {TP: (7, "why")}


def test_a_commit_that_meets_a_defect_is_answered_and_told_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks() -> None:
        raise RuntimeError("broken")

    scene.one.stored.before = breaks
    for _ in range(2):
        asked = CommitRequest(GROUP, scene.ids[1], scene.generation, {TP: (7, "")})
        ticket = scene.one.ask(asked, 1)
        scene.wait(MOMENT_MS)
        answer: Any = scene.one.answers[ticket]
        assert answer.code is WireCode.NONE
        assert answer.others == {TP: WireCode.UNKNOWN_SERVER_ERROR}
    assert sum("by a defect" in record.message for record in caplog.records) == 1
    scene.one.stored.before = lambda: None
    ticket = scene.one.ask(asked, 1)
    scene.wait(MOMENT_MS)
    assert scene.one.stored.offsets == {TP: (7, "")}, "the next one is stored"


def test_requests_are_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ASKS_MAX", 1)
    first, second = scene.joins(3), scene.joins(4)
    assert scene.code(first) is None
    assert scene.code(second) is WireCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_gateway_that_ends_sends_its_clients_to_others(scene: Scene) -> None:
    one, other = scene.gateways
    beats = one.ask(HeartbeatRequest(GROUP, scene.ids[1], scene.generation), 1, parks=True)
    joins = scene.joins(3, group="another")
    scene.wait(MOMENT_MS)
    assert scene.code(beats) is scene.code(joins) is None
    one.led.close()
    one.session.close()
    assert scene.code(beats) is scene.code(joins) is WireCode.NOT_COORDINATOR
    scene.wait(MOMENT_MS)
    assert scene.presences() == 0 and not one.led.groups
    assert scene.beats(1, other) is WireCode.NONE


def test_a_static_member_is_kept_for_its_session_timeout() -> None:
    scene = Scene()
    ticket = scene.joins(1, instance="one")
    scene.wait(3 * OPTIONS.initial_delay_ms)
    assert scene.code(ticket) is WireCode.NONE
    scene.one.led.disconnected(1)
    scene.wait(2 * TIMES.disconnect_grace_ms)
    assert scene.presences() == 1
    scene.wait(SESSION_MS)
    assert scene.presences() == 0


def test_a_commit_that_is_overtaken_again_and_again_is_to_be_sent_again(scene: Scene) -> None:
    scene.one.stored.overtaken = True
    asked = CommitRequest(GROUP, scene.ids[1], scene.generation, {TP: (7, "")})
    ticket = scene.one.ask(asked, 1)
    scene.wait(MOMENT_MS)
    assert scene.code(ticket) is WireCode.COORDINATOR_LOAD_IN_PROGRESS


def test_what_is_no_partition_is_not_stored(scene: Scene) -> None:
    wrong = TopicPartition("../t", 0)
    asked = CommitRequest(GROUP, scene.ids[1], scene.generation, {TP: (7, ""), wrong: (1, "")})
    ticket = scene.one.ask(asked, 1)
    scene.wait(MOMENT_MS)
    answer: Any = scene.one.answers[ticket]
    assert answer.others == {TP: WireCode.NONE, wrong: WireCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert list(scene.one.stored.offsets) == [TP]


def test_a_request_that_is_deleted_each_time_is_given_up(scene: Scene) -> None:
    assert scene.served.groups is not None
    scene.served.groups.lost()
    scene.served.groups = None
    ticket = scene.one.ask(LeaveRequest(GROUP, ((scene.ids[2], None),)), 2)
    for _ in range(asking.LOST_MAX):
        assert scene.code(ticket) is None
        (path,) = scene.requests()
        scene.served.write([Delete(path)])
        scene.wait(MOMENT_MS)
    (path,) = scene.requests()
    scene.served.write([Delete(path)])
    scene.wait(MOMENT_MS)
    assert scene.code(ticket) is WireCode.COORDINATOR_NOT_AVAILABLE


def test_what_was_answered_takes_no_room(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ASKS_BYTES_MAX", 500)
    stranger = LeaveRequest(GROUP, (("stranger", None),))
    for _ in range(10):
        assert scene.code(scene.one.ask(stranger, 5)) is not WireCode.COORDINATOR_LOAD_IN_PROGRESS
        scene.wait(MOMENT_MS)


def test_what_is_gone_is_of_a_generation_that_is_over(scene: Scene) -> None:
    ref = scene.one.led.groups[GROUP].view.state.members[0].assignment
    assert isinstance(ref, BlobRef)
    read: list[object] = []
    scene.one.led.watching.blobs(GROUP, [ref], read.append)
    scene.one.led.watching.blobs(GROUP, [replace(ref, size=ref.size + 1)], read.append)
    scene.served.write([Delete(PATHS.blob(GROUP, ref.digest))])
    scene.one.led.watching.blobs(GROUP, [ref], read.append)
    scene.wait(MOMENT_MS)
    assert read == [{ref.digest: b"1"}, None, None]


def test_what_somebody_else_has_written_is_not_what_a_client_has_brought(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client is told it, of the same size or not, and the log says which node to delete."""
    ref = scene.one.led.groups[GROUP].view.state.members[0].assignment
    assert isinstance(ref, BlobRef)
    path = PATHS.blob(GROUP, ref.digest)
    read: list[object] = []
    # who leads would delete it
    monkeypatch.setattr(scene.served.groups, "fired", lambda event: True)
    with caplog.at_level(logging.WARNING, watching.__name__):
        for data in (b"x" * ref.size, b"junk"):
            scene.served.write([SetData(path, data, -1)])
            scene.one.led.watching.blobs(GROUP, [ref], read.append)
            scene.wait(MOMENT_MS)
    assert read == [None, None]
    assert caplog.text.count(f"{path} is not what a client has brought: delete that node") == 1


def test_what_is_read_at_once_is_bounded() -> None:
    refs = [BlobRef(str(n), 200_000) for n in range(5)]
    assert [len(part) for part in parts_of(refs)] == [2, 2, 1]
    assert [len(part) for part in parts_of([BlobRef(str(n), 1) for n in range(501)])] == [500, 1]


def test_a_commit_is_not_stored_whose_connection_is_gone() -> None:
    """Its client may have committed more at another gateway since (simulator, change 3232)."""
    member = LedMember("g", "m", None, SESSION_MS, TIMES)
    asked = CommitRequest("g", "m", 1, {TP: (1, "")})
    for connection in (1, 2):
        member.heard(0, connection)
        member.commits.append(WaitingOffsets(connection, connection, asked, {}))
    member.disconnected(0, 1)
    assert member.take() == [(1, CommitAnswer(WireCode.NOT_COORDINATOR))]
    assert [one.connection for one in member.commits] == [2]
