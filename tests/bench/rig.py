"""What every section works with: the servers, coordinators, producers and workers of one run;
members in workers; waiting for a group.

Everything is a real process: `zkcoord coordinator` with its shipped defaults, `tests.bench.worker`,
the demo's producer. `DemoProcesses` ends them all, however this program ends. Reading what they say
takes up to 20 ms and costs no figure anything: times are taken by the processes themselves.
"""

from __future__ import annotations

import json
import os
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from tests.bench.group import Group
from tests.harness.kafka import create_topic
from tests.harness.zookeeper import connect, disconnect
from zkcoord.demo.processes import DemoProcess, DemoProcesses, Line
from zkcoord.errors import ConditionTimeoutError
from zkcoord.stack.ports import free_port
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import GetChildren, GetData
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

STEP_TIMEOUT_S = 90.0
READY_TIMEOUT_S = 0.5
END_TIMEOUT_S = 90.0
WARM_S = 5.0
WARM_ROUNDS, WARM_AT_ONCE = 60, 100
SPACING_MIN_S, SPACING_MAX_S = 1.0, 4.0
NS = 1_000_000
LAYOUT = Layout.DRAFT


class Worker:
    """A process for members: `python -m module CONTROL arguments...`. Orders go through a FIFO that
    this side holds open in both directions, so that neither side waits for the other to open it.
    """

    def __init__(
        self, children: DemoProcesses, name: str, folder: Path, module: str, *arguments: str
    ) -> None:
        self.name = name
        control = folder / "control" / name
        control.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(control)
        self._control = os.open(control, os.O_RDWR)
        self.child = children.start(
            name,
            [module, str(control), *arguments],
            folder / "lines" / f"{name}.jsonl",
            folder / "logs" / f"{name}.log",
        )
        self.ready = False
        self.steady = 0

    def order(self, **order: Any) -> None:
        """Tell it something; returns at once."""
        os.write(self._control, json.dumps(order).encode() + b"\n")

    def forget(self) -> None:
        """Close this side."""
        os.close(self._control)


