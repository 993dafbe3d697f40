"""The queue of groups: each once, each pays for what was spent on it, nobody waits for ever; and
the core's indexes, which shrink as they grew.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.script import World
from zkcoord.core import events as ev
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.filing.fair_queue import (
    FORGIVEN_US_PER_MS,
    HEAVY_WAIT_MS_MAX,
    NAMES_KEPT_MIN,
    OWED_US_CAP,
    OWED_US_MAX,
    REST_MS_MAX,
    REST_PER_WORK,
    FairQueue,
)
from zkcoord.core.group.machine import Group
from zkcoord.core.model import Member, Pattern, PatternKind, Subscription

MUCH = OWED_US_MAX + 10_000


def taken(queue: FairQueue, now_ms: int, idle: bool = True) -> list[str]:
    """All that can be served now, in order."""
    found = []
    while (group := queue.take(now_ms, idle)) is not None:
        found.append(group)
    return found


def test_groups_are_served_in_the_order_in_which_they_changed_each_once() -> None:
    queue = FairQueue()
    for group in ("b", "a", "b", "c", "a", "b"):
        queue.add(group, 0)
    assert len(queue) == 3 and "a" in queue and taken(queue, 0) == ["b", "a", "c"]
    assert len(queue) == 0 and queue.ready_at_ms(0) is None
    queue.add("b", 0)
    assert taken(queue, 0) == ["b"], "and again when it changes again"


def test_who_owes_much_is_served_last_and_who_owes_least_of_them_first() -> None:
    queue = FairQueue()
    queue.charge("much", 3 * MUCH, 0)
    queue.charge("less", MUCH, 0)
    for group in ("much", "less", "light"):
        queue.add(group, 0)
    assert taken(queue, 0) == ["light"]
    rested_ms = queue.ready_at_ms(0)
    assert rested_ms is not None and taken(queue, rested_ms) == ["less", "much"]


def test_heavy_groups_are_served_only_when_nothing_else_has_happened() -> None:
    queue = FairQueue()
    queue.charge("heavy", MUCH, 0)
    queue.add("heavy", 0)
    now_ms = queue.ready_at_ms(0) or 0
    assert taken(queue, now_ms, idle=False) == [] and taken(queue, now_ms) == ["heavy"]


def test_after_work_for_a_heavy_group_all_heavy_ones_rest_but_not_for_ever() -> None:
    queue = FairQueue()
    queue.charge("a", MUCH, 0)
    queue.charge("b", 2 * MUCH, 0)
    spent_us = 20_000
    queue.charge("a", spent_us, 1_000)
    rest_ms = spent_us * REST_PER_WORK // 1_000
    assert queue.rests("b", 1_000 + rest_ms - 1) and not queue.rests("b", 1_000 + rest_ms)
    assert not queue.rests("light", 1_000)
    for _ in range(1_000):
        queue.charge("a", OWED_US_CAP, 2_000)
    assert not queue.rests("a", 2_000 + REST_MS_MAX)


def test_what_was_spent_is_forgiven_and_little_is_never_much() -> None:
    queue = FairQueue()
    for now_ms in range(0, 100_000, 100):
        queue.charge("steady", FORGIVEN_US_PER_MS * 100, now_ms)
        assert not queue.is_heavy("steady", now_ms)
    queue.charge("worst", 100 * OWED_US_CAP, 0)
    assert queue.is_heavy("worst", 0)
    assert not queue.is_heavy("worst", OWED_US_CAP // FORGIVEN_US_PER_MS), "no debt is longer"
    for number in range(10 * NAMES_KEPT_MIN):
        queue.charge(f"g{number}", 1, 1_000 * number)
    assert len(queue._owed) <= 2 * NAMES_KEPT_MIN, "nobody is remembered who owes nothing"


def test_no_heavy_group_waits_for_ever() -> None:
    """Others keep coming, and heavy groups rest all the time."""
    queue = FairQueue()
    queue.charge("heavy", MUCH, 0)
    queue.add("heavy", 0)
    for now_ms in range(0, HEAVY_WAIT_MS_MAX, 10):
        queue.add(f"light-{now_ms}", now_ms)
        assert queue.take(now_ms, idle=True) == f"light-{now_ms}"
    queue.charge("other", OWED_US_CAP, HEAVY_WAIT_MS_MAX)
    queue.charge("other", OWED_US_CAP, HEAVY_WAIT_MS_MAX)
    rested_ms = HEAVY_WAIT_MS_MAX + REST_MS_MAX
    for now_ms in range(HEAVY_WAIT_MS_MAX, rested_ms, 10):
        queue.add(f"light-{now_ms}", now_ms)
        assert queue.take(now_ms, idle=True) == f"light-{now_ms}"
    queue.add("light", rested_ms)
    assert taken(queue, rested_ms) == ["heavy", "light"]


def test_very_many_heavy_groups_that_wait_too_long_leave_the_others_their_turns() -> None:
    """All are overdue; after each the light ones have theirs, while the heavy ones rest."""
    queue = FairQueue()
    for number in range(100):
        queue.charge(f"heavy-{number}", OWED_US_CAP, 0)
        queue.add(f"heavy-{number}", 0)
    now_ms, lights = 10_000, 0
    for _ in range(50):
        now_ms += 10
        queue.add(f"light-{now_ms}", now_ms)
        while (group := queue.take(now_ms, idle=True)) is not None:
            lights += group.startswith("light")
            if group.startswith("heavy"):
                queue.charge(group, 10 * OWED_US_MAX, now_ms)
    assert lights == 50


def test_a_group_that_becomes_heavy_while_it_waits_lets_the_others_pass() -> None:
    queue = FairQueue()
    queue.add("a", 0)
    queue.add("b", 0)
    queue.charge("a", MUCH, 0)
    assert taken(queue, 0) == ["b"] and len(queue) == 1
    assert taken(queue, queue.ready_at_ms(0) or 0) == ["a"]


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that were decided, in order."""
    found: list[str] = []
    original = Group.decide

    def decide(self: Group, now_ms: int) -> Any:
        found.append(self.name)
        return original(self, now_ms)

    monkeypatch.setattr(Group, "decide", decide)
    return found


