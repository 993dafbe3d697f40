"""Records become ranges without a loss: both plans against counting offset by offset."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from consumer.spark.audit import record_ranges
from consumer.spark.audit.record_ranges import BUCKET, SearchPlan
from consumer.spark.audit.rows import RowKind
from consumer.spark.audit.session import uri
from zkcoord.errors import ConfigurationError

Key = tuple[str, int, str, int]
SCHEMA = "topic string, partition int, offset bigint, member string"


def counted(spark: SparkSession, records: list[Key], plan: SearchPlan) -> Counter[Key]:
    """How often each (topic, partition, member, offset) is there, by the plan's ranges."""
    frame = spark.createDataFrame(
        [(topic, number, offset, member) for topic, number, member, offset in records], SCHEMA
    )
    found: Counter[Key] = Counter()
    for row in record_ranges.rows_of(record_ranges.normal(frame), plan).collect():
        assert row.kind == RowKind.FOUND and row.a <= row.b and row.orders >= 1 and row.t == row.a
        found.update(
            {
                (row.topic, row.number, row.member, offset): row.orders
                for offset in range(row.a, row.b + 1)
            }
        )
    return found


def records_of(seed: int) -> list[Key]:
    """Runs over bucket and word borders, with holes and duplicates of several kinds, in no
    order.
    """
    numbers = random.Random(seed)
    found: list[Key] = []
    for topic, number, member in (("a", 0, ""), ("a", 1, "m"), ("a", 1, "n"), ("b-c", 0, "")):
        start = numbers.choice((0, 63, BUCKET - 70, 5 * BUCKET + 1, 2**40))
        run = [start + offset for offset in range(numbers.randrange(1, 400))]
        run = [offset for offset in run if numbers.random() > 0.02] or run
        for times in (2, 3, 5):
            run += numbers.choices(run, k=2) * (times - 1)
        found += [(topic, number, member, offset) for offset in run]
    numbers.shuffle(found)
    return found


@pytest.mark.parametrize("plan", SearchPlan)
def test_each_plan_counts_right(spark: SparkSession, plan: SearchPlan) -> None:
    records = records_of(seed=1 + (plan is SearchPlan.SCREEN))
    assert counted(spark, records, plan) == Counter(records)


def test_the_screen_passes_whole_buckets_as_they_are_and_looks_into_the_others(
    spark: SparkSession,
) -> None:
    whole = [("t", 0, "", offset) for offset in range(BUCKET, BUCKET + 500)]
    swapped = [("t", 1, "", offset) for offset in range(500) if offset != 100] + [("t", 1, "", 200)]
    frame = spark.createDataFrame(
        [(topic, number, offset, member) for topic, number, member, offset in whole + swapped],
        SCHEMA,
    )
    rows = sorted(
        (row.number, row.a, row.b, row.orders)
        for row in record_ranges.screened(record_ranges.normal(frame)).collect()
    )
    assert rows[0] == (0, BUCKET, BUCKET + 499, 1)
    assert [row for row in rows if row[0] == 1] == [
        (1, 0, 99, 1),
        (1, 101, 499, 1),
        (1, 200, 200, 1),
    ]


def test_what_is_no_output_is_refused_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    for folder, kind, words in (
        (tmp_path / "none", "parquet", "There is no"),
        (tmp_path, "parquet", "cannot be read as parquet"),
        (tmp_path, "nothing", "cannot be read as nothing"),
    ):
        with pytest.raises(ConfigurationError, match=words) as raised:
            record_ranges.read(spark, folder, kind)
        assert "\n" not in str(raised.value)
    spark.range(3).write.parquet(uri(tmp_path / "other"))
    with pytest.raises(
        ConfigurationError, match=r"topic \(missing\), partition \(missing\), offset \(missing\)"
    ):
        record_ranges.read(spark, tmp_path / "other", "parquet")