class Rig:
    """One run. `say` shows progress. `zookeeper` and `kafka` are addresses, `zookeeper_port` the
    server's, `kafka_log` the broker's log where it is ours; `asks_brokers`: coordinators are to
    ask for topics.
    """

    def __init__(
        self, folder: Path, zookeeper: str, kafka: str, seed: int, say: Callable[[str], None]
    ) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        self.zookeeper_port = int(zookeeper.partition("/")[0].rpartition(":")[2])
        self.kafka = kafka
        self.say = say
        self.random = random.Random(seed)
        self.children = DemoProcesses(self._line)
        self.client: KazooClient = connect(zookeeper)
        self.workers: dict[str, Worker] = {}
        self.homes: dict[str, tuple[Worker, Group]] = {}
        self.leader = ""
        self.epoch = 0
        self.elected_ns = 0
        self.rebalances: list[Line] = []
        self.written_per_s: list[float] = []
        self.produced: list[tuple[int, int]] = []
        self.kafka_log: Path | None = None
        self.asks_brokers = False
        self.commits: list[Line] = []
        self._ready: dict[str, str] = {}
        self._count = 0

    def warm_up(self) -> None:
        """Ask a ZooKeeper server that has just begun some thousands of requests of each kind: until
        then it interprets them. One beside which a broker has begun is less cold than one without.
        """
        top = f"/{self.unique('warm')}"
        self.client.create(top, b"")
        options = ZkOptions(self.zookeeper)
        with SyncClient(options) as reader:
            for _ in range(WARM_ROUNDS):
                asked: list[Any] = []
                for number in range(WARM_AT_ONCE):
                    writes = self.client.transaction()
                    writes.create(f"{top}/{number}", b"x" * 100, ephemeral=True)
                    writes.set_data(f"{top}/{number}", b"y" * 100)
                    writes.delete(f"{top}/{number}")
                    asked += [writes.commit_async(), self.client.get_children_async(top)]
                    asked += [self.client.sync_async(top), self.client.exists_async(top)]
                for one in asked:
                    one.get(timeout=STEP_TIMEOUT_S)
                reader.read([GetData(top), GetChildren(top)] * WARM_AT_ONCE)
        self.client.delete(top)

    def close(self) -> None:
        """End everything; safe to call twice."""
        self.children.close()
        for worker in self.workers.values():
            worker.forget()
        self.workers.clear()
        if self.client.connected:
            disconnect(self.client)

    def unique(self, prefix: str) -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def _line(self, name: str, line: Line) -> None:
        if (
            line.get("kind") == "term"
            and line.get("event") == "elected"
            and line["epoch"] > self.epoch
        ):
            self.leader, self.epoch, self.elected_ns = name, line["epoch"], line["t"] * NS
        elif line.get("kind") == "rebalance":
            self.rebalances.append(line)
        elif line.get("event") == "ready" and name in self.workers:
            self.workers[name].ready = True
        elif line.get("event") == "produced":
            self.produced.append((line["t"], sum(line["ends"].values())))
        elif line.get("event") == "written":
            self.written_per_s.append(line["per_s"])
        elif line.get("event") in ("committed", "stored"):
            self.commits.append(line)
        elif line.get("event") == "steady" and name in self.workers:
            self.workers[name].steady = line["members"]
        elif line.get("who") in self.homes:
            self.homes[line["who"]][1].line(line["who"], line)

    # waiting

    def wait(
        self, condition: Callable[[], bool], what: str, timeout_s: float = STEP_TIMEOUT_S
    ) -> None:
        """Until it holds (asked under the lock). Raises `ScenarioError`."""
        self.children.wait_for(condition, timeout_s, what)

    def wait_balanced(self, group: Group, members: Collection[str]) -> None:
        """Until exactly these members own and fetch everything."""
        try:
            self.wait(lambda: group.balanced(members), f"a balanced group of {len(members)}")
        except ConditionTimeoutError as error:
            raise ConditionTimeoutError(f"{error}: {group.shown()}") from error

    def pause(self) -> None:
        """The random time between two events, so that they fall anywhere between heartbeats."""
        time.sleep(self.random.uniform(SPACING_MIN_S, SPACING_MAX_S))

    # coordinators

    def start_coordinator(self, name: str, *flags: str) -> None:
        """`zkcoord coordinator`."""
        journal = self.folder / "journals" / name
        again = journal.exists()
        port = free_port()
        self._ready[name] = f"http://127.0.0.1:{port}/ready"
        command = [
            "zkcoord.cli.main",
            "coordinator",
            "--zookeeper",
            self.zookeeper,
            "--http-port",
            str(port),
            "--journal-dir",
            str(journal),
            *(["--bootstrap-servers", self.kafka] if self.asks_brokers else []),
            *flags,
        ]
        self.children.start(
            name,
            command,
            self.folder / "lines" / f"{name}.out",
            self.folder / "logs" / f"{name}.log",
        )
        if not again:
            self.children.follow_folder(name, journal)

    def is_ready(self, name: str) -> bool:
        """Does this coordinator lead or stand by?"""
        try:
            with urllib.request.urlopen(self._ready[name], timeout=READY_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    @contextmanager
    def coordinators(self, *flags: str) -> Iterator[None]:
        """A leader and a standby inside the block."""
        names = [self.unique("coordinator-"), self.unique("coordinator-")]
        self.leader = ""
        for name in names:
            self.start_coordinator(name, *flags)
        self.wait(
            lambda: self.leader in names and all(map(self.is_ready, names)),
            "a coordinator that leads and one that stands by",
        )
        try:
            yield
        finally:
            self.end(*(self.children.children[name] for name in names))

    def end(self, *children: DemoProcess) -> None:
        """SIGTERM for all of them, and wait; who does not end is killed."""
        running = [child for child in children if child.alive]
        for child in children:
            child.expected_to_end = True
        for child in running:
            self.children.terminate(child)
        for child in running:
            try:
                self.children.wait_gone(child, END_TIMEOUT_S)
            except ConditionTimeoutError as error:
                self.say(f"  {error}: killed")
                self.children.kill(child)

    # topics

    def topic(self, partitions: int) -> str:
        """A new, empty topic."""
        return create_topic(self.kafka, self.unique("bench-"), partitions)

    @contextmanager
    def producer(self, topic: str, partitions: int, per_s: int) -> Iterator[None]:
        """A steady load inside the block; none with `per_s` 0. The block begins when `WARM_S` worth
        of records is in: at first producer and broker are cold, and records lie about for a second.
        """
        if not per_s:
            yield
            return
        name = self.unique("producer-")
        self.produced.clear()
        flags = [
            "--bootstrap-servers",
            self.kafka,
            "--topic",
            topic,
            "--partitions",
            str(partitions),
            "--rate",
            str(per_s),
        ]
        child = self.children.start(
            name,
            ["zkcoord.demo.producer", *flags],
            self.folder / "lines" / f"{name}.jsonl",
            self.folder / "logs" / f"{name}.log",
        )
        try:
            self.wait(
                lambda: bool(self.produced) and self.produced[-1][1] >= per_s * WARM_S,
                "a steady load",
            )
            yield
        finally:
            self.end(child)

    def produced_per_s(self) -> float:
        """Records per second that the broker acknowledged to the last producer."""
        with self.children.lock:
            if len(self.produced) < 2:
                return 0.0
            (first_ns, first), (last_ns, last) = self.produced[0], self.produced[-1]
        return (last - first) / ((last_ns - first_ns) / 1e9)

    # members

    def worker(self, module: str = "tests.bench.worker", *arguments: str) -> Worker:
        """A process that is loaded and waits for orders."""
        name = self.unique("worker-")
        worker = Worker(self.children, name, self.folder, module, *arguments)
        with self.children.lock:
            self.workers[name] = worker
        return worker

    def wait_ready(self, *workers: Worker) -> None:
        """Until these are loaded."""
        self.wait(lambda: all(worker.ready for worker in workers), "the workers")

    def join(self, group: Group, worker: Worker, order: Mapping[str, Any]) -> str:
        """Construct a member there; its name. Returns at once."""
        who = self.unique("m")
        with self.children.lock:
            group.expect(who)
            self.homes[who] = (worker, group)
        worker.order(do="new", who=who, **order)
        return who

    def leave(self, who: str, at_ns: int = 0) -> None:
        """Close a member, at that moment where one is given (wall clock). Returns at once."""
        self.homes[who][0].order(do="close", who=who, at=at_ns)

    def kill(self, worker: Worker) -> int:
        """kill -9; the time just before it. Its members are gone."""
        killed_ns = self.children.kill(worker.child)
        self.buried(worker)
        return killed_ns

    def buried(self, worker: Worker) -> None:
        """Members of this worker are no more, whatever they still say."""
        with self.children.lock:
            for who, (home, group) in list(self.homes.items()):
                if home is worker:
                    group.gone(who)
                    del self.homes[who]
        self.children.changed()

    @contextmanager
    def staff(self, count: int) -> Iterator[list[Worker]]:
        """So many workers inside the block, and whatever else was started meanwhile: all are ended
        after it.
        """
        before = set(self.workers)
        workers = [self.worker() for _ in range(count)]
        try:
            self.wait_ready(*workers)
            yield workers
        finally:
            mine = [worker for name, worker in self.workers.items() if name not in before]
            self.end(*(worker.child for worker in mine))
            for worker in mine:
                self.buried(worker)
                worker.forget()
                with self.children.lock:
                    del self.workers[worker.name]

    # orders

    def ours(self, group: str, topic: str, records: bool = False, **configs: Any) -> dict[str, Any]:
        """A member of zkcoord's; everything that is not named is the shipped default."""
        return {
            "kind": "zkcoord",
            "topic": topic,
            "records": records,
            "configs": {"zookeeper_connect": self.zookeeper, "group_id": group, **configs},
        }

    def theirs(self, group: str, topic: str, **configs: Any) -> dict[str, Any]:
        """A member of kafka-python's own group."""
        return {
            "kind": "kafka",
            "topic": topic,
            "configs": {"bootstrap_servers": self.kafka, "group_id": group, **configs},
        }

    def registered_ns(self, group_id: str, name: str) -> int:
        """When the server created this registration (its ctime, whole milliseconds)."""
        stat = self.client.exists(LAYOUT.registration(group_id, name))
        assert stat is not None, f"{name} is not registered"
        return int(stat.ctime) * NS

    def when_gone(self, group_id: str, name: str) -> list[int]:
        """A list that will hold the time at which the end of this registration was heard of
        here.
        """
        times: list[int] = []
        stat = self.client.exists(
            LAYOUT.registration(group_id, name), watch=lambda _: times.append(time.time_ns())
        )
        assert stat is not None, f"{name} is not registered"
        return times
