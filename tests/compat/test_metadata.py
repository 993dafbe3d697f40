"""Questions to the brokers, which need no group."""

from __future__ import annotations

import pytest
from kafka.errors import IllegalStateError, KafkaTimeoutError
from kafka.structs import OffsetAndTimestamp, TopicPartition

from tests.compat.both import PATIENCE_S, Side, fresh
from tests.harness.kafka import create_topic, produce_numbered
from tests.harness.wait import wait_until

pytestmark = pytest.mark.kafka


def test_what_the_brokers_know(side: Side) -> None:
    topic = create_topic(side.broker, fresh("known"), 3)
    produce_numbered(side.broker, topic, 3, 4)
    zero, two = TopicPartition(topic, 0), TopicPartition(topic, 2)
    c = side.bare()
    assert c.bootstrap_connected() in (True, False)
    c.bootstrap(timeout_ms=10_000)
    c.bootstrap(timeout_ms=10_000, refresh=True)
    assert topic in c.topics() and isinstance(c.topics(), set)
    assert (
        c.partitions_for_topic(topic) == {0, 1, 2}
        and c.partitions_for_topic(fresh("unknown")) == set()
    )
    assert c.beginning_offsets([zero, two]) == {zero: 0, two: 0} and c.end_offsets([zero, two]) == {
        zero: 4,
        two: 4,
    }
    found = c.offsets_for_times({zero: 0, two: 2**50})
    assert (
        found[two] is None
        and isinstance(found[zero], OffsetAndTimestamp)
        and found[zero].offset == 0
        and found[zero].timestamp > 0
    )
    with pytest.raises(ValueError, match="negative"):
        c.offsets_for_times({zero: -1})
    with pytest.raises(KafkaTimeoutError):
        c.end_offsets([TopicPartition(fresh("unknown"), 0)], timeout_ms=300)
    assert c.assignment() == set() and c.subscription() is None and c.paused() == set()


def test_metrics(side: Side) -> None:
    topic = create_topic(side.broker, fresh("metrics"), 1)
    produce_numbered(side.broker, topic, 1, 3)
    c = side.bare()
    c.assign([TopicPartition(topic, 0)])
    wait_until(lambda: c.poll(100), PATIENCE_S, "records")
    found, raw = c.metrics(), c.metrics(raw=True)
    assert found["consumer-fetch-manager-metrics"]["records-consumed-rate"] > 0
    assert {(name.group, name.name) for name in raw} >= {
        ("consumer-fetch-manager-metrics", "records-consumed-rate"),
        ("consumer-fetch-manager-metrics", "records-lag-max"),
    }
    assert set(found) - {"zkcoord"} == {name.group for name in raw}
    assert side.bare(metrics_enabled=False).metrics() is None


def test_a_closed_consumer(side: Side) -> None:
    topic = create_topic(side.broker, fresh("closed"), 1)
    c = side.bare()
    c.assign([TopicPartition(topic, 0)])
    c.close()
    c.close(autocommit=False, timeout_ms=100)
    assert list(c) == []
    with pytest.raises(StopIteration):
        next(c)
    with pytest.raises(IllegalStateError, match="closed"):
        c.poll(10)
    if side.differs("methods of a closed consumer"):
        for method in (c.assignment, c.paused, c.topics, c.metrics, c.subscription, c.unsubscribe):
            with pytest.raises(IllegalStateError, match="closed"):
                method()
    else:
        assert c.assignment() == {TopicPartition(topic, 0)}


def test_leaving_a_with_block_closes(side: Side) -> None:
    with side.bare() as c:
        assert c.bootstrap_connected() in (True, False)
    with pytest.raises(IllegalStateError):
        c.poll(0)
