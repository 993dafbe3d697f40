"""How long a record takes from its producer into the driver's hands at a gentle rate, and what a
source costs that has nothing to read: zkcoord's source and Spark's own in turn.

A producer writes records whose values are the time at which they were made; a query with the
default trigger collects them in `foreachBatch`. The figures of a sample are the quantiles of all
its records; samples alternate.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from tests.bench.consumer_apps import alternating
from tests.bench.figures import Bar, Row, Section, quantile
from tests.bench.rig import Rig
from tests.bench.spark_rig import JVM, PARTITIONS, C, SparkApp, order_of, sessions
from tests.harness.broker_requests import BrokerRequests, requests_logged
from tests.harness.zookeeper import srvr_stats
from zkcoord.stack.java import Java

PER_S = 100
WARM_S, SECONDS = 8.0, 15.0
IDLE_WARM_S, IDLE_S = 8.0, 20.0
P50_BAR, P99_BAR = 0.7, 1.0
PERCENT_BAR = 3.0
BROKER_PER_S = 10.0
PINGS_PER_S = 2.0
"""Of one session: a third of the shortest time-out that anybody here has."""

FLUSH_S = 60.0


@contextmanager
def steady(kafka: str, topic: str) -> Iterator[None]:
    """`PER_S` records a second inside the block, each at once."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0, "acks": 1})
    ended = threading.Event()

    def produce() -> None:
        begin, number = time.monotonic(), 0
        while not ended.wait(max(0.0, begin + number / PER_S - time.monotonic())):
            producer.produce(topic, b"%d" % time.time_ns(), partition=number % PARTITIONS)
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=produce, name="steady")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.flush(FLUSH_S)


def sample(rig: Rig, app: SparkApp, side: str, warm_s: float, seconds: float) -> list[float]:
    """Latencies (ms) of one query on a topic of its own."""
    topic = rig.topic(PARTITIONS)
    with steady(rig.kafka, topic):
        told = app.order(
            "latency",
            "latencies",
            warm_s=warm_s,
            seconds=seconds,
            **order_of(rig, side, topic, startingOffsets="latest"),
        )
    found: list[float] = told["latencies"]
    assert len(found) > seconds * PER_S * 0.5, f"{len(found)} records came in {seconds} s"
    return found


def latency(
    rig: Rig,
    sections: list[Section],
    rounds: int,
    java: Java,
    warm_s: float = WARM_S,
    seconds: float = SECONDS,
) -> None:
    """The section."""
    section = Section(
        "latency",
        f"From producer to driver, {PER_S} records/s over {PARTITIONS} partitions, default trigger",
    )
    sections.append(section)
    shares = {"p50": 0.5, "p99": 0.99}
    found: dict[str, list[list[float]]] = {JVM: [], C: []}
    with rig.coordinators(), sessions(rig, java, (JVM, C)) as apps:
        for number, side in alternating((JVM, C), rounds):
            # nothing of a session is warm at first
            found[side].append(
                sample(rig, apps[side], side, warm_s if number else 2 * warm_s, seconds)
            )
            rig.say(
                f"  latency: round {number + 1} of {rounds}, {side}: "
                + ", ".join(
                    f"{name} {quantile(found[side][-1], share):.0f} ms"
                    for name, share in shares.items()
                )
            )
    for (name, share), bar in zip(shares.items(), (P50_BAR, P99_BAR)):
        quotients = [
            quantile(ours, share) / quantile(theirs, share)
            for ours, theirs in zip(found[C], found[JVM])
        ]
        section.rows.append(
            Row(f"{C} by {JVM}, {name}", "rounds", quotients, (Bar("median", bar),), "x")
        )
        section.rows += [
            Row(f"{side}, {name}", "rounds", [quantile(values, share) for values in samples])
            for side, samples in found.items()
        ]


