"""What a gateway asks the coordinator, when its session is over meanwhile."""

from __future__ import annotations

from typing import Any

from tests.consumer.gateway.client_led.test_members import SESSION_MS, Scene
from tests.core.classic.scenario import OPTIONS
from zkcoord.core.error_codes import WireCode


def test_an_instance_is_not_taken_over_by_what_was_asked_before_a_session_was_over() -> None:
    """Its client may have come by another gateway meanwhile, without this one's knowing: it would
    be fenced by itself (simulator, change 75).
    """
    scene = Scene(2, SESSION_MS)
    one, other = scene.gateways
    first = scene.joins(1, other, instance="i")
    scene.wait(3 * OPTIONS.initial_delay_ms)
    joined: Any = other.answers[first]
    assert joined.code is WireCode.NONE
    served, scene.served.groups = scene.served.groups, None
    ticket = scene.joins(2, one, instance="i")
    scene.wait(3 * OPTIONS.initial_delay_ms)
    assert ticket not in one.answers
    scene.served.zk.end_session(one.session.session_id)
    scene.wait(3 * OPTIONS.initial_delay_ms)
    refused: Any = one.answers[ticket]
    assert refused.code is WireCode.COORDINATOR_NOT_AVAILABLE
    scene.served.groups = served
    scene.wait(3 * OPTIONS.initial_delay_ms)
    members = [member.member_id for member in scene.served.view().state.members]
    assert members == [joined.member_id]
