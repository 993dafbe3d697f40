"""A member that an operator puts out of its group, whose application hangs in its handler or waits
in poll: it comes back when it polls, and not before.
"""

from __future__ import annotations

import threading

import pytest
from kafka.structs import TopicPartition

from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, settled, take
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka


class Members:
    """The registrations of a group."""

    def __init__(self, hosts: str, group: str) -> None:
        self.hosts = hosts
        self.group = group
        self.client = connect(hosts)

    def names(self) -> set[str]:
        return set(self.client.get_children(Layout.DRAFT.ids(self.group)))

    def evict(self, name: str) -> None:
        arguments = ["evict", self.group, name, "--zookeeper", self.hosts, "--execute"]
        assert main(["groups", *arguments]) == 0
        wait_until(lambda: name not in self.names(), PATIENCE_S, f"{name} gone")


def test_who_hangs_is_given_nothing_until_it_polls(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    topic = create_topic(kafka_broker.address, unique("evicted"), 4)
    all_of_it = {TopicPartition(topic, number) for number in range(4)}
    members, taken = Members(kafka_zk_hosts, topic), Taken()
    try:
        with (
            coordinator(kafka_zk_hosts),
            consumer(kafka_zk_hosts, topic, topic) as hangs,
        ):
            settled([hangs], topic, 4, taken)
            (first,) = members.names()
            with consumer(kafka_zk_hosts, topic, topic) as works:
                settled([hangs, works], topic, 4, taken)
                (second,) = members.names() - {first}
                members.evict(first)
                # nobody polls `hangs` from here on: all is given to the other, and stays there
                wait_until(
                    lambda: take(works, taken) >= 0 and works.assignment() == all_of_it,
                    PATIENCE_S,
                    "everything at the other member",
                )
                for _ in range(20):
                    take(works, taken)
                    assert members.names() == {second} and works.assignment() == all_of_it
                settled([hangs, works], topic, 4, taken)
                assert members.names() > {second} and first not in members.names()
    finally:
        disconnect(members.client)


def test_who_waits_in_poll_comes_back_at_once(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """A poll that waits for records for an hour hears of it."""
    topic = create_topic(kafka_broker.address, unique("evicted"), 2)
    members = Members(kafka_zk_hosts, topic)
    try:
        with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, topic, topic) as waits:
            settled([waits], topic, 2)
            (first,) = members.names()
            polling = threading.Thread(target=waits.poll, args=(3_600_000,), daemon=True)
            polling.start()
            members.evict(first)
            wait_until(members.names, PATIENCE_S, "its return")
            assert first not in members.names()
            waits.wakeup()
            polling.join(PATIENCE_S)
            settled([waits], topic, 2)
    finally:
        disconnect(members.client)
