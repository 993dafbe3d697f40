"""A pipeline that several Spark applications share: orders from Kafka, parsed, as Parquet in which
each is exactly once; and revenue per product and window from that.

    spark-submit spark_pipeline.py ingest --zookeeper zk1:2181/kafka --group orders-to-lake --topic
        orders --orders /lake/orders --checkpoint /lake/checkpoints/ingest-1
    spark-submit spark_pipeline.py totals --orders /lake/orders --totals /lake/totals --checkpoint
        /lake/checkpoints/totals

Start `ingest` as often as there is work for, each with a checkpoint of its own: the group shares
the partitions out, and they move while all of them run. Start `totals` once.

Why two steps. State that Spark keeps by key (windows, deduplication, joins) lives in the checkpoint
of one query, and does not move with a partition: an application that got a partition from another
would begin its windows anew, and those of the other would never be finished. So what is shared is
stateless: parse, filter, enrich, write. What needs state reads what came out, in one query that
sees every record of a key; its files come from a fenced sink, so each record is counted once. (Or:
give `ingest` a topic for its output, keyed as the windows are, and read that with one query.)

A SIGTERM ends either in order: `ingest` writes the batch under way, stores its offsets and gives
its partitions to the others.
"""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from zkcoord.consumer.spark import register
from zkcoord.consumer.spark.graceful_stop import drain_and_stop
from zkcoord.consumer.spark.sink import fenced_parquet
from zkcoord.consumer.spark.warmup import warm_up

VALUE = "order bigint, product string, cents bigint, at timestamp"
STORED = f"topic string, partition int, offset bigint, {VALUE}"
LOOK_S = 1


def parsed(records: DataFrame) -> DataFrame:
    """Orders, each with where it came from. What cannot be parsed keeps its place, with nothing in
    the other columns: it can be looked at, and nobody takes it for lost.
    """
    order = F.from_json(F.col("value").cast("string"), VALUE)
    return records.select("topic", "partition", "offset", order.alias("order")).select(
        "topic", "partition", "offset", "order.*"
    )


def revenue(orders: DataFrame, window: str, late: str) -> DataFrame:
    """Orders and revenue per product and window; a window is told when no order of it can come any
    more.
    """
    return (
        orders.where("order is not null")
        .withWatermark("at", late)
        .groupBy(F.window("at", window), "product")
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    )


def ingest(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """The shared part."""
    source = (
        spark.readStream.format("zkcoord")
        .option("zookeeperConnect", options.zookeeper)
        .option("groupId", options.group)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
    )
    source = source.option("maxOffsetsPerTrigger", options.batch_records).option(
        "zookeeperSessionTimeoutMs", options.session_timeout_ms
    )
    if options.assignor:
        source = source.option("partitionAssignmentStrategy", options.assignor)
    if options.journal:
        source = source.option("journal", options.journal)
    return (
        parsed(source.load())
        .writeStream.foreachBatch(fenced_parquet(options.orders))
        .option("checkpointLocation", options.checkpoint)
        .trigger(processingTime=options.trigger)
        .start()
    )


def totals(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """The part with state."""
    found = revenue(
        spark.readStream.schema(STORED).parquet(options.orders), options.window, options.late
    )
    writer = (
        found.select("window.start", "window.end", "product", "orders", "cents")
        .writeStream.format("parquet")
        .option("path", options.totals)
        .option("checkpointLocation", options.checkpoint)
    )
    return (
        writer.trigger(availableNow=True)
        if options.available_now
        else writer.trigger(processingTime=options.trigger)
    ).start()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        description=(
            "orders from Kafka into Parquet, exactly once, by as many Spark applications as are"
            " wanted; and revenue per window from that"
        )
    )
    modes = p.add_subparsers(dest="mode", required=True)
    shared = modes.add_parser("ingest", help="the part that is shared")
    for name in ("zookeeper", "group", "topic", "orders", "checkpoint"):
        shared.add_argument(f"--{name}", required=True)
    shared.add_argument(
        "--batch-records",
        type=int,
        default=100_000,
        help="of all partitions: short batches let partitions move soon",
    )
    shared.add_argument("--session-timeout-ms", type=int, default=18_000)
    shared.add_argument(
        "--assignor", default="", help="one that all members name, where not all are of this kind"
    )
    shared.add_argument(
        "--journal",
        default="",
        metavar="DIR",
        help="write down what is done, for python -m zkcoord.consumer.spark.audit",
    )
    alone = modes.add_parser("totals", help="the part with state: one query")
    for name in ("orders", "totals", "checkpoint"):
        alone.add_argument(f"--{name}", required=True)
    alone.add_argument("--window", default="1 minute")
    alone.add_argument(
        "--late",
        default="10 minutes",
        help="how much later than others an order may come and still be counted",
    )
    alone.add_argument("--available-now", action="store_true", help="what is there now, then end")
    for mode in (shared, alone):
        mode.add_argument("--trigger", default="1 second")
    return p


def main() -> int:
    """Run until asked to end, or until the query fails."""
    options = parser().parse_args()
    spark = SparkSession.builder.appName(f"orders: {options.mode}").getOrCreate()
    if options.mode == "ingest":
        register(spark)
        warm_up(spark, parsed, options.orders)
        query = ingest(spark, options)
    else:
        query = totals(spark, options)
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    signal.signal(signal.SIGTERM, ask)
    while query.isActive and not asked:
        query.awaitTermination(LOOK_S)
    if asked and options.mode == "ingest":
        drain_and_stop(query)
    query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
