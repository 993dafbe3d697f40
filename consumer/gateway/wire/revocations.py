"""What a member's agent asks to have back, until its client has let go of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from zkcoord.core.model import TopicPartition

Partitions = frozenset[TopicPartition]
Stored = tuple[int, str]
"""Offset, and the text beside it."""


@dataclass(slots=True)
class Revocations:
    """By the agent's tokens. Of those `in_part` a part may be given up first. `given`: what was
    given up last, with where it stood; for what is resumed after all that answer is void.
    """

    asked: dict[int, Partitions] = field(default_factory=dict)
    in_part: set[int] = field(default_factory=set)
    given: dict[TopicPartition, Stored] = field(default_factory=dict)

    @property
    def due(self) -> Partitions:
        """What is to be given up and is not yet."""
        return frozenset().union(*self.asked.values()) if self.asked else frozenset()

    def ask(self, token: int, partitions: Collection[TopicPartition], in_part: bool) -> None:
        """The agent asks for these."""
        self.asked[token] = frozenset(partitions)
        if in_part:
            self.in_part.add(token)

    def withdraw(self, back: Partitions) -> dict[TopicPartition, Stored]:
        """These are not asked for any more; those of them that were given up already."""
        for token, partitions in list(self.asked.items()):
            self.asked[token] = partitions - back
            if not self.asked[token]:
                self._forget(token)
        return {tp: self.given.pop(tp) for tp in tuple(self.given) if tp in back}

    def answered(self, has: Partitions) -> Iterator[tuple[int, Partitions, Partitions]]:
        """Those of which the client has nothing any more, or not everything where a part will do:
        token, what is given up, what is kept for now.
        """
        for token, partitions in list(self.asked.items()):
            kept = partitions & has
            if kept and not (token in self.in_part and kept < partitions):
                continue
            self._forget(token)
            yield token, partitions - kept, kept

    def _forget(self, token: int) -> None:
        del self.asked[token]
        self.in_part.discard(token)
