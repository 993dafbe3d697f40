"""With `enable_auto_commit=False` nothing is stored that the application did not commit, however a
member ends: processes and signals, an eviction, an interpreter's exit.

A hand-over, unsubscribe, close and max_poll_interval_ms are in tests/compat, a lost session in
test_when_down.py, the rest of what can happen in the simulator (I18).
"""

from __future__ import annotations

import signal

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, take
from tests.kafka.test_processes import members, process
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COMMITTED, RECORDS = 3, 10
PROGRAM = """
import signal, sys
from consumer import KafkaConsumer, OffsetAndMetadata, TopicPartition
if {handler}:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
c = KafkaConsumer(
    {topic!r}, zookeeper_connect={hosts!r}, group_id={topic!r}, enable_auto_commit=False,
    auto_offset_reset="earliest", zookeeper_session_timeout_ms=3000, guardian=False,
)
taken = 0
while taken < {records}:
    taken += sum(map(len, c.poll(100).values()))
c.commit({{TopicPartition({topic!r}, 0): OffsetAndMetadata({committed}, "", -1)}})
c.poll(0)
print('{{"event": "taken"}}', flush=True)
while {stays}:
    c.poll(100)
"""


def stored(hosts: str, topic: str) -> int:
    """The group's offset of the topic's only partition, as it is in ZooKeeper."""
    zookeeper = connect(hosts)
    try:
        return int(zookeeper.get(f"/consumers/{topic}/offsets/{topic}/0")[0])
    finally:
        disconnect(zookeeper)


@pytest.mark.parametrize(
    ("end", "handler"),
    [
        (signal.SIGTERM, True),
        (signal.SIGTERM, False),
        pytest.param(signal.SIGKILL, False, marks=pytest.mark.nightly),
        (None, False),
    ],
)
def test_the_end_of_a_process_stores_nothing(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, end: signal.Signals | None, handler: bool
) -> None:
    """By SIGTERM, with a handler that ends the program and without, by kill -9, and by coming to
    its end without a close.
    """
    topic = create_topic(kafka_broker.address, unique("ends"), 1)
    produce_numbered(kafka_broker.address, topic, 1, RECORDS)
    script = PROGRAM.format(
        handler=handler,
        topic=topic,
        hosts=kafka_zk_hosts,
        records=RECORDS,
        committed=COMMITTED,
        stays=end is not None,
    )
    with coordinator(kafka_zk_hosts):
        with process(command=("-c", script)) as one:
            one.wait("taken")
            if end is not None:
                one.child.send_signal(end)
            assert one.end() == (0 if handler or end is None else -end), one.errors
        taken: Taken = {}
        wait_until(
            lambda: members(kafka_zk_hosts, topic) == [], PATIENCE_S, "the end of its membership"
        )
        assert stored(kafka_zk_hosts, topic) == COMMITTED
        with consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as two:
            drain([two], taken, RECORDS - COMMITTED)
    assert taken == {(topic, 0): list(range(COMMITTED, RECORDS))}


def test_an_eviction_stores_nothing(kafka_broker: KafkaBroker, kafka_zk_hosts: str) -> None:
    """Its registration is deleted, as a coordinator does it: the member comes back by itself, and
    begins at what was committed.
    """
    topic = create_topic(kafka_broker.address, unique("evicted"), 1)
    produce_numbered(kafka_broker.address, topic, 1, RECORDS)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, enable_auto_commit=False) as one,
    ):
        drain([one], {}, RECORDS)
        one.commit({TopicPartition(topic, 0): OffsetAndMetadata(COMMITTED, "", -1)})
        (name,) = members(kafka_zk_hosts, topic)
        zookeeper = connect(kafka_zk_hosts)
        zookeeper.delete(f"/consumers/groups/{topic}/ids/{name}")
        disconnect(zookeeper)
        taken: Taken = {}
        wait_until(
            lambda: take(one, taken) >= 0 and taken.get((topic, 0), [])[-1:] == [RECORDS - 1],
            PATIENCE_S,
            "the records from the committed offset on",
        )
        assert stored(kafka_zk_hosts, topic) == COMMITTED
    assert taken == {(topic, 0): list(range(COMMITTED, RECORDS))}
