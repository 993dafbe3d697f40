"""The scenarios of classic groups, through nodes of ZooKeeper: what gateways ask and read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.classic.scenario import OPTIONS, Play, Scenario, ScenarioError, all_scenarios
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.requests import ClassicJoin
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Registrants
from zkcoord.zk.classic.holding import LOOK_EVERY_MS
from zkcoord.zk.port import Create, Delete, SetData

NOT_DECIDED = "what is not decided yet is seen by nobody: a first rebalance lasts for three seconds"
NO_CLIENT = "no client sends heartbeats before it is told that it has joined"
DIFFERS = {
    "commits/of_a_tool_makes_an_empty_group": NOT_DECIDED,
    "commits/of_a_tool_while_the_group_prepares": NOT_DECIDED,
    "describing/a_group_of_which_an_id_is_given_out": NOT_DECIDED,
    "describing/a_group_that_forms": NOT_DECIDED,
    "describing/a_group_that_prepares": NOT_DECIDED,
    "heartbeats/a_heartbeat_of_who_waits_in_the_first_rebalance": NO_CLIENT,
    "heartbeats/a_new_member_that_sends_heartbeats_is_judged_by_its_session": NO_CLIENT,
    "joining/a_refused_first_member_makes_an_empty_group": NOT_DECIDED,
    "joining/an_empty_protocol_type": NOT_DECIDED,
    "joining/no_protocols": NOT_DECIDED,
    "joining/the_first_member_gets_an_id_first": NOT_DECIDED,
}
"""What is answered otherwise than by the machine, and why."""
SCENARIOS = [one for one in all_scenarios() if not one.only_machine]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_gateways_are_answered_so(scenario: Scenario) -> None:
    side = ServedSide(OPTIONS)
    if scenario.name in DIFFERS:
        with pytest.raises(ScenarioError):
            Play(side).run(scenario)
    else:
        Play(side).run(scenario)
    assert not side.failures


def test_differences_are_of_scenarios_that_exist() -> None:
    assert set(DIFFERS) <= {one.name for one in SCENARIOS}


def lines(*texts: str) -> Scenario:
    """Of a scenario that stands in a test."""
    return Scenario("lines", tuple(enumerate(texts, 1)))


def test_a_group_that_is_deleted_while_an_id_is_given_out_begins_anew() -> None:
    Play(ServedSide(OPTIONS)).run(
        lines(
            "group a",
            "a leave -> 0 0",
            "b join id=new -> 79",
            "delete -> 0",
            "b join -> 25",
            "c enter -> waits",
        )
    )


def test_a_group_is_of_one_kind_also_where_clients_have_led_it_before() -> None:
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(lines("group a", "a leave -> 0 0"))
    side.registered[GROUP] = Registrants.MEMBERS
    player.run(lines("b join id=new p=own:m -> 23"))
    side.registered.clear()
    player.run(lines("b enter -> waits"))


HELD = ClassicJoin("", "m", "consumer", (("own", b""),), 10_000, 10_000)


def held(side: ServedSide, registered: Registrants) -> list[int]:
    """Two that would lead a group in which these are registered."""
    side.registered[GROUP] = registered
    joins = [replace(HELD, fresh_id=fresh, named_first=True) for fresh in ("m1", "m2")]
    tickets = [side.send(one, 0) for one in joins]
    side.wait(10 * LOOK_EVERY_MS)
    return tickets


def test_who_would_lead_waits_until_the_last_members_have_gone() -> None:
    side = ServedSide(OPTIONS)
    tickets = held(side, Registrants.LEAVING)
    side.restart()
    side.wait(10 * LOOK_EVERY_MS)
    assert not side.answers, "before another coordinator, too"
    side.registered.clear()
    side.wait(2 * LOOK_EVERY_MS)
    side.settle()
    assert [side.answers[one].code for one in tickets] == [WireCode.MEMBER_ID_REQUIRED] * 2


def test_a_group_is_looked_at_once_however_many_wait_for_it() -> None:
    """To look is as much work as it has members: a group of 1,000 that changes has 500 there of
    whom each waits for 500.
    """
    side = ServedSide(OPTIONS)
    side.registered[GROUP] = Registrants.LEAVING
    for number in range(30):
        side.send(replace(HELD, fresh_id=f"m{number}", named_first=True), 0)
    side.settle()
    before = side.looks
    side.wait(10 * LOOK_EVERY_MS)
    assert 5 <= side.looks - before <= 15
    assert not side.answers


def test_who_names_a_member_id_is_told_at_once_that_it_is_nobody() -> None:
    """It may be a member of the other kind whose gateway is gone, and would wait for itself."""
    side = ServedSide(OPTIONS)
    side.registered[GROUP] = Registrants.LEAVING
    ticket = side.send(replace(HELD, member_id="of another gateway"), 0)
    side.settle()
    assert side.answers[ticket].code is WireCode.UNKNOWN_MEMBER_ID


def test_who_is_gone_waits_no_more() -> None:
    side = ServedSide(OPTIONS)
    gone, stays = held(side, Registrants.LEAVING)
    side.write([Delete(PATHS.request(side.names.pop(gone)))])
    side.registered.clear()
    side.wait(2 * LOOK_EVERY_MS)
    side.settle()
    assert set(side.answers) == {stays}
    assert side.groups is not None
    group = side.groups.group(GROUP)
    assert group is not None and group.summary()["pending"] == 0


def test_a_held_group_wakes_the_coordinator_no_longer_than_somebody_waits() -> None:
    side = ServedSide(OPTIONS)
    held(side, Registrants.LEAVING)
    assert side.groups is not None and side.groups.next_wake_ms() is not None
    for name in list(side.names.values()):
        side.write([Delete(PATHS.request(name))])
    assert side.groups.next_wake_ms() is None


def test_members_that_are_assigned_do_not_end_a_group_that_clients_lead() -> None:
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(lines("group a"))
    side.registered[GROUP] = Registrants.MEMBERS
    player.run(lines("b enter -> waits"))


def test_a_group_is_deleted_however_many_have_said_that_they_serve_it() -> None:
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(lines("group a"))
    for number in range(0, 1_200, 100):
        side.write(
            [
                Create(PATHS.presence(GROUP, f"nobody-{one}"), b"", ephemeral=True)
                for one in range(number, number + 100)
            ]
        )
    player.run(lines("a leave -> 0 0", "delete -> 0"))
    assert side.data(PATHS.group(GROUP)) is None


def test_what_was_decided_cannot_be_read_and_no_generation_is_given_again() -> None:
    side = ServedSide(OPTIONS)
    player = Play(side)
    player.run(lines("group a"))
    side.write([SetData(PATHS.state(GROUP), b"{", -1), SetData(PATHS.round(GROUP), b"{", -1)])
    side.restart()
    player.run(lines("a join -> 25", "b enter -> waits", "wait first", "b gets 0 led=b m=b"))
    assert side.view().state.generation > 1
    said = [record.detail for record in side.records if record.kind == "malformed"]
    assert len(said) == 1 and said[0]["name"] == GROUP
