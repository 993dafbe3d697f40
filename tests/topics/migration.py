"""A cluster goes from ZooKeeper to KRaft under load, and nobody who consumes notices:

    python -m tests.topics.migration            all of Kafka's steps; in each topics are created,
                                                grown, deleted and made again, and the coordinator
                                                that leads is killed (about six minutes)
    python -m tests.topics.migration --json F   what was measured, as JSON

1,000 records a second go to a topic that four members share, and that a Spark application consumes
in a group of its own; another group has a pattern. Nobody is told of a broker but by ZooKeeper. It
ends with 1 if a record was lost or delivered by two members, if a member of the first group was
called back after its beginning, if Spark's partitions were assigned anew or a record was written
twice, or if a new topic was served later than 2 s after its creation. Afterwards the application is
stopped, and goes on from its checkpoint without ZooKeeper underneath.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import KafkaError

from tests.acceptance.test_rolling_restart import leader, owned
from tests.harness.command import Running
from tests.harness.wait import wait_until
from tests.kafka.test_processes import Process, process
from tests.topics.migrating_cluster import BROKERS, MigratingCluster
from tests.topics.migrating_spark import SparkGroup
from zkcoord.stack.java import find_java

MEMBERS, PARTITIONS, PER_SECOND = 4, 8, 1_000
SERVED_MS_MAX = 2_000
PATIENCE_S = 120.0
STEADY, FAMILY = "steady", "family"
SETTLED_S = 3.0
ERRORS_SHOWN = 10


@dataclass
class Findings:
    """What was seen: how long topics took to be served in each step, and what should not be."""

    served_ms: dict[str, list[int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    produced: int = 0
    kills: int = 0

    @property
    def all_ms(self) -> list[int]:
        """Of all steps."""
        return sorted(ms for found in self.served_ms.values() for ms in found)


class SteadyLoad:
    """Produces numbered records, `PER_SECOND`, until it is stopped; all are acknowledged then."""

    def __init__(self, bootstrap: list[str]) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=5, metadata_max_age_ms=2_000
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent: list[Any] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def _run(self) -> None:
        began, count = time.monotonic(), 0
        while not self._stop.wait(0.01):
            due = int((time.monotonic() - began) * PER_SECOND)
            for number in range(count, due):
                self.sent.append(
                    self._producer.send(STEADY, b"%d" % number, partition=number % PARTITIONS)
                )
            count = max(count, due)

    def stop(self) -> dict[int, set[int]]:
        """End, and what was acknowledged: the offsets of each partition."""
        self._stop.set()
        self._thread.join(PATIENCE_S)
        found: dict[int, set[int]] = {n: set() for n in range(PARTITIONS)}
        for future in self.sent:
            one = future.get(PATIENCE_S)
            found[one.partition].add(one.offset)
        self._producer.close()
        return found


class Journey:
    """One migration under load."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say
        self.cluster = MigratingCluster(folder / "servers", find_java())
        self.found = Findings()
        self._coordinators: list[Running] = []
        self._ends = ExitStack()
        self._members: list[Process] = []
        self._count = 0

    def run(self) -> Findings:
        """All of it. What is waited for in vain is raised with what members have said."""
        try:
            return self._run()
        except AssertionError as error:
            said = [line for one in self._members for line in one.errors[-ERRORS_SHOWN:]]
            raise AssertionError(f"{error}\n{''.join(said)}") from error

    def _run(self) -> Findings:
        with self._ends:
            self._ends.callback(self.cluster.stop)
            self.cluster.start()
            self.say("a cluster in ZooKeeper mode runs")
            self._admin(lambda admin: admin.create_topics([NewTopic(STEADY, PARTITIONS, 2)]))
            for _ in range(2):
                self._stand()
            members = [self._member("--group", STEADY, "--topic", STEADY) for _ in range(MEMBERS)]
            family = self._member("--group", FAMILY, "--pattern", f"{FAMILY}-.*")
            load = SteadyLoad(self.cluster.bootstrap)
            load.start()
            spark = self._spark()
            wait_until(
                lambda: all(m.of("records") for m in members), PATIENCE_S, "everybody to consume"
            )
            time.sleep(SETTLED_S)
            before = [len(m.of("called")) for m in members]
            self._phase("begin", family)
            for name, step in self.cluster.steps():
                step()
                self.say(f"{name}: done")
                self._phase(name, family)
            self._lags(family)
            spark.end()
            spark.begin()
            self.say("the Spark application was stopped, and went on")
            acknowledged = load.stop()
            self.found.produced = sum(map(len, acknowledged.values()))
            self._judge(members, acknowledged, before)
            spark.judge(acknowledged)
            spark.end()
            self.found.faults += spark.faults
        return self.found

    # who takes part

    def _stand(self) -> None:
        self._count += 1
        options = ("--zookeeper", self.cluster.zookeeper.address)
        home = self.folder / f"coordinator-{self._count}"
        self._coordinators.append(self._ends.enter_context(Running(home, *options)))

    def _member(self, *arguments: str) -> Process:
        zookeeper = ("--zookeeper", self.cluster.zookeeper.address)
        one = process(*zookeeper, "--commit", "sync", "--listener", *arguments)
        self._members.append(self._ends.enter_context(one))
        return self._members[-1]

    def _spark(self) -> SparkGroup:
        zookeeper, home = self.cluster.zookeeper.address, self.folder / "spark"
        found = self._ends.enter_context(SparkGroup(zookeeper, STEADY, PARTITIONS, home))
        found.begin()
        self.say("a Spark application consumes")
        return found

    def _admin(self, ask: Callable[[KafkaAdminClient], Any]) -> None:
        """Once a broker takes it."""

        def asked() -> bool:
            try:
                admin = KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap)
            except KafkaError:
                return False
            try:
                ask(admin)
            except KafkaError as error:
                self.say(f"asked again: {error}")
                return False
            finally:
                admin.close()
            return True

        wait_until(asked, PATIENCE_S, "a broker to do as it is asked")

    # a step

    def _phase(self, step: str, family: Process) -> None:
        took = self.found.served_ms.setdefault(step, [])
        name = f"{FAMILY}-{step.replace(' ', '-')}"
        took.append(self._served(family, name, lambda a: a.create_topics([NewTopic(name, 2, 2)])))
        took.append(
            self._served(
                family, name, lambda a: a.create_partitions({name: NewPartitions(3)}), partition=2
            )
        )
        self._admin(lambda admin: admin.delete_topics([name]))
        wait_until(
            lambda: not any(tp.startswith(f"{name}-") for tp in owned(family)),
            PATIENCE_S,
            f"{name} to be given up",
        )
        took.append(self._served(family, name, lambda a: a.create_topics([NewTopic(name, 1, 2)])))
        self._kill_the_leader()
        after = f"{name}-later"
        self._admin(lambda admin: admin.create_topics([NewTopic(after, 1, 2)]))
        wait_until(lambda: f"{after}-0" in owned(family), PATIENCE_S, f"{after} to be assigned")
        self.say(f"{step}: served after {took} ms; the coordinator was killed")

    def _kill_the_leader(self) -> None:
        leads = wait_until(
            lambda: leader(self.cluster.zookeeper.address, self._coordinators),
            PATIENCE_S,
            "a coordinator that leads",
        )
        assert leads is not None
        self._coordinators.remove(leads)
        leads.process.kill()
        self.found.kills += 1
        self._stand()

    def _served(
        self,
        family: Process,
        topic: str,
        change: Callable[[KafkaAdminClient], Any],
        partition: int = 0,
    ) -> int:
        """Milliseconds from a change to the first record of that partition that is delivered."""
        tp = f"{topic}-{partition}"
        seen = len(family.of("records"))
        self._admin(change)
        began = time.time_ns()
        with sending(self.cluster.bootstrap, topic, partition):
            at = wait_until(lambda: first_of(family, tp, seen), PATIENCE_S, f"a record of {tp}")
        return (at - began) // 1_000_000

    def _lags(self, family: Process) -> None:
        """A broker that stands still while others go on tells later what was so before."""
        name = f"{FAMILY}-finish"
        paused = self.cluster.brokers[BROKERS[1]]
        calls = len(family.of("called"))
        paused.pause()
        try:
            self._admin(lambda admin: admin.create_partitions({f"{name}-later": NewPartitions(4)}))
            wait_until(
                lambda: f"{name}-later-3" in owned(family), PATIENCE_S, "partitions that are new"
            )
        finally:
            paused.resume()
        self.cluster.await_whole()
        time.sleep(SETTLED_S)
        later = family.of("called")[calls:]
        if [one["callback"] for one in later if one["partitions"]] != ["assigned"]:
            self.found.faults.append(f"a broker that lagged: {later}")

    # judging

    def _judge(
        self, members: list[Process], acknowledged: dict[int, set[int]], before: list[int]
    ) -> None:
        def delivered(partition: int) -> list[int]:
            return [o for m in members for o in m.delivered().get(f"{STEADY}-{partition}", [])]

        wait_until(
            lambda: all(offsets <= set(delivered(n)) for n, offsets in acknowledged.items()),
            PATIENCE_S,
            "all records to be delivered",
        )
        for number in acknowledged:
            offsets = delivered(number)
            if len(offsets) != len(set(offsets)):
                twice = len(offsets) - len(set(offsets))
                self.found.faults.append(f"{STEADY}-{number}: {twice} records were delivered twice")
        for member, calls in zip(members, before, strict=True):
            for call in member.of("called")[calls:]:
                self.found.faults.append(f"a member was called back: {call}")
        slow = [ms for ms in self.found.all_ms if ms > SERVED_MS_MAX]
        if slow:
            self.found.faults.append(f"served later than {SERVED_MS_MAX} ms: {slow}")


def first_of(member: Process, tp: str, seen: int) -> int:
    """When the first record of a partition was delivered after so many lines (ns); 0: not yet."""
    return next((int(line["t"]) for line in member.of("records")[seen:] if tp in line["ranges"]), 0)


@contextmanager
def sending(bootstrap: list[str], topic: str, partition: int) -> Iterator[None]:
    """Records for a partition, as soon as it takes any."""
    over = threading.Event()

    def send() -> None:
        producer = KafkaProducer(bootstrap_servers=bootstrap, metadata_max_age_ms=100)
        while not over.wait(0.05):
            try:
                producer.send(topic, b"x", partition=partition).get(5)
            except (KafkaError, ValueError):  # it is not known there yet
                continue
        producer.close(5)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="F")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="migration-") as folder:
        found = Journey(
            Path(folder),
            lambda text: print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True),
        ).run()
    print(f"{found.produced} records, {found.kills} kills of the coordinator that led")
    print(f"a new topic was served after {median(found.all_ms)} ms (max {max(found.all_ms)})")
    for fault in found.faults:
        print(f"FAULT {fault}")
    if arguments.json:
        arguments.json.write_text(json.dumps(vars(found), indent=1) + "\n", encoding="utf-8")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
