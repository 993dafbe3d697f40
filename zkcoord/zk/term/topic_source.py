"""What serves a connection of a term with topics and brokers (`zkcoord.topics.source`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zkcoord.core.events import Record
from zkcoord.zk.port import Check, Port

Names = frozenset[str] | None


class TopicSource(Protocol):
    """What a term serves of it."""

    @property
    def problem(self) -> str:
        """In a sentence without a full stop, why nothing new is heard; "" where it is."""

    def begin(self) -> None:
        """Look at what is there."""

    def lost(self) -> None:
        """The connection is gone: answers still to come mean nothing."""

    def groups_changed(self) -> None:
        """A group may name another topic."""

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""

    def tick(self) -> None:
        """Do what is due."""


TopicSourceOf = Callable[
    [
        Port,
        Check,
        Callable[[], frozenset[str] | None],
        Callable[[Record], None],
        Callable[[str], None],
    ],
    TopicSource,
]
"""Makes one of a connection of a term: its port, its fence, which topics groups name (None: all),
who takes records, and who is told that another coordinator leads.
"""
