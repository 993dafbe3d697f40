"""The scenarios of classic groups, as clients of a gateway play them."""

from __future__ import annotations

import pytest

from tests.consumer.gateway.client_led.led_side import LedSide
from tests.core.classic.scenario import OPTIONS, Play, Scenario, ScenarioError, all_scenarios
from tests.zk.classic.test_served import DIFFERS as OF_NODES

HERE = {
    "heartbeats/a_joingroup_that_changes_nothing_does_not_keep_a_member": (
        "who is heard is there, whatever it says"
    ),
}
"""What a gateway answers otherwise than what is asked and read without one, and why."""
DIFFERS = {**OF_NODES, **HERE}
SCENARIOS = [one for one in all_scenarios() if not one.only_machine]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_clients_are_answered_so(scenario: Scenario) -> None:
    side = LedSide(OPTIONS)
    if scenario.name in DIFFERS:
        with pytest.raises(ScenarioError):
            Play(side).run(scenario)
    else:
        Play(side).run(scenario)
    assert not side.served.failures


def test_differences_are_of_scenarios_that_exist() -> None:
    assert set(DIFFERS) <= {one.name for one in SCENARIOS}
