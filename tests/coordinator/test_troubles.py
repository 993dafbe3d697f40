"""Trouble as a coordinator sees it by its own records: told once when it begins and when it ends,
counted by kind, at a cost that is bounded.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.wait import wait_until
from tests.health.trouble.told import GROUP, NOW_MS, Journal
from zkcoord.coordinator.metrics import Metrics
from zkcoord.coordinator.troubles import desk as module
from zkcoord.coordinator.troubles.desk import KEPT_OF_GROUP_MAX, TURN_S, TURNS_PART, TroubleDesk
from zkcoord.health.trouble.kinds import TroubleKind
from zkcoord.health.trouble.rules import KINDS_BY_JOURNAL

PATIENCE_S = 60.0


class Clock:
    """The wall clock, set by hand."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def __call__(self) -> int:
        return self.ms


class Told:
    """A desk, and what it tells the journal."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.records: list[dict[str, Any]] = []
        self.desk = TroubleDesk(lambda record: self.records.append(dict(record)), self.clock)

    def take(self, journal: Journal, group: str = GROUP) -> None:
        """Hear these records of a group, and look."""
        for record in sorted(journal.records, key=lambda record: record["t"]):
            self.desk.record({**record, "group": group})
        self.desk.look()

    @property
    def events(self) -> list[tuple[Any, Any]]:
        """What was told so far."""
        return [(record["event"], record["trouble"]) for record in self.records]


def flapping(client: str = "app") -> Journal:
    journal = Journal()
    for number in range(4):
        journal.lived(100 - number * 20, 85 - number * 20, client)
    return journal


def test_it_is_told_once_and_once_that_it_is_over() -> None:
    told = Told()
    told.take(flapping())
    told.take(Journal())
    assert told.events == [("begins", "flapping-member")]
    assert told.desk.counts == {TroubleKind.FLAPPING_MEMBER: 1}
    (record,) = told.records
    assert record["group"] == GROUP and record["t"] == NOW_MS and record["member"]
    assert "4 times" in record["evidence"] and record["link"].endswith("#trouble-flapping-member")
    json.dumps(record)
    told.clock.ms += 560_000
    told.desk.look()
    assert told.events == [("begins", "flapping-member")]
    told.clock.ms += 90_000
    told.desk.look()
    assert told.events == [("begins", "flapping-member"), ("ends", "flapping-member")]
    assert told.desk.counts == {}


def test_another_name_of_the_same_is_no_news() -> None:
    told, journal = Told(), flapping()
    told.take(journal)
    again = Journal()
    again.records = [
        {**record, "t": record["t"] + 70_000, **renamed(record)} for record in flapping().records
    ]
    told.clock.ms += 70_000
    told.take(again)
    assert told.events == [("begins", "flapping-member")]


def renamed(record: dict[str, Any]) -> dict[str, Any]:
    """Of other members of the same host."""
    text = json.dumps({k: v for k, v in record.items() if k in ("joined", "left", "trigger")})
    found: dict[str, Any] = json.loads(text.replace("-17000", "-16000"))
    return found


def test_groups_are_counted_by_kind() -> None:
    told = Told()
    for group in ("a", "b"):
        told.take(flapping(), group)
    slow = Journal()
    for number in range(3):
        slow.rebalanced(60 - number, stops={"m": 2_000}, took_ms=2_100)
    told.take(slow, "a")
    assert told.desk.counts == {TroubleKind.FLAPPING_MEMBER: 2, TroubleKind.SLOW_HANDLER: 1}
    metrics = Metrics()
    metrics.trouble(told.desk.counts)
    lines = metrics.text().decode().splitlines()
    counts = [line for line in lines if line.startswith("zkcoord_group_troubles{")]
    assert len(counts) == len(KINDS_BY_JOURNAL)
    assert 'zkcoord_group_troubles{kind="flapping-member"} 2.0' in counts
    assert 'zkcoord_group_troubles{kind="poll-interval"} 0.0' in counts


def test_a_terms_end_forgets_all_and_tells_nothing() -> None:
    told = Told()
    told.take(flapping())
    told.desk.record({"t": NOW_MS, "kind": "term", "event": "resigned", "epoch": 1})
    told.desk.look()
    assert told.events == [("begins", "flapping-member")] and told.desk.counts == {}


def test_what_is_kept_and_what_a_turn_costs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 2_000)
    told = Told()
    for group in range(10):
        journal = Journal()
        for number in range(KEPT_OF_GROUP_MAX + 100):
            journal.rebalanced(3_000 - number, owned={"m": {"t": "0-999"}})
        told.take(journal, f"g{group}")
    assert sum(map(len, told.desk._kept.values())) == told.desk._count <= 2_000
    assert "owned" not in told.desk._kept["g9"][0][1], "what no rule here looks at is not kept"
    assert told.desk._kept.keys() <= {f"g{n}" for n in range(6, 10)}, "the newest are"
    monkeypatch.setattr(module, "TURN_MS_MAX", 0)
    told.take(flapping(), "late")
    assert told.events == [], "there was no time"
    monkeypatch.undo()
    told.desk.look()
    assert told.events == [("begins", "flapping-member")]


def test_members_choose_their_names_and_what_is_kept_of_them_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEPT_CHARS_OF_GROUP_MAX", 1_000_000)
    monkeypatch.setattr(module, "KEPT_CHARS_MAX", 3_000_000)
    told = Told()
    for group in range(5):
        for number in range(40):
            one = {"member": "m" * 640, "host": "h" * 255, "client": "c" * 255, "ended": "e" * 255}
            record = {"kind": "members", "joined": [one] * 64, "left": ["m" * 640] * 64}
            told.desk.record({"t": NOW_MS - number, "group": f"g{group}", **record})
        told.desk.look()
    kept = told.desk._kept
    sizes = {group: len(json.dumps([r for _, r in kept[group]])) for group in kept}
    assert set(sizes) <= {"g2", "g3", "g4"} and "g4" in sizes, "the newest are"
    assert all(size <= 1_000_000 for size in sizes.values())
    assert sum(map(len, kept.values())) == told.desk._count
    assert sum(w for one in kept.values() for w, _ in one) == told.desk._chars <= 3_000_000
    told.desk.record({"t": NOW_MS, "kind": "term", "event": "resigned", "epoch": 1})
    told.desk.look()
    assert (told.desk._chars, told.desk._count, told.desk._chars_of) == (0, 0, {})


def test_a_turn_that_took_long_is_followed_by_a_long_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    told, rests, now = Told(), list[float](), [0]
    monkeypatch.setattr(module, "boot_ms", lambda: now[0])
    monkeypatch.setattr(told.desk, "look", lambda: now.__setitem__(0, now[0] + 1_000))
    told.desk._over = SimpleNamespace(wait=lambda s: rests.append(s) or len(rests) > 2)  # type: ignore[assignment]
    told.desk._run()
    assert rests == [TURN_S, TURNS_PART, TURNS_PART]


def test_records_of_no_group_and_of_other_kinds_are_nothing() -> None:
    told = Told()
    for kind in ("members", "evicted", "topics", "rebalance"):
        told.desk.record({"t": NOW_MS, "kind": kind, "group": 7})
        told.desk.record({"t": NOW_MS, "kind": kind})
    told.desk.look()
    assert told.records == [] and told.desk._kept == {}


def test_the_thread_looks_and_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "TURN_S", 0.01)
    told = Told()
    told.desk.start()
    for record in flapping().records:
        told.desk.record(record)
    wait_until(lambda: told.events, PATIENCE_S, "that it is told")
    told.desk.close()
    assert not told.desk._thread.is_alive()
