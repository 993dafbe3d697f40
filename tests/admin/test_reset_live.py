"""`zkcoord offsets reset --live` under real consumers: the owner seeks, also an idle one, and a
commit on its way does not overwrite the reset.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.errors import OffsetResetError
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, settled, take
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.port import MultiResult, Op
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation

pytestmark = pytest.mark.kafka
TIMEOUT = ["--timeout-ms", str(int(PATIENCE_S * 1000))]


@contextmanager
def polled(*consumers: KafkaConsumer) -> Iterator[Taken]:
    """An application that polls on a thread of its own while the operator works."""
    taken: Taken = {}
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            for one in consumers:
                take(one, taken, 20)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def stored(hosts: str, group: str, topic: str, partition: int) -> int:
    client = connect(hosts)
    try:
        return int(client.get(f"/consumers/{group}/offsets/{topic}/{partition}")[0])
    finally:
        disconnect(client)


def test_idle_owners_seek_and_the_command_waits_until_they_went_on_from_there(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No record comes in: only the channels' touch tells them. Then without --live it is
    refused.
    """
    topic = create_topic(kafka_broker.address, unique("live"), 4)
    produce_numbered(kafka_broker.address, topic, 4, 10)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, auto_commit_interval_ms=50) as one,
        consumer(kafka_zk_hosts, topic, topic, auto_commit_interval_ms=50) as two,
    ):
        settled([one, two], topic, 4)
        with polled(one, two) as taken:
            wait_until(
                lambda: all(stored(kafka_zk_hosts, topic, topic, n) == 10 for n in range(4)),
                PATIENCE_S,
                "the commits of all",
            )
            taken.clear()
            arguments = [
                "offsets",
                "reset",
                topic,
                "--topic",
                f"{topic}:0,1,2",
                "--to-offset",
                "4",
                "--execute",
                "--zookeeper",
                kafka_zk_hosts,
            ]
            assert main(arguments) == 1
            assert "has members" in capsys.readouterr().err and taken == {}
            assert main([*arguments, "--live", *TIMEOUT]) == 0
            out, err = capsys.readouterr()
            assert [line.split()[-3:] for line in out.splitlines()[1:]] == [["10", "4", "6"]] * 3
            assert (
                "3 partitions were reset, 3 of them under a live owner" in err
                and "have not" not in err
            )
            wait_until(
                lambda: sum(map(len, taken.values())) >= 18,
                PATIENCE_S,
                "the records from the new offsets on",
            )
            wait_until(
                lambda: all(stored(kafka_zk_hosts, topic, topic, n) == 10 for n in range(4)),
                PATIENCE_S,
                "the commits after it",
            )
        assert taken == {(topic, n): [4, 5, 6, 7, 8, 9] for n in range(3)}


