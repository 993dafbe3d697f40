"""Records and reading them: fields, deserialisers, transactions, positions, iteration."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import IllegalStateError, NoOffsetForPartitionError
from kafka.serializer import Deserializer
from kafka.structs import TopicPartition

from tests.compat.both import (
    PATIENCE_S,
    Side,
    drain,
    following,
    fresh,
    iterated,
    take,
    wait_for_records,
)
from tests.harness.kafka import create_topic, produce_numbered
from tests.harness.wait import wait_until

pytestmark = pytest.mark.kafka

BAD_RECORD = 3


def send(side: Side, topic: str, records: Iterable[dict[str, Any]], **configs: Any) -> None:
    """Write records with everything that a record can have."""
    producer = KafkaProducer(bootstrap_servers=side.broker, acks="all", **configs)
    try:
        for record in records:
            producer.send(topic, **record).get(timeout=PATIENCE_S)
    finally:
        producer.close()


def assigned(side: Side, topic: str, *numbers: int, **configs: Any) -> Any:
    """A consumer of these partitions."""
    c = side.bare(**configs)
    c.assign([TopicPartition(topic, n) for n in numbers])
    return c


def first_records(c: Any, count: int) -> list[Any]:
    """Poll until there are so many records."""
    found: list[Any] = []
    wait_for_records(
        lambda: (
            found.extend(r for records in c.poll(100).values() for r in records)
            or len(found) >= count
        ),
        [c],
        f"{count} records",
    )
    return found


class Reverse(Deserializer):
    """kafka-python's form of a deserialiser."""

    def __init__(self) -> None:
        self.closed = False

    def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
        return None if data is None else data[::-1]

    def close(self) -> None:
        self.closed = True


def test_every_field_of_a_record(side: Side) -> None:
    topic = create_topic(side.broker, fresh("fields"), 1)
    send(
        side,
        topic,
        [
            {
                "key": b"k",
                "value": b"v",
                "headers": [("h", b"1"), ("h", b"2")],
                "timestamp_ms": 1_700_000_000_123,
            },
            {"value": None, "key": b"k"},
        ],
    )
    one, tombstone = first_records(assigned(side, topic, 0), 2)
    assert isinstance(one, ConsumerRecord)
    assert (one.topic, one.partition, one.offset, one.key, one.value) == (topic, 0, 0, b"k", b"v")
    assert (
        list(map(tuple, one.headers)) == [("h", b"1"), ("h", b"2")]
        and one.timestamp == 1_700_000_000_123
        and one.timestamp_type == 0
    )
    assert (one.serialized_key_size, one.serialized_value_size, one.leader_epoch) == (1, 1, 0)
    assert tombstone.value is None and tombstone.offset == 1 and list(tombstone.headers) == []


def test_the_time_of_the_log(side: Side) -> None:
    topic = create_topic(
        side.broker, fresh("logtime"), 1, {"message.timestamp.type": "LogAppendTime"}
    )
    send(side, topic, [{"value": b"v", "timestamp_ms": 1_700_000_000_123}])
    (one,) = first_records(assigned(side, topic, 0), 1)
    assert one.timestamp_type == 1 and one.timestamp > 1_700_000_000_123


@pytest.mark.filterwarnings("ignore:value_deserializer:DeprecationWarning")
def test_deserialisers(side: Side) -> None:
    topic = create_topic(side.broker, fresh("decode"), 1)
    send(side, topic, [{"key": b"key", "value": b"12"}])
    reverse = Reverse()
    c = assigned(side, topic, 0, key_deserializer=reverse, value_deserializer=int)
    (one,) = first_records(c, 1)
    assert (
        one.key == b"yek"
        and one.value == 12
        and (one.serialized_key_size, one.serialized_value_size) == (3, 2)
    )
    c.close()
    assert reverse.closed


@pytest.mark.filterwarnings("ignore:value_deserializer:DeprecationWarning")
def test_a_record_that_cannot_be_decoded(side: Side) -> None:
    """poll raises what the deserialiser raises, and goes on after a seek over it."""
    topic = create_topic(side.broker, fresh("poison"), 1)
    send(
        side,
        topic,
        [{"value": b"no number" if n == BAD_RECORD else str(n).encode()} for n in range(6)],
    )
    tp = TopicPartition(topic, 0)
    c = assigned(side, topic, 0, value_deserializer=int, max_poll_records=1)
    found: list[int] = []
    errors, bearable = 0, 2 if side.differs("a record that cannot be decoded") else 1
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < 5 and time.monotonic() < deadline:
        try:
            found.extend(r.value for records in c.poll(100).values() for r in records)
        except ValueError:
            errors += 1
            assert c.position(tp) == BAD_RECORD
            if errors == bearable:
                c.seek(tp, BAD_RECORD + 1)
    assert found == [0, 1, 2, 4, 5] and errors == bearable


