"""A coordinator that asks brokers for topics, of which there are many: what that takes of a
processor, how soon a new topic is assigned, and whether joins notice.

One ZooKeeper, one coordinator, and a broker that only says which topics there are
(`topics_broker`). A topic changes each second, and healthy groups are joined; in turn the broker
stands still, so that nobody says anything of topics: what that takes is what everything else does.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from tests.bench.figures import Bar, Row, Section, quantile
from tests.bench.hostile import (
    HEALTHY_GROUPS,
    PARTITIONS,
    Coordinator,
    Healthy,
    healthy_topics,
)
from tests.bench.scale_rig import Rig
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import Member, Seeder
from tests.harness.command import environment
from zkcoord.core.model import Pattern, PatternKind, Subscription
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.zk.port import GetData, Node
from zkcoord.znodes.cluster_tree import CLUSTER_TREE

TOPICS, TOPIC_PARTITIONS = 20_000, 5
WAIT_S = 300.0
CHANGE_EVERY_S = 1.0
KINDS = ("create", "move", "grow", "create", "delete")
OTHERS = 100
LOOK_EVERY_MS = 5
NS_PER_MS = 1e6
CPU_PERCENT_MAX = 5.0
SEEN_MS_MAX = 1_200.0
JOINS_TIMES_MAX = 1.2
FAMILY = Subscription(pattern=Pattern(PatternKind.WHITE_LIST, r"family\..*"))


class Broker:
    """`topics_broker` in a process of its own."""

    def __init__(self, folder: Path, topics: int) -> None:
        own = [f"{name}:{PARTITIONS}" for name in healthy_topics()]
        command = [sys.executable, "-m", "tests.bench.topics_broker", str(topics)]
        self.process = subprocess.Popen(
            [*command, str(TOPIC_PARTITIONS), *own],
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = f"127.0.0.1:{self._said()}"

    def _said(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def change(self, what: str, name: str) -> int:
        """One topic; when that was so, in ns."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, "name": name}) + "\n")
        self.process.stdin.flush()
        return self._said()

    def stand_still(self) -> None:
        """It answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It does again."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """At once."""
        self.process.kill()
        self.process.wait()


class Changes:
    """One topic changes each second, some of them of the family that a group has a pattern for.
    `seen_ms`: how long a new one of these took until the group's member held it.
    """

    def __init__(self, hub: Hub, broker: Broker, member: Member) -> None:
        self.hub = hub
        self.broker = broker
        self.member = member
        self.seen_ms: list[float] = []
        self.count = 0
        self._created_ns: dict[str, int] = {}
        self._family: list[str] = []
        self._spread = random.Random(0)  # asks come each second too, and must not keep step

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Inside the block. What was created in it is waited for."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(self._spread.uniform(0.5, 1.5) * CHANGE_EVERY_S):
                self.change(KINDS[self.count % len(KINDS)])

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.hub.drive(self, self.tick)
        try:
            yield
            over.set()
            thread.join()
            self.hub.run_until(lambda: not self._created_ns, WAIT_S, "new topics to be assigned")
        finally:
            over.set()
            self.hub.forget(self)

    def until_heard(self) -> None:
        """Wait until the coordinator is told of changes in time, as it was before the broker stood
        still: until then both have old requests to do with.
        """
        until, took_s = time.monotonic() + WAIT_S, WAIT_S
        while took_s > CHANGE_EVERY_S:
            began, name = time.monotonic(), self.change("create")
            self.hub.run_until(partial(self._holds, name), WAIT_S, "the coordinator to ask again")
            took_s = time.monotonic() - began
            assert time.monotonic() < until, "new topics are assigned late"
            self._created_ns.pop(name, None)
            self.hub.run_for(self._spread.uniform(1.0, 2.0) * CHANGE_EVERY_S)

    def _holds(self, name: str) -> bool:
        return any(tp.topic == name for tp in self.member.held)

    def next_wake_ms(self) -> int | None:
        """See `Driven`."""
        return boot_ms() + LOOK_EVERY_MS

    def tick(self) -> None:
        """Look whether the member has what was created."""
        for name in list(self._created_ns):
            if self._holds(name):
                self.seen_ms.append((time.time_ns() - self._created_ns.pop(name)) / NS_PER_MS)

    def change(self, what: str) -> str:
        """One topic; its name."""
        self.count += 1
        if what == "create":
            name = f"family.{self.count:05d}"
            self._family.append(name)
        else:
            name = self._family.pop(0) if what == "delete" else numbered(self.count % OTHERS)
        at_ns = self.broker.change(what, name)
        if what == "create":
            self._created_ns[name] = at_ns
        return name


@dataclass(frozen=True)
class ManyPlan:
    """What to do: in so many `blocks` with changes, and in as many while the broker stands still,
    `joins` and a window of `window_s` in which a processor's time is taken.
    """

    topics: int = TOPICS
    blocks: int = 10
    joins: int = 30
    window_s: float = 10.0


class ManyTopicsPart:
    """See the module."""

    def __init__(self, rig: Rig, plan: ManyPlan) -> None:
        self.rig = rig
        self.plan = plan
        windows = f"{plan.window_s:g} s each, all its threads"
        core, seen = (Bar("median", CPU_PERCENT_MAX),), (Bar("p95", SEEN_MS_MAX),)
        self.busy = Row("coordinator, a topic changes each second", windows, [], core, "%")
        self.idle = Row("the same, the broker stands still", windows, [], unit="%")
        self.first = Row(
            "all topics, the first time", "coordinator's start to source", [], unit="s"
        )
        self.seen = Row("a new topic", "created to held by a member", [], seen)
        self.alone = Row("a join, the broker stands still", "members", [])
        self.beside = Row("a join, a topic changes each second", "members", [])
        times = (Bar("median", JOINS_TIMES_MAX),)
        self.times = Row("p95 of joins", "beside changes by alone, each block", [], times, "x")

    def run(self, sections: list[Section]) -> None:
        """Its section."""
        topics, each = self.plan.topics, TOPIC_PARTITIONS
        title = f"{topics:,} topics of {each} partitions that a broker says"
        section = Section("many", title)
        section.rows += [
            self.busy,
            self.idle,
            self.first,
            self.seen,
            self.alone,
            self.beside,
            self.times,
        ]
        sections.append(section)
        with ExitStack() as within:
            changes = self._measure(within)
            section.notes.append(f"{changes.count} changes: created, moved, grown, deleted")
        times = quantile(self.beside.values, 0.95) / quantile(self.alone.values, 0.95)
        bars = (Bar("max", JOINS_TIMES_MAX),)
        section.rows.append(Row("p95 of joins", "beside changes by alone", [times], bars, "x"))

    def _measure(self, within: ExitStack) -> Changes:
        hub, seeder = within.enter_context(self.rig.hub())
        broker = Broker(self.rig.folder, self.plan.topics)
        within.callback(broker.end)
        flags = ("--topic-source", "kafka", "--bootstrap-servers", broker.address)
        began = time.monotonic()
        coordinator = Coordinator(self.rig.hosts(hub), self.rig.folder / "coordinator", *flags)
        within.callback(coordinator.end)
        hub.run_until(lambda: counts(seeder), WAIT_S, "topics from the broker")
        self.first.values.append(time.monotonic() - began)
        ensemble = OverlaidEnsemble(hub)
        healthy = Healthy(hub, seeder, ensemble)
        member = Member(hub, "family", FAMILY, ensemble=ensemble)
        changes = Changes(hub, broker, member)
        changes.until_heard()
        healthy.joins(HEALTHY_GROUPS)
        process = psutil.Process(coordinator.process.pid)
        for _ in range(self.plan.blocks):
            with changes.going_on():
                beside = healthy.joins(self.plan.joins)
                self.busy.values.append(self._percent(hub, process))
            broker.stand_still()
            alone = healthy.joins(self.plan.joins)
            self.idle.values.append(self._percent(hub, process))
            broker.go_on()
            self.beside.values += beside
            self.alone.values += alone
            self.times.values.append(quantile(beside, 0.95) / quantile(alone, 0.95))
            changes.until_heard()
        self.seen.values += changes.seen_ms
        return changes

    def _percent(self, hub: Hub, process: psutil.Process) -> float:
        before, began = cpu_s(process), time.monotonic()
        hub.run_for(self.plan.window_s)
        return 100 * (cpu_s(process) - before) / (time.monotonic() - began)


def counts(seeder: Seeder) -> bool:
    """Whether topics of the brokers' count."""
    (answer,) = seeder.read(GetData(CLUSTER_TREE.source))
    return isinstance(answer, Node)


def numbered(number: int) -> str:
    """One of the many."""
    return f"team-{number % 37:02d}.service-{number:05d}.events"


def cpu_s(process: psutil.Process) -> float:
    """What it has used so far."""
    times = process.cpu_times()
    return float(times.user + times.system)