def test_resets_under_records_and_commits_that_never_pause(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every 5 ms each owner commits. Each reset lands, and is seen by the application in every
    partition.
    """
    topic = create_topic(kafka_broker.address, unique("hot"), 6)
    produce_numbered(kafka_broker.address, topic, 6, 20)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, auto_commit_interval_ms=5) as one,
        consumer(kafka_zk_hosts, topic, topic, auto_commit_interval_ms=5) as two,
    ):
        settled([one, two], topic, 6)
        with polled(one, two) as taken, fed(kafka_broker.address, topic, 6):
            for target in range(3):
                seen = {key: len(offsets) for key, offsets in list(taken.items())}
                assert (
                    main(
                        [
                            "offsets",
                            "reset",
                            topic,
                            "--all-topics",
                            "--to-offset",
                            str(target),
                            "--execute",
                            "--live",
                            "--zookeeper",
                            kafka_zk_hosts,
                            *TIMEOUT,
                        ]
                    )
                    == 0
                )
                assert (
                    "6 partitions were reset, 6 of them under a live owner"
                    in capsys.readouterr().err
                )
                wait_until(
                    lambda: all(
                        target in taken.get((topic, n), [])[seen.get((topic, n), 0) :]
                        for n in range(6)
                    ),
                    PATIENCE_S,
                    f"the records from {target} on",
                )


@contextmanager
def fed(bootstrap: str, topic: str, partitions: int) -> Iterator[None]:
    """Records for every partition, all the time."""
    stop = threading.Event()

    def feed() -> None:
        producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=1)
        while not stop.wait(0.01):
            for number in range(partitions):
                producer.send(topic, value=b"x", partition=number)
            producer.flush()
        producer.close()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def test_a_commit_on_its_way_does_not_overwrite_the_reset(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """The application commits when the reset is stored and it has not heard: the commit is refused,
    and it is told why.
    """
    topic = create_topic(kafka_broker.address, unique("race"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as c,
    ):
        drain([c], {}, 10)
        assert (
            main(
                [
                    "offsets",
                    "reset",
                    topic,
                    "--topic",
                    topic,
                    "--to-offset",
                    "3",
                    "--execute",
                    "--live",
                    "--timeout-ms",
                    "0",
                    "--zookeeper",
                    kafka_zk_hosts,
                ]
            )
            == 0
        )
        with pytest.raises(OffsetResetError):
            c.commit({tp: OffsetAndMetadata(10, "", -1)})
        assert stored(kafka_zk_hosts, topic, topic, 0) == 3
        taken: Taken = {}
        drain([c], taken, 7)
        assert taken == {(topic, 0): [3, 4, 5, 6, 7, 8, 9]}
        c.commit()
        assert stored(kafka_zk_hosts, topic, topic, 0) == 10


def test_a_commit_that_lands_first_is_overruled_by_the_second_attempt(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = create_topic(kafka_broker.address, unique("first"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as c,
    ):
        drain([c], {}, 10)
        before_first_write(
            monkeypatch,
            "/offsets/",
            lambda: c.commit({TopicPartition(topic, 0): OffsetAndMetadata(8, "", -1)}),
        )
        assert (
            main(
                [
                    "offsets",
                    "reset",
                    topic,
                    "--topic",
                    topic,
                    "--to-offset",
                    "2",
                    "--execute",
                    "--live",
                    "--timeout-ms",
                    "0",
                    "--zookeeper",
                    kafka_zk_hosts,
                ]
            )
            == 0
        )
        out, err = capsys.readouterr()
        assert out.splitlines()[1].split()[-3:] == [
            "8",
            "2",
            "8",
        ], "the old value is the one that was overwritten"
        assert f"the owners of {topic}-0 have not committed from there yet" in err
        taken: Taken = {}
        drain([c], taken, 8)
        assert taken == {(topic, 0): list(range(2, 10))}


def test_a_reset_to_what_is_stored_already_sends_the_owner_back_there(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its position is ahead of what it committed: the value is no news, its version is."""
    topic = create_topic(kafka_broker.address, unique("same"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as c,
    ):
        drain([c], {}, 10)
        c.commit({TopicPartition(topic, 0): OffsetAndMetadata(4, "", -1)})
        taken: Taken = {}
        assert (
            main(
                [
                    "offsets",
                    "reset",
                    topic,
                    "--topic",
                    topic,
                    "--to-offset",
                    "4",
                    "--execute",
                    "--live",
                    "--zookeeper",
                    kafka_zk_hosts,
                    "--timeout-ms",
                    "1",
                ]
            )
            == 0
        )
        drain([c], taken, 6)
        assert taken == {(topic, 0): list(range(4, 10))}


@pytest.mark.parametrize("accepts", [True, False])
def test_consumers_begin_at_accepted_offsets(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, accepts: bool
) -> None:
    """The ensemble was moved: what is stored is said to belong to another topic of this name.
    Without the operator's word a consumer begins at the first record.
    """
    topic = create_topic(kafka_broker.address, unique("moved"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 10)
    here = ["--topic", topic, "--execute", "--zookeeper", kafka_zk_hosts]
    assert main(["offsets", "reset", topic, "--to-offset", "6", "--new-group", *here]) == 0
    client = connect(kafka_zk_hosts)
    client.set(f"/consumers/{topic}/offsets/{topic}", encode_incarnation(OffsetsOf("7.earlier")))
    disconnect(client)
    if accepts:
        assert main(["offsets", "accept", topic, *here]) == 0
    taken: Taken = {}
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as c:
        drain([c], taken, 4 if accepts else 10)
    assert taken == {(topic, 0): list(range(6 if accepts else 0, 10))}


def before_first_write(
    monkeypatch: pytest.MonkeyPatch, touches: str, act: Callable[[], object]
) -> None:
    """Do something once, between the reading and the sending of the first multi that writes such a
    path.
    """
    real, done = SyncClient.multi, threading.Event()

    def multi(self: SyncClient, ops: list[Op]) -> MultiResult:
        if not done.is_set() and any(touches in op.path for op in ops):
            done.set()
            act()
        return real(self, ops)

    monkeypatch.setattr(SyncClient, "multi", multi)