@pytest.mark.parametrize(
    "isolation, expected",
    [("read_uncommitted", [b"aborted", b"kept"]), ("read_committed", [b"kept"])],
)
def test_transactions(side: Side, isolation: str, expected: list[bytes]) -> None:
    topic = create_topic(side.broker, fresh("isolation"), 1)
    producer = KafkaProducer(bootstrap_servers=side.broker, transactional_id=fresh("transactional"))
    try:
        producer.init_transactions()
        for value, end in (
            (b"aborted", producer.abort_transaction),
            (b"kept", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.send(topic, value=value).get(timeout=PATIENCE_S)
            end()
    finally:
        producer.close()
    c = assigned(side, topic, 0, isolation_level=isolation)
    assert [r.value for r in first_records(c, len(expected))] == expected
    end_of_log = 4  # two records and two markers
    wait_until(
        lambda: c.poll(50) == {} and c.position(TopicPartition(topic, 0)) == end_of_log,
        PATIENCE_S,
        "the position after the last marker",
    )


def test_the_number_of_records_per_poll(side: Side) -> None:
    """max_poll_records holds across polls and partitions, and nothing is lost or out of order."""
    topic = create_topic(side.broker, fresh("max"), 3)
    produce_numbered(side.broker, topic, 3, 40)
    c = assigned(side, topic, 0, 1, 2, max_poll_records=7)
    taken: dict[TopicPartition, list[int]] = {}
    wait_until(
        lambda: take(c, taken) <= 7 and sum(map(len, taken.values())) == 120,
        PATIENCE_S,
        "all records in sevens",
    )
    assert taken == {TopicPartition(topic, n): list(range(40)) for n in range(3)}
    c.seek_to_beginning()
    wait_until(
        lambda: sum(map(len, c.poll(100, max_records=3).values())) == 3, PATIENCE_S, "three records"
    )
    for wrong, error in (("3", TypeError), (0, ValueError), (-1, ValueError), (2.0, TypeError)):
        with pytest.raises(error):
            c.poll(0, max_records=wrong)
    with pytest.raises(ValueError, match="negative"):
        c.poll(-1)


def test_positions_that_a_poll_leaves_alone(side: Side) -> None:
    """`update_offsets=False`: the records come, and the position stays."""
    topic = create_topic(side.broker, fresh("peek"), 1)
    produce_numbered(side.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    c = assigned(side, topic, 0)
    found = wait_until(lambda: c.poll(100, update_offsets=False), PATIENCE_S, "records")
    assert [r.offset for r in found[tp]] == [0, 1, 2, 3, 4] and c.position(tp) == 0
    again = drain([c], 5)
    assert again == {tp: [0, 1, 2, 3, 4]} and c.position(tp) == 5


def test_seek_pause_and_positions(side: Side) -> None:
    topic = create_topic(side.broker, fresh("seek"), 2)
    produce_numbered(side.broker, topic, 2, 10)
    zero, one, other = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 9)
    c = assigned(side, topic, 0, 1)
    assert c.position(zero) == 0
    drain([c], 20)
    assert c.position(zero) == c.highwater(zero) == 10 and c.highwater(one) == 10
    c.pause(one)
    c.seek(zero, 7)
    c.seek(one, 8)
    assert drain([c], 3) == {zero: [7, 8, 9]} and c.paused() == {one} and c.position(one) == 8
    c.resume(one)
    assert drain([c], 2) == {one: [8, 9]} and c.paused() == set()
    c.seek_to_beginning(zero)
    assert c.position(zero, timeout_ms=10_000) == 0
    c.seek_to_end(zero)
    assert c.position(zero) == 10
    c.seek_to_beginning()
    assert {tp: sorted(o) for tp, o in drain([c], 20).items()} == {
        zero: list(range(10)),
        one: list(range(10)),
    }
    c.seek(zero, 4)
    c.seek(zero, 6)
    assert drain([c], 4) == {zero: [6, 7, 8, 9]}, "the latest seek counts"
    for method, error in (
        (c.position, IllegalStateError),
        (c.highwater, IllegalStateError),
        (c.seek_to_end, ValueError),
        (c.seek_to_beginning, ValueError),
        (c.pause, KeyError),
        (c.resume, KeyError),
    ):
        with pytest.raises(error):
            method(other)
    with pytest.raises(ValueError):
        c.seek(other, 1)


def test_partitions_and_offsets_of_other_types(side: Side) -> None:
    topic = create_topic(side.broker, fresh("types"), 1)
    c = assigned(side, topic, 0)
    for method in (
        c.position,
        c.highwater,
        c.pause,
        c.resume,
        c.seek_to_end,
        c.seek_to_beginning,
        lambda partition: c.seek(partition, 1),
    ):
        for partition in ((topic, 0), topic, None):
            with pytest.raises(TypeError, match="TopicPartition"):
                method(partition)
    for offset in (-1, "1", None, 1.0):
        with pytest.raises(ValueError, match="Offset"):
            c.seek(TopicPartition(topic, 0), offset)


def test_seeking_before_the_log_and_after_it(side: Side) -> None:
    """An offset that does not exist is reset by the policy; with 'none' poll raises."""
    topic = create_topic(side.broker, fresh("range"), 1)
    produce_numbered(side.broker, topic, 1, 3)
    tp = TopicPartition(topic, 0)
    c = assigned(side, topic, 0)
    c.seek(tp, 1_000)
    assert drain([c], 3) == {tp: [0, 1, 2]}
    strict = assigned(side, topic, 0, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        wait_until(lambda: strict.poll(1_000) is None, PATIENCE_S, "the error")


def test_latest_begins_at_the_end(side: Side) -> None:
    topic = create_topic(side.broker, fresh("latest"), 1)
    produce_numbered(side.broker, topic, 1, 3)
    tp = TopicPartition(topic, 0)
    c = assigned(side, topic, 0, auto_offset_reset="latest")
    assert c.position(tp) == 3
    produce_numbered(side.broker, topic, 1, 2, 3)
    assert drain([c], 2) == {tp: [3, 4]}


def test_iteration(side: Side) -> None:
    """Ends after consumer_timeout_ms and goes on later; a seek takes effect at once; the position
    is that of the record yielded last.
    """
    topic = create_topic(side.broker, fresh("iterate"), 1)
    produce_numbered(side.broker, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    c = assigned(side, topic, 0, consumer_timeout_ms=1_000)
    assert [following(c).offset for _ in range(3)] == [0, 1, 2] and c.position(tp) == 3
    c.seek(tp, 8)
    assert [r.offset for r in iterated(c, 2)] == [8, 9] and iter(c) is c
    produce_numbered(side.broker, topic, 1, 1, 10)
    assert [r.offset for r in iterated(c, 1)] == [10]
    c.seek(tp, 5)
    assert following(c).offset == 5
    c.pause(tp)
    assert list(c) == [] and c.position(tp) == 6
    c.resume(tp)
    assert following(c).offset == 6


def test_another_assignment(side: Side) -> None:
    """assign replaces; a partition that stays keeps its position; nothing at all is
    unsubscribing.
    """
    topic = create_topic(side.broker, fresh("assign"), 3)
    produce_numbered(side.broker, topic, 3, 4)
    zero, one, two = (TopicPartition(topic, n) for n in range(3))
    c = side.bare()
    c.assign([zero, one])
    drain([c], 8)
    c.assign([one, two])
    assert c.assignment() == {one, two} and c.position(one) == 4
    assert drain([c], 4) == {two: [0, 1, 2, 3]}
    with pytest.raises(IllegalStateError, match="choose only one way"):
        c.subscribe([topic])
    c.assign([])
    assert c.assignment() == set() and c.subscription() is None
    c.assign([zero])
    assert drain([c], 4) == {zero: [0, 1, 2, 3]}
    c.unsubscribe()
    assert c.assignment() == set()


def test_subscribing_without_a_group(side: Side) -> None:
    """All partitions of the topics, new ones too; nothing can be committed."""
    topic = create_topic(side.broker, fresh("solo"), 2)
    produce_numbered(side.broker, topic, 2, 3)
    c = side.bare(topic)
    assert c.subscription() == {topic}
    taken = drain([c], 6)
    assert {tp: sorted(o) for tp, o in taken.items()} == {
        TopicPartition(topic, n): [0, 1, 2] for n in range(2)
    } and c.assignment() == set(taken)
    with pytest.raises(IllegalStateError, match="group_id"):
        c.commit()
    with pytest.raises(IllegalStateError, match="group_id"):
        c.commit_async()
    with pytest.raises(IllegalStateError, match="group_id"):
        c.committed(TopicPartition(topic, 0))
    assert c.group_metadata().group_id is None and c.group_metadata().generation_id == -1
    c.unsubscribe()
    assert c.subscription() is None and c.assignment() == set() and c.poll(10) == {}
    again = c if side.differs("the same topics again, without a group") else side.bare()
    again.subscribe(pattern=f"{topic[:-1]}.$")
    assert len(drain([again], 6)) == 2 and again.subscription() == {topic}


def test_what_a_small_poll_takes(side: Side) -> None:
    """Six records of six partitions are one of each; kafka-python empties one after the other."""
    topic = create_topic(side.broker, fresh("small"), 6)
    produce_numbered(side.broker, topic, 6, 60)
    c = side.bare(max_poll_records=6)
    c.assign([TopicPartition(topic, n) for n in range(6)])
    shapes: list[list[int]] = []

    def all_there() -> bool:
        shapes.append(sorted(map(len, c.poll(200).values())))
        return len(shapes[-1]) == 6 or shapes.count([6]) > 2

    wait_until(all_there, PATIENCE_S, "a poll when all have something")
    assert shapes[-1] == ([1] * 6 if side.differs("what a small poll takes") else [6])
