"""Static members on a real broker: a restart that the rest of the group does not notice, and two
processes that claim one instance.
"""

from __future__ import annotations

import pytest
from kafka.errors import FencedInstanceIdError

from consumer.errors import FencedInstanceError
from tests.consumer.fakes import Recorder
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, settled, take, whole
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def test_a_restart_within_the_grace_calls_no_listener_of_the_others(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """It comes back to the partitions that it had, and every record comes once."""
    topic = create_topic(kafka_broker.address, unique("static"), 4)
    produce_numbered(kafka_broker.address, topic, 4, 10)
    listener, taken = Recorder(), Taken()
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, group_instance_id="stays") as stays,
    ):
        stays.subscribe([topic], listener=listener)
        with consumer(kafka_zk_hosts, topic, topic, group_instance_id="restarts") as first:
            settled([stays, first], topic, 4, taken)
            drain([stays, first], taken, 40)
            had = first.assignment()
        calls = list(listener.calls)
        produce_numbered(kafka_broker.address, topic, 4, 5, 10)
        with consumer(kafka_zk_hosts, topic, topic, group_instance_id="restarts") as second:
            drain([stays, second], taken, 60)
            assert second.assignment() == had and listener.calls == calls
    whole(taken, 4, 15, topic)


def test_the_process_whose_instance_was_taken_over_raises(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """For ever, from poll, as kafka-python's error; the other has its partitions, from where it
    committed.
    """
    topic = create_topic(kafka_broker.address, unique("fenced"), 2)
    produce_numbered(kafka_broker.address, topic, 2, 10)
    taken: Taken = {}
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, topic, topic, group_instance_id="i") as old,
    ):
        drain([old], taken, 20)
        old.commit()
        produce_numbered(kafka_broker.address, topic, 2, 5, 10)
        with consumer(kafka_zk_hosts, topic, topic, group_instance_id="i") as new:
            drain([new], taken, 30)
            raised: list[FencedInstanceIdError] = []

            def fenced() -> bool:
                try:
                    take(old, {})
                except FencedInstanceIdError as e:
                    raised.append(e)
                return bool(raised)

            wait_until(fenced, PATIENCE_S, "the error")
            assert (
                isinstance(raised[0], FencedInstanceError)
                and "'i'" in str(raised[0])
                and old.assignment() == set()
            )
            with pytest.raises(FencedInstanceIdError):
                old.poll(0)
    whole(taken, 2, 15, topic)
