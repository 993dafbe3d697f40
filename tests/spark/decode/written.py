"""Topics with everything that a log can hold, and what was written into them, by the producer's own
reports: the reference that no engine has a part in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from confluent_kafka import Message, Producer

from consumer.spark.plan import PlannedRange
from tests.harness.kafka import create_topic, unique

FLUSH_S = 120.0
CODECS = ("none", "lz4", "zstd", "gzip", "snappy")
HEADERS: Sequence[list[tuple[str, bytes | None]] | None] = (
    None,
    None,
    [("a", b"1")],
    [("a", b""), ("a", None), ("größe", b"\x00\xff")],
    None,
    [("", b"x" * 300)],
)
KEYS = (None, b"", b"k", b"\x00\xff" * 9)
VALUES: Sequence[bytes | None] = (b"v" * 90, b"", None, b"short", b"\xfe" * 1200)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
UNCOMMITTED, COMMITTED = "read_uncommitted", "read_committed"
KEYS_OF_COMPACTED = 12
TRANSACTIONS = 12


@dataclass
class Log:
    """One partition: its records as rows (columns of the Spark source) by isolation level, and the
    offset after the last of anything.
    """

    topic: str
    partition: int
    rows: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {UNCOMMITTED: [], COMMITTED: []}
    )
    end: int = 0

    def within(self, wanted: PlannedRange, isolation: str) -> list[dict[str, Any]]:
        """What a reader must give."""
        return [row for row in self.rows[isolation] if wanted.start <= row["offset"] < wanted.end]


def row_of(message: Message, headers: Any) -> dict[str, Any]:
    """A delivered message as the Spark source's row."""
    kind, time_ms = message.timestamp()
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": EPOCH + timedelta(milliseconds=time_ms),
        "timestampType": kind - 1,
        "headers": [{"key": name, "value": value} for name, value in headers] if headers else None,
    }


class Writer:
    """Producers by what they need, and their reports."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, **settings: Any) -> Producer:
        """With reports, in order."""
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "linger.ms": 5,
                "acks": "all",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def send(
        self,
        producer: Producer,
        log: Log,
        number: int,
        note: Callable[[dict[str, Any]], None],
        when_ms: int,
    ) -> None:
        """The record of this number: key, value, headers and time follow from it."""
        headers = HEADERS[number % len(HEADERS)]

        def delivered(error: Any, message: Message) -> None:
            assert error is None, error
            note(row_of(message, headers))

        value = VALUES[number % len(VALUES)]
        producer.produce(
            log.topic,
            key=KEYS[number % len(KEYS)],
            value=value,
            partition=log.partition,
            headers=headers,
            timestamp=when_ms + number,
            on_delivery=delivered,
        )

    def mixed(self, topic: str, partition: int, batches: int, per_batch: int) -> Log:
        """Batches of all codecs in one log, keys and values that are null or empty, headers, the
        producer's own times.
        """
        log = Log(topic, partition)
        when_ms = int(time.time() * 1000) - 3_600_000
        producers = [
            self.producer(compression_type=codec, batch_num_messages=7) for codec in CODECS
        ]
        for batch in range(batches):
            producer = producers[batch % len(producers)]
            for number in range(per_batch):
                self.send(
                    producer,
                    log,
                    batch * per_batch + number + partition,
                    log.rows[UNCOMMITTED].append,
                    when_ms,
                )
            assert producer.flush(FLUSH_S) == 0
        return settled(log)

    def transactional(self, topic: str, partition: int) -> Log:
        """Two producers whose transactions overlap, every third aborted, and one without: the log
        ends in aborted records and markers.
        """
        log = Log(topic, partition)
        when_ms = int(time.time() * 1000) - 60_000
        producers = [
            self.producer(transactional_id=unique("tx"), compression_type=codec)
            for codec in ("none", "lz4")
        ]
        for producer in producers:
            producer.init_transactions(FLUSH_S)
        plain = self.producer()
        for number in range(TRANSACTIONS // 2):
            of_this: list[list[dict[str, Any]]] = [[], []]
            for producer in producers:
                producer.begin_transaction()
            for step in range(2):
                for producer, rows in zip(producers, of_this):
                    for at in range(4 + number):
                        self.send(producer, log, number * 7 + at + step, rows.append, when_ms)
                    assert producer.flush(FLUSH_S) == 0
            if number % 4 == 1:
                for at in range(5):
                    self.send(plain, log, at, log.rows[COMMITTED].append, when_ms)
                assert plain.flush(FLUSH_S) == 0
            for which, (producer, rows) in enumerate(zip(producers, of_this)):
                last = number == TRANSACTIONS // 2 - 1
                if last or (2 * number + which) % 3 == 2:
                    producer.abort_transaction(FLUSH_S)
                    log.rows[UNCOMMITTED] += rows
                else:
                    producer.commit_transaction(FLUSH_S)
                    log.rows[COMMITTED] += rows
        log.rows[UNCOMMITTED] += log.rows[COMMITTED]
        log.rows[COMMITTED].sort(key=lambda row: row["offset"])
        return settled(log, both=False)

    def keyed(self, topic: str, count: int) -> Log:
        """Few keys, for a topic that is compacted."""
        log = Log(topic, 0)
        producer = self.producer(batch_num_messages=3)

        def delivered(error: Any, message: Message) -> None:
            assert error is None, error
            log.rows[UNCOMMITTED].append(row_of(message, None))

        for number in range(count):
            producer.produce(
                topic,
                key=b"%d" % (number % KEYS_OF_COMPACTED),
                value=b"%d" % number * 20,
                partition=0,
                on_delivery=delivered,
            )
            if number % 25 == 24:
                assert producer.flush(FLUSH_S) == 0
        return settled(log)


def settled(log: Log, both: bool = True) -> Log:
    """In the log's order; without transactions both isolation levels see the same. The end is that
    of the last record, which control records may follow.
    """
    log.rows[UNCOMMITTED].sort(key=lambda row: row["offset"])
    if both:
        log.rows[COMMITTED] = log.rows[UNCOMMITTED]
    log.end = log.rows[UNCOMMITTED][-1]["offset"] + 1
    return log


def write_all(bootstrap: str) -> Mapping[str, Log]:
    """Every kind of log, by name; `compacted` is not compacted yet."""
    writer = Writer(bootstrap)
    compacted = create_topic(
        bootstrap,
        unique("compacted"),
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "4096",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "0",
        },
    )
    logs = {"compacted": writer.keyed(compacted, 600)}
    mixed = create_topic(bootstrap, unique("mixed"), 2)
    logs |= {
        f"mixed-{partition}": writer.mixed(mixed, partition, batches=15 + partition, per_batch=23)
        for partition in (0, 1)
    }
    logs["transactional"] = writer.transactional(
        create_topic(bootstrap, unique("transactional"), 1), 0
    )
    logs["appended"] = writer.mixed(
        create_topic(bootstrap, unique("appended"), 1, {"message.timestamp.type": "LogAppendTime"}),
        0,
        batches=2,
        per_batch=11,
    )
    return logs
