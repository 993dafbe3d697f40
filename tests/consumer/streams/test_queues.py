"""What streams have in hand and in their queues, without servers: positions, revocations, full
queues, the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kafka.structs import TopicPartition

from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.assignment.state import AssignmentState
from consumer.core import messages as msg
from consumer.streams.queues import ANY_TOPIC, Line, StreamQueues
from tests.consumer.fakes import FakeData, Recorder, model, tp
from tests.harness.wait import wait_until

PATIENCE_S = 30.0
SOON_S = 0.001


class Record(NamedTuple):
    """As much of a record as is looked at."""

    offset: int


class Paused:
    """Remembers what is paused."""

    def __init__(self) -> None:
        self.now: set[TopicPartition] = set()

    def pause(self, *partitions: TopicPartition) -> None:
        self.now.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.now.difference_update(partitions)


class Bench:
    """A membership with queues, between fakes: two streams, or as `streams` says."""

    def __init__(
        self,
        listener: Recorder | None = None,
        limit: int = 100,
        in_hand_ms: int = 60_000,
        streams: dict[str, int] | None = None,
    ) -> None:
        self.data: Any = FakeData()
        self.data.kafka = Paused()
        self.leased = True
        self.queues = StreamQueues(self.data, limit, lambda: self.leased)
        self.lines = self.queues.open({"t": 2} if streams is None else streams)
        listening = RebalanceListenerInvoker()
        listening.listener = listener
        self.told: list[msg.FromFetcher] = []
        self.state = AssignmentState(
            self.data, self.queues, listening, self.told.append, True, in_hand_ms=in_hand_ms
        )
        self.epoch = 0

    def line(self, number: int, topic: str = "t") -> Line:
        return self.lines[topic][number]

    def assign(self, streams: dict[int, int], offset: int = 10) -> None:
        """These partitions, each to a stream, from one offset on."""
        self.epoch += 1
        self.state.receive(
            msg.Assigned(
                dict.fromkeys(model(*streams), offset),
                self.epoch,
                {p: streams[p.partition] for p in model(*streams) if streams[p.partition]},
            )
        )
        self.turn()

    def arrive(self, number: int, *offsets: int) -> None:
        """Records of a partition, as the poller takes them."""
        with self.data.lock:
            self.data.at[tp(number)] = offsets[-1] + 1
            self.queues.fill({tp(number): [Record(o) for o in offsets]})

    def turn(self) -> None:
        """What the poller does before it looks for records."""
        self.queues.awaited = self.state.release()
        self.state.run_callbacks()

    def revoke(self, token: int, *numbers: int) -> None:
        self.state.receive(msg.Revoke(token, model(*numbers)))
        self.turn()

    def answers(self) -> list[dict[int, int]]:
        """Positions by partition of each answer to a revocation."""
        return [
            {p.partition: o for p, o in m.positions.items()}
            for m in self.told
            if isinstance(m, msg.Revoked)
        ]

    def positions(self) -> dict[int, int]:
        return {p.partition: o.offset for p, o in self.state.positions()[0].items()}


def take(line: Line) -> int | None:
    """The offset of the next record; None when there is none."""
    record = line.next(SOON_S)
    return None if record is None else int(record.offset)


def test_records_go_to_the_stream_of_their_partition_in_order() -> None:
    bench = Bench()
    bench.assign({0: 0, 1: 1, 2: 1})
    bench.arrive(1, 10, 11)
    bench.arrive(2, 10)
    bench.arrive(1, 12)
    assert take(bench.line(0)) is None
    assert [take(bench.line(1)) for _ in range(5)] == [10, 11, 10, 12, None]


def test_a_pattern_has_streams_over_all_topics_and_a_number_that_is_none_goes_somewhere() -> None:
    bench = Bench(streams={ANY_TOPIC: 2})
    bench.assign({0: 0, 1: 1, 2: 7})
    for number in range(3):
        bench.arrive(number, 10)
    assert take(bench.line(0, ANY_TOPIC)) == 10 and [
        take(bench.line(1, ANY_TOPIC)) for _ in range(3)
    ] == [10, 10, None]


def test_what_is_in_hand_counts_when_the_next_one_is_asked_for() -> None:
    bench = Bench()
    bench.assign({0: 0, 1: 1})
    bench.arrive(0, 10, 11, 14)
    assert bench.positions() == {0: 10, 1: 10}
    take(bench.line(0))
    assert bench.positions() == {0: 10, 1: 10}
    take(bench.line(0))
    assert bench.positions() == {0: 11, 1: 10}
    take(bench.line(0))
    assert bench.positions() == {0: 14, 1: 10}
    take(bench.line(0))
    assert bench.positions() == {0: 15, 1: 10}


def test_what_is_in_hand_counts_when_its_own_thread_says_so() -> None:
    bench = Bench()
    bench.assign({0: 0})
    bench.arrive(0, 10, 11)
    take(bench.line(0))
    other = threading.Thread(target=lambda: bench.queues.processed_by(threading.current_thread()))
    other.start()
    other.join()
    assert bench.positions() == {0: 10}
    bench.queues.processed_by(threading.current_thread())
    assert bench.positions() == {0: 11}


def test_a_revocation_without_records_in_hand_is_answered_at_once() -> None:
    bench = Bench()
    bench.assign({0: 0, 1: 0})
    bench.arrive(0, 10, 11, 12)
    bench.arrive(1, 10, 11)
    take(bench.line(0))
    bench.revoke(5, 1)
    assert bench.answers() == [{1: 10}]
    assert [take(bench.line(0)) for _ in range(3)] == [11, 12, None] and bench.positions() == {
        0: 13
    }


def test_a_revocation_waits_for_the_record_in_hand_and_nothing_follows_it() -> None:
    bench = Bench(listener := Recorder())
    bench.assign({0: 0, 1: 1})
    bench.arrive(0, 10, 11, 12)
    take(bench.line(0))
    bench.revoke(5, 0)
    assert (
        bench.answers() == [] and listener.calls == [("assigned", (0, 1))] and bench.queues.awaited
    )
    bench.arrive(1, 10)
    assert take(bench.line(1)) == 10, "the other stream goes on"
    bench.data.wakeup.clear()
    assert take(bench.line(0)) is None and bench.data.wakeup.is_set()
    bench.turn()
    assert (
        bench.answers() == [{0: 11}]
        and listener.calls[1:] == [("revoked", (0,))]
        and not bench.queues.awaited
    )


def test_a_record_that_is_in_hand_for_too_long_is_given_up() -> None:
    bench = Bench(in_hand_ms=0)
    bench.assign({0: 0})
    bench.arrive(0, 10, 11, 12)
    take(bench.line(0))
    take(bench.line(0))
    bench.revoke(5, 0)
    assert bench.answers() == [{0: 11}]
    bench.assign({0: 1}, offset=11)
    me = threading.current_thread()
    bench.queues.processed_by(me)
    assert bench.queues.stale(me) == {tp(0)}, "it may not store what it makes of it"
    assert take(bench.line(0)) is None, "what was in hand is of an assignment before"
    assert bench.positions() == {0: 11} and bench.queues.stale(me) == set()


def test_a_revocation_that_is_withdrawn_goes_on_after_what_is_in_hand() -> None:
    bench = Bench(listener := Recorder())
    bench.assign({0: 0})
    bench.arrive(0, 10, 11, 12)
    take(bench.line(0))
    bench.revoke(5, 0)
    bench.state.receive(msg.Resumed(model(0)))
    bench.turn()
    assert bench.data.at[tp(0)] == 11 and bench.positions() == {0: 10} and bench.data.held == set()
    take(bench.line(0))
    bench.turn()
    assert (
        bench.positions() == {0: 11}
        and bench.answers() == [{}]
        and listener.calls == [("assigned", (0,))]
    )


@pytest.mark.parametrize(
    "message", [msg.Lost(model(0), "why", 9), msg.Seek(model(0)[0], 99, 9)], ids=["lost", "reset"]
)
def test_nothing_of_what_was_lost_or_reset_is_handed_out_or_counted(message: msg.ToFetcher) -> None:
    bench = Bench()
    bench.assign({0: 0, 1: 0})
    bench.arrive(0, 10, 11, 12)
    bench.arrive(1, 10)
    take(bench.line(0))
    bench.state.receive(message)
    assert take(bench.line(0)) == 10 and take(bench.line(0)) is None
    assert bench.positions() == ({1: 11} if isinstance(message, msg.Lost) else {0: 99, 1: 11})


def test_a_revocation_that_waits_is_void_when_its_partition_is_lost() -> None:
    bench = Bench(listener := Recorder())
    bench.assign({0: 0})
    bench.arrive(0, 10)
    take(bench.line(0))
    bench.revoke(5, 0)
    bench.state.receive(msg.Lost(model(0), "why", 9))
    bench.turn()
    assert bench.answers() == [{}] and listener.calls == [("assigned", (0,)), ("lost", (0,))]


def test_without_the_lease_nothing_is_handed_out_and_nothing_is_forgotten() -> None:
    bench = Bench()
    bench.assign({0: 0})
    bench.arrive(0, 10, 11)
    bench.leased = False
    assert take(bench.line(0)) is None and bench.positions() == {0: 10}
    bench.leased = True
    assert [take(bench.line(0)) for _ in range(2)] == [10, 11]


def test_a_full_queue_pauses_its_own_partitions_until_it_is_half_empty() -> None:
    bench = Bench(limit=4)
    bench.assign({0: 0, 1: 1, 2: 0})
    bench.arrive(0, *range(10, 13))
    assert bench.queues.have_room() and bench.data.kafka.now == set()
    bench.arrive(0, 13, 14)
    assert bench.queues.have_room() and bench.data.kafka.now == {tp(0), tp(2)}
    bench.assign({3: 0, 4: 1})
    assert bench.data.kafka.now == {tp(0), tp(2), tp(3)}, "what comes to a full queue waits, too"
    bench.data.wakeup.clear()
    take(bench.line(0))
    take(bench.line(0))
    assert not bench.data.wakeup.is_set()
    assert bench.queues.have_room() and bench.data.kafka.now == {tp(0), tp(2), tp(3)}
    take(bench.line(0))
    take(bench.line(0))
    assert bench.data.wakeup.is_set(), "the poller is woken when there is room"
    assert bench.queues.have_room() and bench.data.kafka.now == set()


def test_while_all_queues_are_full_nothing_is_taken_and_nothing_paused() -> None:
    bench = Bench(limit=2, streams={"t": 3})
    bench.assign({0: 0, 1: 1})
    bench.arrive(0, 10, 11)
    bench.arrive(1, 10, 11)
    assert not bench.queues.have_room() and bench.data.kafka.now == set(), (
        "the third stream owns nothing"
    )
    take(bench.line(1))
    assert bench.queues.have_room() and bench.data.kafka.now == {tp(0)}
    bench.arrive(1, 12, 13)
    assert not bench.queues.have_room() and bench.data.kafka.now == {tp(0)}
    take(bench.line(0))
    assert bench.queues.have_room() and bench.data.kafka.now == {tp(1)}


def test_a_partition_that_comes_back_to_a_paused_queue_is_paused() -> None:
    bench = Bench(limit=2)
    bench.assign({0: 0, 1: 1, 2: 0})
    bench.arrive(0, 10, 11)
    assert bench.queues.have_room() and bench.data.kafka.now == {tp(0), tp(2)}
    bench.revoke(5, 2)
    bench.data.kafka.now.discard(tp(2))
    bench.state.receive(msg.Resumed(model(2)))
    assert bench.answers() == [{2: 10}] and bench.data.kafka.now == {tp(0), tp(2)}


def test_a_queue_that_loses_its_records_has_room() -> None:
    bench = Bench(limit=2)
    bench.assign({0: 0, 1: 0, 2: 1})
    bench.arrive(0, 10, 11, 12)
    assert bench.queues.have_room() and tp(1) in bench.data.kafka.now
    bench.data.wakeup.clear()
    bench.revoke(5, 0)
    assert bench.data.wakeup.is_set()
    assert (
        bench.queues.have_room() and bench.line(0).count == 0 and tp(1) not in bench.data.kafka.now
    )


def blocked(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_the_end_waits_for_what_living_threads_have_in_hand() -> None:
    bench = Bench()
    bench.assign({0: 0, 1: 1})
    bench.arrive(0, 10, 11, 12)
    bench.arrive(1, 10, 11)
    go, holding = threading.Event(), threading.Event()

    def work() -> None:
        take(bench.line(0))
        holding.set()
        go.wait(PATIENCE_S)
        take(bench.line(0))

    dead = blocked(lambda: take(bench.line(1)))
    dead.join(PATIENCE_S)
    living = blocked(work)
    assert holding.wait(PATIENCE_S)
    bench.queues.close()
    ending = blocked(lambda: bench.queues.settle(PATIENCE_S, threading.main_thread()))
    assert take(bench.line(0)) is None, "closed streams hand out nothing"
    go.set()
    living.join(PATIENCE_S)
    ending.join(PATIENCE_S)
    assert not ending.is_alive()
    assert bench.data.at == {
        tp(0): 11,
        tp(1): 10,
    }, "what nobody can process any more is not processed"


def test_the_end_does_not_wait_for_ever() -> None:
    bench = Bench()
    bench.assign({0: 0})
    bench.arrive(0, 10, 11, 12)
    take(bench.line(0))
    bench.queues.close()
    bench.queues.settle(0.0, None)
    assert bench.data.at == {tp(0): 10}


def test_a_failure_is_raised_for_ever_and_an_error_once() -> None:
    bench = Bench()
    bench.queues.report(ValueError("once"))
    for line in bench.lines["t"]:
        with pytest.raises(ValueError, match="once"):
            line.next(SOON_S)
        assert take(line) is None
    bench.queues.close(RuntimeError("for ever"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="for ever"):
            bench.line(0).next(SOON_S)


def test_a_thread_that_waits_is_woken() -> None:
    bench = Bench()
    bench.assign({0: 0})
    got: list[object] = []
    waiting = blocked(
        lambda: got.extend((bench.line(0).next(PATIENCE_S), bench.line(0).next(PATIENCE_S)))
    )
    bench.arrive(0, 10)
    wait_until(
        lambda: bench.queues.in_hand == {} and bench.positions() == {0: 11},
        PATIENCE_S,
        "the first record processed",
    )
    bench.queues.close()
    waiting.join(PATIENCE_S)
    assert got == [Record(10), None]
