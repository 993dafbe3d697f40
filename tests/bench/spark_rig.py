"""What the parts of the Spark benchmark share: applications with a session, topics with many
records, the two sources and their options.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.bench.consumer_apps import App, Apps, running_apps
from tests.bench.rig import Rig
from zkcoord.errors import ConditionTimeoutError
from zkcoord.stack import jars
from zkcoord.stack.java import Java

PARTITIONS = 8
CORES = 2
MEMORY = "2g"
ORDER_TIMEOUT_S = 900.0
FLUSH_S = 120.0
QUEUED_MAX = 50_000
JVM, C, CONFLUENT = "Spark's own", "zkcoord", "zkcoord without the extension"

# As published, the connector cannot be resolved: what it names as its token provider does not exist
# in its version. The last that does works with it, and nothing else is missing from PySpark.
CONNECTOR = jars.Artifact(
    "org.apache.spark",
    "spark-sql-kafka-0-10_2.13",
    "4.2.0",
    Path(__file__).with_name("spark-sql-kafka-4.2.0.lock"),
    megabytes=10,
    seconds=30,
    alongside=(
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "3.5.1"),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
    ),
)


@dataclass(frozen=True)
class InCluster:
    """A cluster's master, and what its executors run as Python; what the applications take of each
    executor's machine.
    """

    master: str
    python: str
    settings: Mapping[str, str] = field(
        default_factory=lambda: {"spark.executor.cores": "1", "spark.executor.memory": "1g"}
    )


class SparkApp:
    """A process of `tests.bench.spark_app` and the FIFO that it takes orders from. `where`: a
    cluster; None: local.
    """

    def __init__(
        self,
        rig: Rig,
        apps: Apps,
        name: str,
        connector: Sequence[Path],
        cores: int = CORES,
        where: InCluster | None = None,
    ) -> None:
        self._apps = apps
        self._count = 0
        control = rig.folder / "control" / name
        control.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(control)
        self._control = os.open(control, os.O_RDWR)
        setup = {
            "cores": cores,
            "memory": MEMORY,
            "jars": [str(jar) for jar in connector],
            **(asdict(where) if where else {}),
        }
        self.app: App = apps.start(name, ["tests.bench.spark_app", str(control), json.dumps(setup)])

    def wait_ready(self) -> None:
        """Until its session runs."""
        self._apps.wait(
            lambda: bool(self.app.of("ready")) or not self.app.child.alive,
            f"the Spark session of {self.app.name}",
            ORDER_TIMEOUT_S,
        )
        if not self.app.of("ready"):
            raise ConditionTimeoutError(
                f"{self.app.name} ended before its session was there, see {self.app.child.log}"
            )

    def order(self, do: str, event: str, **order: Any) -> dict[str, Any]:
        """Have it done; the first line of this event. Raises `ScenarioError` where Spark failed."""
        self._count += 1
        name = f"{self.app.name}-{self._count}"
        os.write(self._control, json.dumps({"do": do, "id": name, **order}).encode() + b"\n")
        self._apps.wait(
            lambda: bool(self._of("done", name)) or not self.app.child.alive,
            f"{name} ({do})",
            ORDER_TIMEOUT_S,
        )
        failed = self._of("failed", name)
        if failed or not self._of(event, name):
            raise ConditionTimeoutError(
                f"{self.app.name} could not {do}:"
                f" {failed[0]['why'] if failed else 'it ended, see ' + str(self.app.child.log)}"
            )
        return self._of(event, name)[0]

    def after(self, event: str) -> dict[str, Any]:
        """The line of this event of the last order."""
        return self._of(event, f"{self.app.name}-{self._count}")[0]

    def _of(self, event: str, name: str) -> list[dict[str, Any]]:
        return [line for line in self.app.of(event) if line.get("id") == name]

    def end(self) -> None:
        """Let it end by itself."""
        self.app.child.expected_to_end = True
        os.write(self._control, b'{"do": "end"}\n')
        self._apps.wait_ended(self.app)
        os.close(self._control)


@contextmanager
def sessions(
    rig: Rig,
    java: Java,
    names: Sequence[str],
    cores: int = CORES,
    where: InCluster | None = None,
) -> Iterator[dict[str, SparkApp]]:
    """One application per name, ready, inside the block."""
    connector = jars.resolve(CONNECTOR, java, rig.say)
    with running_apps(rig.folder / rig.unique("spark-")) as apps:
        found = {
            name: SparkApp(rig, apps, rig.unique("app-"), connector, cores, where) for name in names
        }
        for app in found.values():
            app.wait_ready()
        yield found
        for app in found.values():
            app.end()


def order_of(
    rig: Rig, side: str, topic: str, plain: bool = False, **options: Any
) -> dict[str, Any]:
    """Format and options of a stream of this topic; each time a group of its own. `plain`:
    zkcoord's reader without any group.
    """
    common = {"kafka.bootstrap.servers": rig.kafka, **options}
    if side == JVM:
        return {"format": "kafka", "options": {"subscribe": topic, **common}}
    engine = "c" if side == C else "confluent"
    if plain:
        return {
            "format": "zkcoord-plain",
            "options": {
                "topic": topic,
                "partitions": PARTITIONS,
                "numTasks": CORES,
                "engine": engine,
                **common,
            },
        }
    return {
        "format": "zkcoord",
        "options": {
            "zookeeperConnect": rig.zookeeper,
            "groupId": rig.unique("spark-group-"),
            "subscribe": topic,
            "engine": engine,
            **common,
        },
    }


def json_like(drawn: random.Random, size: int) -> bytes:
    """A value that compresses as records do."""
    text = json.dumps(
        {
            "id": drawn.randrange(1 << 30),
            "kind": drawn.choice(["order", "refund", "visit"]),
            "at": 1_790_000_000_000 + drawn.randrange(10**9),
            "who": f"user-{drawn.randrange(10**5)}",
        }
    )
    return text.encode().ljust(size, b" ")[:size]


def fill(rig: Rig, count: int, size: int, codec: str) -> str:
    """A topic with so many records of so many bytes, evenly spread; compressed ones are JSON with
    keys.
    """
    topic = rig.topic(PARTITIONS)
    drawn = random.Random(size)
    values = [
        drawn.randbytes(size) if codec == "none" else json_like(drawn, size) for _ in range(1_000)
    ]
    key = None if codec == "none" else b"0123456789abcdef"
    producer = Producer(
        {
            "bootstrap.servers": rig.kafka,
            "acks": 1,
            "linger.ms": 50,
            "batch.size": 256 * 1024,
            "compression.type": codec,
            "queue.buffering.max.messages": 2 * QUEUED_MAX,
        }
    )
    for number in range(count):
        producer.produce(
            topic, values[number % len(values)], key=key, partition=number % PARTITIONS
        )
        if number % QUEUED_MAX == QUEUED_MAX - 1:
            producer.flush(FLUSH_S)
    assert producer.flush(FLUSH_S) == 0, "the broker does not take the records"
    return topic


def medians(batches: Sequence[Sequence[float]]) -> list[float]:
    """Rows per second of the batches of one query by `addBatch`, without the first, which opens
    everything, and a last one that is not full.
    """
    full = max(batch[0] for batch in batches)
    return [
        rows / (add_ms / 1000) for rows, add_ms, _ in batches[1:] if rows >= full * 0.9 and add_ms
    ]
