"""Subscriptions that change while nobody could carry that out."""

from __future__ import annotations

import pytest
from kafka.structs import TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, Taken, coordinator, drain
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def test_nothing_is_handed_out_of_a_topic_that_was_given_up_while_nobody_leads(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """The membership goes on without a coordinator; what was subscribed to last counts at once, in
    polls and in iteration, and where the application has sought meanwhile it stays.
    """
    old = create_topic(kafka_broker.address, unique("alone"), 2)
    produce_numbered(kafka_broker.address, old, 2, 200)
    zero = TopicPartition(old, 0)
    c = KafkaConsumer(
        group_id=old,
        bootstrap_servers=kafka_broker.address,
        zookeeper_connect=kafka_zk_hosts,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=10,
    )
    try:
        with coordinator(kafka_zk_hosts):
            c.subscribe([old])
            taken: Taken = {}
            drain([c], taken, 20)
        assert next(c) is not None
        c.seek(zero, 7)
        c.subscribe(pattern=f"{old}-other.*")
        c.config["consumer_timeout_ms"] = 500
        assert c.poll(500) == {} and list(c) == []
        assert c.position(zero) == 7
        c.subscribe([old])
        wait_until(lambda: next(c, None) is not None, PATIENCE_S, "records again")
    finally:
        c.close()
