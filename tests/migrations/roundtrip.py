"""The whole journey of a group under load: old consumers, both together, coordinated, Kafka's own
protocol, and back to old consumers.

    python -m tests.migrations.roundtrip [--records 1000000] [--rate 10000] [--no-mixed]

Real old consumers (1.1.1), zkcoord's consumers and kafka-python's, all as processes; a real
coordinator in the layout `isolated`; every command that docs/migration.md names, as a user types
it. A producer writes all the time. Each offset that anybody was handed is counted. Prints a table
and writes build/reports/migration-roundtrip.json; exit status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.acceptance.moving import Count, count
from tests.bench.figures import Bar, Row, Section
from tests.bench.running import conclude, measure_all, measured_in_a_folder, report_named
from tests.harness.command import Running, environment
from tests.harness.kafka import CHROOT, admin, create_topic, end_offsets, start_broker
from tests.harness.wait import wait_until
from tests.harness.zookeeper import start_server
from tests.kafka.test_processes import Process, process
from tests.legacy.consumers import LegacyConsumer, LegacyProcess
from tests.legacy.jars import V1_1
from tests.migrations.groups import BothStores
from zkcoord.stack.java import Java, find_java
from zkcoord.znodes.paths import Layout

WHAT = "migration-roundtrip"
GROUP, TOPIC, PARTITIONS = "billing", "orders", 12
RECORDS, RATE = 1_000_000, 10_000
LEGS = 5
PATIENCE_S = 600.0
BATCH = 500
SESSION_MS = 6_000
OLD = {"auto_commit_interval_ms": 1_000, "rebalance_max_retries": 10}
TICK_S = 0.05


class Load:
    """Records into every partition all the time: `rate` a second up to a leg's share of `total`,
    and then few, so that whoever joins is handed some, however long that takes.
    """

    def __init__(self, broker: str, total: int, rate: int) -> None:
        self.total = total
        self.leg = 1
        self.written = 0
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": broker,
                "acks": "all",
                "linger.ms": 5,
                "queue.buffering.max.messages": 200_000,
            }
        )
        self._thread = threading.Thread(target=self._write, args=(max(1, int(rate * TICK_S)),))
        self._thread.start()

    def _write(self, turn: int) -> None:
        while not self._over.wait(TICK_S):
            share = self.total * self.leg // LEGS
            upto = max(min(share, self.written + turn), self.written + PARTITIONS)
            for number in range(self.written, upto):
                self._producer.produce(TOPIC, value=b"%d" % number, partition=number % PARTITIONS)
            self.written = upto
            self._producer.poll(0)

    def finish(self) -> None:
        """The end of the last leg: every record is acknowledged."""
        wait_until(lambda: self.written >= self.total, PATIENCE_S, "the last record")
        self.stop()
        assert self._producer.flush(PATIENCE_S) == 0

    def stop(self) -> None:
        """Now."""
        self._over.set()
        self._thread.join()


@dataclass
class Trip:
    """One group on its way. `members` counts who took part, `differing` in how many partitions both
    stores differed after each copy, `moved_s` how long nobody consumed.
    """

    folder: Path
    broker: str
    zookeeper: str
    java: Java
    total: int
    rate: int
    mixed: bool
    members: int = 0
    differing: list[int] = field(default_factory=list)
    moved_s: list[float] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _sources: list[Callable[[], list[dict[str, Any]]]] = field(default_factory=list)

    # who consumes

    def ours(self, name: str) -> Process:
        """A consumer of zkcoord."""
        started = self._stack.enter_context(
            process(
                "--zookeeper",
                self.zookeeper,
                "--topic",
                TOPIC,
                "--group",
                GROUP,
                "--layout",
                "isolated",
                "--commit",
                "sync",
                "--max-poll-records",
                str(BATCH),
                "--session-timeout-ms",
                str(SESSION_MS),
                "--client-id",
                name,
            )
        )
        return self._followed(started)

    def plain(self) -> Process:
        """A consumer of kafka-python."""
        return self._followed(
            self._stack.enter_context(
                process(
                    self.broker,
                    TOPIC,
                    GROUP,
                    str(SESSION_MS),
                    command=("-m", "tests.acceptance.moving"),
                )
            )
        )

    def _followed(self, started: Process) -> Process:
        self.members += 1
        self._sources.append(lambda: list(started.lines))
        return started

    def old(self, virtual_machine: LegacyProcess, name: str) -> LegacyConsumer:
        """An old consumer with one stream."""
        self.members += 1
        member = virtual_machine.consumer(
            GROUP, {TOPIC: 1}, name=name, batch=100, wait=False, **OLD
        )
        self._sources.append(lambda: list(member.lines))
        return member

    @contextmanager
    def machine(self, name: str) -> Iterator[LegacyProcess]:
        """A virtual machine for old consumers."""
        with LegacyProcess(self.folder / name, V1_1, self.zookeeper, self.java) as started:
            yield started

    # what is waited for

    def handed(self) -> int:
        """Records handed out until now, by everybody."""
        return sum(
            line["count"]
            for source in self._sources
            for line in source()
            if line["event"] == "records"
        )

    def until(self, load: Load, leg: int) -> None:
        """Until the share of the journey's records that belongs to the legs up to this one is
        consumed; then the next leg's are written.
        """
        share = self.total * leg // LEGS
        wait_until(
            lambda: self.handed() >= share, PATIENCE_S, f"{share} records at the end of leg {leg}"
        )
        load.leg = leg + 1

    def takes_part(self, member: Process | LegacyConsumer) -> None:
        """Until this member is handed records."""
        wait_until(
            lambda: any(line["event"] == "records" for line in list(member.lines)),
            PATIENCE_S,
            "records of a new member",
        )

    def left(self, *members: Process) -> None:
        """Ask processes to close, and wait."""
        for member in members:
            member.child.send_signal(signal.SIGTERM)
        for member in members:
            assert member.end() == 0, member.errors

    def drained(self) -> None:
        """Until everything that was written was handed out."""
        ends = end_offsets(self.broker, TOPIC, PARTITIONS)

        def reached() -> bool:
            found = dict.fromkeys(ends, 0)
            for line in itertools.chain.from_iterable(source() for source in self._sources):
                if line["event"] == "records":
                    for partition, ranges in line["ranges"].items():
                        number = int(partition.rpartition("-")[2])
                        found[number] = max(found[number], *(one[1] + 1 for one in ranges))
            return all(found[number] >= end for number, end in ends.items())

        wait_until(reached, PATIENCE_S, "the end of the logs")

    # what is typed

    def zkcoord(self, *arguments: str) -> str:
        """`zkcoord ARGUMENTS --zookeeper HERE`; AssertionError where it does not end with 0."""
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "zkcoord.cli.main",
                *arguments,
                "--zookeeper",
                self.zookeeper,
            ],
            env=environment(self.folder),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=self.folder,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def mode(self, *mode: str) -> None:
        """Whose the group is."""
        self.zkcoord("groups", "mode", GROUP, *mode, "--layout", Layout.ISOLATED.name)

    def migrated(self, command: str, step: str) -> None:
        """A step, with its plan before it and its proof after it."""
        back = ("--rollback",) if command == "rollback" else ()
        self.zkcoord("migrate", "plan", step, "--only", GROUP, *back)
        self.zkcoord("migrate", command, step, "--only", GROUP)
        self.zkcoord("migrate", "verify", step, "--only", GROUP, *back)

    def compare(self) -> None:
        """Both stores, partition by partition."""
        stores = BothStores(self.broker, self.zookeeper, TOPIC)
        try:
            zookeeper, kafka = stores.in_zookeeper(GROUP), stores.in_kafka(GROUP)
        finally:
            stores.close()
        self.differing.append(sum(zookeeper.get(n) != kafka.get(n) for n in range(PARTITIONS)))

    # the journey

    def travel(self) -> Count:
        """All of it."""
        with (
            self._stack,
            Running(
                self.folder / "coordinator",
                "--zookeeper",
                self.zookeeper,
                "--layout",
                Layout.ISOLATED.name,
            ) as coordinator,
        ):
            coordinator.ready("leading")
            load = Load(self.broker, self.total, self.rate)
            try:
                ours = self._there(load)
                self._and_back(load, ours)
            finally:
                load.stop()
        lines = [line for source in self._sources for line in source()]
        return count(
            lines,
            {
                f"{TOPIC}-{number}": end
                for number, end in end_offsets(self.broker, TOPIC, PARTITIONS).items()
            },
        )

    def _there(self, load: Load) -> list[Process]:
        """Old consumers are replaced by ours."""
        with self.machine("before") as machine:
            old = [self.old(machine, "first"), self.old(machine, "second")]
            self.until(load, 1)
            self.zkcoord("check", "--only", GROUP)
            self.migrated("apply", "1")
            return self._one_by_one(load, old) if self.mixed else self._at_once(load, old)

    def _one_by_one(self, load: Load, old: Sequence[LegacyConsumer]) -> list[Process]:
        """While both share the group."""
        self.mode("mixed", "--strategy", "legacy-range")
        ours = []
        for name, leaving in zip(("one", "two"), old):
            ours.append(self.ours(name))
            self.takes_part(ours[-1])
            leaving.close()
            if name == "one":
                self.until(load, 2)
        self.mode("coordinated")
        self.until(load, 3)
        return ours

    def _at_once(self, load: Load, old: Sequence[LegacyConsumer]) -> list[Process]:
        """The old ones are stopped first."""
        self.until(load, 2)
        for leaving in old:
            leaving.close()
        ours = [self.ours("one"), self.ours("two")]
        for member in ours:
            self.takes_part(member)
        self.until(load, 3)
        return ours

    def _and_back(self, load: Load, ours: Sequence[Process]) -> None:
        """To Kafka's own protocol, and from there to old consumers."""
        began = time.monotonic()
        self.left(*ours)
        self.migrated("apply", "2")
        self.compare()
        plain = [self.plain(), self.plain()]
        for member in plain:
            self.takes_part(member)
        self.moved_s.append(time.monotonic() - began)
        self.until(load, 4)
        began = time.monotonic()
        self.left(*plain)
        with admin(self.broker) as client:
            wait_until(
                lambda: not client.describe_groups([GROUP])[GROUP]["members"],
                PATIENCE_S,
                "an empty group in Kafka",
            )
        self.migrated("rollback", "2")
        self.compare()
        self.migrated("rollback", "1")
        if self.mixed:
            self.mode("legacy")
        with self.machine("after") as machine:
            back = [self.old(machine, "third"), self.old(machine, "fourth")]
            for member in back:
                self.takes_part(member)
            self.moved_s.append(time.monotonic() - began)
            load.finish()
            self.drained()
            for member in back:
                member.close()


