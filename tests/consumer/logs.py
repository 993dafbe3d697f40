"""A partition's log, as batches of bytes like a broker's, with what a log can have: gaps of
compaction, batches without records, transactions that were aborted, control batches.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kafka.consumer.fetcher import CompletedFetch, Fetcher
from kafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.fetch.buffer import FetchBuffer
from consumer.fetch.decoder import RecordsFrom

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT = struct.pack(">hh", 0, 0)


def batch(
    base: int,
    deltas: Sequence[int],
    last: int,
    epoch: int = 0,
    producer: int = -1,
    control: bool = False,
) -> bytes:
    """A batch of format 2 from `base`: records at these distances (value = their offset), the last
    offset `last` even where no record is there.
    """
    builder = DefaultRecordBatchBuilder(2, 0, False, producer, 0, 0, 1 << 20)
    for delta in deltas:
        builder.append(delta, 1_000, ABORT if control else None, str(base + delta).encode(), [])
    if not deltas:
        builder.append(0, 1_000, None, b"", [])
    made = bytearray(builder.build())
    if not deltas:
        del made[61:]
        struct.pack_into(">i", made, 8, len(made) - 12)
        struct.pack_into(">i", made, 57, 0)
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(">i", made, 12, epoch)
    struct.pack_into(
        ">h", made, 21, (TRANSACTIONAL if producer >= 0 else 0) | (CONTROL if control else 0)
    )
    struct.pack_into(">i", made, 23, last - base)
    struct.pack_into(">I", made, 17, calc_crc32c(memoryview(bytes(made))[21:]))
    return bytes(made)


class Log:
    """Batches one after the other; `readable` are the offsets of records that a reader sees."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: list[tuple[int, int, bytes]] = []
        self.readable: list[int] = []
        self.end = 0

    def append(
        self, deltas: Sequence[int], last: int | None = None, epoch: int = 0, control: bool = False
    ) -> None:
        """One batch from the end of the log; `last`: distance of its last offset."""
        length = (max(deltas) if deltas else 0) if last is None else last
        made = batch(self.end, deltas, self.end + length, epoch, 9 if control else -1, control)
        self.batches.append((self.end, self.end + length, made))
        self.readable += [] if control else [self.end + d for d in deltas]
        self.end += length + 1

    def grow(self, records: int, per_batch: int = 100) -> None:
        """So many records without gaps."""
        while records > 0:
            self.append(range(min(per_batch, records)))
            records -= per_batch

    def fetch(self, offset: int, size: int = 1 << 20, error: int = 0) -> Any:
        """A broker's answer to a fetch from `offset`: whole batches up to `size` bytes, one at
        least, and the beginning of the next.
        """
        data = b""
        for _first, last, made in self.batches:
            if last >= offset and (not data or len(data) < size):
                data += made if not data else made[: size - len(data)]
        found = SimpleNamespace(
            error_code=error,
            high_watermark=self.end,
            records=b"" if error else data,
            aborted_transactions=None,
            diverging_epoch=None,
            preferred_read_replica=-1,
            current_leader=None,
        )
        return CompletedFetch(self.partition, offset, 12, found, None)


class DecodingFetcher(Fetcher):
    """kafka-python's, with our decoder."""

    PartitionRecords = RecordsFrom


class Reader:
    """Buffers with kafka-python's own subscriptions and parsing, and logs instead of a broker."""

    def __init__(
        self,
        *logs: Log,
        max_poll_records: int = 500,
        max_buffered_bytes: int = 1 << 26,
        chunk: int = 1 << 20,
        **configs: Any,
    ) -> None:
        self.logs = {log.partition: log for log in logs}
        self.max_poll_records = max_poll_records
        self.chunk = chunk
        self.max_buffered_bytes = max_buffered_bytes
        self.subscriptions = SubscriptionState(offset_reset_strategy="earliest")
        cluster = SimpleNamespace(
            request_update=lambda: None, update_partition_leader=lambda *_: False
        )
        self.fetcher = DecodingFetcher(
            SimpleNamespace(_manager=SimpleNamespace(_net=None, cluster=cluster)),
            self.subscriptions,
            **configs,
        )
        self.buffers = FetchBuffer(self.subscriptions, self.fetcher._parse_fetched_data)
        self.assign(*self.logs)

    def assign(self, *partitions: TopicPartition, offset: int = 0) -> None:
        self.subscriptions.assign_from_user([])
        for tp in partitions:
            self.subscriptions.assignment.setdefault(tp, TopicPartitionState()).seek(
                OffsetAndMetadata(offset, "", -1)
            )

    def remove(self, tp: TopicPartition) -> None:
        self.subscriptions.assignment.pop(tp, None)
        self.buffers.drop(tp)

    def wanted(self) -> dict[TopicPartition, int]:
        """From where what would be fetched now."""
        return {
            tp: at.offset
            for tp, at in self.buffers.wanted(
                self.max_poll_records, self.chunk, self.max_buffered_bytes
            )[0].items()
        }

    def fetch(self, *only: TopicPartition) -> None:
        """One fetch of what is wanted (and among `only`), answered at once."""
        wanted, size = self.buffers.wanted(
            self.max_poll_records, self.chunk, self.max_buffered_bytes
        )
        for tp, at in wanted.items():
            if not only or tp in only:
                self.buffers.put(self.logs[tp].fetch(at.offset, size))

    def take(self, room: int | None = None) -> dict[int, list[int]]:
        """Offsets by partition number."""
        given: dict[TopicPartition, list[Any]] = {}
        self.buffers.take(self.max_poll_records if room is None else room, given)
        return {tp.partition: [r.offset for r in records] for tp, records in given.items()}

    def position(self, tp: TopicPartition) -> int:
        return int(self.subscriptions.assignment[tp].position.offset)
