"""The seam under the data path: who brings records of assigned partitions. kafka-python's fetcher,
extended (`consumer.fetch.fetcher`), is one; librdkafka's fetching beside it
(`consumer.fetch.librdkafka`) is the other.

Everything else of the data path (assignments, positions, seeks, pauses, resets, metadata) is
kafka-python's in both cases: the table of what is assigned, and where it stands, is read and
advanced by whoever brings records, under the table's own lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kafka.structs import TopicPartition

from zkcoord.zk.bell import Bell


class RecordSource(Protocol):
    """What brings records, and what it is asked."""

    lock: Any
    """The lock of the table."""

    wakeup: Bell
    """Set whenever `take` may find something that was not there before."""

    given: dict[TopicPartition, list[Any]]
    """What the last `take` gave, until somebody notes that it was handed out. Nothing that is given
    is missing here, also where a signal handler's exception ends `take`.
    """

    def take(self, max_records: int) -> tuple[dict[TopicPartition, list[Any]], bool]:
        """Up to `max_records` records by partition, of what is assigned and fetchable and where it
        stands, which advances; and whether nothing more needs to be fetched yet. Raises
        kafka-python's errors. Call under `lock`.
        """
        ...

    def send_fetches(self) -> Any:
        """Fetch what is wanted, and set `wakeup` when something comes. Not under `lock`."""
        ...

    def fetch_soon(self) -> None:
        """Fetch what is wanted while the application works on what `take` gave. Does not wait."""
        ...

    def newcomers(self, partitions: Iterable[TopicPartition]) -> None:
        """These are assigned, or sought, just now: fetch them at once, whatever else is out. Call
        under `lock`.
        """
        ...

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not assigned any more: drop what is buffered of them. Call under `lock`."""
        ...

    def report_leaderless(self) -> None:
        """Log which assigned partitions nobody leads, if that lasts. On the application's
        thread.
        """

    def update_highwater(self, tp: TopicPartition) -> None:
        """Write the high water mark of an assigned partition, as of the last fetch, into the table.
        Call under `lock`.
        """

    def use_brokers(self, servers: list[str]) -> None:
        """Go on with other brokers."""

    def close_connections(self) -> None:
        """Close the connections that kafka-python's consumer does not close."""

    @property
    def waiting_for_broker(self) -> bool:
        """Will `wakeup` be set when there is something new?"""
        ...

    @property
    def has_lost_place(self) -> bool:
        """Must an offset be looked up first, and nobody does it yet? Call under `lock`."""
        ...
