"""What wildcards match, kept up to date: each name once, in portions, and no pattern for too long.
The clock is the test's: it goes on by what a match is said to take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tests.znodes.test_patterns import black, white
from zkcoord.core.model import Malformed, Pattern
from zkcoord.znodes import matching
from zkcoord.znodes.matching import (
    NAME_CPU_US_MAX,
    PATTERN_CPU_MS_MAX,
    PatternMatches,
)
from zkcoord.znodes.patterns import compiled, match_patterns

LONG = 10**12
US, MS = 1_000, 1_000_000


class Engine:
    """Takes `cost_ns` for a name that contains `slow`, and counts."""

    def __init__(self, world: World, regex: str) -> None:
        engine = compiled(regex)
        assert not isinstance(engine, Malformed)
        self.engine, self.regex = engine, regex
        self.world = world

    def fullmatch(self, name: str) -> object:
        self.world.count += 1
        self.world.order.append(self.regex)
        self.world.now_ns += self.world.cost_ns if self.world.slow in name else 0
        return self.engine.fullmatch(name)


class World:
    """Matches by a counted clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = self.count = self.cost_ns = 0
        self.slow = ""
        self.order: list[str] = []  # of matches: the pattern of each
        self.found: dict[Pattern, frozenset[str]] = {}
        self.matches = PatternMatches(lambda: self.now_ns)
        monkeypatch.setattr(matching, "compiled", lambda regex: Engine(self, regex))

    def group(self, name: str, *patterns: Pattern) -> None:
        self.matches.wanted_by(name, patterns)

    def topics(self, names: Iterable[str]) -> None:
        self.matches.topics_are(list(names))

    def work(self, budget_ns: int = LONG) -> Mapping[Pattern, frozenset[str]]:
        self.matches.work(budget_ns)
        changed = self.matches.take_changed()
        self.found.update(changed)
        return changed

    def matched(self) -> int:
        """How many matches it has been since the last call."""
        count, self.count = self.count, 0
        return count


