"""How long what others give up is waited for, and what heartbeats are answered."""

from __future__ import annotations

from consumer.gateway.wire.actions import WireTimes
from consumer.gateway.wire.parking import MOVES_KEPT, HeartbeatInterval, MovesPace
from zkcoord.core.error_codes import WireCode

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


def test_an_overtaken_heartbeat_comes_again_but_not_twice() -> None:
    interval = HeartbeatInterval(TIMES)
    assert interval.overtaken(comes_again=False) is WireCode.NONE
    for _ in range(2):
        for code in (WireCode.REQUEST_TIMED_OUT, WireCode.NONE):
            assert interval.overtaken(comes_again=True) is code
            interval.answered(code)


def test_one_that_comes_again_says_nothing_of_the_interval() -> None:
    interval = HeartbeatInterval(TIMES)
    for now_ms in (0, 3_000):
        interval.came(now_ms)
    assert interval.overtaken(comes_again=True) is WireCode.REQUEST_TIMED_OUT
    interval.came(3_100)
    interval.came(6_100)
    interval.answered(WireCode.NONE)
    assert interval.parked_until_ms(6_100, 60_000) == 6_100 + int(3_000 * TIMES.heartbeat_part)


def test_a_heartbeat_that_comes_again_is_parked_no_longer_than_the_one_before() -> None:
    """Both together would wait for nearly twice the interval without an answer that counts, and the
    one before may have been answered an interval earlier: a session of three intervals and a bit.
    """
    interval = HeartbeatInterval(TIMES)
    for now_ms in (0, 3_000, 6_000):
        interval.came(now_ms)
    until_ms = interval.parked_until_ms(6_000, 10_000)
    assert until_ms == 6_000 + int(3_000 * TIMES.heartbeat_part)
    code = interval.overtaken(comes_again=True)
    assert code is WireCode.REQUEST_TIMED_OUT
    interval.answered(code)
    for again_ms in (6_200, until_ms - 10, until_ms + 90):
        interval.came(again_ms)
        assert interval.parked_until_ms(again_ms, 10_000) == until_ms
    interval.answered(WireCode.NONE)
    assert interval.parked_until_ms(9_000, 10_000) > 9_000 + 2_000