def run(world: World, *lines: str) -> None:
    for line in lines:
        world.run(line)


def test_a_group_that_changes_often_while_it_waits_is_decided_once(decided: list[str]) -> None:
    world = World()
    options = "options groups_in_flight_max=1 debounce_ms=500"
    run(world, options, "elected 1", "topic t 4", "ready", "member busy m@1 t:1", "tick 500")
    assert world.writes, "the only slot is taken"
    decided.clear()
    for number in range(5):
        run(world, f"member g m{number}@{number + 10} t:1")
    assert decided == []
    run(world, "ok")
    assert decided.count("g") == 1


def spent(world: World, **us: int) -> None:
    """Time was spent on groups."""
    world.core.step(ev.Spent(world.now, us))


def test_a_heavy_group_is_decided_when_the_others_are_and_when_it_has_rested(
    decided: list[str],
) -> None:
    world = World()
    run(world, "options debounce_ms=0", "elected 1", "topic t 4", "ready")
    spent(world, heavy=MUCH)
    decided.clear()
    run(world, "member heavy m@1 t:1", "member light m@2 t:1")
    assert decided == ["light"]
    wake_ms = world.core.next_wake_ms()
    assert wake_ms is not None and wake_ms - world.now == MUCH * REST_PER_WORK // 1_000
    run(world, f"tick {wake_ms - world.now}")
    assert decided == ["light", "heavy"]


def test_a_step_decides_so_much_and_the_next_one_goes_on(decided: list[str]) -> None:
    """Twenty groups at the beginning of a term, in steps of a few."""
    world = World()
    run(world, "options weight_per_step_max=30", "elected 1", "topic t 8")
    for number in range(20):
        run(world, f"member g{number:02d} m@{number + 1} t:1")
        run(world, f"own g{number:02d} m t-0,t-1,t-2,t-3,t-4,t-5,t-6,t-7")
    decided.clear()
    run(world, "ready")
    steps = [len(decided)]
    while world.core.next_wake_ms() == world.now:
        before = len(decided)
        run(world, "tick 0")
        steps.append(len(decided) - before)
    assert sorted(set(decided)) == [f"g{number:02d}" for number in range(20)]
    assert len(steps) > 4 and max(steps) <= 4 and len(decided) == 20


def test_the_core_says_for_whom_it_works() -> None:
    told: list[str] = []
    core = Coordinator(World().options, told.append)
    core.step(ev.Elected(0, 1))
    core.step(ev.Ready(0))
    core.step(ev.GroupChanged(0, "g", ev.GroupDelta(full=True)))
    assert told == ["", "", "g", "g", ""]


