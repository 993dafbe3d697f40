"""Metadata that is asked for while another question is out: an answer counts only for what was
asked.
"""

from __future__ import annotations

import re
import threading
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
from kafka.consumer import subscription_state
from kafka.errors import KafkaConnectionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer import KafkaConsumer
from consumer.fetch.client import FetchClient
from consumer.options import check
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, Taken, drain
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

HOLD_S = 0.01
TRIES = 30


def hold_refreshes(cluster: Any) -> tuple[threading.Event, threading.Event]:
    """From now on the answer to a refresh of metadata waits. Set as soon as one does; to be set, to
    let them pass.
    """
    held, released = threading.Event(), threading.Event()

    async def refresh(self: Any, _node_id: Any) -> None:
        response = await self._manager.send(self.metadata_request())
        held.set()
        while not released.is_set():
            await self._manager._net.sleep(HOLD_S)
        self.update_metadata(response)

    cluster._do_refresh_metadata = MethodType(refresh, cluster)
    return held, released


@pytest.mark.parametrize("by_pattern", [False, True])
def test_what_is_subscribed_to_while_a_refresh_is_out_is_consumed(
    kafka_broker: KafkaBroker, by_pattern: bool
) -> None:
    """Not five minutes later (`metadata_max_age_ms`), as with kafka-python itself."""
    before, topic = (create_topic(kafka_broker.address, unique("chosen"), 1) for _ in range(2))
    produce_numbered(kafka_broker.address, topic, 1, 3)
    with KafkaConsumer(
        bootstrap_servers=kafka_broker.address, group_id=None, auto_offset_reset="earliest"
    ) as one:
        held, released = hold_refreshes(one._data.kafka._cluster)
        one.subscribe([before])
        assert held.wait(PATIENCE_S)
        one.unsubscribe()
        one.subscribe(*((), topic) if by_pattern else ([topic],))
        released.set()
        taken: Taken = {}
        drain([one], taken, 3)
        assert taken == {(topic, 0): [0, 1, 2]}


def test_a_pattern_is_chosen_while_an_answer_is_being_taken(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python's thread looks for a pattern, finds none yet, and goes on with the topics of the
    choice before when there is one: it takes their partitions for assigned, and assigns nothing,
    then and later.
    """
    topic = create_topic(kafka_broker.address, unique("raced"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 3)
    with KafkaConsumer(
        bootstrap_servers=kafka_broker.address, group_id=None, auto_offset_reset="earliest"
    ) as one:
        one.subscribe([topic])
        drain([one], {}, 3)
        one.unsubscribe()
        data, here, reached = one._data, threading.current_thread(), threading.Event()
        manager, cluster, table = data.kafka._manager, data.kafka._cluster, data.subscription
        answer, is_chosen = (
            manager.run(data.partition_fetcher.metadata.request_async, {topic}),
            table.partitions_auto_assigned,
        )

        def looked() -> bool:
            if threading.current_thread() is not here:
                reached.set()
            return bool(is_chosen())

        def compiled(pattern: str) -> re.Pattern[str]:
            manager.call_soon(cluster.update_metadata, answer)
            assert reached.wait(PATIENCE_S)
            return re.compile(pattern)

        table.partitions_auto_assigned = looked
        monkeypatch.setattr(subscription_state, "re", SimpleNamespace(compile=compiled))
        one.subscribe(pattern=topic)
        taken: Taken = {}
        drain([one], taken, 3)
        assert taken == {(topic, 0): [0, 1, 2]}


def test_all_topics_are_told_while_some_are_asked_for(kafka_broker: KafkaBroker) -> None:
    some, others = (
        create_topic(kafka_broker.address, unique("some"), 1),
        {create_topic(kafka_broker.address, unique("other"), n) for n in (1, 2)},
    )
    data = FetchClient(
        check({"bootstrap_servers": kafka_broker.address}).kafka_configs(kafka_broker.address)
    )
    try:
        for _ in range(TRIES):
            data.prepare([some])
            assert {some, *others} <= data.topics()
            data.prepare([some])
            assert sorted(map(len, map(data.partitions_for_topic, others))) == [1, 2]
        assert data.partitions_for_topic(unique("none")) == set()
    finally:
        data.close()


def test_what_is_refreshed_may_change_while_a_request_is_made(kafka_broker: KafkaBroker) -> None:
    """kafka-python's thread walks through the topics: were they changed under it, it would never
    refresh metadata again.
    """
    partitions = [
        TopicPartition(create_topic(kafka_broker.address, unique("walked"), 1), 0) for _ in range(2)
    ]
    data = FetchClient(
        check({"bootstrap_servers": kafka_broker.address}).kafka_configs(kafka_broker.address)
    )
    try:
        cluster = data.kafka._cluster
        data.add({tp: OffsetAndMetadata(0, "", -1) for tp in partitions})
        wait_until(lambda: len(cluster._topics) == 2, PATIENCE_S, "both topics, tracked")
        walk = iter(cluster._topics)
        seen = {next(walk)}
        data.remove(partitions)
        assert seen.union(walk) == {tp.topic for tp in partitions} and not cluster._topics
    finally:
        data.close()


@pytest.mark.parametrize("waiting", [False, True])
def test_metadata_is_refreshed_again_after_an_error(
    kafka_broker: KafkaBroker, waiting: bool
) -> None:
    """kafka-python's loop ends for good on an error that is none of Kafka's, and on any of a
    refresh that somebody else had asked for while it waits for its answer.
    """
    topic = create_topic(kafka_broker.address, unique("again"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 3)
    with KafkaConsumer(
        bootstrap_servers=kafka_broker.address, group_id=None, auto_offset_reset="earliest"
    ) as one:
        manager, cluster = one._data.kafka._manager, one._data.kafka._cluster
        asked, over = threading.Event(), threading.Event()

        async def fail(_self: Any, _node_id: Any) -> None:
            asked.set()
            while not over.is_set():
                await manager._net.sleep(HOLD_S)
            raise KafkaConnectionError("gone") if waiting else RuntimeError("not expected")

        cluster._do_refresh_metadata = MethodType(fail, cluster)
        loop = cluster._refresh_loop_future
        if waiting:
            manager.call_soon(cluster.refresh_metadata)
            assert asked.wait(PATIENCE_S)
        cluster.request_update()
        manager.run(manager._net.sleep, HOLD_S)  # the loop has woken up
        over.set()
        wait_until(loop.failed, PATIENCE_S, "the end of the loop")
        del cluster._do_refresh_metadata
        one.subscribe([topic])
        taken: Taken = {}
        drain([one], taken, 3)
        wait_until(
            lambda: one.poll(20) == {} and not cluster._refresh_loop_future.is_done,
            PATIENCE_S,
            "another loop",
        )
        assert taken == {(topic, 0): [0, 1, 2]}
