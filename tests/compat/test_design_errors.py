"""The errors of the design of Kafka's 0.9 consumer, each raised (or not) by both consumers of
today: the tables "The consumer rewrite design" in docs/consumer.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.errors import CommitFailedError, IllegalStateError, NoOffsetForPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.compat.both import PATIENCE_S, Side, drain, fresh, settle
from tests.harness.kafka import create_topic, produce_numbered
from tests.harness.wait import wait_until

pytestmark = pytest.mark.kafka

PAGE = Path(__file__).parents[2] / "docs" / "consumer.md"


def subscription_not_valid(side: Side) -> None:
    """Topics and partitions do not go together, whichever comes first."""
    tp = TopicPartition(fresh("mixed"), 0)
    one, two = side.bare(), side.bare()
    one.subscribe([tp.topic])
    with pytest.raises(IllegalStateError):
        one.assign([tp])
    two.assign([tp])
    with pytest.raises(IllegalStateError):
        two.subscribe([tp.topic])


def subscription_is_empty(side: Side) -> None:
    c = side.member(fresh("empty"))
    assert c.poll(10) == {} and c.assignment() == set() and c.subscription() is None


def init_offset_not_known(side: Side) -> None:
    topic = create_topic(side.broker, fresh("initial"), 1)
    c = side.member(topic, topic, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError, match=topic):
        wait_until(lambda: c.poll(100) is None, PATIENCE_S, "the error")


def invalid_partitions_to_commit(side: Side) -> None:
    """A partition that exists, and is another member's."""
    topic = create_topic(side.broker, fresh("theirs"), 2)
    one, two = (side.member(topic, topic, enable_auto_commit=False) for _ in range(2))
    settle([one, two], 2)
    (theirs,), (mine,) = two.assignment(), one.assignment()
    offsets = {tp: OffsetAndMetadata(1, "", -1) for tp in (mine, theirs)}
    if side.differs("commits of what is not owned"):
        with pytest.raises(CommitFailedError, match=f"{topic}-{theirs.partition}") as caught:
            one.commit(offsets)
        assert (
            f"{topic}-{mine.partition}" not in str(caught.value)
            and one.committed(mine) == two.committed(theirs) == 0
        )
    else:
        one.commit(offsets)
        assert one.committed(theirs) == 1


def offset_unknown(side: Side) -> None:
    topic = create_topic(side.broker, fresh("unknown"), 1)
    assert side.member(topic).committed(TopicPartition(topic, 0), timeout_ms=10_000) is None


def invalid_partitions_to_get(side: Side) -> None:
    topic = create_topic(side.broker, fresh("foreign"), 2)
    owner = side.member(topic, topic, enable_auto_commit=False)
    settle([owner], 2)
    tp = TopicPartition(topic, 1)
    owner.commit({tp: OffsetAndMetadata(7, "", -1)})
    other = side.member(topic)
    assert other.committed(tp, timeout_ms=10_000) == 7
    with pytest.raises(IllegalStateError):
        other.position(tp)


ERRORS: dict[str, Callable[[Side], None]] = {
    "SubscriptionNotValidException": subscription_not_valid,
    "SubscriptionIsEmptyException": subscription_is_empty,
    "InitOffsetNotKnownException": init_offset_not_known,
    "InvalidPartitionsToCommitOffsetException": invalid_partitions_to_commit,
    "OffsetUnknownException": offset_unknown,
    "InvalidPartitionsToGetOffsetException": invalid_partitions_to_get,
}


@pytest.mark.parametrize("error", sorted(ERRORS))
def test_an_error_of_the_design(side: Side, error: str) -> None:
    ERRORS[error](side)


def test_the_table_lists_what_is_tested() -> None:
    table = (
        PAGE.read_text(encoding="utf-8").partition("| the design's error |")[2].partition("\n\n")[0]
    )
    assert {line.split("`")[1] for line in table.splitlines()[2:]} == set(ERRORS)


def test_the_calls_of_the_design(ours: Side) -> None:
    """Partitions one after the other, with an offset or without; what is consumed, where the group
    stands, and setting it.
    """
    topic = create_topic(ours.broker, fresh("calls"), 2)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce_numbered(ours.broker, topic, 2, 10)
    alone = ours.bare()
    alone.add_partitions([zero])
    alone.add_partitions({one: 8})
    assert alone.assignment() == {zero, one}
    assert drain([alone], 12) == {zero: list(range(10)), one: [8, 9]}
    member = ours.member(topic, topic, enable_auto_commit=False)
    drain([member], 20)
    member.commit({zero: OffsetAndMetadata(4, "", -1)})
    future = member.commit_async({one: OffsetAndMetadata(5, "", -1)})
    wait_until(lambda: member.poll(10) == {} and future.is_done, PATIENCE_S, "the answer")
    assert {tp: member.committed(tp) for tp in member.assignment()} == {zero: 4, one: 5}
    member.seek(zero, 9)
    assert member.position(zero) == 9 and drain([member], 1) == {zero: [9]}
