"""Which groups are led by clients, and which the coordinator assigns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer.gateway.client_led import waiting
from consumer.gateway.client_led.entrance import MembersEntrance
from consumer.gateway.client_led.waiting import SEEN_MS
from consumer.gateway.members.recalls import WaitingRequest
from consumer.gateway.wire.requests import (
    Answer,
    Caller,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    MayCommitRequest,
    Request,
)
from tests.consumer.gateway.client_led.led_side import TP, LedGateway
from tests.consumer.gateway.client_led.test_members import SESSION_MS, Scene
from tests.zk.classic.served_side import GROUP, PATHS
from zkcoord.core.error_codes import WireCode
from zkcoord.zk.port import Create, Delete
from zkcoord.znodes.classic.pin import Machine, Pin, encode_pin


class Wire:
    """Groups that the coordinator assigns: notes what comes."""

    def __init__(self, answer: Callable[[int, Answer], None]) -> None:
        self.answer = answer
        self.closing = False
        self.groups: dict[str, Any] = {}
        self.leaving: set[str] = set()
        self.came: list[tuple[int, Request]] = []
        self.others: list[int] = []
        self.not_here: Callable[[WaitingRequest], bool] = lambda waiting: False

    def request(self, ticket: int, caller: Caller, request: Request) -> None:
        """See `WireGroups`."""
        self.came.append((ticket, request))

    def is_leaving(self, group: str) -> bool:
        """The same."""
        return group in self.leaving

    def another_request(self, connection: int) -> None:
        """The same."""
        self.others.append(connection)

    def disconnected(self, connection: int) -> None:
        """The same."""


ALWAYS = ("etl",)


class Door:
    """An entrance of a gateway."""

    def __init__(self, gateway: LedGateway) -> None:
        self.gateway = gateway
        self.wire = Wire(gateway._answered)
        self.entrance = MembersEntrance(cast("Any", self.wire), gateway.led, ALWAYS.__contains__)

    def ask(self, request: Request, settles: bool = True) -> int:
        """A request; its ticket."""
        self.gateway.tickets += 1
        ticket = self.gateway.tickets
        self.entrance.request(ticket, Caller(9), request)
        if settles:
            self.gateway.settle()
        return ticket

    def to_wire(self, request: Request) -> bool:
        """Whether it goes to groups that the coordinator assigns."""
        before = len(self.wire.came)
        self.ask(request)
        return len(self.wire.came) > before


@pytest.fixture
def scene() -> Scene:
    """A group that a client leads."""
    found = Scene()
    found.form(1, 2)
    return found


@pytest.fixture
def door(scene: Scene) -> Door:
    """Of another gateway than its members'."""
    return Door(LedGateway(scene.served, "another"))


def join(group: str, kind: str, *names: str, member_id: str = "") -> JoinRequest:
    """JoinGroup with assignors."""
    protocols = tuple((name, b"") for name in names)
    return JoinRequest(group, member_id, SESSION_MS, SESSION_MS, kind, protocols)


@pytest.mark.parametrize(
    ("kind", "names", "to_wire"),
    [
        ("consumer", ("range",), True),
        ("consumer", ("own", "range"), True),
        ("consumer", ("own",), False),
        ("connect", ("range",), False),
        ("consumer", (), False),
    ],
)
def test_a_group_without_members_is_what_the_first_one_wants(
    door: Door, kind: str, names: tuple[str, ...], to_wire: bool
) -> None:
    assert door.to_wire(join("new", kind, *names)) is to_wire


