"""What only ours has: incremental forms, partitions with an offset, figures of the membership."""

from __future__ import annotations

import pytest
from kafka import KafkaProducer
from kafka.errors import IllegalStateError, KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition
from kazoo.security import make_digest_acl

from consumer.errors import (
    ConsumerOptionError,
    NotOwnedError,
    UnreadableOffsetError,
    ZooKeeperDeniedError,
)
from tests.compat.both import (
    PATIENCE_S,
    Listener,
    Side,
    drain,
    following,
    fresh,
    iterated,
    settle,
    take,
)
from tests.harness.kafka import create_topic, produce_numbered
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.errors import InvalidSubscriptionError
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka


def test_adding_topics(ours: Side) -> None:
    """What was subscribed stays, with its listener and without a stop."""
    first, second = (
        create_topic(ours.broker, fresh("first"), 2),
        create_topic(ours.broker, fresh("second"), 1),
    )
    listener = Listener()
    c = ours.member(first)
    c.subscribe([first], listener=listener)
    settle([c], 2)
    c.add_topics([second])
    assert c.subscription() == {first, second}
    settle([c], 3)
    assert listener.calls == [("assigned", (0, 1)), ("assigned", (0,))]
    c.subscribe(pattern=f"{first}.*")
    with pytest.raises(IllegalStateError, match="pattern"):
        c.add_topics([second])
    alone = ours.bare()
    alone.add_topics([first])
    alone.add_topics([second])
    settle([alone], 3)


def test_adding_partitions_and_partitions_with_an_offset(ours: Side) -> None:
    topic = create_topic(ours.broker, fresh("partitions"), 3)
    produce_numbered(ours.broker, topic, 3, 10)
    zero, one, two = (TopicPartition(topic, n) for n in range(3))
    c = ours.bare()
    c.assign({zero: 7})
    assert drain([c], 3) == {zero: [7, 8, 9]}
    c.add_partitions({one: OffsetAndMetadata(8, "", -1)})
    c.add_partitions([two])
    assert c.assignment() == {zero, one, two} and c.position(zero) == 10
    taken = drain([c], 12)
    assert taken == {one: [8, 9], two: list(range(10))}
    for wrong, error in (({zero: "1"}, TypeError), ({zero: -1}, ValueError)):
        with pytest.raises(error):
            c.add_partitions(wrong)
    member = ours.member(topic, topic)
    with pytest.raises(IllegalStateError, match="choose only one way"):
        member.add_partitions([zero])


def test_another_assignment_while_iterating(ours: Side) -> None:
    """What iteration has taken of partitions that are gone is not yielded, and what it has taken of
    the others is not lost.
    """
    topic = create_topic(ours.broker, fresh("iterating"), 2)
    produce_numbered(ours.broker, topic, 2, 10)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    c = ours.bare(consumer_timeout_ms=1_500)
    c.assign([zero])
    assert [following(c).offset for _ in range(3)] == [0, 1, 2]
    c.assign([one])
    assert [(r.partition, r.offset) for r in iterated(c, 10)] == [(1, n) for n in range(10)]
    c.assign({zero: 3})
    assert following(c).offset == 3
    c.add_partitions([one])
    assert sorted((r.partition, r.offset) for r in iterated(c, 16)) == [
        (0, n) for n in range(4, 10)
    ] + [(1, n) for n in range(10)]


def test_figures_of_the_membership(ours: Side) -> None:
    topic = create_topic(ours.broker, fresh("figures"), 4)
    one = ours.member(topic)
    assert "zkcoord" not in one.metrics()
    one.subscribe([topic])
    settle([one], 4)
    wait_until(lambda: one.metrics()["zkcoord"]["last-rebalance-cause"], PATIENCE_S, "the cause")
    first = one.metrics()["zkcoord"]
    assert (
        first["state"] == "member"
        and first["assigned-partitions"] == 4
        and first["generation"] >= 1
        and first["epoch"] >= 1
        and first["rebalance-failure"] == ""
    )
    assert (
        0 < first["lease-left-ms"] <= 4_000
        and first["last-contact-ms-ago"] >= 0
        and first["last-rebalance-ms"] >= 0
    )
    two = ours.member(topic, topic)
    settle([one, two], 4)
    second = wait_until(
        lambda: (found := one.metrics()["zkcoord"])["generation"] > first["generation"] and found,
        PATIENCE_S,
        "the next generation",
    )
    wait_until(
        lambda: (
            one.metrics()["zkcoord"]["last-rebalance-trigger"] == two.group_metadata().member_id
        ),
        PATIENCE_S,
        "who triggered it",
    )
    assert (
        second["epoch"] == first["epoch"]
        and one.group_metadata().generation_id == second["generation"]
    )
    one.unsubscribe()
    assert "zkcoord" not in one.metrics() and one.group_metadata().generation_id == -1


