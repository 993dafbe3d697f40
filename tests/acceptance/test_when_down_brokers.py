"""The lines about brokers of the table "When things are down" of docs/consumer.md: two brokers,
each of which leads one partition; one is killed with -9, then the other one is stopped, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer import KafkaConsumer
from tests.acceptance.when_down import Logged, Row, bounded
from tests.consumer.fakes import Recorder
from tests.harness.kafka import admin, create_topic, produce, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import fresh_chroot
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, settled
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

REQUEST_MS = 2_500  # a broker that only pauses for a moment shall not be taken for one that is down
POLLS = 2_000
POLLS_PER_FOREIGN_LINE = 10
FAILURES = 10  # with kafka-python's own default the pause would be 25 s by then
PAUSE_S_MAX = 1.2  # a second, and kafka-python's jitter


@contextmanager
def two_brokers(home: Path, hosts: str, java: Java) -> Iterator[list[KafkaBroker]]:
    """Brokers 0 and 1."""
    brokers = [
        KafkaBroker(home / str(number), free_port(), hosts, java, owned=True, broker_id=number)
        for number in range(2)
    ]
    with ExitStack() as running:
        for broker in brokers:
            running.callback(lambda broker=broker: broker.kill() if broker.alive() else None)
            broker.start()
        yield brokers


def led_by(brokers: list[KafkaBroker], topic: str) -> list[TopicPartition]:
    """The partition that each broker leads, once the first of them has heard of it."""
    leaders: dict[int, TopicPartition] = {}

    def all_known() -> bool:
        leaders.update(
            {
                partition["leader_id"]: TopicPartition(topic, partition["partition_index"])
                for partition in client.describe_topics([topic])[0]["partitions"]
            }
        )
        return set(range(len(brokers))) <= leaders.keys()

    with admin(brokers[0].address) as client:
        wait_until(all_known, PATIENCE_S, "a leader of each partition")
    return [leaders[broker.broker_id] for broker in brokers]


@dataclass
class Group:
    """A member that owns both partitions, `up` and `down`, each led by a broker of its own."""

    member: KafkaConsumer
    brokers: list[KafkaBroker]
    up: TopicPartition
    down: TopicPartition
    listener: Recorder
    taken: Taken

    def brokers_are_asked_in_vain(self, call: Callable[..., Any], *arguments: Any) -> None:
        """It ends in time, with an error of kafka-python's that may be tried again."""
        error = bounded(REQUEST_MS, call, *arguments)
        assert isinstance(error, KafkaError) and error.retriable, error


@contextmanager
def on_two_brokers(zookeeper: str, java: Java, home: Path, client: str) -> Iterator[Group]:
    """See `Group`; it has processed three records of each partition."""
    hosts = fresh_chroot(zookeeper, "brokersdown")
    with two_brokers(home, hosts, java) as brokers, coordinator(hosts):
        topic, listener, taken = (
            create_topic(brokers[0].address, unique("brokersdown"), 2),
            Recorder(),
            {},
        )
        up, down = led_by(brokers, topic)
        produce_numbered(brokers[0].address, topic, 2, 3)
        with consumer(
            hosts,
            topic,
            enable_auto_commit=False,
            request_timeout_ms=REQUEST_MS,
            data_client=client,
        ) as member:
            member.subscribe([topic], listener=listener)
            drain([member], taken, 6)
            yield Group(member, brokers, up, down, listener, taken)


@pytest.mark.parametrize(
    "client", ["kafka-python", pytest.param("librdkafka", marks=pytest.mark.nightly)]
)
def test_a_broker_that_is_down_and_then_all(
    zk_server: ZooKeeperServer,
    java: Java,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    client: str,
) -> None:
    with (
        caplog.at_level(logging.INFO),
        on_two_brokers(zk_server.address, java, tmp_path, client) as g,
    ):
        with consumer(g.member.config["zookeeper_connect"], unique("leaver"), g.up.topic) as leaver:
            settled([leaver], g.up.topic, 2)
            g.brokers[1].kill()
            one_is_down(g, leaver, Logged(caplog), caplog)
        log = Logged(caplog)
        g.brokers[0].pause()
        all_are_down(g, log)
        g.brokers[0].resume()
        produce(g.brokers[0].address, g.up.topic, {g.up.partition: [b"x"] * 2})
        drain([g.member], g.taken, 10)
        assert g.member.assignment() == {g.up, g.down} and g.listener.calls == [
            ("assigned", (0, 1))
        ]
        assert len(log.of("broker 0 answers again", "INFO")) == 1
        g.brokers[0].pause()
        with Row("all brokers are down").cell("close"):
            assert (
                bounded(PATIENCE_S * 1_000, g.member.close) is None
                and g.listener.calls[1:] == [("revoked", (0, 1))]
                and not log.of("left group")
            )
    assert g.taken == {tuple(g.up): list(range(7)), tuple(g.down): list(range(3))}, "once each"


