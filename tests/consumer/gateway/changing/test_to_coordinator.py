"""Members of a client-led group that come over to the coordinator: what they are answered, and when
they go on. Before a model of ZooKeeper with a coordinator that leads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from consumer.gateway.changing import to_coordinator
from consumer.gateway.changing.to_coordinator import can_come_over
from consumer.gateway.client_led import entrance, waiting
from consumer.gateway.wire.requests import (
    Caller,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
)
from consumer.gateway.wire.subscription import encode_subscription
from tests.consumer.gateway.client_led.led_side import TP, LedGateway
from tests.consumer.gateway.client_led.test_entrance import Door, pins
from tests.consumer.gateway.client_led.test_members import SESSION_MS, Scene
from tests.zk.classic.served_side import GROUP
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.classic.pin import Machine, Pin

COOPERATIVE, EAGER = "cooperative-sticky", "range"
OURS, LED = Pin(Machine.COORDINATED), Pin(Machine.CLIENT_LED)


def asks(
    name: str, member_id: str = "", *owned: TopicPartition, instance: str | None = None
) -> Any:
    """JoinGroup of a consumer."""
    protocols = ((name, encode_subscription(["t"], owned)),)
    return JoinRequest(
        GROUP, member_id, SESSION_MS, SESSION_MS, "consumer", protocols, instance, named_first=False
    )


class Change:
    """Members of known assignors, which a client leads, through two gateways."""

    def __init__(
        self,
        name: str = COOPERATIVE,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (),
    ) -> None:
        self.scene = Scene(0)
        self.scene.served.registered.clear()
        self.name = name
        pins(self.scene, GROUP, LED)
        self.doors = [Door(LedGateway(self.scene.served, f"g{n}", 600_000)) for n in range(2)]
        self.scene.gateways.extend(door.gateway for door in self.doors)
        joins = [asks(name, instance=instance if n else None) for n in range(2)]
        if protocols:
            joins = [replace(one, protocols=protocols) for one in joins]
        tickets = [self._ask(n, joins[n]) for n in range(2)]
        self.scene.wait(3_000)
        answers: list[Any] = [self.answer(n, ticket) for n, ticket in enumerate(tickets)]
        self.ids = [one.member_id for one in answers]
        self.generation = answers[0].generation
        leads = next(n for n in range(2) if answers[n].members)
        given = tuple((member_id, b"a") for member_id in self.ids)
        for n in (leads, 1 - leads):
            self._ask(n, SyncRequest(GROUP, self.ids[n], self.generation, assignments=given))
        self.scene.wait(100)

    def _ask(self, n: int, request: Any, connection: int = 9) -> int:
        door = self.doors[n]
        door.gateway.tickets += 1
        ticket = door.gateway.tickets
        door.entrance.request(ticket, Caller(connection, f"c{n}", "host", "lib 1"), request)
        self.scene.wait(100)
        return ticket

    def ask(self, n: int, request: Any, connection: int = 9) -> Any:
        """A request through a gateway, and its answer, if there is one yet."""
        return self.answer(n, self._ask(n, request, connection))

    def comes(self, n: int, request: JoinRequest, connection: int = 9) -> int:
        """A member joins with nothing: it is told that it is none, and comes as somebody new."""
        assert self.ask(n, request, connection).code is WireCode.UNKNOWN_MEMBER_ID
        return self._ask(n, replace(request, member_id=""), connection)

    def answer(self, n: int, ticket: int) -> Any:
        """What was answered."""
        return self.doors[n].gateway.answers.get(ticket)

    def says(self, pin: Pin | None) -> None:
        """An operator's word."""
        pins(self.scene, GROUP, None)
        if pin is not None:
            pins(self.scene, GROUP, pin)
        self.scene.wait(100)

    def to_wire(self, n: int) -> list[Any]:
        """What has gone on to the coordinator's groups."""
        return [request for _, request in self.doors[n].wire.came]


def test_all_are_told_to_join_again_at_once() -> None:
    change = Change()
    beat = HeartbeatRequest(GROUP, change.ids[0], change.generation)
    ticket = change._ask(0, beat)
    assert change.answer(0, ticket) is None, "it is parked"
    change.says(OURS)
    assert change.answer(0, ticket).code is WireCode.REBALANCE_IN_PROGRESS
    assert change.ask(0, beat).code is WireCode.REBALANCE_IN_PROGRESS
    change.says(None)
    assert change.ask(0, beat) is None


