"""Clients as they are, through a gateway."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from kafka import KafkaConsumer as KafkaPythonConsumer

from tests.gateway.clients import V3, V4, GatewayProcess, Librdkafka, console_consumer
from tests.harness.kafka import admin
from tests.legacy.broker_checks import Against
from tests.topics.matrix.members import Begin, Polled, Taken, life
from zkcoord.stack.java import find_java

JAVA = {"3": V3, "4": V4}
"""Kafka's major release -> that of its Java client."""


class Console:
    """Kafka's console consumer."""

    def __init__(self, version: str, bootstrap: str, group: str, topic: str) -> None:
        self._running = ExitStack()
        self._lines = self._running.enter_context(
            console_consumer(version, find_java(), bootstrap, topic, group)
        )

    @property
    def taken(self) -> Taken:
        """What it has printed: each record says where it is."""
        found = [line.partition(":") for line in list(self._lines)]
        return [(int(partition), int(offset)) for partition, _, offset in found]

    def close(self) -> None:
        """SIGTERM."""
        self._running.close()


def through(begin_at: Callable[[str], Begin], at: Against) -> str:
    """A group's life behind a gateway; `begin_at` is told where that is."""
    with admin(at.address) as client:
        (broker,) = client.describe_cluster()["brokers"]
    with (
        at.coordinator(),
        GatewayProcess(
            at.folder / "gateway", at.hosts, at.address, broker_id=broker["broker_id"]
        ) as gateway,
    ):
        return life(begin_at(gateway.address), at)


def kafka_python(at: Against) -> str:
    """kafka-python's consumer."""

    def begin_at(gateway: str, group: str, topic: str) -> Polled:
        return Polled(
            KafkaPythonConsumer(
                topic, bootstrap_servers=gateway, group_id=group, auto_offset_reset="earliest"
            )
        )

    return through(lambda gateway: partial(begin_at, gateway), at)


def librdkafka(at: Against) -> str:
    """confluent-kafka's consumer."""
    return through(lambda gateway: partial(Librdkafka, gateway), at)


def java(at: Against) -> str:
    """Kafka's Java consumer, of the broker's major release."""
    version = JAVA[at.release.partition(".")[0]]
    return f"{through(lambda gateway: partial(Console, version, gateway), at)}, Java {version}"