def test_who_would_lead_a_group_waits_until_its_members_have_gone(door: Door) -> None:
    """Their clients have left: a broker's group would be empty by then."""
    door.wire.leaving.add("new")
    ticket = door.ask(join("new", "consumer", "own"))
    assert door.gateway.answers[ticket] == JoinAnswer(WireCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert door.to_wire(join("new", "consumer", "range"))
    door.wire.leaving.clear()
    ticket = door.ask(join("new", "consumer", "own"))
    answer = door.gateway.answers[ticket]
    assert isinstance(answer, JoinAnswer) and answer.code is WireCode.MEMBER_ID_REQUIRED


def test_a_group_whose_name_says_so_is_led_by_a_client_whatever_it_lists(door: Door) -> None:
    asked = [
        join(ALWAYS[0], "consumer", "range"),
        HeartbeatRequest(ALWAYS[0], "m", 1),
        MayCommitRequest(ALWAYS[0], "m", 1),
        LeaveRequest(ALWAYS[0], (("m", None),)),
    ]
    assert not any(map(door.to_wire, asked))
    door.wire.closing = True
    assert all(map(door.to_wire, asked)), "where all are refused"


def test_who_joins_a_group_that_a_client_leads_joins_that(door: Door) -> None:
    request = join(GROUP, "consumer", "range")
    ticket = door.ask(request)
    assert door.wire.came == []
    answer = door.gateway.answers[ticket]
    assert answer == JoinAnswer(WireCode.INCONSISTENT_GROUP_PROTOCOL), "its members are connect's"


def test_who_is_unknown_is_looked_for_once(door: Door, scene: Scene) -> None:
    known = HeartbeatRequest(GROUP, scene.ids[1], scene.generation)
    assert not door.to_wire(known), "it has come from another gateway"
    assert list(door.gateway.led.groups[GROUP].members) == [scene.ids[1]]
    assert door.to_wire(HeartbeatRequest("another", "m", 1))
    assert door.gateway.led.groups.keys() == {GROUP}, "nothing is kept of others"


def test_requests_about_a_group_keep_their_order(door: Door) -> None:
    asked: list[Request] = [
        HeartbeatRequest("other", "m", 1),
        CommitRequest("other", "m", 1, {TP: (1, "")}),
        LeaveRequest("other", (("m", None),)),
    ]
    for request in asked:
        door.ask(request, settles=False)
    assert door.wire.came == []
    door.gateway.settle()
    assert [request for _, request in door.wire.came] == asked


def test_members_that_the_coordinator_assigns_are_asked_at_once(door: Door) -> None:
    door.wire.groups["g"] = SimpleNamespace(
        members={"m": 1}, pending={}, instances={"i": "m"}, goes_over=False
    )
    asked: list[Request] = [
        HeartbeatRequest("g", "m", 1),
        join("g", "consumer", "range"),
        join("g", "connect", "own"),
        LeaveRequest("g", (("", "i"),)),
    ]
    for request in asked:
        door.ask(request, settles=False)
    assert [request for _, request in door.wire.came] == asked


def test_members_of_both_kinds_leave_each_its_own(door: Door, scene: Scene) -> None:
    """In a batch: an id that was given out before a client led the group, or a member that this
    gateway has not heard of yet that it is none.
    """
    door.wire.groups[GROUP] = SimpleNamespace(
        members={"w": 1}, pending={}, instances={"i": "w"}, goes_over=False
    )
    named = (("nobody", None), ("", "i"), (scene.ids[1], None))
    ticket = door.ask(LeaveRequest(GROUP, named, reasons=("a", "b", "c")))
    ((part, asked),) = door.wire.came
    assert asked == LeaveRequest(GROUP, named[1:2], reasons=("b",))
    assert ticket not in door.gateway.answers
    door.wire.answer(part, LeaveAnswer(WireCode.NONE, (WireCode.NONE,)))
    codes = WireCode.UNKNOWN_MEMBER_ID, WireCode.NONE, WireCode.NONE
    assert door.gateway.answers[ticket] == LeaveAnswer(WireCode.NONE, codes)
    beat = HeartbeatRequest(GROUP, scene.ids[1], scene.generation)
    assert door.gateway.answers[door.ask(beat)].code is WireCode.UNKNOWN_MEMBER_ID


def test_without_zookeeper_a_join_is_to_be_sent_again(scene: Scene, door: Door) -> None:
    door.gateway.session.close()
    door.gateway.settle()
    ticket = door.ask(join("new", "consumer", "range"))
    answer = door.gateway.answers[ticket]
    assert answer.code is WireCode.COORDINATOR_NOT_AVAILABLE
    assert door.to_wire(HeartbeatRequest("another", "m", 1)), "whose answer is not new"


def test_nothing_is_begun_for_a_connection_that_is_gone(door: Door) -> None:
    ticket = door.ask(join("new", "consumer", "range"), settles=False)
    later = door.ask(HeartbeatRequest("new", "m", 1), settles=False)
    door.entrance.disconnected(9)
    door.gateway.settle()
    assert door.wire.came == []
    assert {door.gateway.answers[one].code for one in (ticket, later)} == {WireCode.NOT_COORDINATOR}
    assert door.to_wire(HeartbeatRequest("new", "m", 1)), "others are served"


def test_requests_that_wait_are_bounded(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WAITING_MAX", 1)
    first, second = (door.ask(HeartbeatRequest("other", "m", 1), settles=False) for _ in range(2))
    assert first not in door.gateway.answers
    busy = WireCode.COORDINATOR_LOAD_IN_PROGRESS
    assert door.gateway.answers[second].code is busy
    third, fourth = (door.ask(join("new", "own", "own"), settles=False) for _ in range(2))
    assert third not in door.gateway.answers
    assert door.gateway.answers[fourth].code is busy
    door.gateway.settle()
    assert door.to_wire(HeartbeatRequest("other", "m", 1)), "there is room again"


def test_what_cannot_be_read_is_not_waited_for(door: Door) -> None:
    """The gateway has no connection when a client comes, and for longer than that may wait."""
    door.gateway.session.close()
    door.gateway.settle()
    ticket = door.ask(join("new", "connect", "own"))
    assert ticket not in door.gateway.answers
    kernel = door.gateway.side.kernel
    kernel.run_until(kernel.now + SEEN_MS)
    door.gateway.tick()
    assert door.gateway.answers[ticket].code is WireCode.COORDINATOR_NOT_AVAILABLE
    assert not door.gateway.led.groups


def pins(scene: Scene, group: str, pin: Pin | None) -> None:
    """An operator says who is to run a group."""
    tree, path = scene.served.zk.tree, PATHS.pin(group)
    if PATHS.pins not in tree.nodes:
        scene.served.write([Create(PATHS.pins, b"")])
    if pin is not None:
        scene.served.write([Create(path, encode_pin(pin))])
    else:
        scene.served.write([Delete(path)])


def test_a_group_that_is_pinned_is_led_by_clients_of_known_assignors(
    scene: Scene, door: Door
) -> None:
    assert door.to_wire(join("pinned", "consumer", "range"))
    pins(scene, "pinned", Pin(Machine.CLIENT_LED))
    assert not door.to_wire(join("pinned", "consumer", "range"))
    pins(scene, "pinned", None)
    assert door.to_wire(join("later", "consumer", "range"))


@pytest.mark.parametrize(
    ("names", "member_id", "instance", "to_wire"),
    [
        (("range",), "m", "i", True),
        (("range",), "m", None, True),
        (("range",), "", "i", False),
        (("own",), "m", "i", False),
    ],
)
def test_an_instance_that_comes_from_another_gateway_is_looked_for(
    scene: Scene,
    door: Door,
    names: tuple[str, ...],
    member_id: str,
    instance: str | None,
    to_wire: bool,
) -> None:
    pins(scene, "new", Pin(Machine.CLIENT_LED))
    asked = replace(join("new", "consumer", *names, member_id=member_id), instance=instance)
    assert door.to_wire(asked) is to_wire


@pytest.mark.parametrize(("instance", "is_led"), [(None, True), ("i", False)])
def test_who_is_at_no_gateway_has_its_id_of_the_group_that_clients_lead(
    scene: Scene, door: Door, instance: str | None, is_led: bool
) -> None:
    pins(scene, "new", Pin(Machine.CLIENT_LED))
    asked = replace(join("new", "consumer", "range", member_id="m"), instance=instance)
    waiting = WaitingRequest(1, Caller(9), asked, ())
    assert door.wire.not_here(waiting) is is_led
    door.gateway.settle()
    answer = door.gateway.answers.get(1)
    assert (answer is not None) is is_led, "the group says what it knows of the id"
    assert not door.wire.not_here(replace(waiting, request=replace(asked, group="other")))


def test_a_group_that_is_pinned_coordinated_refuses_who_would_lead(
    scene: Scene, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    pins(scene, "pinned", Pin(Machine.COORDINATED))
    for _ in range(2):
        ticket = door.ask(join("pinned", "connect", "own"))
        assert door.gateway.answers[ticket].code is WireCode.INCONSISTENT_GROUP_PROTOCOL
    assert door.to_wire(join("pinned", "consumer", "range"))
    assert caplog.text.count("is pinned coordinated") == 1


def test_why_nobody_may_join_a_group_whose_offsets_are_in_kafka(
    scene: Scene, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it lists, it is not for that."""
    pins(scene, ALWAYS[0], Pin(Machine.COORDINATED))
    ticket = door.ask(join(ALWAYS[0], "consumer", "range"))
    assert door.gateway.answers[ticket].code is WireCode.INCONSISTENT_GROUP_PROTOCOL
    assert "its offsets are in Kafka (--offsets-in-kafka)" in caplog.text
    assert "lists no assignor" not in caplog.text


def test_a_group_that_has_members_is_led_whatever_was_said(scene: Scene, door: Door) -> None:
    pins(scene, GROUP, Pin(Machine.COORDINATED))
    ticket = door.ask(join(GROUP, "connect", "own"))
    assert not door.wire.came
    assert door.gateway.answers[ticket].code is WireCode.MEMBER_ID_REQUIRED
