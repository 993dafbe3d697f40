"""A Spark application with one query of this source, as a process of its own: what tests kill and
stop.

    python -m tests.spark.app --zookeeper HOST:PORT/chroot --group G --topic T --folder DIR
        [--option NAME=VALUE ..] [--available-now] [--batch-s SECONDS] [--trigger SECONDS]

Each batch is one line of `DIR/batches-<pid>.jsonl`, written when its records are durable: {"batch":
n, "offsets": {partition: [offset, ..]}}. The checkpoint is `DIR/checkpoint`. Progress and events
are lines of JSON on standard output: started {pid, jvm}, progress {..}, stopped {error}. SIGTERM
drains and stops; SIGUSR1 stops without draining. `--batch-s` makes each batch with records at least
so long; `--hang-after N`: batch N ends its work and then never returns. Spark gives a Python
process ten seconds to start. On a machine that is too busy for that the query ends, and is started
again: `again`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from consumer.spark import register
from consumer.spark.graceful_stop import drain_and_stop

TOO_SLOW = "Python worker failed to connect back"
DRAIN_S = 240.0


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, "t": time.time(), **fields}), flush=True)


def session(cores: int, folder: Path) -> SparkSession:
    """A small local session."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("zkcoord-test")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "600m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.streaming.stopTimeout", "60s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def watch(running: StreamingQuery, asked: list[int]) -> str:
    """Tell its progress until it ends or a signal came; the error that ended it."""
    last = -1
    while running.isActive and not asked:
        progress = running.lastProgress
        if progress is not None and progress["batchId"] != last:
            last = progress["batchId"]
            say(
                "progress", batch=last, rows=progress["numInputRows"], source=progress["sources"][0]
            )
        try:
            running.awaitTermination(0.1)
        except StreamingQueryException as e:
            return str(e)
    return "" if running.isActive else str(running.exception() or "")


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("zookeeper", "group", "topic", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--trigger", default="")
    parser.add_argument("--batch-s", type=float, default=0.0)
    parser.add_argument("--hang-after", type=int, default=-1)
    given = parser.parse_args()
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    spark = session(given.cores, folder)
    register(spark)
    stream = (
        spark.readStream.format("zkcoord")
        .option("zookeeperConnect", given.zookeeper)
        .option("groupId", given.group)
        .option("subscribe", given.topic)
        .option("startingOffsets", "earliest")
    )
    for option in given.option:
        name, _, value = option.partition("=")
        stream = stream.option(name, value)
    written = folder / f"batches-{os.getpid()}.jsonl"

    def write(rows: DataFrame, batch: int) -> None:
        found: dict[str, list[int]] = {}
        for row in rows.select("partition", "offset").collect():
            found.setdefault(str(row.partition), []).append(row.offset)
        if found:
            threading.Event().wait(given.batch_s)
        with written.open("a", encoding="utf-8") as out:
            out.write(
                json.dumps(
                    {
                        "batch": batch,
                        "t": time.time(),
                        "offsets": {p: sorted(offsets) for p, offsets in found.items()},
                    }
                )
                + "\n"
            )
        if batch == given.hang_after:
            say("hanging", batch=batch)
            threading.Event().wait()

    query = (
        stream.load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    if given.available_now:
        query = query.trigger(availableNow=True)
    elif given.trigger:
        query = query.trigger(processingTime=given.trigger)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: asked.append(number))
    running = query.start()
    say("started", pid=os.getpid(), jvm=jvm)
    error = watch(running, asked)
    while TOO_SLOW in error and not asked:
        say("again", error=error[:200])
        running = query.start()
        error = watch(running, asked)
    if asked[:1] == [signal.SIGTERM] and not error:
        drain_and_stop(running, DRAIN_S)
    running.stop()
    say("stopped", error=error)
    spark.stop()
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
