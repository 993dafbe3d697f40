"""The wildcards of groups' members: told when they are matched, refused by name, and few in a
group. The clock is the test's.
"""

from __future__ import annotations

import pytest

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import Malformed, Member, Pattern, PatternKind, Subscription
from zkcoord.zk.mirror.wildcards import MATCH_TURN_MS, PATTERNS_PER_GROUP_MAX, Wildcards
from zkcoord.znodes import matching
from zkcoord.znodes.matching import PatternMatches
from zkcoord.znodes.patterns import compiled

MS = 1_000_000


class Clock:
    """Goes on by `cost_ns` with each match of a pattern that begins with `slow`."""

    now_ns = 0
    cost_ns = 0

    def engine(self, regex: str) -> Engine:
        return Engine(self, regex)


class Engine:
    """RE2's, on that clock."""

    def __init__(self, clock: Clock, regex: str) -> None:
        self.clock = clock
        self.slow = regex.startswith("slow")
        found = compiled(regex)
        assert not isinstance(found, Malformed)
        self.found = found

    def fullmatch(self, name: str) -> object:
        self.clock.now_ns += self.clock.cost_ns * self.slow
        return self.found.fullmatch(name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(matching, "compiled", made.engine)
    return made


def white(regex: str) -> Pattern:
    return Pattern(PatternKind.WHITE_LIST, regex)


def member(name: str, regex: str, incarnation: int = 1) -> Member:
    return Member(name, incarnation, incarnation, Subscription({}, white(regex)))


def delta(*members: Member, full: bool = False) -> GroupDelta:
    return GroupDelta(full=full, members={found.name: found for found in members})


def wildcards(clock: Clock, topics: int) -> Wildcards:
    found = Wildcards(PatternMatches(lambda: clock.now_ns))
    found.topics_are([f"t{number}" for number in range(topics)])
    return found


def test_what_is_matched_at_once_is_told_at_once(clock: Clock) -> None:
    w = wildcards(clock, 3)
    known, matches = w.group("g", delta(member("a", "t[01]")))
    assert known == delta(member("a", "t[01]")) and matches == {white("t[01]"): {"t0", "t1"}}
    assert w.turn() == {} and not w.due


def test_what_takes_longer_is_told_later_and_no_turn_takes_longer(clock: Clock) -> None:
    """The members are told at once, without what their wildcards match."""
    w = wildcards(clock, 1_000)
    clock.cost_ns = 40_000
    _, matches = w.group("g", delta(member("a", "slow|t.*")))
    assert matches == {} and w.due
    _, matches = w.group("h", delta(member("b", "slow|t.*")))
    assert matches == {}, "for them, too"
    turns = 0
    while not (matches := w.turn()):
        turns += 1
        assert clock.now_ns <= (turns + 1) * (MATCH_TURN_MS + 1) * MS
    assert list(matches) == [white("slow|t.*")] and len(matches[white("slow|t.*")]) == 1_000
    assert turns >= 1_000 * 40_000 // (MATCH_TURN_MS * MS) - 2 and w.turn() == {}


def test_whoever_asked_meanwhile_is_told_also_where_nothing_changed(clock: Clock) -> None:
    """The core forgets what nobody uses: it must hear again what it has been told before."""
    w = wildcards(clock, 1_000)
    w.group("g", delta(member("a", "slow|t.*")))
    clock.cost_ns = 40_000
    w.topics_are([f"t{number}" for number in range(1_000)] + [f"u{n}" for n in range(1_000)])
    w.forget("g")
    _, matches = w.group("h", delta(member("b", "slow|t.*")))
    assert matches == {}
    while not (matches := w.turn()):
        pass
    assert len(matches[white("slow|t.*")]) == 1_000


def test_members_whose_pattern_takes_too_long_are_named_in_all_groups(clock: Clock) -> None:
    w = wildcards(clock, 1_000)
    clock.cost_ns = 38 * MS
    w.group("g", delta(member("a", "slow|t.*"), member("good", "t1")))
    w.group("h", delta(member("b", "slow|t.*")))
    while w.due:
        w.turn()
    told = dict(w.take_refused())
    assert {(group, name) for group, found in told.items() for name in found.members} == {
        ("g", "a"),
        ("h", "b"),
    }
    bad = told["g"].members["a"]
    assert isinstance(bad, Malformed) and "slow|t.*" in bad.reason and "38000 us" in bad.reason
    before_ns = clock.now_ns
    again, matches = w.group("i", delta(member("c", "slow|t.*")))
    assert isinstance(again.members["c"], Malformed) and matches == {} and not w.due
    assert clock.now_ns == before_ns, "it is remembered"
    spent = w.take_spent_ns()
    assert spent["g"] > 30 * MS and "i" not in spent


def test_a_group_with_very_many_patterns_keeps_the_first(clock: Clock) -> None:
    """By their registrations' age, in whatever order they are read."""
    w = wildcards(clock, 3)
    count = PATTERNS_PER_GROUP_MAX + 3
    found, matches = w.group(
        "g", delta(*(member(f"m{n:03d}", f"t{n}", count - n) for n in range(count)), full=True)
    )
    bad = [name for name, one in found.members.items() if isinstance(one, Malformed)]
    assert bad == ["m000", "m001", "m002"] and len(matches) == PATTERNS_PER_GROUP_MAX
    why = found.members["m000"]
    assert isinstance(why, Malformed) and "the same one" in why.reason
    same, _ = w.group("g", delta(member("late", "t5", 10**6)))
    assert isinstance(same.members["late"], Member), "one that others have is none too many"


def test_what_groups_had_is_forgotten_with_them(clock: Clock) -> None:
    w = wildcards(clock, 3)
    w.group("g", delta(member("a", "t.*")))
    w.group("g", GroupDelta(members={"a": None}))
    w.group("h", delta(member("b", "t.*")))
    w.forget("h")
    w.group("i", delta(member("c", "t.*")))
    w.group("i", delta(full=True))
    assert w._of == {} and w.matches._of_group == {}