def test_who_owns_something_gives_it_up_in_its_generation() -> None:
    change = Change()
    change.says(OURS)
    one = change.ids[0]
    answer = change.ask(0, asks(COOPERATIVE, one, TP))
    assert answer == JoinAnswer(WireCode.NONE, one, change.generation, COOPERATIVE)
    sync = SyncRequest(GROUP, one, change.generation)
    assert change.ask(0, sync) == SyncAnswer(WireCode.NONE, (), COOPERATIVE)
    assert change.ask(0, sync).opaque == b"a", "once: who asks again is answered as by a broker"
    assert change.to_wire(0) == []


def test_who_lists_a_cooperative_assignor_of_its_own_gives_up_in_its_generation() -> None:
    """Taken for somebody who has stopped it would be told that it is nobody, and until then consume
    what others are given. The blob of the assignor as which it was told what it has says that.
    """

    def lists(own: TopicPartition | None, known: TopicPartition | None) -> JoinRequest:
        blobs = [encode_subscription(["t"], filter(None, [one])) for one in (own, known)]
        protocols = tuple(zip(("own", COOPERATIVE), blobs, strict=True))
        return replace(asks(COOPERATIVE), protocols=protocols)

    change = Change("own", protocols=lists(None, None).protocols)
    change.says(OURS)
    one = change.ids[0]
    answer = change.ask(0, replace(lists(TP, None), member_id=one))
    assert answer == JoinAnswer(WireCode.NONE, one, change.generation, COOPERATIVE)
    sync = SyncRequest(GROUP, one, change.generation)
    assert change.ask(0, sync) == SyncAnswer(WireCode.NONE, (), COOPERATIVE)
    change.comes(0, replace(lists(TP, None), member_id=one))


def test_who_gives_up_nothing_is_out() -> None:
    """A client that does not listen keeps the others waiting no longer than this."""
    change = Change()
    change.says(OURS)
    one = change.ids[0]
    for _ in range(to_coordinator.TOLD_MAX):
        for _ in range(2):  # as often as its connection is lost
            assert change.ask(0, asks(COOPERATIVE, one, TP)).code is WireCode.NONE
        sync = SyncRequest(GROUP, one, change.generation)
        assert change.ask(0, sync) == SyncAnswer(WireCode.NONE, (), COOPERATIVE)
    assert change.ask(0, asks(COOPERATIVE, one, TP)).code is WireCode.UNKNOWN_MEMBER_ID
    change.scene.wait(100)
    assert change.ask(1, HeartbeatRequest(GROUP, one, 1)).code is WireCode.UNKNOWN_MEMBER_ID


def test_nobody_joins_before_all_have_left() -> None:
    change = Change()
    change.says(OURS)
    tickets = [change.comes(0, asks(COOPERATIVE, change.ids[0]))]
    assert change.answer(0, tickets[0]) is None and change.to_wire(0) == []
    new = asks(COOPERATIVE)
    change._ask(0, new, 10)
    assert change.to_wire(0) == []
    change.comes(1, asks(COOPERATIVE, change.ids[1]))
    assert change.to_wire(1) == [asks(COOPERATIVE)], "as somebody new"
    assert change.to_wire(0) == [asks(COOPERATIVE), new]
    assert not change.doors[0].gateway.led.groups


def test_an_eager_client_has_stopped_when_it_joins() -> None:
    change = Change(EAGER)
    change.says(OURS)
    for n in range(2):
        change.comes(n, asks(EAGER, change.ids[n], TP))
    assert [change.to_wire(n) for n in range(2)] == [[asks(EAGER, "", TP)]] * 2


def test_who_can_be_given_another_id_first_waits_with_its_own() -> None:
    """To be told that it is nobody costs a client of librdkafka two seconds."""
    change = Change()
    change.says(OURS)
    ticket = change._ask(0, replace(asks(COOPERATIVE, change.ids[0]), named_first=True))
    assert change.answer(0, ticket) is None
    new = replace(asks(COOPERATIVE), named_first=True)
    change._ask(1, asks(COOPERATIVE, change.ids[1]))
    assert change.to_wire(0) == [new], "which is answered MEMBER_ID_REQUIRED there"


