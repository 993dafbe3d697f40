"""The librdkafka data path on a real broker, mostly with kafka-python's first fetch taken away, so
that nothing but librdkafka brings records.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import Producer
from kafka.errors import CorruptRecordError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.fetch import fetcher as fetching
from consumer.fetch.fetcher import PartitionFetcher
from consumer.fetch.librdkafka import fetcher
from tests.harness.kafka import (
    add_partitions,
    create_topic,
    produce,
    produce_numbered,
    start_broker,
    unique,
)
from tests.harness.wait import wait_until
from tests.harness.zookeeper import fresh_chroot
from tests.kafka.groups import Taken, consumer, coordinator, drain, take
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = pytest.mark.kafka

PATIENCE_S = 90.0
PARTITIONS = 4
PER_PARTITION = 3_000
CHANGES = 200


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python fetches nothing."""
    monkeypatch.setattr(PartitionFetcher, "_send_side_async", lambda self, partitions: [])


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with numbered records."""
    name = create_topic(kafka_broker.address, unique("rdk"), PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, PER_PARTITION)
    return name


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """Consumers that are closed at the end."""
    consumers: list[Any] = []
    yield consumers
    for one in consumers:
        one.close()


def consumer_of(made: list[Any], address: str, **configs: Any) -> KafkaConsumer:
    made.append(
        KafkaConsumer(
            bootstrap_servers=address,
            data_client="librdkafka",
            **{"auto_offset_reset": "earliest", **configs},
        )
    )
    return made[-1]


def taken(one: Any, count: int) -> list[Any]:
    """Poll until there are so many records."""
    found: list[Any] = []
    wait_until(
        lambda: (
            found.extend(r for records in one.poll(200).values() for r in records)
            or len(found) >= count
        ),
        PATIENCE_S,
        f"{count} records",
    )
    return found


def offsets_of(records: Iterable[Any], tp: TopicPartition) -> list[int]:
    return [r.offset for r in records if (r.topic, r.partition) == tp]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_records_are_kafka_pythons(
    alone: None, made: list[Any], kafka_broker: KafkaBroker, isolation: str
) -> None:
    """Field by field: compressed and not, with and without keys, values, headers and times, in
    transactions that end either way.
    """
    name = create_topic(kafka_broker.address, unique("fields"), 2)
    for number, settings in enumerate(
        ({}, {"compression.type": "gzip"}, {"transactional.id": unique("t")})
    ):
        producer = Producer({"bootstrap.servers": kafka_broker.address, "linger.ms": 5, **settings})
        for end in (
            (producer.abort_transaction, producer.commit_transaction)
            if "transactional.id" in settings
            else (None,)
        ):
            if end is not None and end == producer.abort_transaction:
                producer.init_transactions(PATIENCE_S)
            if end is not None:
                producer.begin_transaction()
            for n in range(60):
                producer.produce(
                    name,
                    partition=n % 2,
                    value=None if n % 7 == 0 else b"v%d" % n * (n % 5),
                    key=None if n % 3 == 0 else b"k%d" % n,
                    headers=[("h", b"%d" % n), ("empty", None)] if n % 4 == 0 else None,
                    timestamp=1_700_000_000_000 + n + number,
                )
            producer.flush(PATIENCE_S)
            if end is not None:
                end(PATIENCE_S)
    ours = consumer_of(made, kafka_broker.address, isolation_level=isolation)
    theirs = kafka.KafkaConsumer(
        bootstrap_servers=kafka_broker.address,
        auto_offset_reset="earliest",
        isolation_level=isolation,
    )
    made.append(theirs)
    total = 240 if isolation == "read_uncommitted" else 180
    found = []
    for one in (ours, theirs):
        one.assign([TopicPartition(name, n) for n in range(2)])
        found.append(sorted(taken(one, total), key=lambda r: (r.partition, r.offset)))
    assert found[0] == found[1] and len(found[0]) == total
    assert [type(r) for r in found[0]] == [type(r) for r in found[1]] and {
        type(r.headers) for r in found[0]
    } == {list}


@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy"])
def test_codecs_that_kafka_python_needs_a_library_for(
    alone: None, made: list[Any], kafka_broker: KafkaBroker, codec: str
) -> None:
    name = create_topic(kafka_broker.address, unique(codec), 1)
    producer = Producer(
        {"bootstrap.servers": kafka_broker.address, "compression.type": codec, "linger.ms": 50}
    )
    for n in range(100):
        producer.produce(name, b"%d" % n, partition=0)
    producer.flush(PATIENCE_S)
    one = consumer_of(made, kafka_broker.address)
    one.assign([TopicPartition(name, 0)])
    assert [r.value for r in taken(one, 100)] == [b"%d" % n for n in range(100)]


@pytest.mark.parametrize("bridged", [False, True])
def test_assignments_that_change_all_the_time(
    made: list[Any],
    kafka_broker: KafkaBroker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    bridged: bool,
) -> None:
    """Another thread, as the agent does, takes partitions away, gives them back elsewhere, and
    holds them, while this one polls: whatever comes is of what is assigned, from where it stands,
    in order, without a gap.
    """
    if not bridged:
        monkeypatch.setattr(PartitionFetcher, "_send_side_async", lambda self, partitions: [])
    one = consumer_of(made, kafka_broker.address, fetch_max_wait_ms=20, max_poll_records=100)
    data = one._data
    all_ = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    chance = random.Random(bridged)
    next_of: dict[TopicPartition, int] = {}
    held: set[TopicPartition] = set()
    over = threading.Event()
    seen = 0

    def change() -> None:
        for _ in range(CHANGES):
            tp = chance.choice(all_)
            with data.lock:
                step = chance.choice(("leave", "come", "come", "hold", "seek"))
                if step == "leave" or (tp not in next_of and step != "come"):
                    data.remove([tp])
                    next_of.pop(tp, None)
                    held.discard(tp)
                elif step == "hold":
                    data.hold([tp])
                    held.add(tp)
                    continue
                elif step == "seek":  # what is held stays held
                    next_of[tp] = chance.randrange(PER_PARTITION)
                    data.seek(tp, next_of[tp])
                else:
                    next_of[tp] = chance.randrange(PER_PARTITION)
                    data.add({tp: OffsetAndMetadata(next_of[tp], "", -1)})
                    held.discard(tp)
            over.wait(chance.choice((0, 0, 0.001, 0.02)))  # the pace of the changes
        with data.lock:  # and then, however little there was time for, all of them
            next_of.update(dict.fromkeys(all_, 0))
            data.add({tp: OffsetAndMetadata(0, "", -1) for tp in all_})
            held.clear()
        over.set()

    changing = threading.Thread(target=change)
    changing.start()
    deadline = time.monotonic() + PATIENCE_S * 2
    while (
        not (
            over.is_set() and all(n == PER_PARTITION for tp, n in next_of.items() if tp not in held)
        )
        and time.monotonic() < deadline
    ):
        one.poll(5, max_records=1)  # waits, so that the watcher is at work
        with data.lock:
            for tp, found in data.fetcher.take(100)[0].items():
                assert tp in next_of and tp not in held
                assert found[0].offset == next_of[tp] or found[0].offset == next_of[tp] + 1, (
                    "one may have come from the poll before"
                )
                assert [r.offset for r in found] == list(
                    range(found[0].offset, found[-1].offset + 1)
                )
                next_of[tp] = found[-1].offset + 1
                seen += len(found)
            for tp in next_of:
                position = data.position(tp)
                next_of[tp] = next_of[tp] if position is None else position.offset
    changing.join()
    assert seen > PER_PARTITION and all(
        n == PER_PARTITION for tp, n in next_of.items() if tp not in held
    ), next_of


def test_what_kafka_python_brings_before_the_place_where_librdkafka_began_is_no_gap(
    made: list[Any], kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition comes, and is sought back at once: the first fetch finds the new place, and
    librdkafka, which knows only the old one, may have something from there already.
    """
    monkeypatch.setattr(fetching, "FIRST_FETCH_PARTITION_BYTES_MAX", 1)  # one batch
    name = create_topic(kafka_broker.address, unique("overtaken"), 1)
    for n in range(4):
        produce_numbered(kafka_broker.address, name, 1, 10, 10 * n)
    one = consumer_of(made, kafka_broker.address, max_poll_records=1)
    data, tp = one._data, TopicPartition(name, 0)
    client = data.fetcher._client_side
    with data.lock:
        data.add({tp: OffsetAndMetadata(35, "", -1)})
        data.seek(tp, 5)
        client.watch()
    wait_until(
        lambda: (
            client._caught is not None
            and (data.partition_fetcher._completed_fetches or tp in data.partition_fetcher._buffers)
        ),
        PATIENCE_S,
        "records by both ways",
    )
    assert offsets_of(taken(one, 35), tp) == list(range(5, 40))


