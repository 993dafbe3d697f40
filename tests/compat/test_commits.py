"""Commits, waiting and not, automatic and manual, and what is stored when a member goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka.errors import CommitFailedError, OffsetMetadataTooLargeError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.compat.both import PATIENCE_S, Listener, Side, drain, fresh, settle, take
from tests.harness.kafka import create_topic, produce_numbered
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect

pytestmark = pytest.mark.kafka


def stored(side: Side, group: str, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
    """What a new member of the group finds stored. It has not subscribed."""
    with side.member(group, enable_auto_commit=False) as looker:
        return {tp: looker.committed(tp, timeout_ms=10_000) for tp in partitions}


def start_of(side: Side) -> int | None:
    """What is stored of a partition that nobody committed, once it was assigned with
    auto_offset_reset 'earliest'.
    """
    return 0 if side.differs("the start is stored") else None


def test_commit_and_committed(side: Side) -> None:
    topic = create_topic(side.broker, fresh("commit"), 1)
    produce_numbered(side.broker, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    c = side.member(topic, topic, enable_auto_commit=False)
    drain([c], 10)
    assert c.committed(tp) == start_of(side)
    c.commit({tp: OffsetAndMetadata(4, "why", -1)}, timeout_ms=10_000)
    assert c.committed(tp) == 4 and c.position(tp) == 10
    kept = c.committed(tp, metadata=True)
    assert kept == OffsetAndMetadata(4, "why", -1)
    c.commit()
    assert c.committed(tp, metadata=True).metadata == "", "a commit without metadata removes it"
    assert c.committed(tp, timeout_ms=10_000) == 10
    c.commit({tp: OffsetAndMetadata(2, "", -1)})
    assert c.committed(tp) == 2, "the latest commit counts, also backwards"
    c.close()
    assert drain([side.member(topic, topic)], 8) == {tp: list(range(2, 10))}


def test_metadata_stays_with_its_offset(side: Side) -> None:
    """Over a restart and over a hand-over, until the next commit; also text beside an offset that
    is committed again.
    """
    topic = create_topic(side.broker, fresh("metadata"), 2)
    produce_numbered(side.broker, topic, 2, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    notes = {zero: 'söm\n"é" 😀', one: "x" * 4_096}
    first = side.member(topic, topic, enable_auto_commit=False)
    drain([first], 20)
    first.commit({tp: OffsetAndMetadata(4, text, -1) for tp, text in notes.items()})
    second = side.member(topic, topic, enable_auto_commit=False)
    settle([first, second], 2)
    for c in (first, second):
        assert {tp: c.committed(tp, metadata=True).metadata for tp in notes} == notes
    first.close()
    second.close()
    with side.member(topic, topic, enable_auto_commit=False) as third:
        assert {tp: third.committed(tp, metadata=True, timeout_ms=10_000) for tp in notes} == {
            tp: OffsetAndMetadata(4, text, -1) for tp, text in notes.items()
        }
        settle([third], 2)
        third.commit({zero: OffsetAndMetadata(4, "other", -1), one: OffsetAndMetadata(4, "", -1)})
    with side.member(topic) as looker:
        found = [looker.committed(tp, metadata=True, timeout_ms=10_000) for tp in (zero, one)]
        assert [(one.offset, one.metadata) for one in found] == [(4, "other"), (4, "")]


def test_metadata_counts_beside_its_own_offset(ours: Side) -> None:
    """Whoever knows of no metadata (an old consumer, an operator's tool) writes the number alone;
    then the text says nothing, and the next commit removes it.
    """
    topic = create_topic(ours.broker, fresh("beside"), 1)
    tp = TopicPartition(topic, 0)
    offset = f"/consumers/{topic}/offsets/{topic}/0"
    beside = f"/consumers/{topic}/commit-metadata/{topic}/0"
    with ours.member(topic, topic, enable_auto_commit=False) as c:
        settle([c], 1)
        c.commit({tp: OffsetAndMetadata(0, "why", -1)})
    zk = connect(ours.zookeeper)
    try:
        assert zk.get(offset)[0] == b"0", "what old consumers read"
        assert json.loads(zk.get(beside)[0]) == {"version": 1, "offset": 0, "metadata": "why"}
        zk.set(offset, b"7")
        looker = ours.member(topic)
        assert looker.committed(tp, metadata=True, timeout_ms=10_000) == OffsetAndMetadata(
            7, "", -1
        )
        with ours.member(topic, topic, enable_auto_commit=False) as c:
            settle([c], 1)
            assert c.committed(tp, metadata=True) == OffsetAndMetadata(7, "", -1)
            c.commit({tp: OffsetAndMetadata(8, "", -1)})
        assert zk.exists(beside) is None
    finally:
        disconnect(zk)


def test_metadata_that_is_too_large(side: Side) -> None:
    topic = create_topic(side.broker, fresh("large"), 1)
    tp = TopicPartition(topic, 0)
    c = side.member(topic, topic, enable_auto_commit=False)
    settle([c], 1)
    large = {tp: OffsetAndMetadata(0, "x" * 4_097, -1)}
    with pytest.raises(OffsetMetadataTooLargeError):
        c.commit(large)
    future = c.commit_async(large)
    wait_until(lambda: c.poll(20) == {} and future.is_done, PATIENCE_S, "the answer")
    assert isinstance(future.exception, OffsetMetadataTooLargeError)


def test_the_epoch_of_the_leader(side: Side) -> None:
    """kafka-python stores the epoch of the record before a position, to find out that a log was cut
    off; an offset node has no place for it.
    """
    topic = create_topic(side.broker, fresh("epoch"), 1)
    tp = TopicPartition(topic, 0)
    c = side.member(topic, topic, enable_auto_commit=False)
    settle([c], 1)
    c.commit({tp: OffsetAndMetadata(0, "", 0)})
    kept = c.committed(tp, metadata=True, timeout_ms=10_000)
    assert kept.leader_epoch == (-1 if side.differs("the leader epoch of a commit") else 0)


def test_a_negative_offset(side: Side) -> None:
    """Kafka stores it, and it counts as nothing."""
    topic = create_topic(side.broker, fresh("negative"), 1)
    tp = TopicPartition(topic, 0)
    c = side.member(topic, topic, enable_auto_commit=False)
    settle([c], 1)
    c.commit({tp: OffsetAndMetadata(3, "", -1)})
    if side.differs("a commit of a negative offset"):
        with pytest.raises(ValueError, match="-5"):
            c.commit({tp: OffsetAndMetadata(-5, "", -1)})
        assert c.committed(tp) == 3
    else:
        c.commit({tp: OffsetAndMetadata(-5, "", -1)})
        assert c.committed(tp) is None


def test_what_is_stored_of_several_partitions(ours: Side) -> None:
    """In one call, of a member and of a consumer that has not subscribed; kafka-python has no such
    form.
    """
    topic = create_topic(ours.broker, fresh("several"), 3)
    zero, one, two = (TopicPartition(topic, n) for n in range(3))
    c = ours.member(topic, topic, enable_auto_commit=False)
    settle([c], 3)
    c.commit({zero: OffsetAndMetadata(0, "why", -1), one: 0})
    looker = ours.member(topic)
    other = TopicPartition(topic, 7)
    for asked in (c, looker):
        assert asked.committed([zero, one, other], timeout_ms=10_000) == {
            zero: 0,
            one: 0,
            other: None,
        }
        assert asked.committed({zero, two}, metadata=True, timeout_ms=10_000) == {
            zero: OffsetAndMetadata(0, "why", -1),
            two: OffsetAndMetadata(0, "", -1),
        }
    assert c.committed([]) == {}
    for wrong in ([("t", 0)], "t", (zero, one), [zero, 5], None):
        with pytest.raises(TypeError, match="TopicPartition"):
            c.committed(wrong)


def test_commits_without_waiting(side: Side) -> None:
    topic = create_topic(side.broker, fresh("async"), 1)
    produce_numbered(side.broker, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    default: list[Any] = []
    c = side.member(
        topic,
        topic,
        enable_auto_commit=False,
        default_offset_commit_callback=lambda offsets, answer: default.append((offsets, answer)),
    )
    drain([c], 10)
    called: list[Any] = []
    future = c.commit_async(
        {tp: OffsetAndMetadata(3, "", -1)},
        callback=lambda offsets, answer: called.append((offsets, answer)),
    )
    wait_until(lambda: c.poll(20) == {} and called, PATIENCE_S, "the callback")
    assert future.is_done and future.succeeded() and future.value is None
    assert called == [({tp: OffsetAndMetadata(3, "", -1)}, None)]
    c.commit_async()
    wait_until(lambda: c.poll(20) == {} and default, PATIENCE_S, "the default callback")
    assert default[0][0][tp].offset == 10 and c.committed(tp) == 10 and len(called) == 1
    assert default[0][1] is None


def test_a_commit_of_what_is_not_owned(side: Side) -> None:
    topic = create_topic(side.broker, fresh("foreign"), 2)
    tp = TopicPartition(topic, 7)
    c = side.member(topic, topic, enable_auto_commit=False)
    settle([c], 2)
    if side.differs("commits of what is not owned"):
        with pytest.raises(CommitFailedError, match=f"{topic}-7"):
            c.commit({tp: OffsetAndMetadata(1, "", -1)})
    else:
        # the partition does not exist: what the broker answers is its own affair
        with pytest.raises(Exception):
            c.commit({tp: OffsetAndMetadata(1, "", -1)}, timeout_ms=2_000)


def test_nothing_is_stored_that_was_not_committed(side: Side) -> None:
    """Manual commit means manual: on unsubscribe, on a hand-over and on close."""
    topic = create_topic(side.broker, fresh("manual"), 2)
    produce_numbered(side.broker, topic, 2, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    first = side.member(topic, topic, enable_auto_commit=False)
    drain([first], 20)
    first.commit({zero: OffsetAndMetadata(3, "", -1)})
    second = side.member(topic, topic, enable_auto_commit=False)
    settle([first, second], 2)
    assert stored(side, topic, zero, one) == {
        zero: 3,
        one: start_of(side),
    }, "a hand-over stores nothing"
    first.unsubscribe()
    assert stored(side, topic, zero, one) == {
        zero: 3,
        one: start_of(side),
    }, "nor does unsubscribing"
    second.close()
    first.close(autocommit=True)
    assert stored(side, topic, zero, one) == {zero: 3, one: start_of(side)}, "nor does closing"


def test_automatic_commits(side: Side) -> None:
    """In time and on close; not where close is told not to, and not when a with block ends by an
    error.
    """
    topic = create_topic(side.broker, fresh("auto"), 1)
    produce_numbered(side.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    c = side.member(topic, topic, auto_commit_interval_ms=100)
    drain([c], 5)
    wait_until(lambda: c.poll(20) == {} and c.committed(tp) == 5, PATIENCE_S, "the commit in time")
    c.close()
    produce_numbered(side.broker, topic, 1, 1, 5)
    for told in (True, False):
        c = side.member(topic, topic, auto_commit_interval_ms=600_000)
        drain([c], 1)
        c.close(autocommit=told)
        assert stored(side, topic, tp) == {tp: 6}
        produce_numbered(side.broker, topic, 1, 1, 6)
    with (
        pytest.raises(ZeroDivisionError),
        side.member(topic, topic, auto_commit_interval_ms=600_000) as d,
    ):
        drain([d], 2)
        raise ZeroDivisionError
    assert stored(side, topic, tp) == {tp: 6}


def test_unsubscribing_commits(side: Side) -> None:
    topic = create_topic(side.broker, fresh("goodbye"), 1)
    produce_numbered(side.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    c = side.member(topic, topic, auto_commit_interval_ms=600_000)
    drain([c], 5)
    c.unsubscribe()
    found = stored(side, topic, tp)[tp]
    assert found == 5 if side.differs("the commit of `unsubscribe`") else found in (None, 5)


def test_records_are_processed_when_the_application_comes_back(side: Side) -> None:
    """A record that iteration yielded is committed only when the next one is asked for."""
    topic = create_topic(side.broker, fresh("processed"), 1)
    produce_numbered(side.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    c = side.member(topic, topic, auto_commit_interval_ms=1)
    offsets = []
    for record in c:
        assert (c.committed(tp) or 0) <= record.offset
        offsets.append(record.offset)
        if record.offset == 4:
            break
    assert offsets == [0, 1, 2, 3, 4] and c.position(tp) == 5


def test_an_evicted_member_stores_nothing(side: Side) -> None:
    """One that did not poll for max_poll_interval_ms has lost its partitions: its late commit
    fails, and nothing else is stored.
    """
    topic = create_topic(side.broker, fresh("evicted"), 1)
    produce_numbered(side.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    listener = Listener()
    slow = side.member(topic, enable_auto_commit=False, max_poll_interval_ms=1_500)
    slow.subscribe([topic], listener=listener)
    drain([slow], 5)
    other = side.member(topic, topic, enable_auto_commit=False)
    taken: dict[TopicPartition, list[int]] = {}
    wait_until(
        lambda: take(other, taken) >= 0 and sum(map(len, taken.values())) == 5,
        PATIENCE_S,
        "the records at the next owner",
    )
    for given in (None, {tp: OffsetAndMetadata(5, "", -1)}):
        with pytest.raises(
            CommitFailedError, match=r"1500 ms \(max_poll_interval_ms\)" if side.ours else None
        ):
            slow.commit(given)
    assert other.committed(tp) == start_of(side)
    other.close()
    wait_until(
        lambda: take(slow, {}) >= 0 and listener.names().count("assigned") == 2,
        PATIENCE_S,
        "its return",
    )
    assert listener.calls == [("assigned", (0,)), ("lost", (0,)), ("assigned", (0,))]
