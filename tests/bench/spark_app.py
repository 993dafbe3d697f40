"""A Spark session that reads Kafka as it is told: Spark's own source or zkcoord's, in one local
JVM, or in a cluster.

    python -m tests.bench.spark_app CONTROL SETUP          (a FIFO with one JSON object per line;
                                                           SETUP is JSON: {"cores": 2, "memory":
                                                           "2g", "jars": ["..."]}, and of a cluster
                                                           "master", "python", "settings")

    {"do": "read", "id": "r1", "format": "kafka", "options": {...}, "rows": 2400000}
        a query into the noop sink until so many rows have come
    {"do": "latency", "id": "l1", "format": "zkcoord", "options": {...}, "warm_s": 15, "seconds":
        30}
        a query whose rows are collected; their values are the time (ns) at which they were made
    {"do": "idle", "id": "i1", "format": "zkcoord", "options": {...}, "warm_s": 10, "seconds": 30}
        a query with nothing to read
    {"do": "end"}

It prints JSON lines {"event", "id", "t" (wall-clock ns), ...}: `ready`; `batches` (per micro-batch:
rows, addBatch and trigger in ms); `latencies` (ms); `resting` and `rested` around an idle time,
with the processor time (s) of the JVM and of the Python processes below it; `failed` (one line of
what Spark said); `done` after each order.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from consumer.spark import register
from tests.bench.spark_plain import PlainSource

POLL_S = 0.02
READ_TIMEOUT_S = 600.0
PROGRESS_KEPT = 5_000
NS_PER_MS = 1e6
WHY_CHARACTERS = 400


def tell(event: str, **fields: Any) -> None:
    """One line."""
    print(
        json.dumps({"event": event, "t": time.time_ns(), **fields}, separators=(",", ":")),
        flush=True,
    )


def session(setup: Mapping[str, Any]) -> SparkSession:
    """A local one, or one of a cluster, that listens on the loopback interface only and shows
    nothing.
    """
    os.environ["PYSPARK_PYTHON"] = setup.get("python", sys.executable)
    master = setup.get("master", f"local[{setup['cores']}]")
    builder = SparkSession.builder.master(master).appName("zkcoord-bench")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": setup["memory"],
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.jars": ",".join(setup["jars"]),
        "spark.sql.streaming.numRecentProgressUpdates": str(PROGRESS_KEPT),
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.cores.max": str(setup["cores"]),
        **setup.get("settings", {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def source(spark: SparkSession, order: Mapping[str, Any]) -> DataFrame:
    """The stream of an order."""
    if order["format"] == "zkcoord":
        register(spark)
    elif order["format"] == "zkcoord-plain":
        spark.dataSource.register(PlainSource)
    reader = spark.readStream.format(order["format"])
    for name, value in order["options"].items():
        reader = reader.option(name, str(value))
    return reader.load()


def rows_of(query: StreamingQuery) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)


def check(query: StreamingQuery) -> None:
    """Raises what stopped it."""
    error = query.exception()
    if error is not None:
        raise error


def read(spark: SparkSession, order: Mapping[str, Any], checkpoint: str) -> None:
    """All rows into nothing."""
    query = (
        source(spark, order)
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    limit = time.monotonic() + READ_TIMEOUT_S
    while rows_of(query) < order["rows"] and time.monotonic() < limit:
        check(query)
        time.sleep(POLL_S)
    batches = [
        (p.numInputRows, p.durationMs.get("addBatch", 0), p.durationMs.get("triggerExecution", 0))
        for p in query.recentProgress
        if p.numInputRows
    ]
    query.stop()
    tell("batches", id=order["id"], batches=batches, rows=sum(rows for rows, _, _ in batches))


def latency(spark: SparkSession, order: Mapping[str, Any], checkpoint: str) -> None:
    """From the making of a record until the driver has its row."""
    began_ns = 0
    found: list[float] = []

    def collected(frame: DataFrame, _batch: int) -> None:
        rows = frame.select("value").collect()
        now_ns = time.time_ns()
        if began_ns:
            found.extend(
                (now_ns - made_ns) / NS_PER_MS
                for row in rows
                if (made_ns := int(row["value"])) >= began_ns
            )

    query = (
        source(spark, order)
        .writeStream.foreachBatch(collected)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    rest(query, order["warm_s"])
    began_ns = time.time_ns()
    rest(query, order["seconds"])
    triggers = [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]
    query.stop()
    tell("latencies", id=order["id"], latencies=found, triggers=triggers)


def rest(query: StreamingQuery, seconds: float) -> None:
    """Let it run; raises what stops it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check(query)
        time.sleep(POLL_S)


def used() -> dict[str, float]:
    """Processor time so far (s) of the JVM and of the Python processes below it."""
    found = {"jvm_s": 0.0, "python_s": 0.0}
    for child in psutil.Process().children(recursive=True):
        times = child.cpu_times()
        found["jvm_s" if "java" in child.name() else "python_s"] += times.user + times.system
    return found


def idle(spark: SparkSession, order: Mapping[str, Any], checkpoint: str) -> None:
    """Nothing to read."""
    query = (
        source(spark, order)
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    rest(query, order["warm_s"])
    tell("resting", id=order["id"], **used())
    rest(query, order["seconds"])
    tell("rested", id=order["id"], **used())
    query.stop()


ORDERS = {"read": read, "latency": latency, "idle": idle}


def main() -> int:
    """Carry out orders until there are no more."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    spark = session(json.loads(sys.argv[2]))
    tell("ready")
    with Path(sys.argv[1]).open(encoding="utf-8") as control:
        for line in control:
            order = json.loads(line)
            if order["do"] == "end":
                break
            with TemporaryDirectory(
                prefix="zkcoord-checkpoint-", ignore_cleanup_errors=True
            ) as checkpoint:
                try:
                    ORDERS[order["do"]](spark, order, checkpoint)
                except PySparkException as error:
                    tell(
                        "failed", id=order["id"], why=" ".join(str(error).split())[:WHY_CHARACTERS]
                    )
                tell("done", id=order["id"])
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
