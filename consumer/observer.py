"""What internal threads report as it happens: for logs, metrics and the processes of tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kafka.structs import TopicPartition

from consumer.core.messages import Notice


class AssignmentObserver(Protocol):
    """Sees what happens, when it happens, on internal threads. Methods must return at once and must
    not call the consumer; `now_ns` is wall-clock time in ns.
    """

    def on_assigned(self, offsets: Mapping[TopicPartition, int], now_ns: int) -> None:
        """Partitions came, and where they begin."""
        ...

    def on_revoke(self, partitions: Iterable[TopicPartition], now_ns: int) -> None:
        """Partitions are to be given up."""
        ...

    def on_revoked(self, positions: Mapping[TopicPartition, int], now_ns: int) -> None:
        """Partitions were given up, at these positions."""
        ...

    def on_lost(self, partitions: Iterable[TopicPartition], reason: str, now_ns: int) -> None:
        """Partitions are gone without notice."""
        ...

    def on_first_fetch(self, partition: TopicPartition, now_ns: int) -> None:
        """The first fetch response of a partition since it came."""
        ...

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        """Something worth a log line."""
        ...


class Observer:
    """An `AssignmentObserver` that does nothing: the default, and the base of applications' own,
    which define the methods that they care for.
    """

    def on_assigned(self, offsets: Mapping[TopicPartition, int], now_ns: int) -> None:
        """Nothing."""

    def on_revoke(self, partitions: Iterable[TopicPartition], now_ns: int) -> None:
        """Nothing."""

    def on_revoked(self, positions: Mapping[TopicPartition, int], now_ns: int) -> None:
        """Nothing."""

    def on_lost(self, partitions: Iterable[TopicPartition], reason: str, now_ns: int) -> None:
        """Nothing."""

    def on_first_fetch(self, partition: TopicPartition, now_ns: int) -> None:
        """Nothing."""

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        """Nothing."""
