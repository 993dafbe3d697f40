"""Iteration's place between what was fetched and what was yielded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from consumer.fetch.record_iterator import RecordIterator
from tests.consumer.fakes import FakeData, tp


def records(first: int, count: int) -> list[Any]:
    return [SimpleNamespace(offset=first + n) for n in range(count)]


def filled() -> tuple[FakeData, RecordIterator]:
    data = FakeData()
    data.at = {tp(0): 13, tp(1): 22}
    cursor = RecordIterator(data)
    cursor.fill({tp(0): records(10, 3), tp(1): records(20, 2)})
    return data, cursor


def test_records_come_in_order_and_positions_follow_each() -> None:
    _, cursor = filled()
    assert cursor.positions() == {tp(0): 10, tp(1): 20}
    assert cursor.next().offset == 10 and cursor.owner == (tp(0),)
    assert cursor.positions() == {tp(0): 11, tp(1): 20}
    assert [cursor.next().offset for _ in range(4)] == [11, 12, 20, 21]
    assert cursor.next() is None and cursor.positions() == {}


def test_the_position_is_after_the_last_record_also_before_a_gap() -> None:
    cursor = RecordIterator(FakeData())
    cursor.fill({tp(0): [SimpleNamespace(offset=5), SimpleNamespace(offset=9)]})
    cursor.next()
    assert cursor.positions() == {tp(0): 6}


def test_put_back_restores_the_fetching_sides_positions() -> None:
    data, cursor = filled()
    cursor.next()
    cursor.put_back({tp(0)})
    assert data.at == {tp(0): 11, tp(1): 22}
    assert cursor.next().offset == 20, "others go on"
    cursor.put_back()
    assert data.at == {tp(0): 11, tp(1): 21} and cursor.next() is None


def test_discard_forgets_without_putting_back() -> None:
    data, cursor = filled()
    cursor.discard({tp(0)})
    assert data.at == {tp(0): 13, tp(1): 22} and cursor.next().offset == 20