def idle(
    rig: Rig,
    sections: list[Section],
    rounds: int,
    java: Java,
    warm_s: float = IDLE_WARM_S,
    seconds: float = IDLE_S,
) -> None:
    """The section: one source after the other, of an empty topic."""
    section = Section(
        "idle", f"A source of {PARTITIONS} partitions with nothing to read, default trigger"
    )
    sections.append(section)
    assert rig.kafka_log is not None, "the broker is ours"
    python: dict[str, list[float]] = {JVM: [], C: []}
    jvm: dict[str, list[float]] = {JVM: [], C: []}
    received: dict[str, list[float]] = {JVM: [], C: []}
    asked: dict[str, list[float]] = {JVM: [], C: []}
    with (
        rig.coordinators(),
        sessions(rig, java, (JVM, C)) as apps,
        requests_logged(rig.kafka, rig.kafka_log) as requests,
    ):
        for number, side in alternating((JVM, C), rounds):
            app = apps[side]
            counter = _Counter(rig, requests, warm_s, seconds)
            end = app.order(
                "idle",
                "rested",
                warm_s=warm_s,
                seconds=seconds,
                **order_of(rig, side, rig.topic(PARTITIONS), startingOffsets="latest"),
            )
            begin = app.after("resting")
            took_s = (end["t"] - begin["t"]) / 1e9
            python[side].append((end["python_s"] - begin["python_s"]) / took_s * 100)
            jvm[side].append((end["jvm_s"] - begin["jvm_s"]) / took_s * 100)
            zookeeper_per_s, broker_per_s, kinds = counter.per_s()
            received[side].append(zookeeper_per_s)
            asked[side].append(broker_per_s)
            rig.say(
                f"  idle: round {number + 1} of {rounds}, {side}: Python {python[side][-1]:.1f} %,"
                f" JVM {jvm[side][-1]:.1f} %, ZooKeeper {zookeeper_per_s:.1f}/s, broker"
                f" {broker_per_s:.1f}/s ({kinds})"
            )
    section.rows.append(
        Row(
            C,
            "processor time of its processes",
            python[C],
            (Bar("median", PERCENT_BAR),),
            "% of a core",
        )
    )
    for side in (C, JVM):
        section.rows.append(
            Row(f"{side}, the JVM", "processor time", jvm[side], unit="% of a core")
        )
    for side in (C, JVM):
        section.rows.append(
            Row(
                f"{side}, requests to the broker",
                "counted by the broker",
                asked[side],
                (Bar("median", BROKER_PER_S),) if side == C else (),
                "1/s",
            )
        )
    section.rows.append(
        Row(
            f"{C}, requests to ZooKeeper",
            "counted by the server",
            [max(0.0, ours - theirs) for ours, theirs in zip(received[C], received[JVM])],
            (Bar("median", PINGS_PER_S),),
            "1/s",
            note="without it taken off",
        )
    )


class _Counter:
    """What the ZooKeeper server and the broker receive in the middle of an idle time."""

    def __init__(self, rig: Rig, requests: BrokerRequests, warm_s: float, seconds: float) -> None:
        self._port = rig.zookeeper_port
        self._requests = requests
        self._asked: Counter[str] = Counter()
        self._found: list[int] = []
        self._seconds = seconds / 2
        self._timers = [
            threading.Timer(warm_s + at, self._look) for at in (seconds / 4, seconds * 3 / 4)
        ]
        for timer in self._timers:
            timer.start()

    def _look(self) -> None:
        self._found.append(srvr_stats(self._port).received)
        if len(self._found) == 1:
            self._requests.forget()
        else:
            self._asked = self._requests.counted()

    def per_s(self) -> tuple[float, float, str]:
        """When it is over: requests per second to ZooKeeper and to the broker, and the most
        frequent kinds of those to the broker.
        """
        for timer in self._timers:
            timer.join()
        kinds = ", ".join(f"{name} {count}" for name, count in self._asked.most_common(3))
        return (
            (self._found[1] - self._found[0] - 1) / self._seconds,
            self._asked.total() / self._seconds,
            kinds,
        )
