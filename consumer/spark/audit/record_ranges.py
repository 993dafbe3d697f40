"""Records into ranges: which offsets of each partition came out, and how often. Millions of rows
become a few thousand, by two plans, neither of which minds where the rows are or that most of them
are in one partition.

*Exact.* One row for each word of 64 offsets that holds any: how many records, and a mask of the
offsets that are there. A word with more records than bits has duplicates; the records of such words
alone are counted offset by offset in a second scan. Masks become ranges. Nothing is missed.

*Screen.* One row for each bucket of 65,536 offsets: count, lowest, highest, sum and sum of squares.
What has the sums of an unbroken run from lowest to highest is taken for one; the buckets that are
not go through the exact plan. Holes between buckets are seen exactly. Faster, for every day; no
proof, since a bucket with a hole and a duplicate that leave all five figures as they are would pass
(one such pair cannot: it moves a sum).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from consumer.spark.audit.rows import AFTER_ALL, RowKind
from consumer.spark.audit.session import uri
from zkcoord.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

WORD_BITS = 6
WORD, BIT = f"shiftright(offset, {WORD_BITS})", "shiftleft(1L, cast(offset & 63 as int))"
BUCKET = 65_536
BROADCAST_MAX = 1_000_000
COLUMNS = {"topic": ("string",), "partition": ("int", "bigint"), "offset": ("bigint", "int")}
MEMBER = "member"
KEY = ("topic", "number", "member")
RANGES = ["topic", "number", "member", "times", "first", "last"]
RANGES_SCHEMA = "topic string, number int, member string, times long, first long, last long"


class SearchPlan(enum.Enum):
    """How records are searched; the values are the words of the command line."""

    EXACT = "exact"
    SCREEN = "screen"


def read(spark: SparkSession, folder: Path, kind: str) -> DataFrame:
    """The records as (topic, number, member, offset); member is "" where there is no such column.
    Raises `ConfigurationError` for what has no such columns.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not folder.exists():
        raise ConfigurationError(
            f"There is no {folder}: --records takes a folder that Spark can read, with the columns"
            " topic, partition and offset."
        )
    try:
        found = spark.read.format(kind).load(uri(folder))
        types = dict(found.dtypes)
    except (PySparkException, Py4JJavaError) as error:
        reason = error.getCondition() if isinstance(error, PySparkException) else None
        raise ConfigurationError(
            f"{folder} cannot be read as {kind} ({reason or type(error).__name__}): say what it is"
            " with --format, or name another folder."
        ) from error
    wrong = [
        f"{name} ({types.get(name, 'missing')})"
        for name, allowed in COLUMNS.items()
        if types.get(name) not in allowed
    ]
    if wrong:
        raise ConfigurationError(
            f"{folder} lacks columns that an audit needs: {', '.join(wrong)}; it takes topic"
            " string, partition int and offset bigint, and member string where records say who"
            " wrote them."
        )
    return normal(found)


def normal(records: DataFrame) -> DataFrame:
    """(topic, number, member, offset) of records with Kafka's columns."""
    from pyspark.sql import functions as F

    member = (
        F.coalesce(F.col(MEMBER), F.lit(""))
        if dict(records.dtypes).get(MEMBER) == "string"
        else F.lit("")
    )
    return records.select(
        "topic",
        F.col("partition").cast("int").alias("number"),
        member.alias("member"),
        F.col("offset").cast("long").alias("offset"),
    )


def rows_of(records: DataFrame, plan: SearchPlan) -> DataFrame:
    """FOUND rows: ranges of offsets that are there, and how many times."""
    return exact(records) if plan is SearchPlan.EXACT else screened(records)


# exact


def exact(records: DataFrame) -> DataFrame:
    """Every offset that is there, once; and those that are there more often, again, so many times
    more.
    """
    from pyspark.sql import functions as F

    worded = records.withColumn("word", F.expr(WORD))
    words = (
        worded.groupBy(*KEY, "word")
        .agg(F.count("*").alias("n"), F.bit_or(F.expr(BIT)).alias("mask"))
        .persist()
    )
    once = words.select(
        *KEY, F.lit(0).alias("copy"), F.lit(1).cast("long").alias("times"), "word", "mask"
    )
    doubled = _few(words.where(F.col("n") != F.bit_count("mask")).select(*KEY, "word"))
    if doubled is None:
        return ranges_of(once)
    counted = (
        worded.join(doubled, [*KEY, "word"], "left_semi")
        .groupBy(*KEY, "word", "offset")
        .agg((F.count("*") - 1).alias("times"))
        .where("times > 0")
    )
    again = counted.groupBy(*KEY, F.lit(1).alias("copy"), "times", "word").agg(
        F.bit_or(F.expr(BIT)).alias("mask")
    )
    return ranges_of(once.unionAll(again))


