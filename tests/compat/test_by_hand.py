"""Partitions that an application assigns itself in a group's name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import CommitFailedError, IllegalStateError, NoOffsetForPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from consumer.errors import UnreadableOffsetError, ZooKeeperDeniedError
from tests.compat.both import PATIENCE_S, Side, drain, fresh, settle, take
from tests.harness.kafka import create_topic, produce_numbered
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka


@contextlib.contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    """A client, for a while."""
    client = connect(hosts)
    try:
        yield client
    finally:
        disconnect(client)


def by_hand(side: Side, group: str, *partitions: TopicPartition, **configs: Any) -> Any:
    """A consumer of the group that assigns itself these."""
    c = side.member(group, **{"enable_auto_commit": False, **configs})
    c.assign(list(partitions))
    return c


def test_they_begin_where_the_group_stands_and_commits_are_the_groups(side: Side) -> None:
    topic = create_topic(side.broker, fresh("byhand"), 2)
    produce_numbered(side.broker, topic, 2, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    first = by_hand(side, topic, zero, one)
    assert first.assignment() == {zero, one} and first.subscription() is None
    assert first.position(zero, timeout_ms=30_000) == 0
    drain([first], 20)
    first.commit({zero: OffsetAndMetadata(4, "why", -1)})
    future = first.commit_async({one: OffsetAndMetadata(6, "", -1)})
    wait_until(lambda: first.poll(10) == {} and future.is_done, PATIENCE_S, "the answer")
    assert future.succeeded() and future.value is None
    assert first.committed(zero, metadata=True) == OffsetAndMetadata(4, "why", -1)
    first.close()
    second = by_hand(side, topic, zero, one)
    assert second.position(one, timeout_ms=30_000) == 6
    assert drain([second], 10) == {zero: list(range(4, 10)), one: list(range(6, 10))}
    second.commit()
    second.close()
    member = side.member(topic, topic, enable_auto_commit=False)
    settle([member], 2)
    assert {tp: member.committed(tp) for tp in (zero, one)} == {zero: 10, one: 10}
    assert member.position(zero) == 10


def test_automatic_commits_of_what_is_assigned_by_hand(side: Side) -> None:
    """In time, when something else is assigned, and on close."""
    topic = create_topic(side.broker, fresh("handauto"), 2)
    produce_numbered(side.broker, topic, 2, 5)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    c = by_hand(side, topic, zero, enable_auto_commit=True, auto_commit_interval_ms=100)
    drain([c], 5)
    wait_until(lambda: c.poll(20) == {} and c.committed(zero) == 5, PATIENCE_S, "the commit")
    c.close()
    c = by_hand(side, topic, one, enable_auto_commit=True, auto_commit_interval_ms=600_000)
    drain([c], 5)
    c.assign([zero])
    looker = side.member(topic)
    wait_until(
        lambda: looker.committed(one, timeout_ms=10_000) == 5, PATIENCE_S, "the last occasion"
    )
    produce_numbered(side.broker, topic, 1, 2, 5)
    assert drain([c], 2) == {zero: [5, 6]}
    c.close()
    assert looker.committed(zero, timeout_ms=10_000) == 7


def test_commits_are_fenced_against_a_group_that_is_alive(side: Side) -> None:
    topic = create_topic(side.broker, fresh("handfence"), 1)
    produce_numbered(side.broker, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    c = by_hand(side, topic, tp)
    drain([c], 10)
    c.commit({tp: OffsetAndMetadata(3, "", -1)})
    member = side.member(topic, topic, enable_auto_commit=False)
    settle([member], 1)
    with pytest.raises(CommitFailedError):
        c.commit({tp: OffsetAndMetadata(8, "", -1)})
    failed = c.commit_async({tp: OffsetAndMetadata(8, "", -1)})
    wait_until(lambda: c.poll(10) == {} and failed.is_done, PATIENCE_S, "the refusal")
    assert isinstance(failed.exception, CommitFailedError)
    assert member.committed(tp) == 3
    member.commit({tp: OffsetAndMetadata(5, "", -1)})
    member.close()
    c.commit({tp: OffsetAndMetadata(8, "", -1)})
    assert c.committed(tp, timeout_ms=10_000) == 8


def test_topics_and_partitions_are_not_mixed(side: Side) -> None:
    topic = create_topic(side.broker, fresh("handmix"), 1)
    tp = TopicPartition(topic, 0)
    c = by_hand(side, topic, tp)
    with pytest.raises(IllegalStateError, match="choose only one way"):
        c.subscribe([topic])
    c.unsubscribe()
    assert c.assignment() == set()
    c.subscribe([topic])
    settle([c], 1)
    with pytest.raises(IllegalStateError, match="choose only one way"):
        c.assign([tp])
    c.unsubscribe()
    c.assign([tp])
    assert c.assignment() == {tp}
    c.assign([])
    assert c.assignment() == set()


def test_without_a_policy_what_has_no_offset_waits_for_a_seek(side: Side) -> None:
    topic = create_topic(side.broker, fresh("handnone"), 2)
    produce_numbered(side.broker, topic, 2, 4)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with by_hand(side, topic, zero) as first:
        first.position(zero, timeout_ms=30_000)
        first.commit({zero: OffsetAndMetadata(2, "", -1)})
    c = by_hand(side, topic, zero, one, auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError, match=rf"{topic}.*1"):
        wait_until(lambda: take(c, {}) < 0, PATIENCE_S, "the error")
    c.seek(one, 3)
    assert drain([c], 3) == {zero: [2, 3], one: [3]}


def test_two_that_assign_the_same_overwrite_each_other(side: Side) -> None:
    topic = create_topic(side.broker, fresh("handtwo"), 1)
    tp = TopicPartition(topic, 0)
    one, two = by_hand(side, topic, tp), by_hand(side, topic, tp)
    for n, c in enumerate((one, two, one, two), 1):
        c.commit({tp: OffsetAndMetadata(n, "", -1)})
    assert one.committed(tp, timeout_ms=10_000) == 4


@pytest.mark.parametrize("wrong", ["text", 5, ["text"], [5], None])
def test_what_is_no_partitions(ours: Side, wrong: Any) -> None:
    c = ours.member(fresh("handwrong"))
    for assign in (c.assign, c.add_partitions):
        with pytest.raises(TypeError, match="TopicPartition"):
            assign(wrong)


def test_adding_partitions_by_hand(ours: Side) -> None:
    topic = create_topic(ours.broker, fresh("handadd"), 2)
    produce_numbered(ours.broker, topic, 2, 4)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    c = by_hand(ours, topic, zero)
    c.add_partitions({one: 3})
    assert drain([c], 5) == {zero: [0, 1, 2, 3], one: [3]}
    c.commit()
    assert c.committed([zero, one]) == {zero: 4, one: 4}


@pytest.mark.parametrize("storage", ["dual", "kafka"])
def test_where_offsets_are_stored(ours: Side, storage: str) -> None:
    """What is committed by hand is where the group's members look, and where Kafka's tools do."""
    topic = create_topic(ours.broker, fresh("handwhere"), 1)
    produce_numbered(ours.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    c = by_hand(ours, topic, tp, offsets_storage=storage)
    drain([c], 5)
    c.commit({tp: OffsetAndMetadata(3, "why", -1)})
    c.close()
    looker = ours.member(topic, offsets_storage="kafka")
    assert looker.committed(tp, metadata=True).offset == 3
    assert looker.committed(tp, metadata=True).metadata == "why"
    member = ours.member(topic, topic, offsets_storage=storage, enable_auto_commit=False)
    assert drain([member], 2) == {tp: [3, 4]}


def test_an_offset_that_is_none_is_not_consumed_and_not_overwritten(ours: Side) -> None:
    """It is said once, by the node's name; the others go on."""
    topic = create_topic(ours.broker, fresh("handbad"), 2)
    produce_numbered(ours.broker, topic, 2, 5)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    node = Layout.DRAFT.offset(topic, ModelPartition(*zero))
    with connected(ours.zookeeper) as zk:
        zk.create(node, b"17\n", makepath=True)
        c = by_hand(ours, topic, zero, one, auto_offset_reset="earliest")
        with pytest.raises(UnreadableOffsetError, match=node):
            drain([c], 6)
        assert drain([c], 5) == {one: list(range(5))}
        with pytest.raises(UnreadableOffsetError, match=node):
            c.position(zero)
        assert c.position(one) == 5 and c.poll(500) == {}
        with pytest.raises(CommitFailedError, match="is no offset"):
            c.commit({zero: OffsetAndMetadata(3, "", -1)})
        assert zk.get(node)[0] == b"17\n"
        c.close()


