"""All engines give exactly the records of the ranges, whatever the log holds."""

from __future__ import annotations

from collections.abc import Mapping
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consumer.spark.decode import arrays, engine_base, engine_c
from consumer.spark.decode import reader as product
from consumer.spark.plan import PlannedRange
from consumer.spark.schema import ALL_COLUMNS
from tests.harness.wait import wait_until
from tests.spark.decode.conftest import DecodeBroker
from tests.spark.decode.reading import ENGINES, rows_of
from tests.spark.decode.written import COMMITTED, KEYS_OF_COMPACTED, UNCOMMITTED, Log

pytestmark = pytest.mark.kafka

COMPACTION_TIMEOUT_S = 120.0
KNOWN = ("mixed-0", "mixed-1", "transactional", "appended")


def whole(log: Log) -> PlannedRange:
    return PlannedRange(log.topic, log.partition, 0, log.end)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
@pytest.mark.parametrize("name", KNOWN)
def test_a_whole_log(
    broker: DecodeBroker, logs: Mapping[str, Log], name: str, isolation: str, engine: str
) -> None:
    log = logs[name]
    assert (
        rows_of(broker.address, engine, [whole(log)], isolation_level=isolation)
        == log.rows[isolation]
    )


@st.composite
def tasks(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """(log, cuts in thousandths of its length): one task never has two ranges that overlap."""
    found = []
    for name in draw(st.lists(st.sampled_from(KNOWN), min_size=1, max_size=4, unique=True)):
        cuts = sorted(draw(st.lists(st.integers(0, 1000), min_size=2, max_size=4)))
        found += [(name, start, end) for start, end in zip(cuts[::2], cuts[1::2])]
    return draw(st.permutations(found))


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    task=tasks(),
    columns=st.permutations(ALL_COLUMNS),
    count=st.integers(1, len(ALL_COLUMNS)),
    isolation=st.sampled_from([UNCOMMITTED, COMMITTED]),
    rows_max=st.sampled_from([1, 7, 500, 16_384]),
    tiny=st.sampled_from([0, 20_000]),
)
def test_any_ranges_of_any_logs(
    broker: DecodeBroker,
    logs: Mapping[str, Log],
    task: list[tuple[str, int, int]],
    columns: list[str],
    count: int,
    isolation: str,
    rows_max: int,
    tiny: int,
) -> None:
    wanted = columns[:count]
    ranges = [
        PlannedRange(
            logs[name].topic,
            logs[name].partition,
            logs[name].end * start // 1000,
            logs[name].end * end // 1000,
        )
        for name, start, end in task
    ]
    expected = [
        {column: row[column] for column in wanted}
        for (name, _, _), r in zip(task, ranges)
        for row in logs[name].within(r, isolation)
    ]
    with (
        mock.patch.object(arrays, "ROWS_MAX", rows_max),
        mock.patch.object(engine_c, "ROWS_MAX", rows_max),
        mock.patch.object(engine_base, "ROWS_MAX", rows_max),
        mock.patch.object(product, "TINY_ROWS", tiny),
    ):
        for engine in ENGINES:
            assert (
                rows_of(broker.address, engine, ranges, wanted, isolation_level=isolation)
                == expected
            ), engine


@pytest.mark.parametrize("engine", ENGINES)
def test_every_end(broker: DecodeBroker, logs: Mapping[str, Log], engine: str) -> None:
    """Also one that lies behind a control record or an aborted one, with a record right at it."""
    log = logs["transactional"]
    ranges = [PlannedRange(log.topic, 0, max(0, end - 3), end) for end in range(1, log.end + 1)]
    expected = [row["offset"] for r in ranges for row in log.within(r, COMMITTED)]
    assert [
        row["offset"]
        for row in rows_of(broker.address, engine, ranges, ["offset"], isolation_level=COMMITTED)
    ] == expected


def is_compacted(broker: DecodeBroker, log: Log) -> bool:
    """Has the cleaner done all that it will do, by its own note?"""
    active = max(
        int(segment.stem) for segment in (broker.home / "data" / f"{log.topic}-0").glob("*.log")
    )
    note = broker.home / "data" / "cleaner-offset-checkpoint"
    return (
        active > 0
        and note.is_file()
        and f"{log.topic} 0 {active}" in note.read_text(encoding="utf-8").splitlines()
    )


def test_what_was_compacted_away(broker: DecodeBroker, logs: Mapping[str, Log]) -> None:
    log = logs["compacted"]
    written = {row["offset"]: row for row in log.rows[UNCOMMITTED]}
    wait_until(
        lambda: is_compacted(broker, log),
        COMPACTION_TIMEOUT_S,
        "a log that is compacted up to its active segment",
    )
    left = rows_of(broker.address, ENGINES[0], [whole(log)])
    assert all(row == written[row["offset"]] for row in left)
    assert {row["key"]: row for row in left} == {
        row["key"]: row for row in log.rows[UNCOMMITTED]
    } and len({row["key"] for row in left}) == KEYS_OF_COMPACTED
    gone = next(
        offset for offset in range(log.end) if offset not in {row["offset"] for row in left}
    )
    cuts = [(0, log.end), (gone, gone + 1), (0, gone + 1), (gone, log.end)] + [
        (at * log.end // 13, (at + 1) * log.end // 13) for at in range(13)
    ]
    for start, end in cuts:
        expected = [row for row in left if start <= row["offset"] < end]
        for engine in ENGINES:
            assert (
                rows_of(broker.address, engine, [PlannedRange(log.topic, 0, start, end)])
                == expected
            ), (engine, start, end)


@pytest.mark.parametrize("engine", ENGINES)
def test_pieces_of_one_partition_in_one_task(
    broker: DecodeBroker, logs: Mapping[str, Log], engine: str
) -> None:
    log = logs["mixed-0"]
    pieces = [PlannedRange(log.topic, 0, start, start + 50) for start in range(0, 300, 50)]
    assert rows_of(broker.address, engine, pieces) == log.within(
        PlannedRange(log.topic, 0, 0, 300), UNCOMMITTED
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_ranges_need_no_broker(engine: str) -> None:
    assert rows_of("127.0.0.1:1", engine, [PlannedRange("nothing", 0, 7, 7)]) == []