def test_a_partition_that_comes_while_nobody_looks_is_consumed(
    made: list[Any], kafka_broker: KafkaBroker
) -> None:
    """Without a group kafka-python assigns what a topic has got when it hears of it, and
    librdkafka, which has nothing of it to bring, rings for nobody.
    """
    name = create_topic(kafka_broker.address, unique("grows"), 1)
    produce_numbered(kafka_broker.address, name, 1, 3)
    one = consumer_of(made, kafka_broker.address, metadata_max_age_ms=500)
    one.subscribe([name])
    taken(one, 3)

    def grow() -> None:
        add_partitions(kafka_broker.address, name, 2)
        produce(kafka_broker.address, name, {1: [b"new"]})

    with ThreadPoolExecutor(1) as pool:
        growing = pool.submit(grow)
        came = one.poll(PATIENCE_S * 1_000)
        growing.result()
    assert [(r.partition, r.value) for records in came.values() for r in records] == [(1, b"new")]


def test_a_paused_partition_stops_nobody_and_goes_on_where_it_was(
    alone: None,
    made: list[Any],
    kafka_broker: KafkaBroker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetcher, "AHEAD_RECORDS", 500)
    monkeypatch.setattr(fetcher, "DRAIN_MESSAGES", 100)
    one = consumer_of(made, kafka_broker.address, max_poll_records=50, fetch_max_wait_ms=20)
    zero, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    one.assign([zero, other])
    before = taken(one, 200)
    one.pause(zero)
    during = taken(one, PER_PARTITION - len(offsets_of(before, other)))
    wait_until(
        lambda: one.poll(20) == {} and zero not in one._data.fetcher._client_side.running,
        PATIENCE_S,
        "librdkafka to stop it",
    )
    one.resume(zero)
    after = taken(one, PER_PARTITION - len(offsets_of(before, zero)))
    assert (
        offsets_of(before, zero) + offsets_of(after, zero) == list(range(PER_PARTITION))
        and offsets_of(during, zero) == []
    )
    assert offsets_of(before, other) + offsets_of(during, other) == list(range(PER_PARTITION))