def rows_of(trip: Trip, found: Count) -> list[Row]:
    """What is judged. Every move costs at most what each member had not committed yet."""
    bound = trip.members * BATCH
    return [
        Row(
            "records written",
            "ends of the logs",
            [found.written],
            (Bar("min", trip.total, at_least=True),),
            "records",
        ),
        Row("lost", "never handed out", [found.lost], (Bar("max", 0),), "records"),
        Row(
            "twice although committed",
            "handed out after a commit that covers them",
            [found.again_committed],
            (Bar("max", 0),),
            "records",
        ),
        Row(
            "twice",
            "the last uncommitted batch of each member",
            [found.again],
            (Bar("max", bound),),
            "records",
        ),
        Row(
            "partitions whose stores differ",
            "after each copy",
            list(map(float, trip.differing)),
            (Bar("max", 0),),
            "partitions",
        ),
        Row(
            "from the last record of one protocol to the first of the other",
            "members stopped, copied, verified, started",
            [1_000 * s for s in trip.moved_s],
        ),
    ]


def play(
    folder: Path, java: Java, records: int, rate: int, mixed: bool, into: list[Section]
) -> None:
    """One journey, on servers of its own."""
    section = Section(
        WHAT,
        f"A group of {PARTITIONS} partitions from old consumers (1.1.1) to"
        f" {'mixed, ' if mixed else ''}coordinated, Kafka's own protocol and back, {records}"
        f" records at {rate}/s",
    )
    into.append(section)
    server = start_server(folder / "zookeeper", java)
    try:
        broker = start_broker(folder / "kafka", server.address + CHROOT, java)
        try:
            create_topic(broker.address, TOPIC, PARTITIONS)
            trip = Trip(folder, broker.address, broker.zookeeper, java, records, rate, mixed)
            found = trip.travel()
            section.rows += rows_of(trip, found)
        finally:
            broker.kill()
    finally:
        server.kill()


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.migrations.roundtrip",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rate", type=int, default=RATE, help="records a second")
    parser.add_argument(
        "--mixed",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=(
            "replace old consumers one by one; without it, all are stopped before ours are started"
        ),
    )
    args = parser.parse_args(argv)

    def measure(folder: Path) -> int:
        java = find_java()
        sections = measure_all(
            {WHAT: lambda into: play(folder, java, args.records, args.rate, args.mixed, into)},
            [WHAT],
        )
        return conclude(
            sections, vars(args), str(java.major), report_named(WHAT, [WHAT], [WHAT]), WHAT
        )

    return measured_in_a_folder(measure)


if __name__ == "__main__":
    raise SystemExit(main())
