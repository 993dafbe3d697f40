"""The simulator's runs are followed, and those of weakened systems are refused."""

from __future__ import annotations

import pytest

from tests.spec.traces import MIXES_COVERED, check_traces

# Weakened systems of tests/sim/variants.py, and a seed of the mix `default` that shows it.
REFUSED = {
    "no_version_fence": 0,
    "no_ack_check": 0,
    "no_epoch_fence": 0,
    "no_stop_barrier": 1,
    "no_eviction_wait": 19,
    "no_clean": 12,
    "no_start_barrier": 21,
    "no_one_command": 4,
}
SEED_OF_ALL = 2
pytestmark = pytest.mark.timeout(900)


@pytest.mark.usefixtures("model_checker")
@pytest.mark.nightly
@pytest.mark.parametrize("mix", MIXES_COVERED)
def test_a_run_of_each_mix_is_followed(mix: str) -> None:
    said = check_traces(mix, [SEED_OF_ALL])
    assert said.refused == () and said.events > 20


@pytest.mark.usefixtures("model_checker")
@pytest.mark.nightly
@pytest.mark.parametrize("variant", REFUSED)
def test_a_weakened_system_is_refused(variant: str) -> None:
    assert check_traces("default", [REFUSED[variant]], variant).refused


@pytest.mark.usefixtures("model_checker")
def test_a_run_is_followed_and_one_without_a_fence_is_refused() -> None:
    assert check_traces("default", [0]).refused == ()
    (said,) = check_traces("default", [0], "no_epoch_fence").refused
    assert "send" in said and "fenced |-> FALSE" in said
