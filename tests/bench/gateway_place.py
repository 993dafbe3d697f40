"""Where the parts of `tests.bench.gateway` run: one broker, one coordinator, one gateway, and what
the gateway's process costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from kafka import KafkaConsumer, TopicPartition

from tests.gateway.clients import GatewayProcess
from tests.harness.kafka import unique
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java

DIRECT, THROUGH = "direct", "gateway"
SIDES = (THROUGH, DIRECT)
MIB = 1 << 20


@dataclass(frozen=True)
class Place:
    """See the module. `zookeeper` and `broker` are addresses."""

    folder: Path
    java: Java
    zookeeper: str
    broker: str
    gateway: GatewayProcess

    def bootstrap(self, side: str) -> str:
        """Where a client of a side begins."""
        return self.broker if side == DIRECT else self.gateway.address

    def cpu_s(self) -> float:
        """Processor time that the gateway has taken so far."""
        times = psutil.Process(self.gateway.process.pid).cpu_times()
        return times.user + times.system

    def resident_mib(self) -> float:
        """The gateway's resident memory."""
        return psutil.Process(self.gateway.process.pid).memory_info().rss / MIB


@contextmanager
def running_place(folder: Path, java: Java, zookeeper: str, broker: str) -> Iterator[Place]:
    """A coordinator and a gateway inside the block, before a broker that has had groups."""
    _have_a_group(broker)
    with (
        coordinator(zookeeper),
        GatewayProcess(folder / "gateway", zookeeper, broker) as gateway,
    ):
        yield Place(folder, java, zookeeper, broker, gateway)


def _have_a_group(broker: str) -> None:
    """With its first group a broker makes the topic that keeps offsets (0.3 s here): whoever was
    measured first would wait for that.
    """
    consumer = KafkaConsumer(bootstrap_servers=broker, group_id=unique("earlier"))
    try:
        consumer.committed(TopicPartition("nothing", 0))
    finally:
        consumer.close()
