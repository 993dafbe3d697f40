"""An operator's word about who runs a group: read, changed, taken back, and what cannot be read."""

from __future__ import annotations

import pytest

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from tests.zk.classic.test_served import held
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed, Registrants
from zkcoord.zk.classic import classic_groups, pins
from zkcoord.zk.classic.holding import LOOK_EVERY_MS
from zkcoord.zk.port import Create, Delete, SetData
from zkcoord.znodes.classic.pin import Machine, Pin, decode_pin, encode_pin
from zkcoord.znodes.paths import Layout

LED, OURS = Pin(Machine.CLIENT_LED, "me@here"), Pin(Machine.COORDINATED)


def lines(*texts: str) -> Scenario:
    return Scenario("lines", tuple(enumerate(texts, 1)))


def side_with(pin: Pin | None = None) -> ServedSide:
    side = ServedSide(OPTIONS)
    side.write([Create(PATHS.pins, b"")])
    if pin is not None:
        side.write([Create(PATHS.pin(GROUP), encode_pin(pin))])
    return side


def refusals(side: ServedSide) -> list[str]:
    return [str(one.detail["reason"]) for one in side.records if one.kind == "client-led refusal"]


def test_what_is_written_is_read() -> None:
    assert decode_pin("g", encode_pin(LED)) == LED
    assert decode_pin("g", encode_pin(OURS)) == OURS
    for data in (b"", b"{", b'{"version":1,"machine":"auto"}', b'{"version":2,"machine":"led"}'):
        found = decode_pin("g", data)
        assert isinstance(found, Malformed) and found.name == "g"


def test_a_group_that_is_the_coordinators_is_led_by_no_client() -> None:
    side = side_with(OURS)
    player = Play(side)
    player.run(lines("a join id=new p=own:m -> 23", "b join id=new p=own:m -> 23"))
    (why,) = refusals(side)
    assert "an operator has said" in why and "protocol type consumer" in why
    side.write([Delete(PATHS.pin(GROUP))])
    player.run(lines("a enter -> waits"))


def test_who_can_be_assigned_tries_again() -> None:
    """Its gateway has not heard of the word yet."""
    side = side_with(OURS)
    Play(side).run(lines("a join id=new -> 14"))
    assert refusals(side) == []


def test_it_counts_for_another_coordinator_too() -> None:
    side = side_with(OURS)
    side.restart()
    Play(side).run(lines("a join id=new p=own:m -> 23"))


def test_who_would_lead_waits_for_clients_that_go_over() -> None:
    """Others have to stop; without an operator's word clients do, too."""
    side = side_with()
    player = Play(side)
    for registered in (Registrants.CLIENTS, Registrants.MEMBERS):
        side.registered[GROUP] = registered
        player.run(lines("a join id=new p=own:m -> 23"))
    side.write([Create(PATHS.pin(GROUP), encode_pin(LED))])
    player.run(lines("b join id=new p=own:m -> 23"))
    tickets = held(side, Registrants.CLIENTS)
    assert not set(tickets) & set(side.answers)
    side.registered.clear()
    side.wait(2 * LOOK_EVERY_MS)
    side.settle()
    assert [side.answers[one].code for one in tickets] == [WireCode.MEMBER_ID_REQUIRED] * 2


def test_a_word_that_is_taken_back_sends_who_waits_away() -> None:
    side = side_with(LED)
    tickets = held(side, Registrants.CLIENTS)
    side.write([Delete(PATHS.pin(GROUP))])
    side.wait(2 * LOOK_EVERY_MS)
    side.settle()
    assert [side.answers[one].code for one in tickets] == [WireCode.UNKNOWN_MEMBER_ID] * 2


def test_a_group_that_has_members_stays_what_it_is() -> None:
    side = side_with()
    player = Play(side)
    player.run(lines("group a"))
    side.write([Create(PATHS.pin(GROUP), encode_pin(OURS))])
    player.run(lines("b enter -> waits"))


def test_one_that_was_led_and_is_pinned_says_whom_it_refuses() -> None:
    side = side_with()
    player = Play(side)
    player.run(lines("group a", "a leave -> 0 0"))
    side.write([Create(PATHS.pin(GROUP), encode_pin(OURS))])
    player.run(lines("b join id=new p=own:m -> 23"))
    assert side.groups is not None
    (problem,) = side.groups.summary(GROUP)["problems"]  # type: ignore[misc]
    assert "is refused" in problem


def test_that_clients_lead_it_lets_them() -> None:
    Play(side_with(LED)).run(lines("a enter -> waits"))


@pytest.mark.parametrize("data", [b"{", b""])
def test_what_cannot_be_read_says_nothing(data: bytes) -> None:
    side = side_with(OURS)
    side.write([SetData(PATHS.pin(GROUP), data, -1)])
    Play(side).run(lines("a enter -> waits"))
    assert any(one.kind == "malformed" for one in side.records)


def test_many_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "PINS_PER_READ", 2)
    side = side_with(OURS)
    for number in range(5):
        side.write([Create(PATHS.pin(f"a{number}"), encode_pin(LED))])
    side.restart()
    assert side.groups is not None
    found = side.groups._pins
    assert found.are_known and found.of(GROUP) is Machine.COORDINATED
    assert [found.of(f"a{number}") for number in range(5)] == [Machine.CLIENT_LED] * 5


def test_of_too_many_all_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "PINS_MAX", 3)
    side = side_with()
    for number in (4, 1, 3, 0, 2):
        side.write([Create(PATHS.pin(f"a{number}"), encode_pin(LED))])
    side.restart()
    assert side.groups is not None
    found = side.groups._pins
    assert [n for n in range(5) if found.of(f"a{n}") is not None] == [0, 1, 2]


def test_refusals_that_are_told_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_groups, "REFUSED_MAX", 0)
    side = side_with(OURS)
    Play(side).run(lines("a join id=new p=own:m -> 23"))
    assert refusals(side) == []
    assert side.groups is not None
    assert side.groups.seen().refused == {"INCONSISTENT_GROUP_PROTOCOL": 1}


def test_who_was_registered_first_is_seen_by_the_next_coordinator_too() -> None:
    """The one that wrote the first generation was gone before it had looked (change 3384)."""
    side = side_with()
    Play(side).run(lines("a enter -> waits"))
    side.wait(3_000)
    assert side.view().state.phase is ClassicPhase.COMPLETING
    side.restart()
    assert side.view().state.phase is ClassicPhase.COMPLETING
    ids = Layout.DRAFT.ids(GROUP)
    side.write([Create(path, b"") for path in (Layout.DRAFT.group(GROUP), ids, f"{ids}/shim")])
    side.restart()
    assert side.view().state.phase is ClassicPhase.EMPTY
    assert [str(one.detail["reason"]) for one in side.records if "reason" in one.detail]


def test_a_word_that_went_while_nobody_listened_is_heard_of_afterwards() -> None:
    side, told = side_with(OURS), list[str]()
    found = pins.Pins(PATHS, lambda bad: None)
    found.told = told.append
    found.read_all(side.gateway)
    side.settle()
    assert found.of(GROUP) is Machine.COORDINATED and told == [GROUP]
    side.write([Delete(PATHS.pin(GROUP))])
    found.read_all(side.gateway)
    side.settle()
    assert found.of(GROUP) is None and told == [GROUP, GROUP]
