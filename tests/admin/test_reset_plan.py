"""What a reset aims at: times, durations, files, topics, and targets inside of the logs. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkcoord.admin.offsets.reset_plan import (
    Aim,
    Log,
    ResetKind,
    Target,
    export,
    parse_file,
    parse_topics,
    target_of,
)
from zkcoord.admin.offsets.time_spec import parse_datetime, parse_duration, shown_time
from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
LOG = Log(10, 50)


@pytest.mark.parametrize(
    ("text", "ms", "zoned"),
    [
        ("2026-01-31T10:00:00.123", 1_769_853_600_123, False),
        ("2026-01-31T10:00:00.123Z", 1_769_853_600_123, True),
        ("2026-01-31T12:00:00,123+02:00", 1_769_853_600_123, True),
        ("2026-01-31T05:30:00-0430", 1_769_853_600_000, True),
        ("2026-01-31 11:00+01", 1_769_853_600_000, True),
        ("2026-01-31", 1_769_817_600_000, False),
        ("1970-01-01T00:00:00.001999999Z", 1, True),
    ],
)
def test_times_are_iso_8601_and_utc_without_a_zone(text: str, ms: int, zoned: bool) -> None:
    assert parse_datetime(text) == (ms, zoned)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-02-30T00:00:00Z",
        "2026-01-31T25:00:00",
        "2026-01-31T10:00:00+99:00",
        "1969-12-31T23:59:59Z",
        "2026-01-31T10:00:00ZZ",
        "20260131",
    ],
)
def test_what_is_no_time_is_one_sentence(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--to-datetime"):
        parse_datetime(text)


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_that_is_shown_is_read_back(ms: int) -> None:
    assert parse_datetime(shown_time(ms)) == (ms, True)


@pytest.mark.parametrize("ms", [10**15, -(10**15), 10**400])
def test_a_time_that_no_calendar_has_is_said(ms: int) -> None:
    assert shown_time(ms) == "no time of a calendar"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("P1D", 86_400_000),
        ("PT2H30M", 9_000_000),
        ("p1dt1h1m1.5s", 90_061_500),
        ("PT0S", 0),
        ("PT0.25S", 250),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D", "P1Y"])
def test_what_is_no_duration_is_one_sentence(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--by-duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("aim", "stored", "log", "offset", "warns"),
    [
        (Aim(ResetKind.EARLIEST), None, LOG, 10, False),
        (Aim(ResetKind.LATEST), 5, LOG, 50, False),
        (Aim(ResetKind.OFFSET, 30), 5, LOG, 30, False),
        (Aim(ResetKind.OFFSET, 10), 5, LOG, 10, False),
        (Aim(ResetKind.OFFSET, 50), 5, LOG, 50, False),
        (Aim(ResetKind.OFFSET, 9), 5, LOG, 10, True),
        (Aim(ResetKind.OFFSET, 51), 5, LOG, 50, True),
        (Aim(ResetKind.SHIFT, -5), 40, LOG, 35, False),
        (Aim(ResetKind.SHIFT, -500), 40, LOG, 10, True),
        (Aim(ResetKind.SHIFT, 500), 40, LOG, 50, True),
        (Aim(ResetKind.SHIFT, 1), None, LOG, None, True),
        (Aim(ResetKind.CURRENT), 3, LOG, 3, False),
        (Aim(ResetKind.CURRENT), None, LOG, None, True),
        (Aim(ResetKind.TIME, 1), None, Log(10, 50, 20), 20, False),
        (Aim(ResetKind.TIME, 1), None, LOG, 50, True),
        (Aim(ResetKind.FILE, offsets={T0: 12}), None, LOG, 12, False),
        (Aim(ResetKind.FILE, offsets={T0: 2}), None, LOG, 10, True),
        (Aim(ResetKind.FILE, offsets={T1: 12}), 1, LOG, None, True),
    ],
)
def test_targets_are_inside_of_the_log(
    aim: Aim, stored: int | None, log: Log, offset: int | None, warns: bool
) -> None:
    target = target_of(aim, T0, stored, log)
    assert target.offset == offset and bool(target.warning) is warns
    assert not warns or "orders-0" in target.warning


@given(
    st.sampled_from([ResetKind.OFFSET, ResetKind.SHIFT, ResetKind.EARLIEST, ResetKind.LATEST]),
    st.integers(-(2**63), 2**63),
    st.integers(0, 2**63),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
)
def test_no_target_is_ever_outside(
    kind: ResetKind, number: int, stored: int, start: int, length: int
) -> None:
    target = target_of(Aim(kind, number), T0, stored, Log(start, start + length))
    assert (
        isinstance(target, Target)
        and target.offset is not None
        and start <= target.offset <= start + length
    )


def test_topics_and_their_partitions() -> None:
    assert parse_topics(["orders", "users:2,0", "users:1"]) == {"orders": None, "users": (0, 1, 2)}
    assert parse_topics(["users:1", "users"]) == {"users": None} and parse_topics(
        ["users", "users:1"]
    ) == {"users": None}
    for bad in ("", ":1", "orders:", "orders:x", "orders:-1", "orders:01", "a/b", "orders:1;2"):
        with pytest.raises(ConfigurationError, match="--topic"):
            parse_topics([bad])


def test_a_file_of_offsets_is_read_as_kafkas_tool_writes_it() -> None:
    assert parse_file('"orders",0,10\r\norders, 1 ,0\n\n', "g", "f") == {T0: 10, T1: 0}
    assert parse_file("g,orders,0,10\n", "g", "f") == {T0: 10}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no offsets"),
        ("orders,0\n", "line 1"),
        ("orders,0,1\norders,0,2\n", "a second time"),
        ("orders,0,-1\n", "line 1"),
        ("orders,0,9223372036854775808\n", "line 1"),
        ("other,orders,0,1\n", "'other'"),
        ("topic,partition,offset\n", "line 1"),
        ('"orders,0,1\n', "not CSV"),
        ("orders,\u0661,1\n", "line 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(text: str, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part):
        parse_file(text, "g", "f")


@given(
    st.dictionaries(
        st.builds(
            TopicPartition,
            st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True),
            st.integers(0, 10**9 - 1),
        ),
        st.integers(0, 2**63 - 1),
        min_size=1,
    )
)
def test_an_export_is_read_back(offsets: dict[TopicPartition, int]) -> None:
    assert parse_file(export(offsets.items()), "g", "f") == offsets
