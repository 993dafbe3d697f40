"""A group of old consumers and ours: members of both kinds join, leave and are killed with -9 at
random while records flow; and the same seed with old consumers only, as control.

    python -m tests.legacy.mixed [--events 60] [--seed 1] [--partitions 48] [--only revival]

Judged: a record is delivered twice only where who delivered it last was killed before; after the
last event everything is owned, by the old maths over all registrations; old consumers give up a
rebalance not more often than in the control, and never because a node of ours was in their last
attempt's way. Then old consumers that gave up are revived (`tests.legacy.revival`). Prints a table
and writes build/reports/legacy-mixed.json; exit status 1 when a bar is missed. Each member is a
process of its own.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from kafka import KafkaProducer
from kazoo.client import KazooClient

from tests.bench.figures import Bar, Row, Section
from tests.bench.running import conclude, measure_all, measured_in_a_folder, report_named, say
from tests.harness.kafka import CHROOT, create_topic, start_broker, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, start_server
from tests.kafka.groups import coordinator
from tests.kafka.test_processes import Process
from tests.legacy.consumers import LegacyProcess
from tests.legacy.jars import V1_1
from tests.legacy.looking import owners, registered
from tests.legacy.revival import ROUNDS, revive, share
from tests.sim.legacy import range_owners
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

EVENTS, PARTITIONS, START, MEMBERS_MAX = 60, 48, 2, 4
SESSION_MS = 6_000
PAUSE_S = (0.5, 4.0)
OWNED_TIMEOUT_S = 180.0
LOOKING_SESSION_S = 60.0
RECORD_EVERY_S = 0.005
LAST_RECORDS_TIMEOUT_S = 120.0
NONE = (Bar("max", 0),)
PARTS = CONTROL, MIXED, REVIVAL = "control", "mixed", "revival"


class Subject(Protocol):
    """A member of either kind."""

    old: bool
    killed_ns: int | None

    def delivered(self) -> list[tuple[int, int, int]]:
        """(partition, offset, when in ns), in order."""

    def leave(self) -> None:
        """In order; returns when it is gone."""

    def kill(self) -> None:
        """kill -9."""

    def failed(self) -> bool:
        """Whether it could not even be opened: an application ends then."""

    def gave_up(self) -> list[str]:
        """For each rebalance that it gave up, which thread was in the way of its last attempt."""

    def held(self, partition: int, when_ns: int) -> bool:
        """Whether it owned the partition then and had not begun to give it up."""

    def began_before(self, partition: int, offset: int, when_ns: int) -> bool:
        """Whether more than this offset was stored when the partition became its own, so that it
        began at what it had read earlier.
        """


class Old:
    """An old consumer in a process of its own."""

    old = True

    def __init__(
        self, folder: Path, zookeeper: str, java: Java, group: str, topic: str, name: str
    ) -> None:
        self.killed_ns: int | None = None
        self.process = LegacyProcess(folder / name, V1_1, zookeeper, java)
        self.process.start()
        self.member = self.process.consumer(
            group,
            {topic: 1},
            name=name,
            auto_commit_interval_ms=500,
            zookeeper_session_timeout_ms=SESSION_MS,
            wait=False,
        )

    def delivered(self) -> list[tuple[int, int, int]]:
        """As `Subject`."""
        return _delivered(self.member.said("records"))

    def leave(self) -> None:
        """As `Subject`."""
        self.member.close()
        self.process.kill()

    def kill(self) -> None:
        """As `Subject`."""
        self.killed_ns = time.time_ns()
        self.process.kill()

    def failed(self) -> bool:
        """As `Subject`."""
        return bool(self.member.said("failed"))

    def gave_up(self) -> list[str]:
        """As `Subject`."""
        return self.member.gave_up_before()

    def held(self, partition: int, when_ns: int) -> bool:
        """As `Subject`: between an `assigned` that names it and the next rebalance's begin."""
        got = [line for line in self.member.said("assigned") if line["t"] <= when_ns]
        if not got or partition not in {int(p.rpartition("-")[2]) for p in got[-1]["offsets"]}:
            return False
        began = [when_s * 1e9 for when_s, of in self.process.rebalances if of == self.member.id]
        ends = [*began, *(line["t"] for line in self.member.said("closing"))]
        return not any(got[-1]["t"] < end <= when_ns for end in ends)

    def began_before(self, partition: int, offset: int, when_ns: int) -> bool:
        """As `Subject`: `assigned` says what ZooKeeper held when it had made its owner nodes."""
        got = [line for line in self.member.said("assigned") if line["t"] <= when_ns]
        stored = (
            {int(p.rpartition("-")[2]): at for p, at in got[-1]["offsets"].items()} if got else {}
        )
        return stored.get(partition, -1) > offset


