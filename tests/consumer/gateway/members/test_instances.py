"""Who has a `group.instance.id` now, where it is at several gateways: nobody is fenced for whom
nobody came, and who came later is not fenced by who was there before.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.core import messages as msg
from consumer.gateway.wire.requests import BeatAnswer, HeartbeatRequest, JoinAnswer, SyncRequest
from consumer.gateway.wire.subscription import encode_subscription
from tests.consumer.gateway.members.test_groups import TIMES, TP, World
from tests.consumer.gateway.members.test_handing_over import CLIENT, Remembering
from zkcoord.core.error_codes import WireCode


def test_who_takes_an_instance_over_is_remembered_before_it_knows() -> None:
    memory = Remembering()
    world = World(memory=memory)
    first = world.join(instance="i").member_id
    world.tell(0, msg.Assigned({TP: 0}, 1))
    second = world.join(instance="i").member_id
    assert first != second
    assert memory.clients["g", "i"].member_id == second


def test_who_took_an_instance_over_here_keeps_it_though_that_is_not_written_yet() -> None:
    memory = Remembering()
    world = World(memory=memory)
    first = world.join(instance="i").member_id
    sync = SyncRequest("g", first, 1, "i")
    world.tell(0, msg.Assigned({TP: 0}, 1))
    world.ask(sync)
    world.wait(TIMES.forming_ms)
    assert memory.clients["g", "i"].member_id == first
    memory.holds_writes = True
    second = world.join_later(instance="i")
    for _ in range(2):
        assert world.ask(HeartbeatRequest("g", first, 1, "i")) == BeatAnswer(
            WireCode.FENCED_INSTANCE_ID
        )
    memory.let_go_of_writes()
    world.run()
    answer = world.answers[second]
    assert isinstance(answer, JoinAnswer) and answer.code is WireCode.NONE
    assert memory.clients["g", "i"].member_id == answer.member_id
    assert world.ask(HeartbeatRequest("g", first, 1, "i")) == BeatAnswer(
        WireCode.FENCED_INSTANCE_ID
    )


def test_what_is_not_written_yet_gives_way_to_what_was_written_elsewhere_since() -> None:
    """Its client went on to another gateway, which could write it down (simulator, wire 79)."""
    memory = Remembering()
    world = World(memory=memory)
    first = world.join(instance="i").member_id
    memory.holds_writes = True
    world.join_later(instance="i")
    memory.clients["g", "i"] = replace(CLIENT, instance="i")
    assert world.ask(HeartbeatRequest("g", "m", 4, "i")) is None, "it waits for what comes back"
    assert [wire.member_id for wire, _ in world.groups.agents("g")] == ["m"] != [first]


def test_who_takes_an_instance_over_waits_until_its_agent_is_registered() -> None:
    """Its client comes from another gateway as somebody new."""
    memory = Remembering(replace(CLIENT, instance="i"))
    memory.holds = True
    world = World(memory=memory)
    ticket = world.join_later(instance="i")
    make, world.groups.make_agent = world.groups.make_agent, None  # type: ignore[assignment]

    def unregistered(*wishes: object) -> object:
        agent = make(*wishes)  # type: ignore[arg-type]
        agent.registered = False  # type: ignore[misc]  # its name is drawn already
        return agent

    world.groups.make_agent = unregistered  # type: ignore[assignment]
    memory.let_go()
    world.run()
    assert ticket not in world.answers and memory.writers == []
    world.agents[0].registered = True
    world.tell(0, msg.Assigned({}, 1))
    answer = world.answers[ticket]
    assert isinstance(answer, JoinAnswer) and answer.code is WireCode.NONE
    assert memory.clients["g", "i"].member_id == answer.member_id != "m"


def test_who_took_an_instance_over_with_other_assignors_keeps_it_until_that_is_written() -> None:
    memory = Remembering()
    world = World(memory=memory)
    first = world.join(instance="i").member_id
    memory.clients["g", "i"] = replace(CLIENT, member_id=first, instance="i")
    second = world.join(
        instance="i", protocols=(("roundrobin", encode_subscription(["t"])),)
    ).member_id
    ((wire, _),) = world.groups.agents("g")
    assert wire.member_id == second != first
    assert memory.clients["g", "i"].member_id == second


def test_who_has_an_instance_at_another_gateway_is_not_fenced_by_this_one() -> None:
    """It has taken it over there; this one has not heard of that yet."""
    memory = Remembering()
    world = World(memory=memory)
    first = world.member(instance="i")
    memory.clients["g", "i"] = replace(CLIENT, instance="i")
    reads = len(memory.reads)
    world.ask(HeartbeatRequest("g", first, 1, "i"))
    assert len(memory.reads) == reads, "who is known here is not looked for"
    world.groups.another_request(1)
    assert world.ask(HeartbeatRequest("g", "m", 4, "i")) is None, "it waits for what comes back"
    assert [wire.member_id for wire, _ in world.groups.agents("g")] == ["m"]
    assert world.agents[0].finished
    assert world.ask(HeartbeatRequest("g", first, 1, "i")) == BeatAnswer(
        WireCode.FENCED_INSTANCE_ID
    ), "the one before is"


@pytest.mark.parametrize("is_member", [True, False, None])
def test_who_is_no_member_any_more_fences_nobody(is_member: bool | None) -> None:
    """A gateway that was stopped has not heard yet that its client went on elsewhere, where nothing
    of it was written down yet (simulator, wire 106).
    """
    memory = Remembering()
    world = World(memory=memory)
    first = world.member(instance="i")
    if is_member is None:
        memory.unknown = True
    elif not is_member:
        memory.gone.add("registered")
    expected = {
        True: WireCode.FENCED_INSTANCE_ID,
        False: WireCode.UNKNOWN_MEMBER_ID,
        None: WireCode.COORDINATOR_NOT_AVAILABLE,
    }[is_member]
    assert world.ask(HeartbeatRequest("g", "later", 4, "i")) == BeatAnswer(expected)
    assert (first in [wire.member_id for wire, _ in world.groups.agents("g")]) == (
        is_member is not False
    )
    assert world.agents[0].finished == (is_member is False)
