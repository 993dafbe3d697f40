"""What simulated clients of gateways are, and to whom they report."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from zkcoord.core.model import TopicPartition

if TYPE_CHECKING:
    from tests.sim.wire_client import WireClient


class WireWitness(Protocol):
    """What a client reports."""

    def given(self, client: WireClient, added: Collection[TopicPartition]) -> None:
        """A SyncGroup gave it these, which it did not have."""

    def begins(
        self, client: WireClient, partition: TopicPartition, offset: int, resets: int
    ) -> None:
        """It was told where a partition begins, having asked when `resets` were made of it."""

    def handed_out(
        self, client: WireClient, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        """Records first..next_offset-1 were given to its code."""

    def processed(self, client: WireClient, partition: TopicPartition, next_offset: int) -> None:
        """Every record below `next_offset` that it was given is processed."""

    def synced(self, client: WireClient, generation: int, given: bool) -> None:
        """It was given an assignment."""

    def leaves(self, client: WireClient, had: Collection[TopicPartition]) -> None:
        """It sends LeaveGroup, and had these."""

    def unexpected(self, client: WireClient, what: str) -> None:
        """It was answered what makes no sense."""

    def fenced(self, client: WireClient) -> None:
        """It was told that another client has its instance."""

    def acked(
        self, client: WireClient, partition: TopicPartition, offset: int, resets: int
    ) -> None:
        """A commit was answered well, which was asked for when `resets` were made."""

    def resets(self, client: WireClient, partition: TopicPartition) -> int:
        """How often an operator has reset it so far."""


@dataclass(slots=True)
class At:
    """Where a client stands in a partition that it has; None: it does not know yet."""

    processed: int | None = None
    handed: int = 0
    committed: int = -1


@dataclass(slots=True)
class WireHabits:
    """What a client is and does."""

    group: str
    topics: tuple[str, ...]
    cooperative: bool
    instance: str | None
    assignors: tuple[str, ...]
    session_ms: int
    interval_ms: int
    rebalance_ms: int
    commit_every_ms: int
    slow_chance: float = 0.0
    asks_again: bool = False