def test_an_instance_comes_by_its_name_alone() -> None:
    change = Change(instance="i")
    change.says(OURS)
    change._ask(1, asks(COOPERATIVE, "", instance="i"))
    change.comes(0, asks(COOPERATIVE, change.ids[0]))
    assert change.to_wire(1) == [asks(COOPERATIVE, instance="i")]


def test_who_is_silent_is_out_after_its_session_timeout() -> None:
    change = Change()
    change.says(OURS)
    change.comes(0, asks(COOPERATIVE, change.ids[0]))
    change.scene.wait(SESSION_MS + 1_000)
    assert change.to_wire(0) == [asks(COOPERATIVE)]


def test_taken_back_they_join_the_group_of_their_leader() -> None:
    change = Change()
    change.says(OURS)
    ticket = change.comes(0, asks(COOPERATIVE, change.ids[0]))
    change.says(None)
    change._ask(1, asks(COOPERATIVE, change.ids[1]))
    change.scene.wait(3_000)
    assert change.answer(0, ticket).code is WireCode.NONE
    assert change.to_wire(0) == []


def test_who_waits_goes_with_its_connection_and_with_the_gateway() -> None:
    change = Change()
    change.says(OURS)
    gone = change.comes(0, asks(COOPERATIVE, change.ids[0]))
    stays = change._ask(0, asks(COOPERATIVE), 10)
    change.doors[0].entrance.disconnected(9)
    assert change.answer(0, gone).code is WireCode.NOT_COORDINATOR
    assert change.answer(0, stays) is None
    change.doors[0].entrance.close()
    assert change.answer(0, stays).code is WireCode.NOT_COORDINATOR
    assert not change.doors[0].gateway.led.groups


def test_many_that_wait_are_bounded_and_go_each_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that closes is no work of what waits for others: 4,000 of them took 21 s."""
    monkeypatch.setattr(waiting, "WAITING_MAX", 3)
    change = Change()
    change.says(OURS)
    waits = [change._ask(0, asks(COOPERATIVE), connection) for connection in (10, 10, 11)]
    full = change.ask(0, asks(COOPERATIVE), 12)
    assert full.code is WireCode.COORDINATOR_LOAD_IN_PROGRESS
    change.doors[0].entrance.disconnected(10)
    codes = [one and one.code for one in (change.answer(0, ticket) for ticket in waits)]
    assert codes == [WireCode.NOT_COORDINATOR] * 2 + [None]
    assert change.ask(0, asks(COOPERATIVE), 12) is None, "there is room again"
    for n, member_id in enumerate(change.ids):
        change.comes(n, asks(COOPERATIVE, member_id), 13)
    assert change.to_wire(0) == [asks(COOPERATIVE)] * 3


def test_who_cannot_come_over_is_refused_when_it_is_new() -> None:
    change = Change()
    change.says(OURS)
    answer = change.ask(0, asks("own"), 10)
    assert answer.code is WireCode.INCONSISTENT_GROUP_PROTOCOL
    unknown = change.ask(0, asks(COOPERATIVE, "nobody"), 10)
    assert unknown.code is WireCode.UNKNOWN_MEMBER_ID
    named = change.ask(0, asks("own", change.ids[0]))
    assert named is None or named.code is not WireCode.NONE, "a member's is its machine's"


MEMBER = ClassicMember("m", None, "c", "h", 1, 1, ((EAGER, b""),))


@pytest.mark.parametrize(
    ("kind", "lists", "can"),
    [
        ("consumer", [EAGER], True),
        ("consumer", [COOPERATIVE], False),
        ("consumer", ["own", COOPERATIVE, EAGER], True),
        ("consumer", ["own"], False),
        ("connect", [EAGER], False),
    ],
)
def test_which_groups_can_come_over(kind: str, lists: list[str], can: bool) -> None:
    member = replace(MEMBER, protocols=tuple((name, b"") for name in lists))
    state = ClassicState(ClassicPhase.STABLE, 1, kind, members=(MEMBER, member))
    assert can_come_over(state) is can


def test_whether_a_group_can_come_over_is_judged_when_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not for each request: of a group that cannot, it would be all its members each time."""
    change = Change()
    judged: list[ClassicState] = []

    def cannot(state: ClassicState) -> bool:
        judged.append(state)
        return False

    monkeypatch.setattr(entrance, "can_come_over", cannot)
    change.says(OURS)
    before = len(judged)
    assert before
    for _ in range(3):
        change.ask(0, HeartbeatRequest(GROUP, change.ids[0], change.generation))
    assert len(judged) == before
