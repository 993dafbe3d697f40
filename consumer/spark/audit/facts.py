"""Journals into rows: each line by the parser of its kind of process (`zkcoord.verdict.lines`), the
same as the demo's verdict uses.

A journal is a folder with `consumers/NAME.jsonl` and, as far as they are there,
`producers/NAME.jsonl`, `coordinators/NAME/*.jsonl` and `scenario/NAME.jsonl`. A line that is not
what it should be is counted; the last line of a process that was killed may lack its end, which is
no reason to count it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from consumer.spark.audit.rows import SCHEMA, FactRow, RowKind, fitting, row_of
from consumer.spark.audit.session import uri
from zkcoord.errors import ConfigurationError
from zkcoord.verdict import lines
from zkcoord.verdict.engine import CONSUMERS, COORDINATORS, PRODUCERS, SCENARIO, record_files
from zkcoord.verdict.lines import UNREADABLE, Line, Parse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARSERS: dict[str, Parse] = {
    CONSUMERS: lines.consumer,
    PRODUCERS: lines.producer,
    COORDINATORS: lines.coordinator,
    SCENARIO: lines.scenario,
}


def journal_files(folder: Path) -> dict[str, list[Path]]:
    """The files of each kind of process. Raises `ConfigurationError` where there is no
    consumer's.
    """
    if not folder.is_dir():
        raise ConfigurationError(
            f"There is no folder {folder}: --journal takes a folder with consumers/NAME.jsonl and,"
            " where they exist, producers/, coordinators/ and scenario/."
        )
    found = {role: record_files(folder / role) for role in PARSERS}
    if not found[CONSUMERS]:
        raise ConfigurationError(
            f"{folder} holds no consumers/NAME.jsonl: --journal takes the folder above that, where"
            " each consumer's JSON lines are a file."
        )
    return found


def rows_of(spark: SparkSession, files: dict[str, list[Path]]) -> DataFrame:
    """All rows of all files."""
    from pyspark.sql import functions as F

    found: DataFrame | None = None
    for rank, (role, paths) in enumerate(files.items()):
        if not paths:
            continue
        text = spark.read.text([uri(path) for path in paths]).select(
            F.col("value"),
            F.input_file_name().alias("file"),
            F.monotonically_increasing_id().alias("line"),
        )
        rows = text.mapInArrow(parsing(role, rank), SCHEMA)
        found = rows if found is None else found.unionAll(rows)
    assert found is not None, "there is a consumer's file at least"
    return found


def parsing(role: str, rank: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over (value, file, line): rows."""

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows: list[FactRow] = []
            alive: dict[str, int] = {}
            for value, file, line in zip(
                *(column.to_pylist() for column in batch.columns), strict=False
            ):
                _of_line(value, process_of(file), line, role, rank, rows, alive)
            rows += [
                FactRow("", 0, 0, t, rank, 0, RowKind.ALIVE, member) for member, t in alive.items()
            ]
            yield table(rows)

    return parse


def process_of(file: str) -> str:
    """The name of the process that wrote a file, given as a URI."""
    return unquote(file.rpartition("/")[2]).removesuffix(".jsonl")


def _of_line(
    value: str,
    process: str,
    line: int,
    role: str,
    rank: int,
    rows: list[FactRow],
    alive: dict[str, int],
) -> None:
    """Add what a line says. `alive`: when consumers last did something that the rules know; that
    one wrote a notice afterwards does not say that it held anything then.
    """
    try:
        told: Line = json.loads(value)
        said = [
            fitting(row)
            for row in (row_of(fact, rank, line) for fact in PARSERS[role](process, told))
            if row is not None
        ]
        rows += said
        if role == CONSUMERS and said:
            alive[process] = max(alive.get(process, 0), int(told["t"]))
        elif role == COORDINATORS and told["kind"] == "lost":
            t, records = int(told["t"]), int(told["records"])
            rows.append(fitting(FactRow("", 0, 0, t, rank, line, RowKind.HOLE, process, records)))
    except UNREADABLE:
        if value.endswith("}"):
            rows.append(FactRow("", 0, 0, 0, rank, line, RowKind.UNREADABLE, process))


def table(rows: Sequence[FactRow]) -> pa.RecordBatch:
    """Rows for Spark."""
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
    fields = [column.split() for column in SCHEMA.split(", ")]
    columns = zip(*rows, strict=False) if rows else [()] * len(fields)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, types[kind]) for values, (_, kind) in zip(columns, fields, strict=False)],
        names=[name for name, _ in fields],
    )
