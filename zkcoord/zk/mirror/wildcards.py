"""The wildcards of all groups' members, and what the core is told of their matches.

A group whose wildcards are not matched yet is told at once, without them: the core decides nothing
for it until they are. What is left to match is matched between two turns of the loop, for
`MATCH_TURN_MS` of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import Malformed, Member, Pattern
from zkcoord.znodes.matching import PatternMatches

MATCH_TURN_MS = 5
PATTERNS_PER_GROUP_MAX = 64
NS_PER_MS = 1_000_000

Matches = Mapping[Pattern, frozenset[str]]


class Wildcards:
    """See the module. `matches` outlives the connection."""

    def __init__(self, matches: PatternMatches) -> None:
        self.matches = matches
        self.left_ns = MATCH_TURN_MS * NS_PER_MS
        self._of: dict[str, dict[str, Pattern]] = {}

    @property
    def due(self) -> bool:
        """Whether something is to be matched."""
        return self.matches.behind

    def group(self, group: str, delta: GroupDelta) -> tuple[GroupDelta, Matches]:
        """What was read of a group, without the members whose pattern is refused, and what the
        patterns in it match, as far as that is known.
        """
        known = {} if delta.full else self._of.get(group, {})
        members = delta.members
        fresh: set[Pattern] = set()
        for name in members:
            known.pop(name, None)
        # those that were there first, whatever order they were read in
        for name, member in sorted(_with_patterns(delta), key=lambda pair: pair[1].incarnation):
            pattern = member.subscription.pattern
            assert pattern is not None
            refusal = self._refusal(known, pattern)
            if refusal is not None:
                members = {**members, name: Malformed("registration", name, refusal)}
            else:
                known[name] = pattern
                fresh.add(pattern)
        self._keep(group, known)
        self._work()
        found = {pattern: self.matches.take(pattern) for pattern in sorted(fresh, key=repr)}
        return (
            delta if members is delta.members else replace(delta, members=members),
            {pattern: names for pattern, names in found.items() if names is not None},
        )

    def _refusal(self, known: Mapping[str, Pattern], pattern: Pattern) -> str | None:
        refused = self.matches.refusal(pattern)
        if refused is not None:
            return f"the pattern {refused.name} is of no use: {refused.reason}"
        distinct = set(known.values())
        if pattern not in distinct and len(distinct) >= PATTERNS_PER_GROUP_MAX:
            return (
                f"the members of its group name {PATTERNS_PER_GROUP_MAX} other patterns already:"
                " give the members of one group the same one"
            )
        return None

    def _keep(self, group: str, known: dict[str, Pattern]) -> None:
        if known:
            self._of[group] = known
        else:
            self._of.pop(group, None)
        self.matches.wanted_by(group, known.values())

    def forget(self, group: str) -> None:
        """The group is gone, or left alone."""
        self._keep(group, {})

    def topics_are(self, topics: Collection[str]) -> Matches:
        """All topics that exist now; what patterns match that was matched at once."""
        self.matches.topics_are(topics)
        self._work()
        return self.matches.take_changed()

    def turn(self) -> Matches:
        """A turn of the loop begins: go on matching; what came of it."""
        self.left_ns = MATCH_TURN_MS * NS_PER_MS
        self._work()
        return self.matches.take_changed()

    def _work(self) -> None:
        if self.left_ns > 0 and self.matches.behind:
            self.left_ns = self.matches.work(self.left_ns)

    def take_spent_ns(self) -> Mapping[str, int]:
        """What matching took for each group since the last call."""
        return self.matches.take_spent_ns()

    def take_refused(self) -> Iterator[tuple[str, GroupDelta]]:
        """The groups whose members have a pattern that has just been refused, and these members."""
        for pattern in self.matches.take_refused():
            for group, known in sorted(self._of.items()):
                names = sorted(name for name, their in known.items() if their == pattern)
                if names:
                    why = self._refusal({}, pattern) or ""
                    self._keep(group, {n: p for n, p in known.items() if p != pattern})
                    yield (
                        group,
                        GroupDelta(members={n: Malformed("registration", n, why) for n in names}),
                    )


def _with_patterns(delta: GroupDelta) -> list[tuple[str, Member]]:
    return [
        (name, member)
        for name, member in delta.members.items()
        if isinstance(member, Member) and member.subscription.pattern is not None
    ]
