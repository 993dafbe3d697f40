"""The fetching side with librdkafka, without a broker and without librdkafka: what it asks of its
client, and whether somebody will ring.
"""

from __future__ import annotations

import contextlib
import dis
import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.consumer.subscription_state import SubscriptionState
from kafka.net.compat import KafkaNetClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.fetch import buffer
from consumer.fetch import fetcher as kafka_python_fetcher
from consumer.fetch.fetcher import PartitionFetcher
from consumer.fetch.librdkafka import fetcher as fetcher_module
from consumer.fetch.librdkafka import partition_queue
from consumer.fetch.librdkafka.consumer import _Log
from consumer.fetch.librdkafka.fetcher import LibrdkafkaFetcher

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeClient:
    """librdkafka, as far as it is told: `refused` do not start."""

    def __init__(self) -> None:
        self.running: set[TopicPartition] = set()
        self.refused: set[TopicPartition] = set()
        self.unreachable = False

    def start(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.refused.intersection(offsets):
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.running.update(offsets)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        self.running.difference_update(partitions)

    def watch(self) -> None:
        """Nothing comes."""

    def caught(self) -> None:
        """Nothing came."""

    def drain(self, _count: int) -> list[Any]:
        return []


@pytest.fixture
def fetcher() -> Iterator[LibrdkafkaFetcher]:
    net = KafkaNetClient(bootstrap_servers="127.0.0.1:1", api_version=(3, 9))
    beside = PartitionFetcher(net, SubscriptionState(), None, fetches_all=False)
    yield LibrdkafkaFetcher(beside, {}, lambda *_: FakeClient())
    net.close()


@pytest.mark.parametrize(
    ("level", "said", "named"),
    [
        (
            logging.WARNING,
            (
                "127.0.0.1:9092/3: Timed out 1 in-flight, 0 retry-queued, 0 out-queue, 0"
                " partially-sent requests"
            ),
            [(3, "127.0.0.1:9092", "Timed out 1 in-flight")],
        ),
        (
            logging.WARNING,
            (
                "sasl_ssl://b:9093/0: Timed out 2 in-flight, 0 retry-queued, 0 out-queue, 0"
                " partially-sent requests"
            ),
            [(0, "b:9093", "Timed out 2 in-flight")],
        ),
        (
            logging.WARNING,
            (
                "127.0.0.1:9092/bootstrap: Timed out 1 in-flight, 0 retry-queued, 0 out-queue, 0"
                " partially-sent requests"
            ),
            [],
        ),
        (
            logging.INFO,
            "127.0.0.1:9092/3: Timed out ApiVersionRequest in flight (after 1001ms, timeout #0)",
            [],
        ),
    ],
)
def test_a_broker_that_takes_connections_and_does_not_answer_is_named(
    level: int, said: str, named: list[tuple[int, str, str]]
) -> None:
    """librdkafka says it in its log and nowhere else."""
    heard: list[tuple[int, str, str]] = []
    _Log(lambda *broker: heard.append(broker)).log(
        level, "%s [%s] [thrd:%s]: %s", "REQTMOUT", "me#consumer-1", "some/0", said
    )
    assert heard == named


def assign(fetcher: LibrdkafkaFetcher, *partitions: TopicPartition) -> None:
    """From the first record, if nobody has been assigned before."""
    table = fetcher._subscriptions
    table.assign_from_user(partitions)
    for tp in partitions:
        if table.assignment[tp].position is None:
            table.assignment[tp].seek(OffsetAndMetadata(0, "", -1))


def test_nobody_rings_for_a_partition_that_does_not_start(
    fetcher: LibrdkafkaFetcher, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever waits looks again by himself, whatever else is started or stopped meanwhile; until it
    has started, or is not assigned any more.
    """
    client: Any = fetcher._client_side
    assign(fetcher, ONE)
    fetcher.send_fetches()
    assert client.running == {ONE} and fetcher.waiting_for_broker
    client.refused = {TWO}
    assign(fetcher, ONE, TWO)
    with caplog.at_level(logging.WARNING):
        fetcher.send_fetches()
    assert (
        client.running == {ONE}
        and not fetcher.waiting_for_broker
        and "does not start 1 partitions" in caplog.text
    )
    with fetcher.lock:
        fetcher.newcomers([ONE])
    assert not fetcher.waiting_for_broker, "the other has not started by that"
    client.refused.clear()
    fetcher.send_fetches()
    assert client.running == {ONE, TWO} and fetcher.waiting_for_broker
    client.refused = {TWO}
    client.stop([TWO])
    fetcher.send_fetches()
    assert not fetcher.waiting_for_broker
    assign(fetcher, ONE)
    fetcher.send_fetches()
    assert fetcher.waiting_for_broker


PLACES = ("RESUME", "CALL", "JUMP_BACKWARD")
"""Behind these, and where a function begins, Python lets signal handlers run."""

HANDED_OUT_IN = (
    fetcher_module.__file__,
    partition_queue.__file__,
    kafka_python_fetcher.__file__,
    buffer.__file__,
)


class FakeRecord(NamedTuple):
    """As much of a record as is looked at."""

    offset: int
    leader_epoch: int = -1


class FakeMessage:
    """As much of a message as is looked at."""

    def __init__(self, offset: int) -> None:
        self.at = offset

    def offset(self) -> int:
        return self.at

    def __len__(self) -> int:
        return 5


def with_records(of: LibrdkafkaFetcher, beside: int) -> None:
    """Thirty records of each of two partitions, of the first so many from kafka-python's side."""
    of._reconcile_at = math.inf
    assign(of, ONE, TWO)
    for tp in (ONE, TWO):
        of._streams[tp] = partition_queue.PartitionQueue(0)
        of._streams[tp].add([FakeMessage(n) for n in range(30)], 150)
    state = of._subscriptions.assignment[ONE]

    def take(room: int, given: dict[TopicPartition, list[Any]]) -> None:
        begin = state.position.offset
        if beside:
            given[ONE] = [FakeRecord(begin + n) for n in range(beside)]
            state.position = OffsetAndMetadata(begin + beside, "", -1)

    def record(lag: int) -> None:
        """kafka-python's sensors are Python, too."""

    sensor = SimpleNamespace(records_fetch_lag=SimpleNamespace(record=record))
    of.beside._sensors = sensor  # type: ignore[assignment]
    of.beside._buffers.take = take  # type: ignore[method-assign]
    of.beside._buffers.lag = 1


@pytest.mark.parametrize("beside", [0, 7])
def test_what_a_signal_handler_interrupts_is_given_or_was_not_taken(
    fetcher: LibrdkafkaFetcher, monkeypatch: pytest.MonkeyPatch, beside: int
) -> None:
    """At each place where a handler may end the process: whoever puts back what is given finds
    every partition where it was. (One of some 60 processes stored what nobody had been given.)
    """
    monkeypatch.setattr(
        fetcher_module, "records_of", lambda _t, _p, found: [FakeRecord(m.at) for m in found]
    )
    seen = wanted = 0
    last: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal seen
        at = frame.f_code.co_filename, frame.f_code.co_name
        if at[0] not in HANDED_OUT_IN and at != (__file__, "record"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = last.get(frame, "RESUME")
            last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(PLACES):
                seen += 1
                if seen == wanted:
                    sys.settrace(None)
                    raise SystemExit
        return trace

    while seen >= wanted:
        seen, wanted = 0, wanted + 1
        last.clear()
        with_records(fetcher, beside)
        for state in fetcher._subscriptions.assignment.values():
            state.seek(OffsetAndMetadata(0, "", -1))
        fetcher.given = {}
        with contextlib.suppress(SystemExit):
            sys.settrace(trace)
            try:
                fetcher.take(20)
            finally:
                sys.settrace(None)
        for tp, state in fetcher._subscriptions.assignment.items():
            given = fetcher.given.get(tp)
            assert (given[0].offset if given else state.position.offset) == 0, f"place {wanted}"
    assert wanted > 100
