"""How long what others give up is waited for."""

from __future__ import annotations

from consumer.gateway.wire.actions import WireTimes
from consumer.gateway.wire.parking import MOVES_KEPT, MovesPace

TIMES = WireTimes()


def test_twice_as_long_as_it_took_lately_within_limits() -> None:
    pace = MovesPace(TIMES)
    assert pace.flux_ms == TIMES.flux_ms
    for took, waits in ((20, TIMES.flux_ms), (200, 400), (90, 400), (500, TIMES.flux_max_ms)):
        pace.took(took)
        assert pace.flux_ms == waits


def test_what_took_so_long_was_a_client_that_was_stuck() -> None:
    pace = MovesPace(TIMES)
    pace.took(TIMES.flux_max_ms + 1)
    assert pace.flux_ms == TIMES.flux_ms


def test_what_was_long_ago_is_forgotten() -> None:
    pace = MovesPace(TIMES)
    pace.took(300)
    for _ in range(MOVES_KEPT):
        pace.took(10)
    assert pace.flux_ms == TIMES.flux_ms