@pytest.mark.parametrize(
    ("tp", "error"),
    [
        (TopicPartition("orders/0", 0), ValueError),
        (TopicPartition("", 0), ValueError),
        (TopicPartition("..", 0), ValueError),
        (TopicPartition("\ud800", 0), ValueError),
        (TopicPartition("x" * 250, 0), ValueError),
        (TopicPartition("orders", -1), ValueError),
        (TopicPartition(5, 0), TypeError),
        (TopicPartition("orders", "0"), TypeError),
    ],
)
def test_what_cannot_be_a_partition_is_refused_at_once(
    ours: Side, tp: TopicPartition, error: type[Exception]
) -> None:
    """And nothing ends that others need."""
    topic = create_topic(ours.broker, fresh("handname"), 1)
    good = TopicPartition(topic, 0)
    c = by_hand(ours, topic, good)
    with pytest.raises(error):
        c.commit({tp: 1})
    with pytest.raises(error):
        c.committed(tp)
    c.commit({good: 1})
    assert c.committed(good) == 1


def test_a_commits_future_may_close_the_consumer_or_commit(ours: Side) -> None:
    """Its callbacks run in a poll, as others do."""
    topic = create_topic(ours.broker, fresh("handfuture"), 1)
    tp, told = TopicPartition(topic, 0), list[Any]()
    c = ours.member(topic, topic, enable_auto_commit=False)
    settle([c], 1)
    c.commit_async({tp: 3}).add_callback(lambda _: told.append(c.commit({tp: 4})))
    wait_until(lambda: c.poll(10) == {} and told, PATIENCE_S, "the first callback")
    assert c.committed(tp) == 4
    future = c.commit_async({tp: 5})
    future.add_both(lambda _: c.close())
    wait_until(lambda: c.poll(10) == {} and future.is_done, PATIENCE_S, "the second to close it")
    with pytest.raises(IllegalStateError):
        c.poll(10)


