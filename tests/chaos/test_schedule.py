"""Schedules: the same for the same seed, and never two faults that would make a finding the
schedule's own.
"""

from __future__ import annotations

import itertools

import pytest

from tests.chaos.jumping import HOUR_MS, WallClock
from tests.chaos.schedule import (
    ATTEMPTS_MAX,
    BROKER,
    COORDINATORS,
    SESSION_MS,
    VISITORS,
    ZOOKEEPER,
    Happening,
    Kind,
    Who,
    conflict,
    drawn,
    shown,
    slots_of,
    titled,
)

CONSUMERS = ("a1", "a2", "b1", "b2")
SEEDS = range(60)


def test_a_seed_gives_the_same_schedule_every_time() -> None:
    assert drawn(7, 60, CONSUMERS) == drawn(7, 60, CONSUMERS)
    assert shown(drawn(7, 60, CONSUMERS)) != shown(drawn(8, 60, CONSUMERS))
    assert drawn(7, 60, CONSUMERS, reversed(Kind)) == drawn(7, 60, CONSUMERS), (
        "the order in which the kinds are named does not count"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_every_fault_ends_in_time_and_none_conflicts_with_another(seed: int) -> None:
    schedule = drawn(seed, 60, CONSUMERS)
    assert len(schedule) >= 8
    assert all(
        h.at_ms > 0 and h.end_ms <= 60_000 and h.slot in slots_of(CONSUMERS, h.kind.who)
        for h in schedule
    )
    assert not [pair for pair in itertools.combinations(schedule, 2) if conflict(*pair)]
    assert list(schedule) == sorted(schedule, key=lambda h: (h.at_ms, h.slot))


def test_all_kinds_come_up() -> None:
    assert {h.kind for seed in SEEDS for h in drawn(seed, 60, CONSUMERS)} == set(Kind)


def test_only_what_is_asked_for_is_drawn() -> None:
    kinds = {Kind.CONSUMER_KILLED, Kind.LEADER_KILLED}
    assert {h.kind for h in drawn(3, 60, CONSUMERS, kinds)} == kinds


def test_what_conflicts() -> None:
    def at(at_ms: int, slot: str, kind: Kind, for_ms: int = 1_000) -> Happening:
        return Happening(at_ms, slot, kind, for_ms)

    stop = at(1_000, "a1", Kind.CONSUMER_STOPPED_LONG, 9_000)
    assert conflict(stop, at(9_000, "a1", Kind.CONSUMER_KILLED)), "one fault at a time per slot"
    assert not conflict(stop, at(9_000, "a2", Kind.CONSUMER_KILLED)), "but of two slots at once"
    assert not conflict(stop, at(20_000, "a1", Kind.CONSUMER_KILLED))
    assert conflict(
        at(1_000, VISITORS[0], Kind.CONSUMER_VISITS), at(1_500, ZOOKEEPER, Kind.LEADER_KILLED)
    ), "a clean close needs an ensemble"
    assert conflict(
        at(1_000, ZOOKEEPER, Kind.LEADER_KILLED), at(1_500, BROKER, Kind.BROKER_KILLED)
    ), "so does a broker's start"
    assert not conflict(
        at(1_000, ZOOKEEPER, Kind.LEADER_KILLED), at(1_500, BROKER, Kind.BROKER_STOPPED)
    )
    for slot, kind in (("a1", Kind.CONSUMER_KILLED), (VISITORS[0], Kind.CONSUMER_VISITS)):
        assert conflict(at(1_000, BROKER, Kind.BROKER_KILLED), at(1_500, slot, kind)), (
            "no consumer starts while the only broker is down"
        )
    assert not conflict(
        at(1_000, BROKER, Kind.BROKER_KILLED), at(1_500, "a1", Kind.CONSUMER_STOPPED_LONG)
    )
    assert not conflict(
        at(1_000, COORDINATORS[0], Kind.COORDINATOR_KILLED),
        at(1_000, ZOOKEEPER, Kind.QUORUM_LOST_LONG),
    ), "a coordinator may die while there is no quorum"


def test_names_say_what_a_duration_is_for() -> None:
    assert all(kind.high_ms < SESSION_MS for kind in Kind if "less than" in kind.value)
    assert all(
        kind.low_ms > SESSION_MS
        for kind in Kind
        if "past its session" in kind.value or "longer than a session" in kind.value
    )
    assert {kind.who for kind in Kind} == set(Who)
    assert ATTEMPTS_MAX > 0


def test_a_wall_clock_jumps_an_hour_forward_and_two_back() -> None:
    wall = WallClock()
    ahead = []
    for _ in range(3):
        wall.jump(0, None)
        ahead.append(round((wall.now_ms() - wall.real()) / HOUR_MS))
    assert ahead == [1, -1, 1]


def test_a_table_is_called_by_what_was_played() -> None:
    assert titled([9], 2.5) == "1 schedule of 2.5 s, seed 9"
    assert titled([3, 7, 5, 6, 12], 60) == "5 schedules of 60 s, seeds 3, 5 to 7, 12"
