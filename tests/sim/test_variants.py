"""Each rule is needed: a system without it is caught within 1,000 seeds of its mix. Replaying
journals (I12) is caught out, too, by a core that is not pure.
"""

from __future__ import annotations

from typing import Any

import pytest

from consumer.core.group_member import GroupMember
from tests.sim import replay
from tests.sim.runner import run_seed
from tests.sim.variants import VARIANTS
from tests.sim.world import World

SEEDS_MAX = 1_000
# Seeds known to catch; when a change moves them, all are tried.
TRIED_FIRST = {
    "no_epoch_fence": (145, 326),
    "announced_late": (251, 535),
    "obeyed_late": (3, 9),
    "lease_by_read": (27, 265),
    "no_ack_check": (154, 255),
    "no_resume": (65, 142),
    "no_ack_deadline": (0, 2, 7),
    "no_eager_barrier": (9, 18, 23),
    "no_grace": (0, 4, 6),
    "no_slots": (85,),
    "no_quarantine_backoff": (7, 15, 17),
    "no_look_back": (41, 139),
    "no_meaning": (12, 21),
    "no_floor": (15, 27, 44),
    "any_mode": (8, 20, 32),
    "first_offset_unmarked": (741,),
    "no_fence_for_asks": (0, 2, 9),
    "no_replaced_process": (65, 48),
    "no_older_lease": (428, 438, 465),
    "failsafe_unproved": (116, 133, 156),
    "failsafe_revives": (37, 52, 124),
    "no_recount": (539,),
    "no_second_look": (16, 63),
    "no_release_deadline": (117,),
    "no_rescue": (156, 169),
    "no_partial_stop": (122, 177),
    "stores_unasked": (13, 15, 16),
    "leaves_unasked": (36, 40),
    "wire_no_drain": (1,),
    "wire_fenced_goes_on": (271, 285, 309),
    "wire_goes_back": (495, 588, 705),
    "change_with_full_hands": (1, 10, 19),
    "change_commits_unfenced": (527, 1079, 2071, 2184),
    "source_first_word": (24, 33, 35),
    "evicted_goes_on": (45, 67, 77, 116),
    "source_unfenced": (639, 650),
    "ahead_half_read": (385,),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_weakened_system_is_caught(name: str) -> None:
    variant = VARIANTS[name]
    for seed in (*TRIED_FIRST.get(name, ()), *range(SEEDS_MAX)):
        if variant.caught(run_seed(seed, name, mix=variant.mix).violations):
            return
    raise AssertionError(
        f"{SEEDS_MAX} seeds of the mix {variant.mix} do not miss the rule: {variant.removes}"
    )


def test_a_variant_leaves_nothing_behind() -> None:
    variant = VARIANTS["no_lease"]
    before = [vars(p.owner)[p.name] for p in variant.patches]
    with variant.applied():
        assert [vars(p.owner)[p.name] for p in variant.patches] != before
    assert [vars(p.owner)[p.name] for p in variant.patches] == before


def test_a_core_that_remembers_other_lives_is_seen_by_the_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, lives = GroupMember.step, [0]

    def step(self: GroupMember, event: Any) -> list[Any]:
        lives[0] += 1
        return original(self, event) if lives[0] % 50 else []

    monkeypatch.setattr(GroupMember, "step", step)
    with replay.recording() as journals:
        World(0).run()
    assert replay.replayed(journals).differences
