"""docs/examples/spark_sql_sink.py: its transactions, by themselves."""

from __future__ import annotations

import importlib.util
import sqlite3
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from consumer.spark.plan import PlannedRange
from consumer.spark.sink import FencedBatchError

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "spark_sql_sink.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_sql_sink", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "orders.db"


@pytest.fixture
def store(database: Path) -> Any:
    return load().Store(str(database))


def rows(partition: int, start: int, end: int) -> list[tuple[Any, ...]]:
    return [("orders", partition, offset, b"%d" % offset) for offset in range(start, end)]


def ranges(start: int, end: int, owner: int, *partitions: int) -> list[PlannedRange]:
    return [
        PlannedRange("orders", partition, start, end, 1, owner) for partition in partitions or (0,)
    ]


def offsets(database: Path, partition: int = 0) -> list[int]:
    with closing(sqlite3.connect(database)) as db:
        return [
            offset
            for (offset,) in db.execute(
                "SELECT offset FROM results WHERE partition = ? ORDER BY rowid", (partition,)
            )
        ]


def test_batches_follow_each_other(store: Any, database: Path) -> None:
    assert store.add(ranges(0, 5, 100), rows(0, 0, 5)) == 5
    assert store.add(ranges(5, 9, 100), rows(0, 5, 9)) == 4
    assert offsets(database) == list(range(9))


def test_an_older_claim_is_refused_whole(store: Any, database: Path) -> None:
    """One of two partitions was claimed by another, which has not even written yet more than its
    fence.
    """
    store.add(ranges(0, 5, 100, 0, 1), rows(0, 0, 5) + rows(1, 0, 5))
    store.add(ranges(5, 6, 200, 1), rows(1, 5, 6))
    with pytest.raises(FencedBatchError, match="another application has claimed orders-1"):
        store.add(ranges(5, 8, 100, 0, 1), rows(0, 5, 8) + rows(1, 5, 8))
    assert (offsets(database, 0), offsets(database, 1)) == (list(range(5)), list(range(6)))


def test_what_is_there_already_is_left_out(store: Any, database: Path) -> None:
    """The application before died between its transaction and ZooKeeper's: the successor reads
    again, and further.
    """
    store.add(ranges(0, 5, 100), rows(0, 0, 5))
    assert store.add(ranges(0, 8, 200), rows(0, 0, 8)) == 3
    assert store.add(ranges(0, 5, 200), rows(0, 0, 5)) == 0
    assert store.add(ranges(8, 9, 200), rows(0, 8, 9)) == 1
    assert offsets(database) == list(range(9))


def test_a_database_that_is_behind_is_not_written_to(store: Any, database: Path) -> None:
    store.add(ranges(0, 5, 100), rows(0, 0, 5))
    with pytest.raises(RuntimeError, match="holds orders-0 up to 5, and the group stands at 7"):
        store.add(ranges(7, 8, 200), rows(0, 7, 8))
    assert store.add(ranges(5, 6, 100), rows(0, 5, 6)) == 1, "the fence was not raised either"
    assert offsets(database) == list(range(6))