class Ours:
    """A consumer of ours as a process."""

    old = False

    def __init__(self, zookeeper: str, group: str, topic: str, name: str) -> None:
        self.killed_ns: int | None = None
        self.process = Process(
            "--zookeeper",
            zookeeper,
            "--group",
            group,
            "--topic",
            topic,
            "--layout",
            "isolated",
            "--session-timeout-ms",
            str(SESSION_MS),
            "--commit-interval-ms",
            "500",
            "--client-id",
            name,
        )

    def delivered(self) -> list[tuple[int, int, int]]:
        """As `Subject`."""
        return _delivered(self.process.of("records"))

    def leave(self) -> None:
        """As `Subject`."""
        self.process.child.terminate()
        wait_until(
            lambda: self.process.child.poll() is not None,
            OWNED_TIMEOUT_S,
            f"the end of a member of ours; {self.process.errors}",
        )
        self.process.end()

    def kill(self) -> None:
        """As `Subject`."""
        self.killed_ns = time.time_ns()
        self.process.child.kill()
        self.process.end()

    def failed(self) -> bool:
        """Ours tries on."""
        return False

    def gave_up(self) -> list[str]:
        """Ours never do."""
        return []

    def held(self, partition: int, when_ns: int) -> bool:
        """Ours deliver what they own: no excuse."""
        return True

    def began_before(self, partition: int, offset: int, when_ns: int) -> bool:
        """Ours read what is stored when nobody else can write it: no excuse."""
        return False


def _delivered(lines: Sequence[dict]) -> list[tuple[int, int, int]]:  # type: ignore[type-arg]
    found = []
    for line in lines:
        for text, ranges in line["ranges"].items():
            number = int(text.rpartition("-")[2])
            found += [
                (number, offset, line["t"])
                for first, last, *_ in ranges
                for offset in range(first, last + 1)
            ]
    return found


