"""Which topics each wildcard matches, kept up to date with bounded work.

Each (pattern, topic) is matched once: a new topic costs one match for each pattern, a new pattern
one for each topic, and nothing is matched again because something else changed. The matching is
done in portions (`work`), pattern by pattern in turn, so that the thread that decides is never held
up for longer than it allows; what is not finished is not told.

The time that a pattern takes is counted on the thread's own clock. One that has used
`PATTERN_CPU_MS_MAX` at more than `NAME_CPU_US_MAX` for a name is refused from then on, and the
refusal outlives its members: no honest pattern needs a twentieth of that. Groups with the same
pattern share it. Not thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import re2

from zkcoord.core.model import Malformed, Pattern, PatternKind

from .names import shown
from .patterns import INTERNAL_TOPICS, compiled

PATTERN_CPU_MS_MAX = 50
NAME_CPU_US_MAX = 50
NAMES_JUDGED_MAX = 2_048
"""The average is of about so many latest names: one that is slow for some of them only is found."""
REFUSED_KEPT_MAX = 10_000
UNUSED_NAMES_KEPT_MAX = 200_000
"""Matches of patterns that nobody uses just now are kept up to so many names in all: a member that
comes and goes costs nothing.
"""
PORTION_NAMES_MAX = 256
PORTION_NS = 500_000
STALE_NAMES_MAX = 1_000
NS_PER_MS, NS_PER_US = 1_000_000, 1_000


@dataclass(slots=True)
class _Pattern:
    """One pattern. The names from `at` on are still to be matched; `news` says what that changed,
    until it is taken into `matched`.
    """

    engine: re2._Regexp
    groups: set[str] = field(default_factory=set)
    at: int = 0
    news: dict[str, bool] = field(default_factory=dict)
    matched: frozenset[str] = frozenset()
    cpu_ns: int = 0
    names: int = 0


class PatternMatches:
    """See the module. `cpu_ns` is the clock that work is counted with."""

    def __init__(self, cpu_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self._cpu_ns = cpu_ns
        self._topics: set[str] = set()
        # all names in the order of their coming; those of topics that are gone stay for a while
        self._names: list[str] = []
        self._patterns: dict[Pattern, _Pattern] = {}
        self._of_group: dict[str, frozenset[Pattern]] = {}
        self._unused: dict[Pattern, None] = {}
        self._behind: dict[Pattern, None] = {}
        self._refused: dict[str, Malformed] = {}
        self._changed: dict[Pattern, None] = {}
        self._refused_now: dict[Pattern, None] = {}
        self._spent_ns: dict[str, int] = {}

    # what there is

    def topics_are(self, topics: Collection[str]) -> None:
        """All topics that exist now."""
        gone = self._topics.difference(topics)
        come = [name for name in topics if name not in self._topics]
        self._topics = set(topics)
        for pattern, known in self._patterns.items():
            lost = [name for name in gone if name in known.matched or name in known.news]
            if lost:
                known.news.update(dict.fromkeys(lost, False))
            if known.groups and (lost or come):
                self._behind[pattern] = None
        self._names.extend(come)
        if len(self._names) > 2 * len(self._topics) + STALE_NAMES_MAX:
            self._forget_stale_names()

    def _forget_stale_names(self) -> None:
        last = {name: at for at, name in enumerate(self._names)}
        kept = [
            at for at, name in enumerate(self._names) if last[name] == at and name in self._topics
        ]
        place = 0
        before: dict[int, int] = {}
        for at in sorted({known.at for known in self._patterns.values()}):
            while place < len(kept) and kept[place] < at:
                place += 1
            before[at] = place
        for known in self._patterns.values():
            known.at = before[known.at]
        self._names = [self._names[at] for at in kept]

    def wanted_by(self, group: str, patterns: Iterable[Pattern]) -> None:
        """All patterns of a group's members; none: forget the group."""
        wanted = frozenset(patterns)
        before = self._of_group.pop(group, frozenset())
        if wanted:
            self._of_group[group] = wanted
        for pattern in wanted - before:
            self._want(pattern, group)
        for pattern in before - wanted:
            known = self._patterns.get(pattern)
            if known is not None:
                known.groups.discard(group)
                if not known.groups:
                    self._unused[pattern] = None
        if before - wanted:
            self._forget_unused()

    def forget_groups(self) -> None:
        """Another term begins: who is there is told anew."""
        for group in list(self._of_group):
            self.wanted_by(group, ())

    def _want(self, pattern: Pattern, group: str) -> None:
        self._unused.pop(pattern, None)
        known = self._patterns.get(pattern)
        if known is None:
            engine = compiled(pattern.regex)
            if isinstance(engine, Malformed):
                self._refuse(pattern, engine)
                return
            known = self._patterns[pattern] = _Pattern(engine)
            self._changed[pattern] = None
        known.groups.add(group)
        if known.at < len(self._names) or known.news:
            self._behind[pattern] = None

    def _forget_unused(self) -> None:
        kept = sum(len(self._patterns[pattern].matched) + 1 for pattern in self._unused)
        while kept > UNUSED_NAMES_KEPT_MAX:
            pattern = next(iter(self._unused))
            kept -= len(self._patterns[pattern].matched) + 1
            self._forget(pattern)

    def _forget(self, pattern: Pattern) -> None:
        for part in (self._patterns, self._unused, self._behind, self._changed):
            part.pop(pattern, None)

    # matching

    @property
    def behind(self) -> bool:
        """Whether there is work."""
        return bool(self._behind)

    def work(self, budget_ns: int) -> int:
        """Match for so long (ns of the thread's clock), one portion beyond at most. Returns what
        is left.
        """
        until = self._cpu_ns() + budget_ns
        while self._behind and (now := self._cpu_ns()) < until:
            pattern = next(iter(self._behind))
            del self._behind[pattern]  # and to the end of the queue, where it is not finished
            known = self._patterns[pattern]
            self._portion(pattern, known, min(until, now + PORTION_NS))
            spent = self._cpu_ns() - now
            for group in known.groups:
                self._spent_ns[group] = self._spent_ns.get(group, 0) + spent // len(known.groups)
        return max(0, until - self._cpu_ns())

    def _portion(self, pattern: Pattern, known: _Pattern, until: int) -> None:
        black, count = pattern.kind is PatternKind.BLACK_LIST, 1
        began = self._cpu_ns()
        while known.at < len(self._names) and (began < until or count == 1):
            names = self._names[known.at : known.at + count]
            for name in names:
                if name in self._topics and (pattern.internal or name not in INTERNAL_TOPICS):
                    hit = known.engine.fullmatch(name) is not None
                    if hit != black:
                        known.news[name] = True
            known.at += len(names)
            now = self._cpu_ns()
            if self._too_slow(known, now - began, len(names)):
                reason = (
                    f"it took {known.cpu_ns // NS_PER_US // max(1, known.names)} us for a topic's"
                    f" name, more than the {NAME_CPU_US_MAX} that a pattern may take: name fewer"
                    " repetitions"
                )
                self._refuse(pattern, Malformed("pattern", shown(pattern.regex), reason))
                return
            began, count = now, min(2 * count, PORTION_NAMES_MAX)
        if known.at < len(self._names):
            self._behind[pattern] = None
        elif known.news:
            self._take_news(pattern, known)

    def _too_slow(self, known: _Pattern, took_ns: int, names: int) -> bool:
        if known.names >= NAMES_JUDGED_MAX:
            known.names, known.cpu_ns = known.names // 2, known.cpu_ns // 2
        known.cpu_ns += took_ns
        known.names += names
        return known.cpu_ns > PATTERN_CPU_MS_MAX * NS_PER_MS and (
            known.cpu_ns > known.names * NAME_CPU_US_MAX * NS_PER_US
        )

    def _take_news(self, pattern: Pattern, known: _Pattern) -> None:
        gone = {name for name, there in known.news.items() if not there}
        come = {name for name, there in known.news.items() if there}
        known.news = {}
        matched = (known.matched - gone) | come
        if matched != known.matched:
            known.matched = matched
            self._changed[pattern] = None

    def _refuse(self, pattern: Pattern, why: Malformed) -> None:
        self._forget(pattern)
        self._refused[pattern.regex] = why
        self._refused_now[pattern] = None
        if len(self._refused) > REFUSED_KEPT_MAX:
            del self._refused[next(iter(self._refused))]

    # what came of it

    def take(self, pattern: Pattern) -> frozenset[str] | None:
        """What a pattern matches, told herewith; None while that is not known."""
        known = self._patterns.get(pattern)
        if known is None:
            return None
        if pattern in self._behind:
            self._changed[pattern] = None  # whoever asked is told then, whatever it will be
            return None
        self._changed.pop(pattern, None)
        return known.matched

    def refusal(self, pattern: Pattern) -> Malformed | None:
        """Why a pattern is refused; None where it is not."""
        return self._refused.get(pattern.regex)

    def take_changed(self) -> Mapping[Pattern, frozenset[str]]:
        """What patterns in use match, where that changed since the last call."""
        ready = sorted((p for p in self._changed if p not in self._behind), key=repr)
        for pattern in ready:
            del self._changed[pattern]
        return {
            pattern: self._patterns[pattern].matched
            for pattern in ready
            if self._patterns[pattern].groups
        }

    def take_refused(self) -> tuple[Pattern, ...]:
        """What was refused since the last call."""
        found, self._refused_now = tuple(self._refused_now), {}
        return found

    def take_spent_ns(self) -> Mapping[str, int]:
        """What the groups' patterns took since the last call."""
        spent, self._spent_ns = self._spent_ns, {}
        return spent
