"""How the work of matching is shared and what is told of it, to the name and the nanosecond; the
clock is the test's, as in `test_matching`.
"""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.znodes.test_matching import LONG, MS, US, World
from tests.znodes.test_patterns import black, white
from zkcoord.znodes import matching
from zkcoord.znodes.matching import NAMES_JUDGED_MAX, PORTION_NS, PatternMatches
from zkcoord.znodes.patterns import match_patterns


@pytest.fixture
def w(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def settle(w: World) -> None:
    """All that there is to tell so far is told."""
    w.work()
    w.matches.take_spent_ns()
    w.matched()


# what is told


def test_a_pattern_that_covers_nothing_is_told_as_well(w: World) -> None:
    w.topics(["a"])
    w.group("g", white("x"))
    assert w.work() == {white("x"): frozenset()}
    assert w.work() == {}


def test_what_is_known_is_told_at_once_and_once(w: World) -> None:
    w.topics(["a", "b"])
    w.group("g", white("a"))
    w.matches.work(LONG)
    w.group("other", white("a"))
    assert not w.matches.behind and w.matches.take(white("a")) == {"a"}
    assert w.matches.take_changed() == {}


def test_who_asks_while_a_pattern_is_behind_is_told_though_nothing_changes(w: World) -> None:
    w.topics(["a"])
    w.group("g", white("a"))
    settle(w)
    w.topics(["a", "b"])
    assert w.matches.take(white("a")) is None
    assert w.work() == {white("a"): {"a"}}


def test_internal_topics_are_covered_where_the_pattern_says_so(w: World) -> None:
    patterns = [white("_.*"), white("_.*", internal=True), black("a")]
    topics = ["a", "b", "__consumer_offsets"]
    w.topics(topics)
    w.group("g", *patterns)
    w.work()
    assert w.found == match_patterns(patterns, topics)


def test_without_changes_or_groups_there_is_no_work(w: World) -> None:
    w.topics(["a"])
    w.group("g", white("a"))
    settle(w)
    w.topics(["a"])
    assert not w.matches.behind
    w.matches.forget_groups()
    w.topics(["a", "b"])
    assert not w.matches.behind and w.work() == {}


# how the work is shared


@pytest.mark.parametrize(
    ("cost_ns", "topics", "taken"),
    [
        # each time twice as many as before, until half a millisecond is over
        (10 * US, 70, [63, 63, 7, 7]),
        (PORTION_NS, 2, [1, 1, 1, 1]),
    ],
)
def test_patterns_take_turns_of_half_a_millisecond(
    w: World, cost_ns: int, topics: int, taken: list[int]
) -> None:
    w.cost_ns = cost_ns
    w.topics([f"t{number}" for number in range(topics)])
    w.group("g", white("t.*"), white("t.+"))
    w.work()
    assert [len(list(turn)) for _, turn in groupby(w.order)] == taken


def test_a_thread_that_is_always_late_goes_on_by_a_name() -> None:
    """Its clock goes on between any two looks at it by more than a portion may take."""
    now_ns = 0

    def clock() -> int:
        nonlocal now_ns
        now_ns += MS
        return now_ns

    matches = PatternMatches(clock)
    matches.topics_are(["a"])
    matches.wanted_by("g", [white("a")])
    matches.work(2 * MS)
    assert matches.take(white("a")) == {"a"}


def test_work_says_what_it_left_and_does_nothing_in_no_time(w: World) -> None:
    w.now_ns, w.cost_ns = 7 * MS, 10 * US
    w.topics(["a", "b", "c"])
    w.group("g", white("a"))
    assert w.matches.work(0) == 0 and w.matched() == 0
    assert w.matches.work(100 * US) == 70 * US and w.matched() == 3
    w.topics(["a", "b", "c", "d"])
    assert w.matches.work(3 * US) == 0 and w.matched() == 1


def test_groups_with_the_same_pattern_share_what_it_takes(w: World) -> None:
    w.now_ns, w.cost_ns = 7 * MS, 10 * US
    w.topics(["a", "b"])
    w.group("g", white("a"))
    w.group("h", white("a"), white("b"))
    w.work()
    assert w.matches.take_spent_ns() == {"g": 10 * US, "h": 30 * US}


# patterns that take too long


@pytest.mark.parametrize(("names", "cost_ns"), [(1, 50 * MS), (1_500, 50 * US)])
def test_how_long_a_pattern_may_take(w: World, names: int, cost_ns: int) -> None:
    """50 ms in all, and 50 us for a name: more than both is too much."""
    for more in (0, 1):
        w.cost_ns = cost_ns + more
        w.topics([f"t{number}" for number in range(names)])
        w.group("g", white(f"t.*|{more}"))
        w.work()
        assert w.matches.take_refused() == (white(f"t.*|{more}"),) * more


def test_each_name_counts_once_in_the_average(w: World) -> None:
    """Also where fewer are left than are matched at once."""
    w.slow, w.cost_ns = "b", 60 * MS
    w.topics(["a", "b"])
    w.group("g", white(".*"))
    w.work()
    refusal = w.matches.refusal(white(".*"))
    assert refusal is not None and refusal.reason.startswith("it took 30000 us")


def test_what_a_pattern_took_long_ago_counts_less(w: World) -> None:
    """5 us less than it might for each of many names do not make up for what is slow now."""
    w.cost_ns = 45 * US
    names = [f"t{number}" for number in range(NAMES_JUDGED_MAX)]
    w.topics(names)
    w.group("g", white(".*"))
    w.work()
    assert w.matches.take_refused() == ()
    w.cost_ns = 6 * MS
    w.topics([*names, "trap"])
    w.work()
    assert w.matches.take_refused() == (white(".*"),)


def test_a_refused_pattern_is_not_matched_any_more(w: World) -> None:
    w.topics(["a"])
    w.cost_ns = 60 * MS
    w.group("g", white("a"))
    w.work()
    assert w.matched() == 1
    w.topics(["a", "b"])
    assert w.work() == {} and w.matched() == 0 and w.matches.take(white("a")) is None


def test_the_oldest_refusals_are_forgotten(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "REFUSED_KEPT_MAX", 2)
    w.topics(["a"])
    w.cost_ns = 60 * MS
    for regex in ("a", "b", "c"):
        w.group("g", white(regex))
        w.work()
    assert [w.matches.refusal(white(regex)) is not None for regex in "abc"] == [False, True, True]


# what is kept


def test_what_nobody_uses_is_kept_up_to_so_many_names(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern counts as one, and each name that it covers as another."""
    monkeypatch.setattr(matching, "UNUSED_NAMES_KEPT_MAX", 10)
    patterns = [white(f"a|{number}") for number in range(8)]

    def kept() -> list[bool]:
        return [w.matches.take(pattern) is not None for pattern in patterns]

    w.topics(["a"])
    w.group("g", *patterns)
    w.work()
    for number in range(5):
        w.group("g", *patterns[number + 1 :])
    assert all(kept()), "just as many as may be"
    w.group("g", *patterns[6:])
    assert kept() == [False] + [True] * 7, "the oldest goes"
    w.group("g", patterns[1])
    w.group("g")
    assert kept().count(True) == 5
    patterns = [white(f"a|x{number}") for number in range(8)]
    w.group("g", *patterns)
    w.work()
    w.group("g")
    assert kept().count(True) == 5, "many at once"


def test_a_pattern_that_is_used_again_is_not_forgotten(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "UNUSED_NAMES_KEPT_MAX", 2)
    w.topics(["a"])
    w.group("g", white("a"), white("a|b"))
    w.work()
    w.group("g", white("a|b"))
    w.group("back", white("a"))
    w.group("g")
    w.group("other", white("a|c"))
    w.work()
    w.group("other")
    assert w.matches.take(white("a")) == {"a"}


def test_when_names_of_topics_that_are_gone_are_forgotten(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "STALE_NAMES_MAX", 10)
    kept = ["a", "b", "c", "d"]
    for number in range(20 - len(kept)):
        w.topics([*kept, f"t{number}"])
    assert len(w.matches._names) == 20, "twice as many as there are, and 10"
    w.topics([*kept, "a-new-one"])
    assert sorted(w.matches._names) == sorted([*kept, "a-new-one"])
    w.topics([])


@pytest.mark.parametrize("done", range(25))
@pytest.mark.parametrize("more", [[], ["new"]])
def test_whatever_was_matched_before_names_are_forgotten_each_is_once(
    w: World, monkeypatch: pytest.MonkeyPatch, done: int, more: list[str]
) -> None:
    monkeypatch.setattr(matching, "STALE_NAMES_MAX", 3)
    names = [f"t{number}" for number in range(24)]
    w.group("g", white(".*"))
    w.topics(names[:3])
    settle(w)
    w.topics([])
    w.topics(names)  # the first three have come twice
    w.cost_ns = MS
    w.work(1)
    while w.matches.behind and w.count < done:
        w.matches.work(1)
    done = w.matched()
    left = [*names[1:9:3], *names[-4:-2], *more]
    w.topics(left)
    assert len(w.matches._names) == len(left)
    w.work()
    assert w.found[white(".*")] == set(left)
    assert w.matched() == len([name for name in left if name in more or names.index(name) >= done])