def _few(keys: DataFrame) -> DataFrame | None:
    """Keys to look for among all records: None where there are none, and sent to every task where
    they are few.
    """
    from pyspark.sql import functions as F

    count = keys.count()
    if not count:
        return None
    return F.broadcast(keys) if count <= BROADCAST_MAX else keys


def ranges_of(words: DataFrame) -> DataFrame:
    """Masks as FOUND rows."""
    by = [*KEY, "copy", "times"]
    ranges = (
        words.repartition(*by).sortWithinPartitions(*by, "word").mapInArrow(_joining, RANGES_SCHEMA)
    )
    return found(ranges, "first", "last", ranges["times"])


def _joining(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Neighbouring bits as ranges. A range that goes on in the next batch is two, which is no
    loss.
    """
    import numpy as np
    import pyarrow as pa

    for batch in batches:
        if not batch.num_rows:
            continue
        keys = [
            batch.column(batch.schema.get_field_index(name)).dictionary_encode()
            for name in (*KEY, "copy")
        ]
        times = batch.column(batch.schema.get_field_index("times")).to_numpy()
        word = batch.column(batch.schema.get_field_index("word")).to_numpy()
        mask = batch.column(batch.schema.get_field_index("mask")).to_numpy().astype("<i8")
        codes = [*(key.indices.to_numpy() for key in keys), times]
        full = mask == -1
        # whole words as one range each, others bit by bit; then what touches is joined
        bits = np.unpackbits(mask[~full].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        at, bit = np.nonzero(bits)
        partial = np.flatnonzero(~full)[at]
        row = np.concatenate([np.flatnonzero(full), partial])
        first = np.concatenate([word[full] << WORD_BITS, (word[partial] << WORD_BITS) + bit])
        last = np.concatenate([(word[full] << WORD_BITS) + 63, (word[partial] << WORD_BITS) + bit])
        order = np.lexsort((first, row))
        row, first, last = row[order], first[order], last[order]
        begins = np.ones(len(row), bool)
        begins[1:] = (first[1:] != last[:-1] + 1) | np.logical_or.reduce(
            [code[row[1:]] != code[row[:-1]] for code in codes]
        )
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(row)) - 1
        topic, number, member = (
            batch.column(batch.schema.get_field_index(name)).take(pa.array(row[starts]))
            for name in KEY
        )
        yield pa.RecordBatch.from_arrays(
            [
                topic,
                number,
                member,
                pa.array(times[row[starts]]),
                pa.array(first[starts]),
                pa.array(last[ends]),
            ],
            names=RANGES,
        )


# screen


def screened(records: DataFrame) -> DataFrame:
    """Unbroken buckets as one range each, the others by the exact plan."""
    from pyspark.sql import functions as F

    inner = F.expr(f"offset % {BUCKET}")
    buckets = (
        records.groupBy(*KEY, F.expr(f"offset div {BUCKET}").alias("bucket"))
        .agg(
            F.count("*").alias("n"),
            F.min("offset").alias("low"),
            F.max("offset").alias("high"),
            F.sum(inner).alias("total"),
            F.sum(inner * inner).alias("squares"),
        )
        .persist()
    )
    low, high = f"(low % {BUCKET})", f"(high % {BUCKET})"
    whole = F.expr(
        f"n = high - low + 1 and total = ({low} + {high}) * n div 2 and squares ="
        f" {squares_to(high)} - {squares_to(f'({low} - 1)')}"
    )
    good = found(buckets.where(whole), "low", "high", F.lit(1))
    bad = _few(buckets.where(~whole).select(*KEY, "bucket"))
    if bad is None:
        return good
    suspicious = records.withColumn("bucket", F.expr(f"offset div {BUCKET}")).join(
        bad, [*KEY, "bucket"], "left_semi"
    )
    return good.unionAll(exact(suspicious.select(*records.columns)))


def squares_to(high: str) -> str:
    """SQL for the sum of the squares of 0 .. high (0 for -1)."""
    return f"({high} * ({high} + 1) * (2 * {high} + 1) div 6)"


def found(ranges: DataFrame, first: str, last: str, times: Column) -> DataFrame:
    """FOUND rows of ranges; in the order of their offsets, after everything else."""
    from pyspark.sql import functions as F

    none = F.lit(0)
    return ranges.select(
        "topic",
        "number",
        F.lit(AFTER_ALL).alias("block"),
        F.col(first).alias("t"),
        none.alias("rank"),
        none.cast("long").alias("line"),
        F.lit(int(RowKind.FOUND)).alias("kind"),
        "member",
        F.col(first).alias("a"),
        F.col(last).alias("b"),
        times.cast("long").alias("orders"),
        F.lit("").alias("text"),
    )
