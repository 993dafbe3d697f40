"""`auto_offset_reset="none"`: a partition of which nothing says where it begins."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import NoOffsetForPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.compat.both import (
    PATIENCE_S,
    Listener,
    Side,
    Taken,
    drain,
    fresh,
    settle,
    take,
    turn_ms,
)
from tests.harness.kafka import add_partitions, create_topic, produce_numbered
from tests.harness.wait import wait_until

pytestmark = pytest.mark.kafka


def stored(side: Side, topic: str, **offsets: int) -> None:
    """A member of the group commits p0=5 for partition 0."""
    with side.member(topic, topic, enable_auto_commit=False) as c:
        wait_until(lambda: take(c, {}) >= 0 and c.assignment(), PATIENCE_S, "the assignment")
        c.commit(
            {
                TopicPartition(topic, int(name[1:])): OffsetAndMetadata(offset, "", -1)
                for name, offset in offsets.items()
            }
        )


def error_of(one: Any) -> NoOffsetForPartitionError:
    """What its polls come to raise."""
    with pytest.raises(NoOffsetForPartitionError) as caught:
        wait_until(lambda: one.poll(turn_ms(one)) is None, PATIENCE_S, "the error")
    return caught.value


def test_a_poll_raises_it_and_a_seek_mends_it(side: Side) -> None:
    """Everything stays assigned, each poll says so, and after the seek all goes on."""
    topic = create_topic(side.broker, fresh("mend"), 2)
    produce_numbered(side.broker, topic, 2, 5)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    c = side.member(topic, topic, auto_offset_reset="none", enable_auto_commit=False)
    for _ in range(3):
        assert topic in str(error_of(c))
        assert c.assignment() == {zero, one}
    with pytest.raises(NoOffsetForPartitionError):
        c.position(zero, timeout_ms=1_000)
    c.seek(zero, 3)
    error_of(c)
    c.seek_to_beginning(one)
    assert drain([c], 7) == {zero: [3, 4], one: [0, 1, 2, 3, 4]}
    c.commit()
    c.close()
    again = side.member(topic, topic, auto_offset_reset="none", enable_auto_commit=False)
    settle([again], 2)
    assert again.position(zero, timeout_ms=10_000) == again.position(one, timeout_ms=10_000) == 5


def test_a_listener_that_seeks_never_sees_it(side: Side) -> None:
    """Offsets in a database: the usual way."""
    topic = create_topic(side.broker, fresh("database"), 2)
    produce_numbered(side.broker, topic, 2, 5)
    c = side.member(topic, auto_offset_reset="none", enable_auto_commit=False)
    listener = Listener()
    listener.act = lambda name, partitions: (
        [c.seek(tp, 2) for tp in partitions] and None if name == "assigned" else None
    )
    c.subscribe([topic], listener=listener)
    assert drain([c], 6) == {TopicPartition(topic, n): [2, 3, 4] for n in range(2)}


def test_a_topic_that_grows_ends_nobody(side: Side) -> None:
    """Two members with stored offsets: whoever gets the new partition seeks, the other goes on."""
    topic = create_topic(side.broker, fresh("grows"), 2)
    # kafka-python's `earliest` group stores nothing by itself
    first = side.member(topic, topic, enable_auto_commit=False)
    settle([first], 2)
    first.commit({TopicPartition(topic, n): OffsetAndMetadata(0, "", -1) for n in range(2)})
    first.close()
    members = [
        side.member(
            topic,
            topic,
            auto_offset_reset="none",
            enable_auto_commit=False,
            metadata_max_age_ms=500,
        )
        for _ in range(2)
    ]
    settle(members, 2)
    add_partitions(side.broker, topic, 3)
    produce_numbered(side.broker, topic, 3, 5)
    taken: Taken = {}
    errors: list[NoOffsetForPartitionError] = []

    def all_there() -> bool:
        for c in members:
            try:
                take(c, taken, turn_ms(c))
            except NoOffsetForPartitionError as e:
                errors.append(e)
                new = TopicPartition(topic, 2)
                assert new in c.assignment()
                c.seek(new, 1)
        return sum(len(set(offsets)) for offsets in taken.values()) >= 14

    wait_until(all_there, PATIENCE_S, "the records of all three")
    assert errors and sorted(taken[TopicPartition(topic, 2)])[0] == 1
    assert len(set().union(*(c.assignment() for c in members))) == 3


def test_what_is_refused_waits_for_a_seek_too(ours: Side) -> None:
    """`initial_offsets="refuse"`, with a policy that is not asked, also where a position is."""
    topic = create_topic(ours.broker, fresh("refuse"), 2)
    produce_numbered(ours.broker, topic, 2, 5)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    c = ours.member(topic, topic, initial_offsets="refuse", enable_auto_commit=False)
    error = error_of(c)
    assert "initial_offsets is 'refuse'" in str(error) and error.partitions == (zero, one)
    c.seek(zero, 1)
    assert c.position(zero) == 1
    with pytest.raises(NoOffsetForPartitionError, match=f"{topic}-1"):
        c.position(one, timeout_ms=1_000)
    c.seek(one, 4)
    assert drain([c], 5) == {zero: [1, 2, 3, 4], one: [4]}
    c.commit()
    assert c.committed([zero, one]) == {zero: 5, one: 5}


def test_what_is_owned_without_an_offset_moves_and_its_commits_are_fenced(ours: Side) -> None:
    """Nothing is stored by a hand-over; the first commit makes the node, and a former owner makes
    none.
    """
    topic = create_topic(ours.broker, fresh("moves"), 2)
    produce_numbered(ours.broker, topic, 2, 5)
    partitions = [TopicPartition(topic, n) for n in range(2)]

    def begin(c: Any) -> Listener:
        listener = Listener()
        listener.act = lambda name, given: (
            [c.seek(tp, 0) for tp in given] and None if name == "assigned" else None
        )
        c.subscribe([topic], listener=listener)
        return listener

    one, two = (
        ours.member(topic, auto_offset_reset="none", enable_auto_commit=False) for _ in range(2)
    )
    begin(one)
    drain([one], 10)
    looker = ours.member(topic)
    assert looker.committed(partitions, timeout_ms=10_000) == dict.fromkeys(partitions)
    begin(two)
    settle([one, two], 2)
    assert looker.committed(partitions, timeout_ms=10_000) == dict.fromkeys(partitions)
    (moved,), (kept,) = two.assignment(), one.assignment()
    two.commit({moved: OffsetAndMetadata(2, "", -1)})
    with pytest.raises(Exception, match=f"{topic}-{moved.partition}"):
        one.commit({moved: OffsetAndMetadata(4, "", -1)})
    one.commit({kept: OffsetAndMetadata(3, "", -1)})
    assert looker.committed(partitions, timeout_ms=10_000) == {moved: 2, kept: 3}
