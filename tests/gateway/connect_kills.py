"""Two workers of Kafka Connect, one of which is killed again and again, through a gateway and with
Kafka's own coordinator on the same broker.

    python -m tests.gateway.connect_kills [--kills N] [--tasks N]

Measured is how long it takes from kill -9 until all tasks run on the worker that is left (its REST
interface says so). Then the killed one begins again, and gets its share. The tasks write who they
are and when: no task may run in two workers at once. The exit status is 0 where that holds and the
median through the gateway is at most 1.1 times the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from tests.gateway.clients import PATIENCE_S, GatewayProcess
from tests.gateway.connect_worker import ConnectWorker
from tests.gateway.led_stages import everything
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.ports import free_port

CONNECTOR = "source"
FACTOR_MAX = 1.1


@dataclass(frozen=True)
class KilledWorkers:
    """How long each kill took, in ms, and which tasks ran twice at once."""

    took_ms: tuple[float, ...]
    twice: tuple[str, ...]


def kill_workers(
    home: Path,
    java: Java,
    bootstrap: str,
    broker: str,
    kills: int,
    tasks: int,
    say: Callable[[str], object] = lambda _: None,
) -> KilledWorkers:
    """A cluster of its own: so many kills, of its workers in turn."""
    cluster, topic = unique("connect"), create_topic(broker, unique("ticks"), 1)
    ports = [free_port(), free_port()]

    def start(n: int, times: int) -> ConnectWorker:
        return ConnectWorker(home / f"{n}-{times}", java, bootstrap, cluster, ports[n])

    workers = [start(0, 0), start(1, 0)]
    try:
        for worker in workers:
            worker.listens()
        workers[0].create(CONNECTOR, tasks, topic)
        both = {f"127.0.0.1:{port}" for port in ports}
        took = []
        for time_of in range(kills):
            victim, left = time_of % 2, 1 - time_of % 2
            _shared(workers[left], tasks, both)
            workers[victim].kill()
            begun = time.monotonic()
            _shared(workers[left], tasks, {f"127.0.0.1:{ports[left]}"})
            took.append((time.monotonic() - begun) * 1000)
            say(f"{time_of + 1} of {kills}: {took[-1]:,.0f} ms")
            workers[victim] = start(victim, time_of + 1)
            workers[victim].listens()
        _shared(workers[0], tasks, both)
        return KilledWorkers(tuple(took), tuple(ran_twice(broker, topic)))
    finally:
        for worker in workers:
            worker.kill()


def _shared(worker: ConnectWorker, tasks: int, where: set[str]) -> None:
    wait_until(lambda: worker.running(CONNECTOR, tasks) == where, PATIENCE_S, f"tasks on {where}")


def ran_twice(broker: str, topic: str) -> list[str]:
    """Tasks of which two runs wrote at the same time, by what they have written."""
    spans: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    partition = TopicPartition(topic, 0)
    reader = KafkaConsumer(bootstrap_servers=broker)
    try:
        reader.assign([partition])
        reader.seek(partition, 0)
        end = reader.end_offsets([partition])[partition]
        while reader.position(partition) < end:
            for record in reader.poll(1_000).get(partition, []):
                task, run, at = json.loads(record.value)["payload"].split(" ")
                spans[task][run].append(int(at))
    finally:
        reader.close()
    found = []
    for task, runs in sorted(spans.items()):
        in_order = sorted((min(times), max(times)) for times in runs.values())
        for (_, ended), (begun, _) in zip(in_order, in_order[1:]):
            if begun <= ended:
                found.append(f"task {task} ran twice for {ended - begun} ms")
    return found


def main() -> int:
    """See the module."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m tests.gateway.connect_kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=6)
    given = parser.parse_args()
    java = find_java()
    with tempfile.TemporaryDirectory() as folder, everything(Path(folder)) as (broker, hosts):
        home = Path(folder)
        with coordinator(hosts), GatewayProcess(home / "gateway", hosts, broker.address) as gateway:
            found = {}
            for name, bootstrap in (("gateway", gateway.address), ("Kafka", broker.address)):
                found[name] = kill_workers(
                    home / name,
                    java,
                    bootstrap,
                    broker.address,
                    given.kills,
                    given.tasks,
                    lambda line, name=name: print(f"{name}: {line}", file=sys.stderr, flush=True),  # type: ignore[misc]
                )
    print("| | kills | all tasks run again: median | max | ran twice at once |")
    print("|---|---|---|---|---|")
    for name, one in found.items():
        middle, most = statistics.median(one.took_ms), max(one.took_ms)
        print(
            f"| {name} | {len(one.took_ms)} | {middle:,.0f} ms | {most:,.0f} ms"
            f" | {len(one.twice)} |"
        )
    for name, one in found.items():
        for sentence in one.twice:
            print(f"{name}: {sentence}")
    ours, theirs = (statistics.median(found[name].took_ms) for name in ("gateway", "Kafka"))
    return 0 if ours <= theirs * FACTOR_MAX and not found["gateway"].twice else 1


if __name__ == "__main__":
    sys.exit(main())
