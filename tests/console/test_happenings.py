"""What the console keeps of journals."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.console.pictures import journal_file, rebalance
from tests.harness.wait import wait_until
from zkcoord.console import happenings as module
from zkcoord.console.happenings import BUCKET_MS, BUCKETS, HOUR_MS, OF_NO_GROUP, Happenings
from zkcoord.zk.clock import wall_ms

PATIENCE_S = 20.0


def made(**more: Any) -> tuple[Happenings, list[frozenset[str]]]:
    told: list[frozenset[str]] = []
    return Happenings([], told.append, **more), told


def append(path: Path, *records: object) -> None:
    with path.open("ab") as file:
        file.writelines(orjson.dumps(record) + b"\n" for record in records)


def test_records_of_each_group_and_of_none() -> None:
    found, told = made()
    found.take(
        [rebalance(2), rebalance(1), rebalance(3, group="audit"), {"t": 4, "kind": "elected"}]
    )
    assert [r["t"] for r in found.of("billing")] == [1, 2], "the oldest first"
    assert [r["t"] for r in found.of(OF_NO_GROUP)] == [4] and found.of("nobody") == []
    assert told == [{"billing", "audit", ""}]
    found.take([])
    assert len(told) == 1, "of nothing nobody is told"


def test_the_oldest_go_beyond_the_budget() -> None:
    found, _ = made(kept_bytes_max=20_000)
    for at in range(100):
        found.take([rebalance(at, group=f"g{at % 50}")])
    left = {at for at in range(100) if any(r["t"] == at for r in found.of(f"g{at % 50}"))}
    assert left and left == set(range(min(left), 100))
    assert len(found._of_group) < 50 and found._bytes <= 20_000
    found.take([rebalance(100, trigger="x" * 100_000)])
    assert [r["t"] for r in found.of("billing")] == [100], "the newest stays, whatever its size"


def test_a_page_is_given_the_newest_that_it_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_BYTES_MAX", 5_000)
    found, _ = made()
    found.take(rebalance(at) for at in range(1_000))
    times = [r["t"] for r in found.of("billing")]
    assert 5 < len(times) < 50 and times == list(range(1_000 - len(times), 1_000))


ODD: list[Any] = [
    None,
    True,
    5,
    10**30,
    -1.5,
    [],
    {"x": [1]},
    "\ud800",
    "\u202e<script>",
    "x" * 999,
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:12])
def test_records_of_other_versions(odd: Any) -> None:
    found, _ = made()
    found.take(
        [rebalance(1, **{field: odd}) for field in ("group", "owned", "waited_for", "generation")]
    )
    found.take([rebalance(2)])
    assert found.of("billing")[-1]["t"] == 2


@pytest.mark.parametrize("at", [10**18, -(10**18), 10**30, -(10**30), 0])
def test_times_that_no_calendar_has(at: int) -> None:
    now = wall_ms()
    found, _ = made()
    found.take([rebalance(now - 1_000), rebalance(at), rebalance(now - 500)])
    assert found.per_hour("billing", now) == 2
    assert found.unreadable == (abs(at) > 2**63)


def test_rates_of_the_last_hour() -> None:
    now = wall_ms()
    found, _ = made()
    ages = (0, 1, BUCKET_MS, HOUR_MS - 1, HOUR_MS + BUCKET_MS, -5 * BUCKET_MS)
    found.take(rebalance(now - age) for age in sorted(ages, reverse=True))
    rates = found.rates("billing", now)
    assert (rates[-1], rates[-2], rates[0], sum(rates), len(rates)) == (2, 1, 1, 4, BUCKETS)
    assert found.per_hour("nobody", now) == 0
    found.take([{"t": now, "kind": "evicted", "group": "billing"}])
    assert found.per_hour("billing", now) == 4, "only rebalances count"


def test_how_long_all_rebalances_took() -> None:
    found, _ = made()
    now = wall_ms()
    found.take(
        [
            rebalance(now - HOUR_MS - 1, duration_ms=9),
            rebalance(now - 5, duration_ms=70),
            rebalance(now - 4, group="audit", duration_ms=-1),
            rebalance(now - 3, duration_ms="x"),
        ]
    )
    assert found.durations(now) == [70, 0]


def test_files_are_followed(tmp_path: Path) -> None:
    path = journal_file(tmp_path)
    told: list[frozenset[str]] = []
    found = Happenings([tmp_path, tmp_path / "none"], told.append)
    append(path, rebalance(1))
    found.start()
    try:
        wait_until(lambda: len(found.of("billing")) == 1, PATIENCE_S, "the first")
        append(path, [1, 2], {"kind": "x"}, rebalance(2))
        wait_until(lambda: len(found.of("billing")) == 2, PATIENCE_S, "the next")
        assert found.exist and len(told) == 2
    finally:
        found.close()
    assert not Happenings([tmp_path / "none"], told.append).exist


def test_a_folder_that_may_not_be_read_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> list[Path]:
        looks.append(1)
        raise PermissionError(13, "Permission denied", str(tmp_path))

    looks: list[int] = []
    monkeypatch.setattr(module, "journal_files", refused)
    monkeypatch.setattr("zkcoord.coordinator.journal.journal_files", refused)
    monkeypatch.setattr(module, "POLL_S", 0.01)
    found = Happenings([tmp_path], lambda _: None)
    assert not found.exist
    with caplog.at_level(logging.WARNING):
        found.start()
        wait_until(lambda: len(looks) > 5, PATIENCE_S, "some looks")
        found.close()
    assert len(caplog.records) == 1 and "Permission denied" in caplog.text