def test_brokers_that_were_away_for_long_are_found_soon(
    zk_server: ZooKeeperServer, java: Java, tmp_path: Path
) -> None:
    with on_two_brokers(zk_server.address, java, tmp_path, "kafka-python") as g:
        tried = g.member._data.kafka._manager._backoff
        for broker in g.brokers:
            broker.kill()
        wait_until(
            lambda: (
                g.member.poll(50) == {}
                and any(failures >= FAILURES for failures, _, _ in tuple(tried.values()))
            ),
            PATIENCE_S,
            "attempts in vain",
        )
        assert all(until - time.monotonic() <= PAUSE_S_MAX for _, until, _ in tuple(tried.values()))
        for broker in g.brokers:
            broker.start()
        produce(
            g.brokers[0].address, g.up.topic, {g.up.partition: [b"x"], g.down.partition: [b"x"]}
        )
        drain([g.member], g.taken, 8)
    assert g.taken == {tuple(g.up): list(range(4)), tuple(g.down): list(range(4))}, "once each"


def one_is_down(
    g: Group, leaver: KafkaConsumer, log: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    """Broker 1 was killed."""
    row, c = Row("a broker is down"), g.member
    with row.cell("poll"):
        produce(g.brokers[0].address, g.up.topic, {g.up.partition: [b"x"] * 2})
        drain([c], g.taken, 8)
        assert (
            c.position(g.down) == 3
            and c.partitions_for_topic(g.up.topic) == {0, 1}
            and g.up.topic in bounded(2 * REQUEST_MS, c.topics)
        )
        assert c.end_offsets([g.up]) == {g.up: 5}
        assert isinstance(bounded(500, c.end_offsets, [g.down], timeout_ms=500), KafkaTimeoutError)
        assert isinstance(
            bounded(500, c.offsets_for_times, {g.down: 0}, timeout_ms=500), KafkaTimeoutError
        )
    with row.cell("commit"):
        c.commit()
        assert c.committed(g.down) == 3 and c.committed(g.up) == 5
    with row.cell("callbacks"):
        assert g.listener.calls == [("assigned", (0, 1))] and c.assignment() == {g.up, g.down}
    with row.cell("close"):
        assert bounded(PATIENCE_S * 1_000, leaver.close) is None and not log.of("left group")
    with row.cell("log"):
        wait_until(
            lambda: (
                c.poll(50) == {} and log.of(f"no broker leads {g.down.topic}-{g.down.partition}")
            ),
            PATIENCE_S,
            "the line",
        )
        assert (
            len(log.of(f"broker 1 at {g.brokers[1].address} does not answer")) <= 2
            and len(log.of("no broker leads")) <= 2
        ), "once for each of the two consumers at most"
        log = Logged(caplog)
        lines = log.foreign()
        assert [c.poll(0) for _ in range(POLLS)] == [{}] * POLLS
        assert log.warnings() == [] and log.foreign() - lines < POLLS / POLLS_PER_FOREIGN_LINE, (
            "kafka-python's own lines are not one for each poll"
        )


def all_are_down(g: Group, log: Logged) -> None:
    """Broker 1 was killed, broker 0 was stopped: it takes connections, and does not answer."""
    row, c = Row("all brokers are down"), g.member
    with row.cell("poll"):
        assert [bounded(20, c.poll, 20) for _ in range(20)] == [{}] * 20
        assert c.position(g.up) == 5 and c.partitions_for_topic(g.up.topic) == {0, 1}
        for call, *arguments in (
            (c.topics,),
            (c.partitions_for_topic, unique("unknown")),
            (c.end_offsets, [g.up]),
            (c.offsets_for_times, {g.up: 0}),
        ):
            g.brokers_are_asked_in_vain(call, *arguments)
        c.seek_to_end(g.up)
        assert bounded(500, c.position, g.up, timeout_ms=500) is None, (
            "a position that must be looked up is not known in time"
        )
        c.seek(g.up, 5)
    with row.cell("commit"):
        c.commit({g.up: OffsetAndMetadata(4, "", -1)})
        assert c.committed(g.up) == 4 and c.committed(TopicPartition(g.up.topic, 9)) is None
    with row.cell("callbacks"):
        assert g.listener.calls == [("assigned", (0, 1))] and c.assignment() == {g.up, g.down}
    with row.cell("log"):
        wait_until(
            lambda: (
                c.poll(50) == {} and log.of(f"broker 0 at {g.brokers[0].address} does not answer")
            ),
            PATIENCE_S,
            "the line",
        )
        lines = log.foreign()
        assert [c.poll(0) for _ in range(POLLS)] == [{}] * POLLS
        assert (
            len(log.of("broker 0 at")) == 1
            and log.foreign() - lines < POLLS / POLLS_PER_FOREIGN_LINE
        )
