"""What a query holds, message by message: given up at once, when it is written, in part; back
again; lost; reset.
"""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from consumer.core import messages as msg
from consumer.core.messages import FailureCode, NoticeKind
from consumer.observer import Observer
from consumer.spark.graceful_stop import ASK, DRAINED, GracefulStop, address_of
from consumer.spark.plan import PlannedRange
from consumer.spark.query_assignment import QueryAssignment
from tests.harness.wait import wait_until
from zkcoord.core.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
PATIENCE_S = 60.0


class World:
    """An assignment of two partitions, and what it sent to the member."""

    def __init__(self) -> None:
        self.sent: list[msg.FromFetcher] = []
        data: Any = None
        self.assignment = QueryAssignment(
            data, Observer(), lambda: None, self.sent.append, lambda question: None
        )
        self.assignment.receive(msg.Assigned({A: 100, B: 200}, assignment_epoch=3))

    def plan_ten(self, tp: TopicPartition) -> PlannedRange:
        owned = self.assignment.owned[tp]
        owned.in_flight = PlannedRange(*tp, owned.position, owned.position + 10, 1, 7)
        return owned.in_flight

    def write(self, tp: TopicPartition) -> None:
        """Written, and not known to be stored."""
        planned = self.assignment.owned[tp].in_flight
        assert planned is not None
        self.assignment.uncommitted[tp], self.assignment.owned[tp].in_flight = planned, None
        self.assignment.release()


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_idle_is_given_up_at_once(world: World) -> None:
    world.plan_ten(B)
    world.assignment.receive(msg.Revoke(1, (A,)))
    assert world.sent == [msg.Revoked(1, {A: 100})] and set(world.assignment.owned) == {B}


def test_what_is_read_is_given_up_when_it_is_written_behind_what_is_written(world: World) -> None:
    world.plan_ten(A)
    world.assignment.receive(msg.Revoke(1, (A,)))
    world.assignment.release()
    assert world.sent == [] and world.assignment.owned[A].revoking
    world.write(A)
    assert world.sent == [msg.Revoked(1, {A: 110})] and set(world.assignment.owned) == {B}


def test_of_a_revocation_what_is_idle_goes_and_what_is_read_is_named(world: World) -> None:
    world.plan_ten(A)
    world.assignment.receive(msg.Revoke(1, (A, B)))
    assert world.sent == [msg.Revoked(1, {B: 200}, (A,))]
    world.assignment.receive(msg.Resumed((A,)))
    assert not world.assignment.owned[A].revoking and world.assignment.owned[A].rests_until > 0, (
        "it is about to be asked back"
    )
    world.assignment.receive(msg.Revoke(2, (A,)))
    world.write(A)
    assert world.sent[1:] == [msg.Revoked(2, {A: 110})] and not world.assignment.owned


def test_what_comes_back_goes_on_behind_what_is_written(world: World) -> None:
    world.plan_ten(A)
    world.assignment.receive(msg.Revoke(1, (A,)))
    world.write(A)
    world.assignment.receive(msg.Resumed((A,)))
    assert world.assignment.position(A) == 110 and world.assignment.uncommitted[A].end == 110, (
        "it is not stored yet"
    )
    assert not world.assignment.owned[A].revoking


def test_a_revocation_that_was_withdrawn_is_not_answered(world: World) -> None:
    world.plan_ten(A)
    world.assignment.receive(msg.Revoke(1, (A,)))
    world.assignment.receive(msg.Resumed((A,)))
    world.write(A)
    assert (
        set(world.assignment.owned) == {A, B}
        and [m for m in world.sent if isinstance(m, msg.Revoked) and m.positions] == []
    )


def test_what_is_lost_is_gone_with_its_revocation(world: World) -> None:
    world.plan_ten(A)
    world.assignment.receive(msg.Revoke(1, (A,)))
    world.assignment.receive(msg.Lost((A, B), "over", assignment_epoch=5))
    assert not world.assignment.owned and world.assignment.assignment_epoch == 5
    world.assignment.receive(msg.Assigned({A: 100}, assignment_epoch=6))
    world.assignment.release()
    assert set(world.assignment.owned) == {A} and world.assignment.owned[A].in_flight is None


def test_an_operators_reset_forgets_what_is_being_read(world: World) -> None:
    world.plan_ten(A)
    world.assignment.receive(msg.Seek(A, 7, assignment_epoch=4))
    assert world.assignment.owned[A].in_flight is None and world.assignment.position(A) == 7
    world.plan_ten(B)
    world.write(B)
    world.assignment.receive(msg.Seek(B, 8, assignment_epoch=5))
    assert world.assignment.uncommitted == {} and world.assignment.position(B) == 8


def test_what_ends_a_member_is_kept(world: World) -> None:
    world.assignment.receive(msg.Notice(NoticeKind.SESSION_LOST, {"name": "m"}))
    assert "session" in world.assignment.session_lost
    world.assignment.receive(msg.Failed(FailureCode.REFUSED, "no"))
    assert "no" in str(world.assignment.failure)


def test_a_drain_answers_when_all_is_stored() -> None:
    names = ["member-drain-test-1"]
    drain = GracefulStop(lambda: names[0])
    drain.follow()
    names[0] = "member-drain-test-2"
    drain.follow()
    try:
        with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as old:
            old.connect(address_of("member-drain-test-1"))
        heard: list[bytes] = []

        def ask() -> None:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(PATIENCE_S)
                connection.connect(address_of("member-drain-test-2"))
                connection.sendall(ASK)
                said = b""
                while not said.endswith(DRAINED):
                    more = connection.recv(64)
                    assert more
                    said += more
                heard.append(said)

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: drain.asked, PATIENCE_S, "the question")
        assert heard == []
        drain.drained.set()
        asking.join(PATIENCE_S)
        assert heard and heard[0].endswith(DRAINED)
    finally:
        drain.close()
