"""The servers and processes of a chaos run: three ZooKeeper servers, a broker, coordinators,
verifiable consumers of two groups, one producer for each group's topic. Every coordinator and
consumer reaches ZooKeeper through proxies of its own, so that its network can be broken without
anybody else's.

What is written down: `run/` for the checker, `logs/` for its search, `servers/` of no interest
unless something goes wrong.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kazoo.client import KazooClient

from tests.chaos.disks import Disk
from tests.chaos.faking import FakedClock
from tests.chaos.schedule import BROKER, COORDINATORS, JOURNALS, SESSION_MS, ZOOKEEPER
from tests.harness.kafka import CHROOT, create_topic, new_broker
from tests.harness.proxy import Proxy
from tests.harness.zookeeper import Ensemble, connect, disconnect
from zkcoord.core.model import TopicPartition
from zkcoord.demo.processes import DemoProcess, DemoProcesses, Line
from zkcoord.demo.story import ScenarioJournal
from zkcoord.errors import ScenarioError, StackError
from zkcoord.stack.java import Java
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.verdict import engine
from zkcoord.znodes.paths import Layout

REBALANCE_TIMEOUT_MS = 10_000
LEASE_MAX_MS = 12_000
COMMIT_INTERVAL_MS = 500
TOPICS = {"a": "orders", "b": "payments"}
DISK_MEGABYTES = 64
WAIT_S = 120.0
START_S = 600.0
BROKER_STARTS_MAX = 3
STARTS = "coordinator starts"
A_START, EPOCH_NOT_NOTED = "Reading configuration from", "is older than the last zxid"
REST_NS = 1_000_000_000
COMMAND_MODULE = """
from importlib.metadata import entry_points
print(entry_points(group="console_scripts")["zkcoord"].module)
"""


@dataclass(frozen=True)
class Shape:
    """How big. `members`: consumers of each group; `partitions` of each topic; `rate`: records per
    second and topic; `session_ms`: of consumers. `failsafe`: groups whose members go on while
    nobody is served; they reach ZooKeeper without proxies, which take connections also for a server
    that is gone.
    """

    members: int = 3
    partitions: int = 8
    rate: int = 150
    session_ms: int = SESSION_MS
    failsafe: tuple[str, ...] = ()

    @property
    def consumers(self) -> tuple[str, ...]:
        """The slots of consumers."""
        return tuple(
            f"{group}{number}" for group in TOPICS for number in range(1, self.members + 1)
        )


@dataclass
class Seen:
    """What the processes said, folded. `handed_out_ns`: when each partition's latest records were
    handed out; `next`: the offset behind them; `gap_ms`: the longest time between two hand-outs;
    `lost`: partitions that members said they had lost. `trapped`, `armed`, `at`, `late`: how far
    coordinators are that shall die at a step, `outcomes` of what they wrote too late.
    """

    handed_out_ns: dict[str, int] = field(default_factory=dict)
    gap_ms: dict[str, float] = field(default_factory=dict)
    lost: int = 0
    next: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    leader: str = ""
    epoch: int = 0
    commands: dict[str, int] = field(default_factory=dict)
    last_command_ns: int = 0
    registered: set[str] = field(default_factory=set)
    delivered_ns: dict[str, int] = field(default_factory=dict)
    trapped: set[str] = field(default_factory=set)
    armed: set[str] = field(default_factory=set)
    at: dict[str, Line] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)

    def line(self, name: str, line: Line) -> None:
        """Take a line of a process."""
        event = line.get("event")
        if event == "records":
            self.delivered_ns[name] = line["t"]
            for at, ranges in line["ranges"].items():
                self.gap_ms[at] = max(
                    self.gap_ms.get(at, 0.0),
                    (line["t"] - self.handed_out_ns.get(at, line["t"])) / 1e6,
                )
                self.handed_out_ns[at] = max(line["t"], self.handed_out_ns.get(at, 0))
                self.next[at] = max(ranges[-1][1] + 1, self.next.get(at, 0))
        elif event == "produced":
            self.ends.update(line["ends"])
        elif event == "lost":
            self.lost += len(line.get("partitions", ()))
        elif event == "registered":
            self.registered.add(name)
        elif event == "notice" and line.get("kind") == "command":
            self.commands[name] = self.commands.get(name, 0) + 1
            self.last_command_ns = max(line["t"], self.last_command_ns)
        elif event == "elected" and line.get("kind") == "term" and line["epoch"] > self.epoch:
            self.leader, self.epoch = name, line["epoch"]
        else:
            self._of_trap(name, line)

    def _of_trap(self, name: str, line: Line) -> None:
        """A line of a coordinator that is to die at a step."""
        event = line.get("event")
        if event == "trap-set":
            self.trapped.add(name)
        elif event == "armed":
            self.armed.add(name)
        elif event == "step-reached":
            self.at[name] = line
        elif event == "late-write":
            self.late.add(name)
            self.outcomes[line["outcome"]] += 1

    def forget_steps(self, name: str) -> None:
        """This coordinator is to be armed anew."""
        self.armed.discard(name)
        self.at.pop(name, None)
        self.late.discard(name)

    def caught_up(self) -> bool:
        """Was everything that was produced handed out?"""
        return bool(self.ends) and all(self.next.get(at, 0) >= end for at, end in self.ends.items())


@dataclass(frozen=True)
class EarlierRelease:
    """A virtual environment with another release in it."""

    folder: Path

    @cached_property
    def command_module(self) -> str:
        """The module of its command `zkcoord`. Raises `ScenarioError` where there is none."""
        asked = subprocess.run(
            [f"{self.folder}/bin/python", "-I", "-c", COMMAND_MODULE],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode != 0:
            raise ScenarioError(
                f"no zkcoord is installed in {self.folder}: make a virtual environment there and"
                " install the earlier release into it"
            )
        return asked.stdout.strip()


class Rig:
    """Use as a context manager; `start` first. `weakened`: the name of a rule that consumers and
    coordinators go without. `traps`: coordinators can be told where to die (see `stopping`).
    `disks`: ZooKeeper's logs and the journals are on small disks of their own. `clocks`: the
    servers' wall clocks can jump. `before`: the release that runs until a slot is upgraded.
    """

    def __init__(
        self,
        folder: Path,
        java: Java,
        shape: Shape = Shape(),
        weakened: str = "",
        traps: bool = False,
        disks: bool = False,
        clocks: bool = False,
        before: EarlierRelease | None = None,
    ) -> None:
        self.folder = folder
        self.shape = shape
        self.weakened = weakened
        self.traps = traps
        self.seen = Seen()
        self.clocks = (
            {
                slot: FakedClock(folder / "servers" / f"java-of-{slot}", java)
                for slot in (ZOOKEEPER, BROKER)
            }
            if clocks
            else {}
        )
        self.java = {
            slot: self.clocks[slot].java if clocks else java for slot in (ZOOKEEPER, BROKER)
        }
        self.ensemble = Ensemble(folder / "servers", self.java[ZOOKEEPER])
        self.with_disks = disks
        self.disks: dict[int | str, Disk] = {}
        self.stack = ExitStack()
        self.story = ScenarioJournal(
            folder / "run" / engine.SCENARIO / "story.jsonl", lambda _: None
        )
        self.children = DemoProcesses(self.seen.line)
        self.proxies: dict[str, list[Proxy]] = {}
        self.lives: dict[str, int] = {}
        self.running: dict[str, DemoProcess] = {}
        self.ended: list[DemoProcess] = []
        self.newer: set[str] = set()
        # An earlier release, which runs in the slots that `newer` does not name.
        self.before = before

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        # something broke the run off: who is asked to leave while it is stopped past its session
        # would be judged by what it can no longer hear
        for slot in [slot for slot, child in self.running.items() if child.alive]:
            self.kill(slot)
        self.children.close()
        self.story.close()
        self.stack.close()

    @property
    def consumers(self) -> tuple[str, ...]:
        """The slots of consumers."""
        return self.shape.consumers

    @property
    def partitions(self) -> list[str]:
        """All partitions, as topic-number."""
        return [
            f"{topic}-{number}"
            for topic in TOPICS.values()
            for number in range(self.shape.partitions)
        ]

    # beginning

    def start(self) -> None:
        """Everything, until each partition's records are consumed, and each consumer has its
        share.
        """
        self.start_servers()
        for slot in (*COORDINATORS, *self.consumers):
            self.start_process(slot)
        for group, topic in TOPICS.items():
            self.start_producer(group, topic)
        self.wait(
            lambda: (
                len(self.seen.handed_out_ns) == len(self.partitions)
                and len(self.seen.delivered_ns) == len(self.consumers)
            ),
            "records of every partition, and for every consumer",
            START_S,
        )
        self.story.write("steady")

    def start_servers(self) -> None:
        """ZooKeeper, the broker, the topics."""
        if self.with_disks:
            for number, member in self.ensemble.members.items():
                self._disk(number, member.txn)
            self._disk(JOURNALS, self.folder / "run" / engine.COORDINATORS)
        self.stack.enter_context(self.ensemble)
        self.broker = new_broker(
            self.folder / "servers" / "broker", self.ensemble.hosts + CHROOT, self.java[BROKER]
        )
        self.stack.callback(self.broker.stop)
        self._start_broker()
        self.starting = self.stack.enter_context(ThreadPoolExecutor(1, "broker"))
        for topic in TOPICS.values():
            create_topic(self.broker.address, topic, self.shape.partitions)

    def broker_again(self) -> Future[None]:
        """Start the killed broker, which waits until the node of its former life is gone; the start
        under way, whose result raises `StackError`.
        """
        return self.starting.submit(self._start_broker)

    def _start_broker(self) -> None:
        """A start during which its session expires, on a machine that is too busy, is tried
        again.
        """
        for attempt in range(1, BROKER_STARTS_MAX + 1):
            try:
                return self.broker.start()
            except StackError:
                if attempt == BROKER_STARTS_MAX:
                    raise

    def wait_serving(self) -> None:
        """Until every ZooKeeper server serves. One that was killed between its snapshot of a new
        epoch and the note of it never starts again (ZOOKEEPER-2354, which is open): once the others
        serve, it begins anew without its data, as an operator would have it. Raises `StackError`
        for any other end.
        """
        for member in [
            member for member in self.ensemble.members.values() if not self._starts(member)
        ]:
            for folder in (member.home / "data", member.txn):
                shutil.rmtree(folder / "version-2", ignore_errors=True)
            member.start()

    def _starts(self, member: ZooKeeperServer) -> bool:
        try:
            member.wait_serving()
        except StackError:
            said = member.log.read_text(encoding="utf-8", errors="replace").rpartition(A_START)[2]
            if member.alive() or EPOCH_NOT_NOTED not in said:
                raise
            return False
        return True

    def _disk(self, of: int | str, folder: Path) -> None:
        self.disks[of] = Disk(folder, DISK_MEGABYTES)
        self.stack.callback(self.disks[of].close)

    def zookeeper_of(self, slot: str) -> str:
        """The connect string of a slot: its own proxies."""
        if slot[0] in self.shape.failsafe:
            return self.ensemble.hosts + CHROOT
        if slot not in self.proxies:
            self.proxies[slot] = [
                self.stack.enter_context(Proxy(member.port))
                for member in self.ensemble.members.values()
            ]
        return ",".join(proxy.address for proxy in self.proxies[slot]) + CHROOT

    def start_process(self, slot: str) -> DemoProcess:
        """Another life in this slot."""
        self.lives[slot] = self.lives.get(slot, 0) + 1
        name = f"{slot}-{self.lives[slot]}"
        child = (
            self._coordinator(slot, name) if slot in COORDINATORS else self._consumer(slot, name)
        )
        self.running[slot] = child
        return child

    def _coordinator(self, slot: str, name: str) -> DemoProcess:
        journal = self.folder / "run" / engine.COORDINATORS / name
        flags = [
            "coordinator",
            "--zookeeper",
            self.zookeeper_of(slot),
            "--session-timeout-ms",
            str(SESSION_MS),
            "--connect-timeout-ms",
            "0",
            "--no-http",
            "--lease-max-ms",
            str(LEASE_MAX_MS),
            "--journal-dir",
            str(journal),
            "--journal-inputs",
        ]
        module = (
            ["tests.chaos.stopping", str(self.trap_file(name)), *flags]
            if self.traps
            else self._module(slot, flags)
        )
        child = self.children.start(
            name,
            module,
            self.folder / "output" / f"{name}.jsonl",
            self.folder / "logs" / f"{name}.log",
            self._release(slot),
        )
        self.children.follow_folder(name, journal)
        return child

    def trap_file(self, name: str) -> Path:
        """Where a coordinator reads at which step it shall die."""
        return self.folder / "output" / f"{name}.step"

    def _consumer(self, slot: str, name: str) -> DemoProcess:
        """It is told where the broker is: one that is slow to start, on a busy machine, may find
        none registered, because the broker was killed meanwhile; so it waits.
        """
        flags = [
            "--zookeeper",
            self.zookeeper_of(slot),
            "--bootstrap-servers",
            self.broker.address,
            "--group",
            slot[0],
            "--topic",
            TOPICS[slot[0]],
            "--commit",
            "auto",
            "--commit-interval-ms",
            str(COMMIT_INTERVAL_MS),
            "--session-timeout-ms",
            str(self.shape.session_ms),
            "--connection-timeout-ms",
            str(int(WAIT_S * 1000)),
            "--bootstrap-timeout-ms",
            str(int(WAIT_S * 1000)),
            "--rebalance-timeout-ms",
            str(REBALANCE_TIMEOUT_MS),
            "--max-poll-records",
            "50",
            "--batch-delay-ms",
            "20",
            "--client-id",
            name,
            *(["--failsafe"] if slot[0] in self.shape.failsafe else []),
        ]
        return self.children.start(
            name,
            self._module(slot, ["consumer", *flags]),
            self.folder / "run" / engine.CONSUMERS / f"{name}.jsonl",
            self.folder / "logs" / f"{name}.log",
            self._release(slot),
        )

    def _release(self, slot: str) -> Path | None:
        """Which release a slot runs; None: the present one."""
        return None if slot in self.newer or self.before is None else self.before.folder

    def _module(self, slot: str, flags: list[str]) -> list[str]:
        """The program of a coordinator or consumer: of the next release for the slots in `newer`,
        or of the present one where the others run an earlier one.
        """
        if self.before is not None and slot not in self.newer:
            is_consumer = flags[0] == "consumer"
            module = "consumer.verifiable" if is_consumer else self.before.command_module
            return [module, *flags[is_consumer:]]
        if self.before is not None:
            return ["tests.chaos.jumping", *flags]
        return (
            ["tests.chaos.newer", *flags]
            if slot in self.newer
            else (
                ["tests.chaos.weakened", self.weakened, *flags]
                if self.weakened
                else ["tests.chaos.jumping", *flags]
            )
        )

    def start_producer(self, group: str, topic: str) -> None:
        """The producer of a group's topic."""
        name = f"producer-{group}"
        flags = [
            "--bootstrap-servers",
            self.broker.address,
            "--topic",
            topic,
            "--partitions",
            str(self.shape.partitions),
            "--rate",
            str(self.shape.rate),
        ]
        self.running[name] = self.children.start(
            name,
            ["zkcoord.demo.producer", *flags],
            self.folder / "run" / engine.PRODUCERS / f"{name}.jsonl",
            self.folder / "logs" / f"{name}.log",
        )

    def rest(self) -> None:
        """Until nobody has been commanded anything for a while."""
        self.wait(lambda: time.time_ns() - self.seen.last_command_ns > REST_NS, "groups at rest")

    # ending processes

    def kill(self, slot: str) -> None:
        """kill -9."""
        child = self.running.pop(slot)
        self.children.kill(child)
        self.gone(child, True)

    def gone(self, child: DemoProcess, killed: bool) -> None:
        """Write a process's end down."""
        self.story.exit(child.name, killed, self.children.last_sign_ns(child))

    def leave(self, slot: str) -> None:
        """SIGTERM, without waiting (`await_left` does)."""
        child = self.running.pop(slot)
        self.children.terminate(child)
        self.ended.append(child)

    def await_left(self) -> list[str]:
        """Wait for those that were asked to leave; a sentence for each that did not end cleanly."""
        wrong = []
        for child in self.ended:
            status = self.children.wait_gone(child, WAIT_S)
            self.gone(child, False)
            if status:
                wrong.append(f"{child.name} ended with status {status} after a SIGTERM")
        self.ended.clear()
        return wrong

    # waiting, looking

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Until the condition, asked under the lock of what the processes said. Raises
        `ScenarioError`.
        """
        self.children.wait_for(condition, timeout_s, what)

    def runs(self, slot: str) -> bool:
        """Has this slot's process begun its work, with its signals set up? (under the lock)"""
        child = self.running[slot]
        return (
            STARTS in child.log.read_text(encoding="utf-8")
            if slot in COORDINATORS
            else child.name in self.seen.registered
        )

    def fetched_since(self, t_ns: int, group: str = "") -> bool:
        """Were records of every partition (of a group) handed out since? (under the lock)"""
        prefix = f"{TOPICS[group]}-" if group else ""
        return all(
            self.seen.handed_out_ns.get(at, 0) > t_ns
            for at in self.partitions
            if at.startswith(prefix)
        )

    def write_stored(self) -> None:
        """What is stored at the end, for the checker: read after a sync."""
        client = connect(self.ensemble.hosts + CHROOT)
        try:
            for group, topic in TOPICS.items():
                self.story.stored(time.time_ns(), topic, self._stored(client, group, topic))
        finally:
            disconnect(client)

    def _stored(self, client: KazooClient, group: str, topic: str) -> Mapping[int, int]:
        client.sync("/")
        found = {
            number: client.get(Layout.DRAFT.offset(group, TopicPartition(topic, number)))[0]
            for number in range(self.shape.partitions)
        }
        return {number: int(data) for number, data in found.items()}

    def keep(self, name: str, content: object) -> None:
        """A document beside the run's files."""
        (self.folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
