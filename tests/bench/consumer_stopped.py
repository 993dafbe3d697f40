"""Consumers that are stopped (SIGSTOP) for three session timeouts and go on: what they hand out
then, what they store, and what is handed out twice.

Groups of two members with different ways to commit consume one topic under a steady load; in each
round one member of each group is stopped, half of the time in the middle of its handler, so with
records that are handed out and not committed. Everything that processes say is judged by the rules
of `zkcoord.verdict`, for which a process that is stopped for longer than its session counts as
killed at that moment: what it hands out afterwards, before it owns partitions again, is handed out
without ownership, and handed out twice may be only what it had not committed. An observer beside
the group samples the stored offsets: none may be lower than the one before, nor than what a commit
stored that was answered before.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.bench.consumer_apps import NS, App, Apps, running_apps
from tests.bench.figures import Bar, Row, Section
from tests.bench.rig import Rig
from tests.harness.kafka import create_topic, unique
from zkcoord.demo.observer import OffsetObserver
from zkcoord.verdict import engine
from zkcoord.verdict.outcome import Verdict
from zkcoord.verdict.rules import Rule

SESSION_MS = 4_000
STOPPED_SESSIONS = 3
PARTITIONS = 6
LOAD_PER_S = 240
HANDLER_MS = 40
COMMITS = (
    ("--commit", "sync"),
    ("--commit", "auto", "--commit-interval-ms", "500"),
    ("--commit", "async", "--listener"),
    ("--commit", "sync", "--listener"),
)
"""How the members of each group commit; there are as many groups."""


class Lane:
    """One group of two."""

    def __init__(
        self,
        apps: Apps,
        folder: Path,
        zookeeper: str,
        topic: str,
        commits: tuple[str, ...],
        session_ms: int,
    ) -> None:
        self.apps = apps
        self.folder = folder
        self.group = unique("stopped")
        self.topic = topic
        self.samples: list[tuple[int, dict[str, int]]] = []
        self.stopped: App | None = None
        self.stops: list[tuple[App, int]] = []
        (folder / "scenario").mkdir(parents=True)
        self._steps = (folder / "scenario" / "steps.jsonl").open("a", encoding="utf-8")
        flags = [
            "--zookeeper",
            zookeeper,
            "--topic",
            topic,
            "--group",
            self.group,
            "--session-timeout-ms",
            str(session_ms),
            "--batch-delay-ms",
            str(HANDLER_MS),
            *commits,
        ]
        self.members = [
            apps.start(
                f"{self.group}-{name}",
                ["consumer.verifiable", *flags],
                f"{folder.name}/{engine.CONSUMERS}",
            )
            for name in "ab"
        ]

    def note(self, event: str, t_ns: int, **fields: object) -> None:
        """A line of the scenario."""
        self._steps.write(json.dumps({"event": event, "t": t_ns, **fields}) + "\n")
        self._steps.flush()

    def stored(self, t_ns: int, offsets: Mapping[int, int]) -> None:
        """A sample of the observer's, asked for at `t_ns`."""
        self.samples.append(
            (t_ns, {f"{self.topic}-{number}": offset for number, offset in offsets.items()})
        )

    def went_back(self) -> list[str]:
        """Samples that are lower than they must be, in a sentence each."""
        commits = deque(
            sorted(
                (line["t"], name, offset)
                for member in self.members
                for line in member.of("committed")
                for name, offset in line.get("offsets", {}).items()
            )
        )
        found: list[str] = []
        least: dict[str, int] = {}
        for t_ns, offsets in self.samples:
            while commits and commits[0][0] < t_ns:
                _, name, offset = commits.popleft()
                least[name] = max(least.get(name, 0), offset)
            for name, offset in offsets.items():
                if offset < least.get(name, 0):
                    found.append(
                        f"{name}: {offset} was found in ZooKeeper after {least[name]} had been"
                        " stored"
                    )
                least[name] = offset
        return found

    def stop(self, number: int) -> None:
        """SIGSTOP for one member; the time at which it certainly stands."""
        app = self.stopped = self.members[number % 2]
        os.kill(app.child.pid, signal.SIGSTOP)
        process = psutil.Process(app.child.pid)
        while process.status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)
        at_ns = time.time_ns()
        self.stops.append((app, at_ns))
        self.note("exit", at_ns, process=app.name, killed=True)

    def go_on(self) -> int:
        """SIGCONT; the time just before it."""
        assert self.stopped is not None, "it is stopped"
        before_ns = time.time_ns()
        os.kill(self.stopped.child.pid, signal.SIGCONT)
        return before_ns

    def both_own(self) -> bool:
        """Has each member half of the partitions?"""
        return [len(owned(member)) for member in self.members] == [PARTITIONS // 2] * 2

    def end(self) -> None:
        """No more notes."""
        self._steps.close()


def owned(app: App) -> set[str]:
    """What it holds by its own account."""
    found: set[str] = set()
    for line in list(app.lines):
        if line["event"] == "assigned":
            found.update(line["offsets"])
        elif line["event"] in ("revoked", "lost"):
            found.difference_update(
                line["positions"] if line["event"] == "revoked" else line["partitions"]
            )
    return found


@dataclass
class Found:
    """What came of it: a verdict for each group, stops, how long a stopped member's partitions
    waited for the other one (ms), sessions that ended though nobody stopped their process, and what
    the observers' samples say.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    stops: int = 0
    taken_over_ms: list[float] = field(default_factory=list)
    disturbed: int = 0
    went_back: list[str] = field(default_factory=list)
    samples: int = 0

    def amount(self, *rules: Rule) -> int:
        """Of all groups."""
        return sum(verdict.amount(rule) for verdict in self.verdicts for rule in rules)

    @property
    def excused(self) -> list[int]:
        """Records handed out again that had not been committed when their owner was stopped, by
        group.
        """
        return [sum(report.excused for report in verdict.partitions) for verdict in self.verdicts]

    @property
    def sentences(self) -> list[str]:
        """What is wrong."""
        return [
            *(
                f"{finding.partition}: {finding.rule.value}: {finding.text}"
                for verdict in self.verdicts
                for finding in verdict.findings
            ),
            *self.went_back,
        ]


@contextmanager
def producing(apps: Apps, kafka: str, topic: str) -> Iterator[App]:
    """A steady load inside the block, which begins with it."""
    flags = [
        "--bootstrap-servers",
        kafka,
        "--topic",
        topic,
        "--partitions",
        str(PARTITIONS),
        "--rate",
        str(LOAD_PER_S),
    ]
    app = apps.start("producer", ["zkcoord.demo.producer", *flags], engine.PRODUCERS)
    apps.wait(
        lambda: any(sum(line["ends"].values()) >= LOAD_PER_S for line in app.of("produced")),
        "a steady load",
    )
    yield app
    apps.end(app)


def all_handed_out(lane: Lane, ends: Mapping[str, int]) -> bool:
    """Has somebody been handed the last record of each partition?"""
    last: dict[str, int] = {}
    for member in lane.members:
        for line in member.of("records"):
            for name, ranges in line["ranges"].items():
                last[name] = max(last.get(name, 0), *(found[1] + 1 for found in ranges))
    return all(last.get(name, 0) >= end for name, end in ends.items())


def one_round(
    apps: Apps, lanes: list[Lane], number: int, rng: random.Random, found: Found, session_ms: int
) -> None:
    """Stop one member of each group, each at a moment of its own, wait, go on, and wait until all
    is as before.
    """
    for at, lane in enumerate(lanes):
        time.sleep(rng.uniform(0.0, 0.3))
        victim = lane.members[number % 2]
        if (number + at) % 2 == 0:
            handed = len(victim.of("records"))
            apps.wait(lambda: len(victim.of("records")) > handed, f"records for {victim.name}")
        lane.stop(number)
    stopped = {lane.members[number % 2].name for lane in lanes}
    time.sleep(STOPPED_SESSIONS * session_ms / 1000)
    lost = {member.name: len(member.of("lost")) for lane in lanes for member in lane.members}
    for lane in lanes:
        other, (victim, stop_ns) = lane.members[(number + 1) % 2], lane.stops[-1]
        taken = [line["t"] for line in other.of("assigned") if line["t"] > stop_ns]
        if taken:
            found.taken_over_ms.append((min(taken) - stop_ns) / NS)
        lane.go_on()
    apps.wait(
        lambda: all(
            len(lane.stopped.of("lost")) > lost[lane.stopped.name] and lane.both_own()
            for lane in lanes
            if lane.stopped is not None
        ),
        "everybody back with half of the partitions",
    )
    found.disturbed += sum(
        len(member.of("lost"))
        for lane in lanes
        for member in lane.members
        if member.name not in stopped and len(member.of("lost")) > lost[member.name]
    )
    found.stops += len(lanes)


def pauses(
    zookeeper: str,
    kafka: str,
    folder: Path,
    rounds: int,
    seed: int,
    say: Callable[[str], None],
    groups: int = len(COMMITS),
    session_ms: int = SESSION_MS,
) -> Found:
    """Everything, with a coordinator that runs already; `rounds` for each of the groups."""
    found = Found()
    rng = random.Random(seed)
    topic = create_topic(kafka, unique("stopped"), PARTITIONS)
    with running_apps(folder) as apps, ExitStack() as stack:
        with producing(apps, kafka, topic) as producer:
            lanes = [
                Lane(apps, folder / f"group{number}", zookeeper, topic, commits, session_ms)
                for number, commits in enumerate(COMMITS[:groups])
            ]
            for lane in lanes:
                stack.callback(lane.end)
                stack.callback(
                    OffsetObserver(
                        zookeeper, lane.group, topic, lambda: PARTITIONS, lane.stored
                    ).close
                )
            apps.wait(lambda: all(lane.both_own() for lane in lanes), "half of the partitions each")
            for number in range(rounds):
                one_round(apps, lanes, number, rng, found, session_ms)
                say(
                    f"  stopped: round {number + 1} of {rounds}, {found.stops} stops, taken over"
                    f" after {found.taken_over_ms[-1]:.0f} ms"
                )
        ends = {name: end for line in producer.of("stopped") for name, end in line["ends"].items()}
        apps.wait(lambda: all(all_handed_out(lane, ends) for lane in lanes), "the last records")
        apps.end(*(member for lane in lanes for member in lane.members))
    for lane in lanes:
        shutil.copytree(folder / engine.PRODUCERS, lane.folder / engine.PRODUCERS)
        found.verdicts.append(engine.judge_folder(lane.folder))
        found.went_back += lane.went_back()
        found.samples += len(lane.samples)
    return found


def run(rig: Rig, sections: list[Section], rounds: int) -> None:
    """The section; `rounds` stops in all."""
    section = Section(
        "stopped",
        f"SIGSTOP of a consumer for {STOPPED_SESSIONS} session timeouts of {SESSION_MS} ms,"
        f" {len(COMMITS)} groups of 2 members, {LOAD_PER_S} records/s",
    )
    sections.append(section)
    with rig.coordinators():
        found = pauses(
            rig.zookeeper,
            rig.kafka,
            rig.folder / "stopped",
            -(-rounds // len(COMMITS)),
            rig.random.randrange(1 << 30),
            rig.say,
        )
    if found.disturbed:
        section.failure = (
            f"{found.disturbed} sessions ended of processes that nobody had stopped: the machine"
            " was too busy"
        )
    stops = f"{found.stops} stops"
    section.rows += [
        Row(
            "hand-outs after the lease",
            stops,
            [float(found.amount(Rule.OWNED_TWICE, Rule.UNOWNED))],
            (Bar("max", 0),),
            "hand-outs",
        ),
        Row(
            "stored offsets that went back",
            stops,
            [float(found.amount(Rule.OFFSET_BACK) + len(found.went_back))],
            (Bar("max", 0),),
            "times",
            note=f"{found.samples} samples beside",
        ),
        Row(
            "handed out again beyond what was not committed",
            stops,
            [float(found.amount(Rule.DUPLICATED))],
            (Bar("max", 0),),
            "records",
        ),
        Row(
            "handed out to nobody",
            stops,
            [float(found.amount(Rule.LOST))],
            (Bar("max", 0),),
            "records",
        ),
        Row(
            "handed out again, not committed before the stop",
            "by group",
            [float(count) for count in found.excused],
            unit="records",
        ),
        Row(
            "a stopped member's partitions are the other's",
            "from the signal",
            found.taken_over_ms,
            (Bar("median", SESSION_MS + 500),),
        ),
    ]
    section.notes += found.sentences
