"""One audit from folders to a verdict. Everything that is large stays in Spark; the driver gets a
few rows for each process, and a report for each partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from consumer.spark.audit import facts, record_ranges
from consumer.spark.audit.judge import REPORT_SCHEMA, folding
from consumer.spark.audit.record_ranges import SearchPlan
from consumer.spark.audit.rows import PLACE, report_of
from consumer.spark.audit.sorting import Order, Processes, ends_of, in_order, processes_of, untold
from zkcoord.verdict.outcome import Verdict
from zkcoord.verdict.rules import EXAMPLES_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class AuditOptions:
    """What is audited, and how. `examples_max`: findings that are told of each rule and partition;
    all are counted. `exactly_once`: nothing is excused by a kill.
    """

    journal: Path
    records: Path | None = None
    format: str = "parquet"
    plan: SearchPlan = SearchPlan.EXACT
    order: Order = Order.AUTO
    examples_max: int = EXAMPLES_MAX
    exactly_once: bool = False


@dataclass
class SparkAudit:
    """What was found. `order` is what ordered the ownerships, TIME or ZOOKEEPER."""

    options: AuditOptions
    order: Order
    verdict: Verdict
    processes: Processes = field(default_factory=Processes)


def audit(spark: SparkSession, options: AuditOptions) -> SparkAudit:
    """The audit of what the options name. Raises `ConfigurationError` for what cannot be read."""
    files = facts.journal_files(options.journal)
    records = (
        None
        if options.records is None
        else record_ranges.read(spark, options.records, options.format)
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
    return SparkAudit(options, order, verdict, processes)


def judged(rows: DataFrame, records: DataFrame | None, options: AuditOptions) -> Verdict:
    """The rules over the rows of partitions and, where they are given, over records."""
    if records is not None:
        rows = rows.unionAll(record_ranges.rows_of(records, options.plan).select(*rows.columns))
    sorted_rows = rows.repartition("topic", "number").sortWithinPartitions(*PLACE)
    reports = sorted_rows.mapInArrow(
        folding(records is not None, options.examples_max, not options.exactly_once), REPORT_SCHEMA
    ).collect()
    return Verdict(
        sorted((report_of(report) for (report,) in reports), key=lambda report: report.partition)
    )
