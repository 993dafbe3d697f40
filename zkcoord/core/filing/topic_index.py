"""Which groups concern a topic or a wildcard: kept member by member, so that a member that comes or
goes costs its own subscription and not those of all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from zkcoord.core.model import Member, Pattern, Subscription

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Group:
    """What a group's members name, and how many of them do."""

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    away: frozenset[str] = frozenset()
    topics: Counter[str] = field(default_factory=Counter)
    patterns: Counter[Pattern] = field(default_factory=Counter)


@dataclass
class TopicsNamed:
    """What a group names that it has not named before: topics, wildcards. `unused`: the wildcards
    that nobody has any more.
    """

    topics: set[str] = field(default_factory=set)
    patterns: set[Pattern] = field(default_factory=set)
    unused: list[Pattern] = field(default_factory=list)


class TopicIndex:
    """`groups_of_topic` has the groups whose members name a topic, `groups_of_pattern` those whose
    members have a wildcard; nobody's are in neither.
    """

    def __init__(self) -> None:
        self.groups_of_topic: dict[str, set[str]] = {}
        self.groups_of_pattern: dict[Pattern, set[str]] = {}
        self._of: dict[str, _Group] = {}

    def __len__(self) -> int:
        return len(self._of)

    def named(self) -> frozenset[str] | None:
        """The topics that members name; None: some have wildcards."""
        return None if self.groups_of_pattern else frozenset(self.groups_of_topic)

    def patterns(self, group: str) -> Iterable[Pattern]:
        """The wildcards of a group's members."""
        found = self._of.get(group)
        return found.patterns if found is not None else ()

    def members(self, group: str) -> Iterable[str]:
        """The members that are known of a group."""
        found = self._of.get(group)
        return tuple(found.subscriptions) if found is not None else ()

    def take(
        self, group: str, names: Iterable[str], members: Mapping[str, Member], away: set[str]
    ) -> TopicsNamed:
        """These members of a group came, went or changed, and `away` is what concerns it beside its
        members. What comes counts before what goes, in whichever order they are named: what one has
        named who goes, and another names who comes, was named all the time.
        """
        news = TopicsNamed()
        found = self._of.setdefault(group, _Group())
        gone: list[Subscription] = []
        for name in names:
            member = members.get(name)
            before = found.subscriptions.get(name)
            if member is not None and member.subscription == before:
                continue
            found.subscriptions.pop(name, None)
            if member is not None:
                found.subscriptions[name] = member.subscription
                self._count(group, found, member.subscription, 1, news)
            if before is not None:
                gone.append(before)
        new, past = away - found.away, found.away - away
        news.topics |= _add(self.groups_of_topic, found.topics, new, group, 1)
        for subscription in gone:
            self._count(group, found, subscription, -1, news)
        _add(self.groups_of_topic, found.topics, past, group, -1)
        found.away = frozenset(away)
        unused = [p for p, count in found.patterns.items() if not count]
        news.unused = self._forget_unused(group, found, unused)
        return news

    def _count(
        self, group: str, found: _Group, wanted: Subscription, by: int, news: TopicsNamed
    ) -> None:
        if wanted.pattern is not None:
            named = (wanted.pattern,)
            news.patterns |= _add(
                self.groups_of_pattern, found.patterns, named, group, by, keep=True
            )
        else:
            news.topics |= _add(self.groups_of_topic, found.topics, wanted.topics, group, by)

    def _forget_unused(self, group: str, found: _Group, unused: list[Pattern]) -> list[Pattern]:
        gone = []
        for pattern in unused:
            del found.patterns[pattern]
            groups = self.groups_of_pattern[pattern]
            groups.discard(group)
            if not groups:
                del self.groups_of_pattern[pattern]
                gone.append(pattern)
        if not found.subscriptions and not found.away:
            del self._of[group]
        return gone


def _add(
    index: dict[K, set[str]],
    counts: Counter[K],
    keys: Iterable[K],
    group: str,
    by: int,
    keep: bool = False,
) -> set[K]:
    """Count keys of a group up or down; one that is at nothing leaves the index, unless kept.
    Returns those that were at nothing before.
    """
    new = set()
    for key in keys:
        counts[key] += by
        if by > 0:
            if counts[key] == by:
                new.add(key)
            index.setdefault(key, set()).add(group)
        elif not counts[key] and not keep:
            del counts[key]
            groups = index[key]
            groups.discard(group)
            if not groups:
                del index[key]
    return new
