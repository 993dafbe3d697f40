"""One audit from folders to a verdict. Everything that is large stays in Spark; the driver gets a
few rows for each process, and a report for each partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from consumer.spark.audit import facts, output
from consumer.spark.audit.folding import REPORT_SCHEMA, folding
from consumer.spark.audit.ordering import Order, Processes, ends_of, in_order, processes_of, untold
from consumer.spark.audit.output import Plan
from consumer.spark.audit.rows import PLACE, report_of
from zkcoord.verdict.outcome import Verdict
from zkcoord.verdict.rules import EXAMPLES_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Options:
    """What is audited, and how. `examples_max`: findings that are told of each rule and partition;
    all are counted. `exactly_once`: nothing is excused by a kill.
    """

    journal: Path
    records: Path | None = None
    format: str = "parquet"
    plan: Plan = Plan.EXACT
    order: Order = Order.AUTO
    examples_max: int = EXAMPLES_MAX
    exactly_once: bool = False


@dataclass
class Audit:
    """What was found. `order` is what ordered the ownerships, TIME or ZOOKEEPER."""

    options: Options
    order: Order
    verdict: Verdict
    processes: Processes = field(default_factory=Processes)


def audit(spark: SparkSession, options: Options) -> Audit:
    """The audit of what the options name. Raises `ConfigurationError` for what cannot be read."""
    files = facts.journal_files(options.journal)
    records = (
        None if options.records is None else output.read(spark, options.records, options.format)
    )
    rows = facts.rows_of(spark, files).persist()
    try:
        processes = processes_of(rows)
        order = processes.choose(options.order, lambda: untold(rows))
        wanted = in_order(spark, rows, order, ends_of(processes))
        verdict = judged(wanted, records, options)
    finally:
        spark.catalog.clearCache()
    verdict.rebalances, verdict.unreadable = processes.rebalances, processes.unreadable
    return Audit(options, order, verdict, processes)


def judged(rows: DataFrame, records: DataFrame | None, options: Options) -> Verdict:
    """The rules over the rows of partitions and, where they are given, over records."""
    if records is not None:
        rows = rows.unionAll(output.rows_of(records, options.plan).select(*rows.columns))
    sorted_rows = rows.repartition("topic", "number").sortWithinPartitions(*PLACE)
    reports = sorted_rows.mapInArrow(
        folding(records is not None, options.examples_max, not options.exactly_once), REPORT_SCHEMA
    ).collect()
    return Verdict(
        sorted((report_of(report) for (report,) in reports), key=lambda report: report.partition)
    )