def test_polls_take_from_all_partitions(
    alone: None, made: list[Any], kafka_broker: KafkaBroker
) -> None:
    """What is here of several partitions is handed out in turn: none is drained first."""
    name = create_topic(kafka_broker.address, unique("turns"), PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, fetcher.AHEAD_RECORDS // PARTITIONS)
    one = consumer_of(
        made, kafka_broker.address, max_poll_records=fetcher.AHEAD_RECORDS // PARTITIONS // 4
    )
    one.assign([TopicPartition(name, n) for n in range(PARTITIONS)])
    streams = one._data.fetcher._streams
    backlog = fetcher.AHEAD_RECORDS // PARTITIONS * 3 // 4
    wait_until(
        lambda: (
            one.poll(20, max_records=1) is not None
            and len([s for s in streams.values() if s.ready > backlog]) == PARTITIONS
        ),
        PATIENCE_S,
        "a backlog of each",
    )
    turns = [next(iter(one.poll(0))).partition for _ in range(2 * PARTITIONS)]
    assert (
        sorted(turns[:PARTITIONS]) == list(range(PARTITIONS))
        and turns[:PARTITIONS] == turns[PARTITIONS:]
    )


def test_an_offset_out_of_range_without_a_policy(
    alone: None, made: list[Any], kafka_broker: KafkaBroker, topic: str
) -> None:
    one = consumer_of(made, kafka_broker.address, auto_offset_reset="none")
    tp = TopicPartition(topic, 0)
    one.assign({tp: 10 * PER_PARTITION})
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError):
            wait_until(lambda: one.poll(100), PATIENCE_S, "the error")
    one.seek(tp, PER_PARTITION - 2)
    assert offsets_of(taken(one, 2), tp) == [PER_PARTITION - 2, PER_PARTITION - 1]


