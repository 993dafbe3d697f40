"""One Spark driver of the chaos run: a session, and on demand a query with a zkcoord source and a
sink with gates at which it can be made to wait.

    python -m tests.chaos_spark.app CONFIG.json

Orders come as JSON lines through a FIFO: {"do": "start", "app": NAME, "checkpoint": DIR, "journal":
DIR} and {"do": "stop"} (a drained stop) for the query, {"do": "end"}. What happens goes to standard
output as JSON lines. At a gate (`batch`: it is planned, nothing is written; `committed`: it counts,
none of its files is moved; `written`: the sink has returned, Spark has not committed) it says so
and waits while the file of that gate exists.

A query that was fenced is started again, as whoever runs it would; so is one for which Spark gave a
Python process up that took longer than ten seconds to start, which a busy machine can need.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from consumer.spark import register
from consumer.spark.graceful_stop import drain_and_stop
from consumer.spark.sink import fenced_parquet
from consumer.spark.sink.files import LocalFiles
from consumer.spark.sink.foreach import FencedFunction
from consumer.spark.sink.publication import MoveEnded
from consumer.spark.sink.running_batch import planned
from consumer.spark.warmup import warm_up
from zkcoord.stack.spark_java import spark_java_home

GATE_POLL_S = 0.02
TRIGGER = "500 milliseconds"
SLOW_WORKER = "connect back"
FENCED = "FencedBatchError"
ERROR_MAX = 2_000
LOOPBACK = "127.0.0.1"
SETTINGS = {
    "spark.driver.memory": "700m",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.python.authenticate.socketTimeout": "300s",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}

IN_A_CLUSTER = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    # a stage that loses its executor twice is no defect of the application
    "spark.task.maxFailures": "16",
}


@dataclass(frozen=True)
class Config:
    """What a driver is told. `gates` is the folder of its gates; `sink` is `fenced` or `plain`;
    `master` is Spark's, `python` what its workers run, `cores` how many it takes of a cluster (0:
    it is none).
    """

    name: str
    zookeeper: str
    group: str
    topic: str
    out: str
    folder: str
    gates: str
    control: str
    sink: str
    session_ms: int
    max_rows: int
    master: str = "local[1]"
    python: str = sys.executable
    cores: int = 0


def columns(rows: DataFrame) -> DataFrame:
    """What is written."""
    return rows.select("topic", "partition", "offset")


def say(event: str, **more: Any) -> None:
    """A line about what happened."""
    sys.stdout.write(json.dumps({"event": event, "t": time.time_ns(), **more}) + "\n")
    sys.stdout.flush()


class App:
    """A session, and a query that comes and goes."""

    def __init__(self, config: Config) -> None:
        self.config = config
        os.environ.update(
            PYSPARK_PYTHON=config.python, JAVA_HOME=str(spark_java_home()), SPARK_LOCAL_IP=LOOPBACK
        )
        builder = SparkSession.builder.appName(config.name).master(config.master)
        for name, value in {
            **SETTINGS,
            **(IN_A_CLUSTER if config.cores else {}),
            **({"spark.cores.max": str(config.cores)} if config.cores else {}),
            "spark.local.dir": f"{config.folder}/local",
            "spark.sql.warehouse.dir": f"{config.folder}/warehouse",
        }.items():
            builder = builder.config(name, value)
        self.spark: SparkSession = builder.getOrCreate()
        register(self.spark)
        warm_up(self.spark, columns, config.out)
        self.order: dict[str, str] = {}
        self.query: StreamingQuery | None = None
        self.watching: threading.Thread | None = None
        self.wanted = False
        self.batch = -1
        self.incarnation = 0

    @property
    def jvm(self) -> int:
        """The JVM's process id."""
        return int(self.spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    def gate(self, name: str) -> None:
        """Wait here while the gate's file exists."""
        path = Path(self.config.gates) / name
        if path.exists():
            say("gate", gate=name, batch=self.batch)
            while path.exists():
                time.sleep(GATE_POLL_S)

    def write(self, sink: Callable[[DataFrame, int], None], df: DataFrame, batch: int) -> None:
        """One batch, through the gates."""
        plan = planned(df).plan
        self.batch, self.incarnation = batch, plan.incarnation
        if not plan.rows:
            return sink(df, batch)
        say(
            "batch",
            batch=batch,
            number=plan.number,
            member=plan.member,
            ranges={str(r.tp): [r.start, r.end] for r in plan.ranges},
        )
        self.gate("batch")
        sink(df, batch)
        say("written", batch=batch, number=plan.number)
        self.gate("written")

    def plain(self, df: DataFrame, batch: int) -> None:
        """A sink that knows nothing of the group. A folder for each attempt: jobs that append to
        one would take each other's temporary files.
        """
        df.write.parquet(
            f"{self.config.out}/attempt={self.order['app']}-{batch}-{uuid.uuid4().hex[:8]}"
        )

    def start(self, order: dict[str, str]) -> None:
        """Start a query on this checkpoint, and watch over it."""
        self.order, self.wanted = order, True
        self.watching = threading.Thread(target=self.watch, daemon=True)
        self.watching.start()

    def begin(self, sink: FencedFunction | None) -> StreamingQuery:
        """Start the query."""
        config = self.config
        source = (
            self.spark.readStream.format("zkcoord")
            .option("zookeeperConnect", config.zookeeper)
            .option("groupId", config.group)
            .option("subscribe", config.topic)
            .option("journal", self.order["journal"])
        )
        source = (
            source.option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", config.max_rows)
            .option("zookeeperSessionTimeoutMs", config.session_ms)
        )
        if config.cores:
            source = source.option("minPartitions", config.cores)
        writer = (
            columns(source.load())
            .writeStream.foreachBatch(lambda df, batch: self.write(sink or self.plain, df, batch))
            .option("checkpointLocation", self.order["checkpoint"])
        )
        return writer.trigger(processingTime=TRIGGER).start()

    def watch(self) -> None:
        """Have a query until it is stopped; say how each ends."""
        ended = False
        while not ended:
            sink = fenced_parquet(self.config.out) if self.config.sink == "fenced" else None
            error = ""
            try:
                self.query = self.begin(sink)
                say("started", jvm=self.jvm)
                self.query.awaitTermination()
            except PySparkException as raised:
                error = str(raised)
                say(
                    "failed",
                    fenced=FENCED in error,
                    slow=SLOW_WORKER in error,
                    error=error[-ERROR_MAX:],
                )
            if sink is not None:
                sink.close()
            ended = not self.wanted or not (FENCED in error or SLOW_WORKER in error)
        say("stopped")

    def stop(self) -> None:
        """Let the batch end, give everything back, stop."""
        self.wanted = False
        if self.query is not None and self.watching is not None:
            drain_and_stop(self.query)
            self.watching.join()


def gated_moves(app: App) -> None:
    """A gate in front of the first file of its own that a batch moves; what departed members have
    left is finished without.
    """
    move = LocalFiles.move

    def gated(files: LocalFiles, source: str, target: str) -> MoveEnded:
        if f"/{app.incarnation}/" in source:
            app.gate("committed")
        return move(files, source, target)

    LocalFiles.move = gated  # type: ignore[method-assign]


def main() -> None:
    config = Config(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    app = App(config)
    gated_moves(app)
    say("ready", jvm=app.jvm, id=app.spark.sparkContext.applicationId)
    with open(config.control, encoding="utf-8") as orders:
        for line in orders:
            order = json.loads(line)
            if order["do"] == "start":
                app.start(order)
            else:
                app.stop()
            if order["do"] == "end":
                break
    app.spark.stop()
    say("ended")


if __name__ == "__main__":
    main()
