"""Exactly once into a database: what a record leads to and how far the partition has been read
change in one transaction, so that both happen or neither does. Here the database is SQLite.

The offsets are kept outside Kafka and ZooKeeper; the group only decides who reads which partition.
Three rules make it exact, whatever is killed, paused or cut off:

* Rows and the next offset of their partition are written in one transaction, and a partition that
  is assigned is read from the offset in the database.
* Who is assigned a partition claims it: the claim's number rises by one in the database. A
  transaction for the partition happens only under the latest claim. A process that stood still
  while its partitions were given to others (a zombie) comes back with an older claim: its
  transaction is refused, however late it comes. The number is drawn in the database and not taken
  from the group (its generation, say), because only the database can compare and write in one step.
* What was refused is dropped. If the partition is this process's all the same, it is claimed again
  and read from where the database is.

    python exactly_once_sqlite.py --zookeeper zk1:2181/kafka --topic orders --group billing
        --database orders.db
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zkcoord.consumer import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

SCHEMA = (
    (
        "CREATE TABLE IF NOT EXISTS results (topic TEXT, partition INTEGER, offset INTEGER, value"
        " BLOB)"
    ),
    (
        "CREATE TABLE IF NOT EXISTS positions (topic TEXT, partition INTEGER, next INTEGER, claim"
        " INTEGER, PRIMARY KEY (topic, partition))"
    ),
)


class Refused(Exception):
    """Another process has claimed the partition since."""


class Store:
    """The database. Every method is one transaction."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
        for statement in SCHEMA:
            self._db.execute(statement)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def claim(self, tp: TopicPartition) -> tuple[int, int | None]:
        """A claim that is newer than all before, and the next offset (None: nothing was read
        yet).
        """
        with self._transaction() as db:
            db.execute(
                "INSERT INTO positions VALUES (?, ?, NULL, 1) ON CONFLICT DO UPDATE SET claim ="
                " claim + 1",
                tp,
            )
            found: tuple[int, int | None] = db.execute(
                "SELECT claim, next FROM positions WHERE topic = ? AND partition = ?", tp
            ).fetchone()
            return found

    def add(
        self, tp: TopicPartition, claim: int, rows: list[tuple[Any, ...]], following: int
    ) -> None:
        """Rows, and the offset that follows them. Raises `Refused`."""
        with self._transaction() as db:
            moved = db.execute(
                "UPDATE positions SET next = ? WHERE topic = ? AND partition = ? AND claim = ?",
                (following, *tp, claim),
            )
            if moved.rowcount != 1:
                raise Refused
            db.executemany("INSERT INTO results VALUES (?, ?, ?, ?)", rows)


class Claims(ConsumerRebalanceListener):  # type: ignore[misc]
    """The claims of this process, by partition."""

    def __init__(self, consumer: KafkaConsumer, store: Store) -> None:
        self._consumer = consumer
        self._store = store
        self.held: dict[TopicPartition, int] = {}

    def claim(self, tp: TopicPartition) -> None:
        """Read this partition from where the database is."""
        self.held[tp], following = self._store.claim(tp)
        if following is not None:
            self._consumer.seek(tp, following)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        for tp in assigned:
            self.claim(tp)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        for tp in revoked:
            # also called for what was lost, where a listener has no on_partitions_lost
            self.held.pop(tp, None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="consume a topic into a SQLite database, each record exactly once"
    )
    for name in ("zookeeper", "topic", "group", "database"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--work-ms", type=int, default=0, help="how long the work on a batch takes")
    parser.add_argument("--session-timeout-ms", type=int, default=18_000)
    options = parser.parse_args()

    store = Store(options.database)
    consumer = KafkaConsumer(
        group_id=options.group,
        zookeeper_connect=options.zookeeper,
        zookeeper_session_timeout_ms=options.session_timeout_ms,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=50,
    )
    claims = Claims(consumer, store)
    consumer.subscribe([options.topic], listener=claims)
    while True:
        for tp, records in consumer.poll(500).items():
            if tp not in claims.held:  # refused before, and assigned all the same
                claims.claim(tp)
                continue
            print(f"work {tp.partition} {records[0].offset}-{records[-1].offset}", flush=True)
            time.sleep(options.work_ms / 1000)
            try:
                store.add(
                    tp,
                    claims.held[tp],
                    [(r.topic, r.partition, r.offset, r.value) for r in records],
                    records[-1].offset + 1,
                )
                consumer.commit_async({tp: records[-1].offset + 1})  # for tools that show the lag
                print(f"stored {tp.partition} {records[0].offset}-{records[-1].offset}", flush=True)
            except Refused:
                del claims.held[tp]
                print(
                    f"refused {tp.partition} {records[0].offset}-{records[-1].offset}", flush=True
                )


if __name__ == "__main__":
    main()
