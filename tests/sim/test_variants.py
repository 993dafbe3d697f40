"""Each rule is needed: a system without it is caught within 500 seeds. Replaying journals (I12) is caught out, too, by a core that is not pure."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.core.agent import Agent

from tests.sim import replay
from tests.sim.runner import run_seed
from tests.sim.variants import VARIANTS
from tests.sim.world import World

SEEDS_MAX = 500
TRIED_FIRST = {"lease_by_read": (31, 51, 109), "no_ack_check": (237, 275, 345)}  # known to catch it; when a change moves them, all are tried


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_weakened_system_is_caught(variant: str) -> None:
    for seed in (*TRIED_FIRST.get(variant, ()), *range(SEEDS_MAX)):
        if run_seed(seed, variant).violations:
            return
    raise AssertionError(f"{SEEDS_MAX} seeds do not miss the rule: {VARIANTS[variant].removes}")


def test_a_variant_leaves_nothing_behind() -> None:
    variant = VARIANTS["no_lease"]
    before = [vars(p.owner)[p.name] for p in variant.patches]
    with variant.applied():
        assert [vars(p.owner)[p.name] for p in variant.patches] != before
    assert [vars(p.owner)[p.name] for p in variant.patches] == before


def test_a_core_that_remembers_other_lives_is_seen_by_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    original, lives = Agent.step, [0]

    def step(self: Agent, event: Any) -> list[Any]:
        lives[0] += 1
        return original(self, event) if lives[0] % 50 else []

    monkeypatch.setattr(Agent, "step", step)
    with replay.recording() as journals:
        World(0).run()
    assert replay.differences(journals)