def test_the_indexes_of_topics_and_wildcards_shrink_as_they_grew() -> None:
    """Names of groups, topics and patterns come and go for as long as a term lasts."""
    world = World()
    run(world, "elected 1", "topic t 1", "topic u 1", "match t.* t", "ready")
    core = world.core
    run(world, "member g a@1 t:1,u:1", "member g b@2 - pattern=t.*", "member h c@3 t:1")
    assert core.groups_of_topic("t") == {"g", "h"} and core.groups_of_topic("u") == {"g"}
    run(world, "gone g a")
    assert core.consumer_groups_per_topic == {"t": {"h"}} and core.groups_of_topic("t") == {
        "g",
        "h",
    }
    run(world, "gone g b")
    assert core.groups_with_wildcard_topics == {} and core.world.matches == {}
    assert core.groups_of_topic("t") == {"h"}
    run(world, "member g b@4 - pattern=t.*")
    for group in ("g", "h"):
        core.step(ev.GroupGone(world.now, group))
    assert (core.consumer_groups_per_topic, core.groups_with_wildcard_topics) == ({}, {})
    assert (core.world.matches, len(core.index), core.groups) == ({}, 0, {})


def test_a_group_whose_wildcard_is_not_matched_yet_is_not_decided(decided: list[str]) -> None:
    """It would lose what it has: nothing known is not the same as nothing matched."""
    world = World()
    run(world, "options debounce_ms=0", "elected 1", "topic t 2", "ready")
    core = world.core
    pattern = Pattern(PatternKind.WHITE_LIST, "t.*")
    run(world, "member g a@1 t:1", "settle")
    decided.clear()
    member = Member("b", 5, 5, Subscription({}, pattern), ("sticky",))
    core.step(
        ev.GroupChanged(world.now, "g", ev.GroupDelta(members={"b": member}, channels={"b": True}))
    )
    run(world, "tick 1000")
    assert decided == []
    core.step(ev.TopicsChanged(world.now, {}, {pattern: frozenset({"t"})}))
    assert decided == ["g"]


def test_the_bounds_are_exact() -> None:
    queue = FairQueue()
    queue.charge("g", OWED_US_MAX, 1_000)
    assert not queue.is_heavy("g", 1_000) and queue.rested_at_ms == 0
    queue.charge("g", 1, 1_000)
    assert queue.is_heavy("g", 1_000)
    assert not queue.is_heavy("g", 1_001), "a millisecond forgives more than it owes too much"
    assert not queue.is_heavy("nobody", 0)


def test_who_becomes_heavy_while_it_waits_rests_with_the_others() -> None:
    queue = FairQueue()
    queue.add("g", 1_000)
    queue.charge("g", OWED_US_CAP, 1_000)
    rested = queue.rested_at_ms
    assert rested > 1_000 and queue.rests("g", rested - 1) and not queue.rests("g", rested)
    assert queue.take(rested - 1, True) is None, "it rests"
    queue.add("h", 1_000)
    queue.charge("h", OWED_US_CAP, 1_000)
    rested = queue.rested_at_ms
    assert queue.take(rested, False) is None, "others come first"
    assert queue.take(rested - 1, True) is None
    assert queue.take(rested, True) in ("g", "h")


def test_a_heavy_group_has_waited_long_enough_after_exactly_so_long() -> None:
    for late_ms, first in ((HEAVY_WAIT_MS_MAX - 1, "light"), (HEAVY_WAIT_MS_MAX, "heavy")):
        queue = FairQueue()
        queue.charge("heavy", OWED_US_CAP, 0)
        queue.add("heavy", 7)
        queue.add("light", 7)
        assert queue.take(7 + late_ms, True) == first


def test_names_of_those_that_owe_nothing_are_forgotten() -> None:
    queue = FairQueue()
    for number in range(5 * NAMES_KEPT_MIN):
        queue.charge(f"g{number}", FORGIVEN_US_PER_MS, number)
        assert len(queue._owed) <= NAMES_KEPT_MIN + 1


def test_who_became_heavy_while_it_waited_is_served_when_it_has_rested() -> None:
    queue = FairQueue()
    queue.add("g", 1_000)
    queue.charge("g", OWED_US_CAP, 1_000)
    assert queue.take(queue.rested_at_ms, True) == "g"
