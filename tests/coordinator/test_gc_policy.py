"""What the settings of the garbage collector rest on: groups are freed without it, and terms with
it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from zkcoord.coordinator import gc_policy
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import Elected, GroupChanged, GroupDelta, GroupGone, Ready, TopicsChanged
from zkcoord.core.group.machine import Group
from zkcoord.core.model import Member, Owner, Subscription, Thread, Topic, TopicPartition
from zkcoord.core.options import CoordinatorOptions

GROUPS = 20


@pytest.fixture
def thresholds() -> Iterator[None]:
    """The collector as it was, after the test."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


def led() -> tuple[Coordinator, list[weakref.ref[Group]]]:
    """A core with groups at rest."""
    core = Coordinator(CoordinatorOptions())
    core.step(Elected(0, 7))
    core.step(TopicsChanged(0, {"t": Topic("t", "1", (0, 1))}))
    for number in range(GROUPS):
        member = Member(f"m{number}", 5, 9, Subscription({"t": 1}), ("sticky",))
        owners = {TopicPartition("t", n): Owner(9, Thread(member.name, 0), 1) for n in (0, 1)}
        core.step(
            GroupChanged(
                0,
                f"g{number}",
                GroupDelta(True, {member.name: member}, {member.name: True}, owners=owners),
            )
        )
    core.step(Ready(0))
    return core, [weakref.ref(group) for group in core.groups.values()]


def test_a_group_that_is_gone_needs_no_collector(thresholds: None) -> None:
    core, groups = led()
    gc.disable()
    for number in range(GROUPS):
        core.step(GroupGone(1, f"g{number}"))
    assert [group() for group in groups] == [None] * GROUPS


def test_the_end_of_a_term_frees_all_of_it(thresholds: None) -> None:
    gc_policy.collect_seldom()
    for _ in range(2):
        gc_policy.term_begins()
        core, groups = led()
        gc_policy.world_is_read()
        assert gc.isenabled() and gc.get_freeze_count() > GROUPS
        del core
        gc_policy.collect_term()
        assert [group() for group in groups] == [None] * GROUPS and not gc.get_freeze_count()


def test_nothing_is_collected_while_the_world_is_read_even_if_that_never_ends(
    thresholds: None,
) -> None:
    gc_policy.collect_seldom()
    before = [generation["collections"] for generation in gc.get_stats()]
    gc_policy.term_begins()
    kept = [[number] for number in range(1_000_000)]
    assert [generation["collections"] for generation in gc.get_stats()] == before and len(
        kept
    ) == 1_000_000
    gc_policy.collect_term()
    assert gc.isenabled()


def test_young_objects_are_looked_at_seldom_and_all_of_them_practically_never(
    thresholds: None,
) -> None:
    gc_policy.collect_seldom()
    full = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(1_000_000)]
    assert gc.get_stats()[2]["collections"] == full and len(kept) == 1_000_000
