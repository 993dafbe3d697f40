"""Exactly once from Spark into a database: the rows of a batch, the next offset of each of its
partitions and the fence change in one transaction. Here the database is SQLite.

Several of these share one group: each owns a part of the topic's partitions. Three rules make it
exact, whatever is killed, paused or cut off:

* The fence of a range (`r.owner`) rises with each claim of its partition, by whomever. A batch
  first raises the stored fence to its own; where a higher one is stored, another application has
  claimed the partition since, and the whole transaction is undone.
* Then it reads the stored next offset, in the same transaction. That is the position, not what
  ZooKeeper holds: rows below it are in the database already (the application before died between
  the two), and are left out.
* Where the database is behind ZooKeeper (it was restored from a backup), nothing is written: rows
  would be missing without a word.

    spark-submit spark_sql_sink.py --zookeeper zk1:2181/kafka --topic orders --group billing
        --database orders.db --checkpoint /data/checkpoints/orders-1
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from zkcoord.consumer.spark import register
from zkcoord.consumer.spark.plan import PlannedRange
from zkcoord.consumer.spark.sink import FencedBatchError, fenced_ranges

SCHEMA = (
    (
        "CREATE TABLE IF NOT EXISTS results (topic TEXT, partition INTEGER, offset INTEGER, value"
        " BLOB)"
    ),
    (
        "CREATE TABLE IF NOT EXISTS positions (topic TEXT, partition INTEGER, fence INTEGER, next"
        " INTEGER, PRIMARY KEY (topic, partition))"
    ),
)


class Store:
    """The database. A connection is used by one thread, and Spark calls from several."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._transaction() as db:
            for statement in SCHEMA:
                db.execute(statement)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        try:
            # the lock; another database locks the rows of `positions`: SELECT ... FOR UPDATE
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        finally:
            db.close()  # undoes what was not committed

    def add(self, ranges: Sequence[PlannedRange], rows: Sequence[tuple[Any, ...]]) -> int:
        """Rows (topic, partition, offset, value) of these ranges, those that are not there yet; how
        many were. Raises `FencedBatchError`.
        """
        with self._transaction() as db:
            following = {(r.topic, r.partition): self._claim(db, r) for r in ranges}
            new = [row for row in rows if row[2] >= following[row[0], row[1]]]
            db.executemany("INSERT INTO results VALUES (?, ?, ?, ?)", new)
            db.executemany(
                "UPDATE positions SET next = ? WHERE topic = ? AND partition = ?",
                [
                    (max(r.end, following[r.topic, r.partition]), r.topic, r.partition)
                    for r in ranges
                ],
            )
        return len(new)

    def _claim(self, db: sqlite3.Connection, r: PlannedRange) -> int:
        """Raise the fence of a partition to ours, then read where it is."""
        db.execute(
            "INSERT INTO positions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (r.topic, r.partition, r.owner, r.start),
        )
        raised = db.execute(
            "UPDATE positions SET fence = ? WHERE topic = ? AND partition = ? AND fence <= ?",
            (r.owner, r.topic, r.partition, r.owner),
        )
        if raised.rowcount != 1:
            raise FencedBatchError(
                f"another application has claimed {r.tp} since this batch was planned: its rows are"
                " not written"
            )
        (following,) = db.execute(
            "SELECT next FROM positions WHERE topic = ? AND partition = ?", (r.topic, r.partition)
        ).fetchone()
        if following < r.start:
            raise RuntimeError(
                f"the database holds {r.tp} up to {following}, and the group stands at {r.start}:"
                " set the group back to what the database holds (zkcoord offsets reset), then"
                " start again"
            )
        return int(following)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(
            "consume a topic into a SQLite database, each record exactly once, with as many Spark"
            " applications as are wanted"
        )
    )
    for name in ("zookeeper", "topic", "group", "database", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--session-timeout-ms", type=int, default=18_000)
    options = parser.parse_args()

    store = Store(options.database)

    def write(df: DataFrame, batch_id: int, ranges: tuple[PlannedRange, ...]) -> None:
        rows = [tuple(row) for row in df.select("topic", "partition", "offset", "value").collect()]
        print(
            f"work {batch_id} {' '.join(f'{r.tp}:{r.start}-{r.end}' for r in ranges)}", flush=True
        )
        print(f"stored {batch_id} {store.add(ranges, rows)}", flush=True)

    spark = SparkSession.builder.appName(f"{options.group} into SQLite").getOrCreate()
    register(spark)
    source = (
        spark.readStream.format("zkcoord")
        .option("zookeeperConnect", options.zookeeper)
        .option("groupId", options.group)
        .option("subscribe", options.topic)
    )
    source = (
        source.option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1_000)
        .option("zookeeperSessionTimeoutMs", options.session_timeout_ms)
    )
    query = (
        source.load()
        .writeStream.foreachBatch(fenced_ranges(write))
        .option("checkpointLocation", options.checkpoint)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
