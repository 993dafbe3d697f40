"""What a query leaves behind: a last batch that the group does not know of, a checkpoint whose
group was deleted, topics that it does not subscribe to any more. Each is said, with the ranges.
"""

from __future__ import annotations

import logging

import pytest

from consumer.spark.decode.errors import DataLossError
from consumer.spark.errors import UndecidedError
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.spark.conftest import PARTITIONS, Start
from tests.spark.engine import PATIENCE_S, Checkpoint, Crash, Query, Sink
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka
EACH = 25
SOON_S = 30.0


def read_all(query: Query, total: int) -> None:
    """Until so many are written; the last batch is not known to the group."""
    wait_until(
        lambda: sum(query.sink.values()) >= total or query.trigger() < 0, PATIENCE_S, f"{total}"
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of the source."""
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno == logging.WARNING and r.name.startswith("consumer.spark")
    ]


def delete_offsets(hosts: str, group: str) -> None:
    """What `zkcoord groups delete` does to them."""
    client = connect(hosts)
    try:
        client.delete(Layout.DRAFT.offsets(group), recursive=True)
    finally:
        disconnect(client)


def test_a_query_that_is_stopped_says_what_the_group_does_not_know(
    start: Start, kafka_broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint that is deleted then has its last batch read again: that was said."""
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink = Sink()
    query = start(Checkpoint(), sink)
    read_all(query, PARTITIONS * EACH)
    last = query.last_ranges()
    query.stop()
    (said,) = [w for w in warnings(caplog) if "ends before Spark asked" in w]
    for tp, (first, end) in last.items():
        assert f"{tp} from {first} to {end - 1}" in said
    caplog.clear()
    idle = start(Checkpoint(), sink)
    idle.drained()
    idle.stop()
    assert not [w for w in warnings(caplog) if "ends before Spark asked" in w]


@pytest.mark.parametrize("fails", [True, False])
def test_a_group_that_was_deleted_under_a_checkpoint_and_begins_behind_it_has_lost_records(
    start: Start,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    group: str,
    topic: str,
    fails: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink)
    read_all(query, PARTITIONS * EACH)
    tp, (_, end) = max(query.last_ranges().items())
    query.stop()
    delete_offsets(kafka_zk_hosts, group)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH, EACH)
    caplog.clear()
    back = start(checkpoint, sink, startingOffsets="latest", failOnDataLoss=str(fails).lower())
    lost = f"the records from {end} to {2 * EACH - 1} are read by nobody"
    if fails:
        with pytest.raises(DataLossError, match="offsets were deleted since") as raised:
            wait_until(lambda: back.trigger() < 0, PATIENCE_S, "an error")
        assert "are read by nobody" in str(raised.value)
        return
    wait_until(
        lambda: back.trigger() >= 0 and any(tp in w and lost in w for w in warnings(caplog)),
        PATIENCE_S,
        "the warning",
    )
    assert not any("read again" in w for w in warnings(caplog))


def test_a_group_that_was_deleted_under_a_checkpoint_and_begins_before_it_reads_again(
    start: Start,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    group: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In two batches, so that the last one does not begin at the first record."""
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    read_all(query, PARTITIONS * EACH)
    query.drained()
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH, EACH)
    read_all(query, 2 * PARTITIONS * EACH)
    query.stop()
    delete_offsets(kafka_zk_hosts, group)
    caplog.clear()
    back = start(checkpoint, sink)
    wait_until(
        lambda: (
            back.trigger() >= 0
            and any("it begins anew at 0" in w and "read again" in w for w in warnings(caplog))
        ),
        PATIENCE_S,
        "the warning",
    )


def test_topics_that_leave_a_subscription_with_something_open_are_named(
    start: Start, kafka_broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = create_topic(kafka_broker.address, unique("spark"), 1)
    produce_numbered(kafka_broker.address, topic, 1, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, subscribe=f"{topic},{other}")
    read_all(query, EACH)
    assert query.last_ranges() == {f"{topic}-0": (0, EACH)}
    query.stop()
    caplog.clear()
    narrow = start(checkpoint, sink, subscribe=other)
    wait_until(
        lambda: (
            narrow.trigger() >= 0
            and any(
                f"{topic}-0 from 0 to {EACH - 1}" in w and "taken out of its subscription" in w
                for w in warnings(caplog)
            )
        ),
        PATIENCE_S,
        "the warning",
    )


def test_the_checkpoint_of_a_wider_subscription_is_named_as_that_and_at_once(
    start: Start, kafka_broker: KafkaBroker, topic: str
) -> None:
    """A batch that is logged and not written has records of a topic that nobody reads any more."""
    other = create_topic(kafka_broker.address, unique("spark"), 1)
    produce_numbered(kafka_broker.address, topic, 1, EACH)
    sink, checkpoint = Sink(), Checkpoint()
    query = start(checkpoint, sink, subscribe=f"{topic},{other}")
    wait_until(lambda: query.trigger(Crash.LOGGED) == 0 and query.ended, PATIENCE_S, "a crash")
    narrow = start(checkpoint, sink, subscribe=other)
    assert narrow.reader._patience_s > 2 * SOON_S
    with pytest.raises(UndecidedError, match="not what this query subscribes to"):
        wait_until(lambda: narrow.begin() is not None, SOON_S, "the refusal")
    narrow.stop()
    whole = start(checkpoint, sink, subscribe=f"{topic},{other}")
    read_all(whole, EACH)
    assert sum(sink.values()) == EACH


def test_two_queries_of_one_application_in_one_group_are_told_that_they_share(
    start: Start, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = start(Checkpoint(), Sink())
    one.trigger()
    assert not [w for w in warnings(caplog) if "of this application" in w]
    two = start(Checkpoint(), Sink())
    two.trigger()
    assert len([w for w in warnings(caplog) if "another query or source of this app" in w]) == 1
    one.stop()
    two.stop()
    caplog.clear()
    start(Checkpoint(), Sink()).trigger()
    assert not [w for w in warnings(caplog) if "of this application" in w]
