"""Requests that wait: each group's in order, each connection's by themselves, and only so many."""

from __future__ import annotations

import pytest

from consumer.gateway.client_led import waiting
from consumer.gateway.client_led.group import WaitingLed
from consumer.gateway.client_led.waiting import WaitingLine
from consumer.gateway.wire.requests import Caller, HeartbeatRequest


class Counted(HeartbeatRequest):
    """One that says how often it was compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


def one(ticket: int, connection: int) -> WaitingLed:
    return WaitingLed(ticket, Caller(connection), Counted("g", "m", 1), 0)


def test_those_of_a_connection_go_by_themselves_and_others_keep_their_order() -> None:
    requests = WaitingLine()
    for ticket, (group, connection) in enumerate([("g", 1), ("g", 2), ("h", 1), ("g", 3)]):
        assert requests.add(group, one(ticket, connection))
    assert requests.groups == ("g", "h")
    assert [(group, found.ticket) for group, found in requests.gone(1)] == [("g", 0), ("h", 2)]
    assert requests.gone(1) == [] and requests.groups == ("g",)
    assert [found.ticket for found in requests.all_of("g")] == [1, 3]
    assert requests.groups == () and list(requests.all_of("g")) == []


def test_no_other_request_is_looked_at_when_a_connection_closes() -> None:
    """4,000 connections that closed kept a gateway busy for 21 s."""
    requests = WaitingLine()
    for ticket in range(100):
        requests.add("g", one(ticket, ticket))
    for connection in reversed(range(100)):
        assert [found.ticket for _, found in requests.gone(connection)] == [connection]
    assert Counted.compared == 0


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WAITING_MAX", 2)
    requests = WaitingLine()
    assert [requests.add(name, one(n, 1)) for n, name in enumerate("ghi")] == [True, True, False]
    requests.take("g", 0)
    assert requests.add("i", one(3, 1))
