"""The way out of a member whose client left."""

from __future__ import annotations

from consumer.core import messages as msg
from consumer.gateway.wire.drain import Drain
from tests.consumer.gateway.wire.client import TIMES, tps
from zkcoord.core.model import Subscription

BEGAN = 1_000_000
CLOSE = [msg.Close({}, 0)]


def drain(*numbers: int) -> Drain:
    """Of a member that has these partitions."""
    return Drain(TIMES, BEGAN, set(tps(*numbers)))


def test_it_wants_nothing_and_answers_what_waits() -> None:
    assert drain(0).begin((4, 5)) == [
        msg.Subscribe(Subscription({})),
        msg.Revoked(4, {}),
        msg.Revoked(5, {}),
    ]


def test_it_gives_up_all_that_it_is_asked_for_and_closes_a_moment_later() -> None:
    way = drain(0, 1)
    assert way.told(BEGAN + 50, msg.Revoke(3, tuple(tps(0, 1)))) == [msg.Revoked(3, {})]
    due = BEGAN + 50 + TIMES.drain_quiet_ms
    assert way.next_wake_ms() == due
    assert way.tick(due - 1) == [] and not way.over
    assert way.tick(due) == CLOSE and way.over
    assert way.tick(due + 1) == [] and way.next_wake_ms() is None


def test_with_something_left_it_waits_for_the_coordinator_but_not_for_ever() -> None:
    way = drain(0, 1)
    way.told(BEGAN + 50, msg.Revoke(3, tuple(tps(0))))
    assert way.next_wake_ms() == BEGAN + TIMES.drain_ms
    assert way.tick(BEGAN + TIMES.drain_ms) == CLOSE


def test_one_that_had_nothing_waits_a_moment() -> None:
    way = drain()
    assert way.next_wake_ms() == BEGAN + TIMES.drain_quiet_ms


def test_what_was_under_way_comes_and_is_given_up() -> None:
    way = drain()
    assert way.told(BEGAN + 1, msg.Resolve(9, tuple(tps(0)))) == [
        msg.Resolved(9, {}, tuple(tps(0)))
    ]
    way.told(BEGAN + 2, msg.Assigned({}, 1, unset=tuple(tps(0))))
    way.told(BEGAN + 3, msg.Assigned(dict.fromkeys(tps(1), 0), 2))
    assert way.held == tps(0, 1)
    way.told(BEGAN + 4, msg.Lost(tuple(tps(0))))
    way.told(BEGAN + 5, msg.Revoke(3, tuple(tps(1))))
    way.told(BEGAN + 6, msg.Resumed(tuple(tps(1))))
    assert way.held == tps(1)
    way.told(BEGAN + 7, msg.Revoke(4, tuple(tps(1))))
    assert way.next_wake_ms() == BEGAN + 7 + TIMES.drain_quiet_ms


def test_an_agent_that_ends_by_itself_is_told_nothing() -> None:
    way = drain(0)
    way.told(BEGAN + 1, msg.Failed(msg.FailureCode.REJECTED, "why"))
    assert way.over and way.tick(BEGAN + TIMES.drain_ms) == []


def test_what_does_not_concern_it() -> None:
    way = drain(0)
    assert way.told(BEGAN + 1, msg.CommitDone(1, msg.CommitOutcome.OK)) == []
    assert way.changed_ms == BEGAN
