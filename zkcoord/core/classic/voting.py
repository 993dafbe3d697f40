"""Which protocol a group uses: members vote for what all of them support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .requests import Protocols


class Ballot:
    """How many members support which protocol."""

    def __init__(self) -> None:
        self.members = 0
        self._supporters: Counter[str] = Counter()

    def add(self, protocols: Protocols) -> None:
        """A member with these."""
        self.members += 1
        self._supporters.update({name for name, _ in protocols})

    def remove(self, protocols: Protocols) -> None:
        """It is gone."""
        self.members -= 1
        for name in {name for name, _ in protocols}:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]

    def accepts(self, protocols: Protocols) -> bool:
        """Whether one of these is supported by all members that there are."""
        return any(self._supporters[name] == self.members for name, _ in protocols)

    def elected(self, lists: Iterable[Protocols]) -> str:
        """What these members, all there are, vote for: each the first of its own that all support.
        Of as many votes, the one that was named first.
        """
        votes: Counter[str] = Counter()
        for protocols in lists:
            first = (name for name, _ in protocols if self._supporters[name] == self.members)
            votes.update([next(first)])
        return max(votes, key=lambda name: votes[name])