@pytest.fixture
def w(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_new_topic_costs_one_match_for_each_pattern(w: World) -> None:
    names = [f"t{number}" for number in range(100)]
    w.topics(names)
    w.group("g", white("t.*"), black("t1.*"))
    w.work()
    assert w.matched() == 200
    w.topics([*names, "tt"])
    assert w.work() == {white("t.*"): {*names, "tt"}, black("t1.*"): w.found[black("t1.*")]}
    assert w.matched() == 2 and "tt" in w.found[black("t1.*")]


def test_nothing_is_matched_again_because_something_else_changed(w: World) -> None:
    names = [f"t{number}" for number in range(100)]
    w.topics(names)
    w.group("g", white("t.*"))
    w.work()
    w.matched()
    w.group("other", white("t.*"))
    w.topics(names[1:])
    assert w.work() == {white("t.*"): set(names[1:])}
    w.group("g")
    w.group("other")
    w.group("back", white("t.*"))
    assert w.work() == {} and w.matches.take(white("t.*")) == set(names[1:])
    assert w.matched() == 0, "groups that come and go share what is known"
    w.topics(names)
    w.work()
    assert w.matched() == 1, "the topic that is back"


@pytest.mark.parametrize("budget_ns", [1, 3 * US, 70 * US])
def test_any_portions_give_what_matching_all_at_once_gives(w: World, budget_ns: int) -> None:
    """Topics come and go between the portions, also while a pattern is behind."""
    patterns = [white("t1.*"), black("t[0-4].*"), white(".*", internal=True), white("x|t7")]
    w.cost_ns = US
    names = [f"t{number}" for number in range(60)]
    rounds = [names[:30], names[10:50], [*names[40:], "x", "__consumer_offsets"], names[20:], names]
    for number, pattern in enumerate(patterns):
        w.group(f"g{number}", pattern)
    for topics in rounds:
        w.topics(topics)
        for _ in range(3):
            w.work(budget_ns)
    while w.matches.behind:
        w.work(budget_ns)
    assert w.found == match_patterns(patterns, names)


def test_topics_that_go_at_once_one_told_and_one_only_found(w: World) -> None:
    """While a pattern is behind, what it has matched of late is not told yet."""
    w.topics(["a"])
    w.group("g", white(".*"))
    assert w.work() == {white(".*"): {"a"}}
    w.cost_ns = MS
    w.topics(["a", "x", "y"])
    w.work(1)
    assert w.matches.behind
    w.topics(["y"])
    assert w.work() == {white(".*"): {"y"}}


def test_what_goes_while_nobody_uses_a_pattern(w: World) -> None:
    w.topics(["a", "b"])
    w.group("g", white(".*"))
    w.work()
    w.group("g")
    w.topics(["b"])
    w.group("back", white(".*"))
    assert w.work() == {white(".*"): {"b"}}


def test_a_pattern_goes_on_where_it_was_when_names_are_forgotten(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "STALE_NAMES_MAX", 10)
    names = [f"t{number}" for number in range(100)]
    w.group("g", white(".*"))
    w.topics(names)
    w.cost_ns = US
    w.work(20 * US)
    done = w.matched()
    assert 0 < done < 80 and w.matches.behind
    w.topics(names[::4])
    assert w.work() == {white(".*"): set(names[::4])}
    assert w.matched() == len([n for n in range(0, 100, 4) if n >= done]), "each once"


def test_names_of_topics_that_are_gone_are_forgotten(w: World) -> None:
    w.group("g", white(".*"))
    kept = [f"kept-{number}" for number in range(10)]
    for number in range(2_500):
        w.topics([*kept, f"t{number}"])
        w.work()
    assert w.found[white(".*")] == {*kept, "t2499"}
    assert len(w.matches._names) < 1_500  # the list that would grow


def test_patterns_that_nobody_uses_are_forgotten(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "UNUSED_NAMES_KEPT_MAX", 1_000)
    w.topics([f"t{number}" for number in range(50)])
    for number in range(100):
        w.group("g", white(f".*|{number}"))
        w.work()
    kept = sum(len(known.matched) + 1 for known in w.matches._patterns.values())
    assert kept <= 1_000 + 51
    w.group("g")
    w.matches.forget_groups()
    assert not w.matches._of_group


def test_work_ends_when_its_time_is_over_and_all_have_their_turn(w: World) -> None:
    """One pattern that takes long is no reason for another to wait until it is through."""
    w.topics([f"t{number}" for number in range(1_000)])
    w.cost_ns = 10 * US
    w.group("slow", white("t.*"))
    w.work(MS)
    w.group("other", white("t1"))
    began = w.now_ns
    turns = 0
    while not w.matches.take(white("t1")):
        w.work(MS)
        turns += 1
    assert w.now_ns - began < 2 * turns * MS and turns < 25
    assert w.matches.take(white("t.*")) is None or w.now_ns < 20 * MS + began
    spent = w.matches.take_spent_ns()
    assert spent["slow"] > 0 and spent["other"] > 0
    assert w.matches.take_spent_ns() == {}


def test_a_pattern_that_takes_too_long_is_refused_and_stays_so(w: World) -> None:
    w.topics([f"t{number}" for number in range(1_000)])
    w.cost_ns = 38 * MS
    w.group("g", white("bomb"))
    w.work()
    assert w.matches.take_refused() == (white("bomb"),) and w.matches.take_refused() == ()
    assert w.matched() == 2, "so many names at 38 ms are more than 50 ms"
    refusal = w.matches.refusal(white("bomb"))
    assert refusal is not None and refusal.reason.startswith("it took 38000 us")
    w.group("g")
    w.group("again", white("bomb"))
    assert w.matches.refusal(white("bomb")) is not None, "it is remembered"


def test_a_pattern_is_judged_by_its_average(w: World) -> None:
    """Much work for very many names is no fault of the pattern."""
    w.topics([f"t{number}" for number in range(20_000)])
    w.cost_ns = (NAME_CPU_US_MAX - 10) * US
    w.group("g", white("t.*"))
    w.work()
    assert w.now_ns > PATTERN_CPU_MS_MAX * MS and len(w.found[white("t.*")]) == 20_000
    w.slow, w.cost_ns = "trap", 38 * MS
    w.topics([*(f"t{number}" for number in range(20_000)), *(f"trap{n}" for n in range(100))])
    w.work()
    assert w.matches.take_refused() == (white("t.*"),), "slow for some names only"


def test_a_pattern_of_no_use_is_refused_by_the_engine() -> None:
    matches = PatternMatches()
    matches.topics_are(["t"])
    matches.wanted_by("g", [white("("), white("t")])
    matches.work(LONG)
    assert matches.take_refused() == (white("("),) and matches.take(white("t")) == {"t"}
