"""The fetching side with librdkafka, without a broker and without librdkafka: what it asks of its
client, and whether somebody will ring.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka.consumer.subscription_state import SubscriptionState
from kafka.net.compat import KafkaNetClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.fetch.fetcher import PartitionFetcher
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