def test_what_is_hidden_is_not_absent(ours: Side) -> None:
    """An offset that may not be read is no beginning; registrations that may not be read are no
    leave to commit.
    """
    topic = create_topic(ours.broker, fresh("handhid"), 1)
    produce_numbered(ours.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    node, ids = Layout.DRAFT.offset(topic, ModelPartition(*tp)), Layout.DRAFT.ids(topic)
    with connected(ours.zookeeper) as zk:
        zk.create(node, b"2", makepath=True)
        zk.ensure_path(ids)
        nobody = [make_digest_acl("nobody", "x", all=True)]
        before = zk.get_acls(node)[0]
        zk.set_acls(node, nobody)
        c = by_hand(ours, topic, tp, auto_offset_reset="earliest")
        with pytest.raises(ZooKeeperDeniedError, match=f"does not let this consumer read {node}"):
            c.poll(5_000)
        with pytest.raises(ZooKeeperDeniedError):
            c.position(tp, timeout_ms=5_000)
        with pytest.raises(ZooKeeperDeniedError):
            c.committed(tp)
        assert c.poll(1_500) == {}
        zk.add_auth("digest", "nobody:x")
        zk.set_acls(node, before)
        assert drain([c], 3) == {tp: [2, 3, 4]}
        zk.set_acls(ids, nobody)
        with pytest.raises(CommitFailedError, match="does not let this consumer read"):
            c.commit({tp: OffsetAndMetadata(1, "", -1)})
        assert zk.get(node)[0] == b"2"
        c.close()
        zk.set_acls(ids, OPEN_ACL_UNSAFE)