class Producer:
    """Writes numbered records round the partitions until it is told to end; `ends` is then how many
    each has.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.ends = [0] * partitions
        self._over = threading.Event()
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._thread = threading.Thread(target=self._write, args=(topic,), daemon=True)
        self._thread.start()

    def _write(self, topic: str) -> None:
        turn = 0
        while not self._over.wait(RECORD_EVERY_S):
            number = turn % len(self.ends)
            self._producer.send(topic, str(self.ends[number]).encode(), partition=number)
            self.ends[number] += 1
            turn += 1

    def end(self) -> None:
        """No more records, and those written are there."""
        self._over.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()


@dataclass
class Outcome:
    """What one run showed. `doubles`: records that somebody delivered again though who had them was
    not killed; `after_kill_ms`: of the others, how long after the kill. `stale`: of those neither
    nor, that an old consumer delivered though it had begun to give the partition up: it stops its
    fetchers, clears its queues and commits, and its stream may have taken a chunk just before
    (ConsumerIterator.makeNext, which clearCurrentChunk does not wait for). `early`: an old consumer
    began before what was stored when it had claimed the partition: it reads offsets first and
    claims then (ZookeeperConsumerConnector.rebalance), and whoever had it commits in between.
    `blocked`: of the
    rebalances given up, those whose last attempt found a node of ours.
    """

    events: list[str] = field(default_factory=list)
    records: int = 0
    lost: int = 0
    again: int = 0
    doubles: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    after_kill_ms: list[float] = field(default_factory=list)
    gave_up: int = 0
    blocked: list[str] = field(default_factory=list)
    owned_s: float = 0.0


class Run:
    """One run: `mixed` with members of both kinds, else old consumers only."""

    def __init__(
        self,
        folder: Path,
        broker: KafkaBroker,
        client: KazooClient,
        mixed: bool,
        seed: int,
        events: int,
        partitions: int,
    ) -> None:
        self.folder = folder
        self.broker = broker
        self.client = client
        self.mixed = mixed
        self.events = events
        self.partitions = partitions
        self.random = random.Random(seed)
        self.group = unique("mixed" if mixed else "control")
        self.topic = create_topic(broker.address, unique("shared"), partitions)
        self.members: list[Subject] = []
        self.gone: list[Subject] = []
        self.made = 0
        self.old: set[str] = set()

    def play(self) -> Outcome:
        """All of it; every process is gone afterwards."""
        found = Outcome()
        producer = Producer(self.broker.address, self.topic, self.partitions)
        try:
            with ExitStack() as stack:
                if self.mixed:
                    share(self.client, self.group)
                    stack.enter_context(coordinator(self.broker.zookeeper, layout=Layout.ISOLATED))
                for n in range(2 * START):
                    self._join(old=n < START or not self.mixed)
                self._owned()
                for number in range(self.events):
                    time.sleep(self.random.uniform(*PAUSE_S))
                    found.events.append(self._event())
                    say(f"  {number + 1} of {self.events}: {found.events[-1]}")
                found.owned_s = self._owned()
                producer.end()
                self._all_delivered(producer.ends)
                while self.members:
                    self._leave()
        finally:
            producer.end()
            for member in self.members:
                member.kill()
        judge(
            found,
            [*self.members, *self.gone],
            producer.ends,
            {f"{self.group}_{name}" for name in self.old},
        )
        return found

    def _join(self, old: bool) -> str:
        name = f"{'o' if old else 'z'}{self.made}"
        self.made += 1
        if old:
            self.old.add(name)
            self.members.append(
                Old(
                    self.folder / self.group,
                    self.broker.zookeeper,
                    self.broker.program.java,
                    self.group,
                    self.topic,
                    name,
                )
            )
        else:
            self.members.append(Ours(self.broker.zookeeper, self.group, self.topic, name))
        return f"join {name}"

    def _leave(self) -> str:
        member = self.members.pop(self.random.randrange(len(self.members)))
        member.leave()
        self.gone.append(member)
        return f"leave {'old' if member.old else 'ours'}"

    def _kill(self) -> str:
        member = self.members.pop(self.random.randrange(len(self.members)))
        member.kill()
        self.gone.append(member)
        return f"kill -9 {'old' if member.old else 'ours'}"

    def _bury(self) -> None:
        """Those that could not be opened are gone."""
        for member in [member for member in self.members if member.failed()]:
            member.kill()
            self.members.remove(member)
            self.gone.append(member)

    def _event(self) -> str:
        """What happens, and to whom, is drawn in the same way in both runs."""
        self._bury()
        what, old = self.random.random(), self.random.random() < 0.5
        if len(self.members) <= START or (what < 0.45 and len(self.members) < 2 * MEMBERS_MAX):
            return self._join(old or not self.mixed)
        return self._leave() if what < 0.75 else self._kill()

    def _owned(self) -> float:
        """Wait until every partition is owned by whom the maths says; the seconds that it took."""
        began = time.monotonic()

        def as_computed() -> bool:
            self._bury()
            names = registered(self.client, self.group)
            wanted = range_owners(
                {name: {self.topic: 1} for name in names}, {self.topic: range(self.partitions)}
            )
            return len(names) == len(self.members) and owners(self.client, self.group) == wanted

        wait_until(
            as_computed,
            OWNED_TIMEOUT_S,
            "the owners that the maths says; registered:"
            f" {sorted(registered(self.client, self.group))}",
        )
        return time.monotonic() - began

    def _all_delivered(self, ends: Sequence[int]) -> None:
        def all_there() -> bool:
            seen = {
                (number, offset)
                for member in [*self.members, *self.gone]
                for number, offset, _ in member.delivered()
            }
            return len(seen) >= sum(ends)

        wait_until(all_there, LAST_RECORDS_TIMEOUT_S, "every record at somebody")


def judge(
    found: Outcome, everybody: Sequence[Subject], ends: Sequence[int], old: Collection[str]
) -> None:
    """What all that everybody delivered, and gave up, says. `old` are the ids of the old
    consumers.
    """
    last: dict[tuple[int, int], tuple[int, Subject]] = {}
    for when, number, offset, member in sorted(
        ((t, n, o, m) for m in everybody for n, o, t in m.delivered()), key=lambda d: d[:3]
    ):
        before, last[(number, offset)] = last.get((number, offset)), (when, member)
        if before is None:
            continue
        found.again += 1
        if before[1].killed_ns is None or when < before[1].killed_ns:
            kind = found.stale
            if before[1].held(number, before[0]) and member.held(number, when):
                early = member.began_before(number, offset, when)
                kind = found.early if early else found.doubles
            kind.append(
                f"partition {number} @{offset}: {'old' if before[1].old else 'ours'}, then"
                f" {'old' if member.old else 'ours'} {(when - before[0]) / 1e9:.1f} s later"
            )
        else:
            found.after_kill_ms.append((when - before[1].killed_ns) / 1e6)
    found.records = sum(ends)
    found.lost = found.records - len(last)
    threads = [thread for member in everybody for thread in member.gave_up()]
    found.gave_up = len(threads)
    found.blocked = [
        thread for thread in threads if thread and thread.rpartition("-")[0] not in old
    ]


def section_of(title: str, name: str, found: Outcome, control: Outcome | None) -> Section:
    """For the report."""
    section = Section(name, title)
    limit = (Bar("max", control.gave_up),) if control is not None else ()
    mixed = name == MIXED
    section.rows += [
        Row(
            "records that nobody delivered",
            f"of {found.records}",
            [float(found.lost)],
            NONE if mixed else (),
            unit="records",
        ),
        Row(
            "records of a member that lives, delivered by another",
            f"{found.again} in all were delivered again",
            [float(len(found.doubles))],
            NONE if mixed else (),
            unit="records",
            note="; ".join(found.doubles[:3]),
        ),
        Row(
            "of an old consumer's own, delivered after it had begun to give the partition up",
            "what it said, and its log",
            [float(len(found.stale))],
            unit="records",
            note="; ".join(found.stale[:3]),
        ),
        Row(
            "of one that gave the partition up, by an old consumer that had read its offset before",
            "what was stored when it had claimed it",
            [float(len(found.early))],
            unit="records",
            note="; ".join(found.early[:3]),
        ),
        Row(
            "not committed when its member was killed, delivered again",
            "since the kill",
            found.after_kill_ms,
        ),
        Row(
            "rebalances given up by old consumers",
            "their logs",
            [float(found.gave_up)],
            limit,
            unit="",
        ),
        Row(
            "of these, a node of ours in the last attempt's way",
            "their logs",
            [float(len(found.blocked))],
            NONE if mixed else (),
            unit="",
            note="; ".join(found.blocked[:3]),
        ),
        Row(
            "everything owned after the last event",
            "owner nodes",
            [found.owned_s * 1000],
            (Bar("max", 10_000),) if mixed else (),
        ),
    ]
    return section


def play_all(
    folder: Path, java: Java, seed: int, events: int, partitions: int, chosen: Sequence[str]
) -> list[Section]:
    """Those of `PARTS` that are `chosen`, on servers of their own."""
    server = start_server(folder / "zookeeper", java)
    try:
        broker = start_broker(folder / "kafka", server.address + CHROOT, java)
        client = connect(broker.zookeeper, LOOKING_SESSION_S)
        outcomes: dict[str, Outcome] = {}

        def part(name: str) -> Callable[[list[Section]], None]:
            def play(into: list[Section]) -> None:
                outcomes[name] = found = Run(
                    folder, broker, client, name == MIXED, seed, events, partitions
                ).play()
                title = (
                    f"{events} joins, leaves and kill -9, {partitions} partitions, seed {seed}: "
                    + (
                        "old consumers 1.1.1 and ours"
                        if name == MIXED
                        else "old consumers 1.1.1 only (control)"
                    )
                )
                into.append(
                    section_of(title, name, found, outcomes.get(CONTROL) if name == MIXED else None)
                )

            return play

        try:
            return measure_all(
                {
                    CONTROL: part(CONTROL),
                    MIXED: part(MIXED),
                    REVIVAL: partial(revive, folder, broker, client, ROUNDS),
                },
                chosen,
            )
        finally:
            disconnect(client)
            broker.kill()
    finally:
        server.kill()


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.legacy.mixed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    args = parser.parse_args(argv)

    def measure(folder: Path) -> int:
        java = find_java()
        chosen = args.only or list(PARTS)
        sections = play_all(folder, java, args.seed, args.events, args.partitions, chosen)
        size = (
            []
            if (args.events, args.seed, args.partitions) == (EVENTS, 1, PARTITIONS)
            else [f"{args.events}"]
        )
        settings = {
            "events": args.events,
            "seed": args.seed,
            "partitions": args.partitions,
            "parts": chosen,
        }
        return conclude(
            sections,
            settings,
            str(java.major),
            report_named(
                "legacy-mixed",
                [*(chosen if len(chosen) < len(PARTS) else ()), *size] or PARTS,
                PARTS,
            ),
            "legacy-mixed",
        )

    return measured_in_a_folder(measure)


if __name__ == "__main__":
    raise SystemExit(main())
