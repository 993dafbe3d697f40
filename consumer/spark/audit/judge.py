"""The rules over sorted rows: one pass, one partition after the other, nothing kept but the judge
of the present one. Runs in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from consumer.spark.audit.rows import fact_of, report_text
from zkcoord.verdict.facts import Partition
from zkcoord.verdict.rules import PartitionJudge

if TYPE_CHECKING:
    import pyarrow as pa

REPORT_SCHEMA = "report string"
COLUMNS = ("topic", "number", "t", "kind", "member", "a", "b", "orders", "text")


def folding(
    has_output: bool, examples_max: int, excuses: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over rows (`rows.Row`) that are sorted by their places, all of a partition
    in one task: the reports' texts.
    """

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        judge: PartitionJudge | None = None
        for batch in batches:
            reports: list[str] = []
            for topic, number, t, kind, member, a, b, orders, text in zip(
                *(batch.column(batch.schema.get_field_index(name)).to_pylist() for name in COLUMNS),
                strict=False,
            ):
                if judge is None or (topic, number) != judge.result.partition:
                    if judge is not None:
                        reports.append(report_text(judge.report()))
                    judge = PartitionJudge(
                        Partition(topic, number), has_output, examples_max, excuses
                    )
                judge.fact(fact_of(judge.result.partition, t, kind, member, a, b, orders, text))
            if reports:
                yield pa.RecordBatch.from_arrays([pa.array(reports, pa.string())], names=["report"])
        if judge is not None:
            yield pa.RecordBatch.from_arrays(
                [pa.array([report_text(judge.report())], pa.string())], names=["report"]
            )

    return fold
