"""How long a join of a healthy group takes beside strangers whose small input makes large work.

    python -m tests.bench.hostile [--quick] [--only SHAPE] [--joins N]

A real ZooKeeper, the coordinator's own program with its shipped options, and members that are the
consumer's own driver (without Kafka). For each hostile shape (`hostile_shapes`, in a process of its
own, and what asks HTTP): joins of healthy groups alone, then beside it. A join is over when the new
member has its share. Prints a table with the bars beside the figures and writes
build/reports/bench-hostile.json. The exit status is 0 when every bar is reached. `--quick`: a
fifth of the joins, a tenth of the groups that are asked for.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.figures import Bar, Row, Section
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named, say
from tests.bench.scale_poison import Poisoner
from tests.bench.scale_rig import SESSION_MS, Rig
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import Member, Seed, Seeder, spread_evenly
from tests.harness.command import environment
from zkcoord.coordinator.journal import journal_files
from zkcoord.zk.port import Ensemble

HEALTHY_GROUPS, MEMBERS, PARTITIONS = 20, 2, 12
JOINS, QUICK_JOINS = 100, 20
MANY_GROUPS, QUICK_MANY_GROUPS = 10_000, 1_000
ASKERS, SLOW_CONNECTIONS, LIVE_ASKED = 16, 200, 40
JOIN_S_MAX = 60.0
PACE_S, SETTLE_S = 0.1, 3.0
WAIT_S = 300.0
P95_MAX_MS = 300.0
SHAPES = {
    "patterns": "20 members of one session with white lists that take long, over 100 topics",
    "flapping": "9 groups of all of 20,000 partitions, 10 members each that come and go",
    "wide": "14 members that name different assignors, on a topic of 70,000 partitions",
    "registrations": "200 members with 2,000 topics each, written again and again",
    "requests": "requests about groups that clients lead: 10,000 leave in each",
    "asking": f"{ASKERS} clients that ask for /groups and /metrics in a loop, beside many groups",
    "slow": f"{SLOW_CONNECTIONS} connections that send their request's head slowly",
}


class Coordinator:
    """The shipped program, with nothing but a journal's folder of its own and `flags`."""

    def __init__(self, hosts: str, folder: Path, *flags: str) -> None:
        folder.mkdir(parents=True)
        self.log_path, self.journal = folder / "log", folder / "journal"
        command = ["coordinator", "--zookeeper", hosts, "--journal-dir", str(self.journal), *flags]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "zkcoord.cli.main", *command],
                env=environment(folder),
                stdout=log,
                stderr=log,
            )

    @property
    def port(self) -> int:
        """Where it serves HTTP; 0 as long as it does not."""
        found = re.search(r'msg="http serves".* port=(\d+)', self.log_path.read_text())
        return int(found[1]) if found else 0

    def get(self, path: str) -> int:
        """The status of an answer; 0 where there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as got:
                got.read()
                return int(got.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def terms(self) -> list[str]:
        """What happened to its terms."""
        lines = [
            line
            for path in journal_files(self.journal)
            for line in path.read_text().split("\n")[:-1]
        ]
        records: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [str(record["event"]) for record in records if record["kind"] == "term"]

    def end(self) -> None:
        """SIGTERM, and SIGKILL when that does not help."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Healthy:
    """Groups at rest, which a member joins and leaves again, one group after the other. `ensemble`:
    see `Member`.
    """

    def __init__(self, hub: Hub, seeder: Seeder, ensemble: Ensemble | None = None) -> None:
        self.hub = hub
        self.ensemble = ensemble
        for topic in healthy_topics():
            seeder.topic(topic, PARTITIONS)
        self.members = [
            [self._member(number) for _ in range(MEMBERS)] for number in range(HEALTHY_GROUPS)
        ]
        hub.run_until(lambda: all(map(_even, self.members)), WAIT_S, "healthy groups at rest")
        self.turn = 0

    def _member(self, number: int) -> Member:
        topic = healthy_topics()[number]
        return Member(self.hub, f"healthy-{number:03d}", [topic], ensemble=self.ensemble)

    def joins(self, count: int) -> list[float]:
        """How long each took, in ms; one that was not over in time counts as that long."""
        return [self._join() for _ in range(count)]

    def _join(self) -> float:
        number = self.turn = (self.turn + 1) % HEALTHY_GROUPS
        began = time.monotonic()
        guest = self._member(number)
        self._turn_until(lambda: len(guest.held) == PARTITIONS // (MEMBERS + 1))
        took_s = time.monotonic() - began
        guest.leave()
        self.hub.run_for(PACE_S)
        return took_s * 1000

    def _turn_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + JOIN_S_MAX
        while not condition() and time.monotonic() < until:
            self.hub.turn(0.05)


def healthy_topics() -> list[str]:
    """Those of the healthy groups, in order."""
    return [f"topic-of-healthy-{number:03d}" for number in range(HEALTHY_GROUPS)]


def _even(members: Sequence[Member]) -> bool:
    held = [len(member.held) for member in members]
    return sum(held) == PARTITIONS and max(held) - min(held) <= 1


@contextmanager
def asking(port: int) -> Iterator[None]:
    """Clients that ask for /groups and /metrics as fast as they are answered."""
    stop = threading.Event()

    def ask(path: str) -> None:
        while not stop.is_set():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as got:
                    got.read()
            except OSError:
                stop.wait(0.01)

    threads = [
        threading.Thread(target=ask, args=(path,), daemon=True)
        for path in ("/groups", "/metrics") * (ASKERS // 2)
    ]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


@contextmanager
def slow(port: int) -> Iterator[None]:
    """Connections that never finish their request's head, made again when they are closed."""
    stop = threading.Event()

    def connect() -> socket.socket | None:
        try:
            found = socket.create_connection(("127.0.0.1", port), 5)
            found.sendall(b"GET /groups HTTP/1.1\r\n")
        except OSError:
            return None
        return found

    def crawl() -> None:
        held: list[socket.socket | None] = [None] * SLOW_CONNECTIONS
        while not stop.wait(0.05):
            for at, connection in enumerate(held):
                if connection is None:
                    held[at] = connect()
                    continue
                try:
                    connection.sendall(b"X")
                except OSError:
                    connection.close()
                    held[at] = None
        for connection in filter(None, held):
            connection.close()

    thread = threading.Thread(target=crawl, daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join()


@dataclass(frozen=True)
class Plan:
    """What to do: `joins` of each shape alone and beside it, `groups` beside those who ask."""

    only: tuple[str, ...] = tuple(SHAPES)
    joins: int = JOINS
    groups: int = MANY_GROUPS
    size: str = "whole"


class Shape:
    """One hostile shape, and what is measured beside it."""

    def __init__(self, rig: Rig, name: str, plan: Plan) -> None:
        self.rig = rig
        self.name = name
        self.plan = plan

    def run(self, sections: list[Section]) -> None:
        """Its section."""
        section = Section(self.name, f"{self.name}: {SHAPES[self.name]}")
        sections.append(section)
        with self.rig.hub(SESSION_MS) as (hub, seeder):  # the many groups' members outlive it
            if self.name == "asking":
                seeder.topic("seeded", 1)
                seeder.groups(self._seeds())
            coordinator = Coordinator(
                self.rig.hosts(hub), self.rig.folder / f"coordinator-{self.name}"
            )
            try:
                hub.run_until(lambda: coordinator.port, WAIT_S, "a coordinator that serves HTTP")
                hub.run_until(lambda: "ready" in coordinator.terms(), WAIT_S, "one that leads")
                self._measure(section, Healthy(hub, seeder), coordinator)
                terms = coordinator.terms()
            finally:
                coordinator.end()
        section.rows.append(
            Row("terms begun", "journal", [terms.count("elected")], (Bar("max", 1),), "terms")
        )

    def _seeds(self) -> list[Seed]:
        return [
            spread_evenly(f"seeded-{number:05d}", 1, "seeded", 1)
            for number in range(self.plan.groups)
        ]

    def _measure(self, section: Section, healthy: Healthy, coordinator: Coordinator) -> None:
        healthy.joins(HEALTHY_GROUPS)
        section.rows.append(Row("a join alone", "members", healthy.joins(self.plan.joins)))
        with self._on(healthy.hub, coordinator):
            healthy.hub.run_for(SETTLE_S)
            beside = healthy.joins(self.plan.joins)
            if self.name == "slow":
                live = [float(coordinator.get("/live") == 200) for _ in range(LIVE_ASKED)]
                answered = [100.0 * sum(live) / LIVE_ASKED]
                bar = Bar("min", 100.0, at_least=True)
                section.rows.append(Row("/live answered", "client", answered, (bar,), "%"))
        bars = (Bar("p95", P95_MAX_MS),)
        section.rows.insert(1, Row("a join beside it", "members", beside, bars))

    @contextmanager
    def _on(self, hub: Hub, coordinator: Coordinator) -> Iterator[None]:
        """The shape inside the block."""
        if self.name in ("asking", "slow"):
            with (asking if self.name == "asking" else slow)(coordinator.port):
                yield
            return
        poisoner = Poisoner(
            self.rig.hosts(hub),
            self.rig.folder / f"{self.name}.log",
            self.name,
            self.plan.size,
            module="tests.bench.hostile_shapes",
        )
        try:
            poisoner.order("on")
            yield
        finally:
            poisoner.kill()


def parts(plan: Plan, rig: Rig) -> dict[str, Part]:
    """The shapes, each with a server of its own."""

    def served(name: str) -> Part:
        def within(sections: list[Section]) -> None:
            with rig.running():
                Shape(rig, name, plan).run(sections)

        return within

    return {name: served(name) for name in SHAPES}


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; the exit status."""
    rig = Rig(folder, say)
    sections = measure_all(parts(plan, rig), plan.only)
    return conclude(sections, asdict(plan), str(rig.java.major), report, "bench-hostile")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.hostile", description="Joins beside hostile strangers."
    )
    parser.add_argument("--quick", action="store_true", help="fewer joins, fewer groups")
    parser.add_argument("--only", choices=tuple(SHAPES), help="only this shape")
    parser.add_argument("--joins", type=int, help=f"joins of each shape (default {JOINS})")
    args = parser.parse_args(arguments)
    only = (args.only,) if args.only else tuple(SHAPES)
    plan = Plan(
        only,
        args.joins or (QUICK_JOINS if args.quick else JOINS),
        QUICK_MANY_GROUPS if args.quick else MANY_GROUPS,
        "quick" if args.quick else "whole",
    )
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named("bench-hostile", only, tuple(SHAPES)))
    )


if __name__ == "__main__":
    raise SystemExit(main())