def test_a_broken_record_is_an_error_and_not_a_gap(
    alone: None, made: list[Any], kafka_broker: KafkaBroker
) -> None:
    """A byte of the log is changed on the disk: poll says so, each time, until the application has
    sought over it.
    """
    name = create_topic(kafka_broker.address, unique("broken"), 1)
    for n in range(3):
        produce_numbered(kafka_broker.address, name, 1, 1, n)
    tp = TopicPartition(name, 0)
    log = kafka_broker.home / "data" / f"{name}-0" / "00000000000000000000.log"
    content = log.read_bytes()
    at = content.index(b"0:1")
    with open(log, "r+b") as f:
        f.seek(at)
        f.write(b"0:7")
    one = consumer_of(made, kafka_broker.address, value_deserializer=None)
    one.assign([tp])
    assert [r.value for r in taken(one, 1)] == [b"0:0"]
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            wait_until(lambda: one.poll(100), PATIENCE_S, "the error")
        assert one.position(tp) == 1
    one.seek(tp, 2)
    assert [r.value for r in taken(one, 1)] == [b"0:2"]
    unchecked = consumer_of(made, kafka_broker.address, check_crcs=False)
    unchecked.assign([tp])
    assert [r.value for r in taken(unchecked, 3)] == [b"0:0", b"0:7", b"0:2"]


@pytest.mark.filterwarnings("ignore:value_deserializer:DeprecationWarning")
def test_what_a_deserialiser_cannot_read_comes_after_what_it_can(
    alone: None, made: list[Any], kafka_broker: KafkaBroker
) -> None:
    name = create_topic(kafka_broker.address, unique("decode"), 1)
    produce_numbered(kafka_broker.address, name, 1, 5)

    def strict(value: bytes) -> int:
        number = int(value.split(b":")[1])
        if number == 3:
            raise ValueError("three")
        return number

    one = consumer_of(made, kafka_broker.address, value_deserializer=strict)
    one.assign([TopicPartition(name, 0)])
    assert [r.value for r in taken(one, 3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        wait_until(lambda: one.poll(100), PATIENCE_S, "the error")
    one.seek(TopicPartition(name, 0), 4)
    assert [r.value for r in taken(one, 1)] == [4]


FORKED = """
import os, sys
from kafka.structs import TopicPartition
from consumer import KafkaConsumer
one = KafkaConsumer(
    bootstrap_servers=sys.argv[1], data_client="librdkafka", auto_offset_reset="earliest"
)
one.assign([TopicPartition(sys.argv[2], 0)])
while not one.poll(200): pass
child = os.fork()
if child == 0:
    sys.exit(0)  # all of the interpreter's clean-up
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "parent", len(one.poll(60_000)))
"""


def test_a_forked_child_ends_and_disturbs_nobody(kafka_broker: KafkaBroker, topic: str) -> None:
    """librdkafka's threads do not exist in the child, which must not wait for them; nor need a
    consumer be closed at the end of a process.
    """
    found = subprocess.run(
        [sys.executable, "-c", FORKED, kafka_broker.address, topic],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert found.stdout == "child 0 parent 1\n" and found.returncode == 0, found.stderr


@pytest.mark.nightly
def test_a_broker_that_comes_back_and_one_that_moves(
    zk_server: ZooKeeperServer, java: Java, tmp_path: Path
) -> None:
    """At the same address it goes on by itself; at another one, which is found in ZooKeeper, with a
    new librdkafka. Each record once; and closing waits for nobody.
    """
    hosts = fresh_chroot(zk_server.address, "rdkdown")
    broker = start_broker(tmp_path / "broker", hosts, java)
    name = create_topic(broker.address, unique("rdkdown"), 2)
    taken: Taken = {}
    with coordinator(hosts), consumer(hosts, name, name, data_client="librdkafka") as member:
        for turn, move in enumerate((False, True)):
            produce_numbered(broker.address, name, 2, 5, 10 * turn)
            drain([member], taken, 20 * turn + 10)
            broker.kill()
            assert [take(member, taken) for _ in range(10)] == [0] * 10
            if move:
                broker.port = free_port()
            broker.start()
            produce_numbered(broker.address, name, 2, 5, 10 * turn + 5)
            drain([member], taken, 20 * turn + 20)
            assert member.assignment() == {TopicPartition(name, 0), TopicPartition(name, 1)}
        broker.kill()
        begun = time.monotonic()
        member.close()
        assert time.monotonic() - begun < PATIENCE_S
    assert taken == {(name, n): list(range(20)) for n in range(2)}