def test_a_member_that_was_not_polled_is_told_so(
    ours: Side, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning when it comes back says how long it took; a commit of what it has processed by
    then names the interval, a later one is stored.
    """
    topic = create_topic(ours.broker, fresh("late"), 1)
    produce_numbered(ours.broker, topic, 1, 5)
    tp = TopicPartition(topic, 0)
    c = ours.member(topic, topic, enable_auto_commit=False, max_poll_interval_ms=800)
    drain([c], 5)
    wait_until(
        lambda: c.metrics()["zkcoord"]["state"] == "waiting for a poll", PATIENCE_S, "its leave"
    )
    future = c.commit_async()
    assert isinstance(future.exception, NotOwnedError) and future.exception.partitions == (
        tuple(tp),
    )
    with pytest.raises(NotOwnedError, match="800 ms"):
        c.commit()
    with caplog.at_level("WARNING", "consumer"):
        assert drain([c], 5) == {tp: list(range(5))}, "nothing was stored"
        c.commit()
    late = [
        r.getMessage() for r in caplog.records if "max_poll_interval_ms is 800" in r.getMessage()
    ]
    assert len(late) == 1 and c.committed(tp) == 5


def test_a_commit_before_a_subscription_fails_at_once(ours: Side) -> None:
    tp = TopicPartition(fresh("early"), 0)
    c = ours.member(fresh("early"), commit_timeout_ms=3_600_000)
    with pytest.raises(NotOwnedError, match="not a member"):
        c.commit({tp: OffsetAndMetadata(1, "", -1)})
    assert isinstance(c.commit_async({tp: OffsetAndMetadata(1, "", -1)}).exception, NotOwnedError)
    c.commit()
    assert c.committed(tp, timeout_ms=10_000) is None


def test_a_transaction_with_offsets_of_ours_is_refused_by_the_broker(ours: Side) -> None:
    """The broker does not know the group: better an error than offsets that nobody reads."""
    topic = create_topic(ours.broker, fresh("refused"), 1)
    c = ours.member(topic, topic)
    settle([c], 1)
    producer = KafkaProducer(bootstrap_servers=ours.broker, transactional_id=fresh("refused"))
    try:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(KafkaError):
            producer.send_offsets_to_transaction(
                {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)}, c.group_metadata()
            )
    finally:
        producer.close()


def test_a_member_whose_offset_is_hidden_or_none_waits_for_that_partition_alone(ours: Side) -> None:
    """The others are consumed; what is stored there is neither passed over nor absent."""
    topic = create_topic(ours.broker, fresh("hidden"), 3)
    produce_numbered(ours.broker, topic, 3, 5)
    hidden, bad, good = (TopicPartition(topic, n) for n in range(3))
    node, none = (Layout.DRAFT.offset(topic, ModelPartition(*tp)) for tp in (hidden, bad))
    zk = connect(ours.zookeeper)
    try:
        zk.create(node, b"2", makepath=True)
        zk.create(none, b"17\n")
        before = zk.get_acls(node)[0]
        zk.set_acls(node, [make_digest_acl("nobody", "x", all=True)])
        c = ours.member(topic, topic, auto_offset_reset="earliest", enable_auto_commit=False)
        raised: set[str] = set()
        taken: dict[TopicPartition, list[int]] = {}

        def both_are_said() -> bool:
            try:
                take(c, taken)
            except UnreadableOffsetError as e:
                raised.add(e.node)
            return raised == {node, none} and len(taken.get(good, ())) == 5

        wait_until(both_are_said, PATIENCE_S, "both errors and the good partition's records")
        assert set(taken) == {good} and c.assignment() == {good}
        with pytest.raises(UnreadableOffsetError, match=none):
            c.committed(bad)
        with pytest.raises(ZooKeeperDeniedError, match=node):
            c.committed(hidden, timeout_ms=5_000)
        zk.add_auth("digest", "nobody:x")
        zk.set_acls(node, before)
        assert drain([c], 3) == {hidden: [2, 3, 4]}
        assert zk.get(none)[0] == b"17\n"
    finally:
        disconnect(zk)


def test_what_cannot_be_registered_is_refused_by_subscribe(
    ours: Side, caplog: pytest.LogCaptureFixture
) -> None:
    """And the consumer goes on; no thread ends by it."""
    topic = create_topic(ours.broker, fresh("unfit"), 1)
    says = ["\ud800"]
    c = ours.member(topic, assignment_user_data=lambda: says[0])
    for text in ("\ud800", "\u20ac" * 16_384):
        says[0] = text
        with pytest.raises(ConsumerOptionError, match="^assignment_user_data "):
            c.subscribe([topic])
    says[0] = "a rack"
    c.subscribe([topic])
    settle([c], 1)
    with pytest.raises(InvalidSubscriptionError, match="^30000 topics by name"):
        c.subscribe([f"{topic}{n}" for n in range(30_000)])
    assert c.subscription() == {topic}
    c.poll(50)
    assert not [r for r in caplog.records if r.levelname == "CRITICAL"]
