"""The judgement of a run: the audit, which excuses nothing since the output is fenced, and the
windows counted again from the records.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from consumer.spark.audit.run import AuditOptions, SparkAudit, audit
from consumer.spark.audit.session import session, uri
from zkcoord.demo.spark.cast import WINDOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER, MEMORY = "local[2]", "1g"


def judge(journal: Path, orders: Path, totals: Path) -> SparkAudit:
    """The audit; what is wrong with the windows is among the verdict's failures. Raises
    `ZkcoordError`.
    """
    with session("zkcoord demo: audit", MASTER, MEMORY) as spark:
        found = audit(spark, AuditOptions(journal, orders, exactly_once=True))
        found.verdict.failures += wrong_windows(spark, orders, totals)
    return found


def wrong_windows(spark: SparkSession, orders: Path, totals: Path) -> list[str]:
    """A sentence for what the counting query and the records do not agree on; none when they do."""
    from pyspark.sql import functions as F

    told = spark.read.parquet(uri(totals))
    counted = (
        spark.read.parquet(uri(orders))
        .where("order is not null")
        .groupBy(F.window("at", WINDOW), "product")
        .agg(F.count("*").alias("orders_again"), F.sum("cents").alias("cents_again"))
        .select("window.start", "window.end", "product", "orders_again", "cents_again")
    )
    both = told.join(counted, ["start", "end", "product"], "left")
    windows = told.count()
    wrong = both.where(
        "orders_again is null or orders != orders_again or cents != cents_again"
    ).count()
    if not windows:
        return ["no window was counted"]
    return [f"{wrong} of {windows} windows were counted wrong"] if wrong else []
