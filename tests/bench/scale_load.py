"""What the parts with many real members share: members that say when things happened to them, a
timetable that is kept while the hub turns, and what coordinator, server and members cost meanwhile.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import psutil

from consumer.core import messages as msg
from tests.bench.figures import Bar, Row
from tests.bench.scale_rig import CoordinatorProcess, Rig
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import Member

TURN_S = 0.02
LIMIT_PERCENT = 80.0
"""A thread that is busier, or waits for a processor, keeps members waiting."""


class Hearer(Protocol):
    """Hears what each member is told, when it is told it."""

    def heard(self, member: TimedMember, message: msg.ToFetcher, now_s: float) -> None: ...


class TimedMember(Member):
    """A member that knows when it was made, registered and first given something. `key` is the
    same for a static member that is back.
    """

    counter = itertools.count()

    def __init__(
        self, hub: Hub, hearer: Hearer, group: str, topics: Sequence[str], instance: str = ""
    ) -> None:
        self.hearer = hearer
        self.key = instance or f"#{next(self.counter)}"
        self.generation = 0  # of the command that is being obeyed
        self.made_s = time.monotonic()
        self.registered_s: float | None = None
        self.assigned_s: float | None = None
        super().__init__(hub, group, topics, instance=instance or None)

    def _hear(self, message: msg.ToFetcher) -> None:
        now_s = time.monotonic()
        super()._hear(message)
        if isinstance(message, msg.Notice):
            if message.kind is msg.NoticeKind.REGISTERED and self.registered_s is None:
                self.registered_s = now_s
            elif message.kind is msg.NoticeKind.COMMAND:
                self.generation = int(message.detail["generation"])
        elif isinstance(message, msg.Assigned) and self.assigned_s is None:
            self.assigned_s = now_s
        self.hearer.heard(self, message, now_s)

    @property
    def from_made_ms(self) -> float:
        """From its constructor to its first assignment."""
        assert self.assigned_s is not None
        return (self.assigned_s - self.made_s) * 1000

    @property
    def from_registered_ms(self) -> float:
        """From its registration to its first assignment."""
        assert self.assigned_s is not None and self.registered_s is not None
        return (self.assigned_s - self.registered_s) * 1000


class Timetable:
    """What is to be done when; `late_ms` is how much later each was done."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.count = itertools.count()
        self.late_ms: list[float] = []
        self.longest_turn_ms = 0.0

    def at(self, when_s: float, act: Callable[[], None]) -> None:
        """Do it then."""
        heapq.heappush(self.due, (when_s, next(self.count), act))

    def forget(self) -> None:
        """Do nothing more of it, and count anew."""
        self.due.clear()
        self.late_ms, self.longest_turn_ms = [], 0.0

    def run_until(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Keep it until `condition` holds; AssertionError when it does not in time."""
        until = time.monotonic() + timeout_s
        while not condition():
            now_s = time.monotonic()
            assert now_s < until, f"waited {timeout_s:.0f} s in vain for {what}"
            while self.due and self.due[0][0] <= now_s:
                when_s, _, act = heapq.heappop(self.due)
                self.late_ms.append((now_s - when_s) * 1000)
                act()
            wait_s = min(TURN_S, max(0.0, self.due[0][0] - now_s)) if self.due else TURN_S
            before_s = time.process_time()
            self.hub.turn(wait_s)
            took_ms = (time.process_time() - before_s) * 1000
            self.longest_turn_ms = max(self.longest_turn_ms, took_ms)


def ran_and_waited_s(pid: int | str = "self") -> tuple[float, float]:
    """How long the main thread of a process has run, and has waited for a processor."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


class Cost:
    """What everybody spends from now on. What the hub's process has so far is not searched for
    garbage again: there are as many members as a deployment has in a thousand processes.
    """

    def __init__(self, rig: Rig, hub: Hub, process: CoordinatorProcess) -> None:
        gc.collect()
        gc.freeze()
        self.hub = hub
        self.process = process
        self.server = psutil.Process(rig.server.pid)
        self.said = process.now(hub)
        self.began_s = time.monotonic()
        self.server_s = self._server_s()
        self.members, self.leader = ran_and_waited_s(), ran_and_waited_s(process.process.pid)

    def _server_s(self) -> float:
        times = self.server.cpu_times()
        return float(times.user + times.system)

    def rows(self, changes: int, table: Timetable) -> tuple[list[Row], list[str], int]:
        """The rows until now, notes to them, and how many groups wait for their turn."""
        seconds = time.monotonic() - self.began_s
        server = self._server_s() - self.server_s
        ran, waited = spent(self.members, ran_and_waited_s(), seconds)
        _, held_up = spent(self.leader, ran_and_waited_s(self.process.process.pid), seconds)
        said = self.process.now(self.hub)
        gc.unfreeze()
        used_s = said["cpu_s"] - self.said["cpu_s"]
        multis = said["multis"] - self.said["multis"]
        read = said["received"] - self.said["received"]
        before_mib = self.said["rss_mib"]
        change, share, main = "by changes", "all its threads", "its main thread"
        rows = [
            Row("coordinator: processor time", change, [used_s * 1000 / changes]),
            Row("coordinator: share of a core", share, [100 * used_s / seconds], (), "%"),
            Row("coordinator: waits for a processor", main, [held_up], (), "%"),
            Row("coordinator: transactions", change, [multis / changes], (), "multis"),
            Row("coordinator: read", change, [read / 1024 / changes], (), "KiB"),
            Row("coordinator: peak memory", "before the changes", [before_mib], (), "MiB"),
            Row("coordinator: peak memory", "at the end", [said["rss_mib"]], (), "MiB"),
            Row("ZooKeeper: share of a core", share, [100 * server / seconds], (), "%"),
            Row("members: share of a core", main, [ran], (), "%"),
            Row("members: wait for a processor", main, [waited], (), "%"),
            Row("members: longest turn of the hub", "processor time", [table.longest_turn_ms]),
            Row("changes made later than planned", "hub's clock", table.late_ms or [0.0]),
        ]
        notes = [f"{self.limit(ran, waited)} of {seconds:.0f} s."]
        return rows, notes, int(said["queue"])

    @staticmethod
    def limit(ran: float, waited: float) -> str:
        """Whether the members' one thread is what limits everything."""
        found = f"ran {ran:.0f} % and waited {waited:.0f} % for a processor"
        if ran + waited >= LIMIT_PERCENT:
            return (
                "**The members are the limit**, and all times are theirs as much as the"
                f" coordinator's: their one thread {found}"
            )
        return f"The members are not the limit: their one thread {found}"


def spent(
    before: tuple[float, float], after: tuple[float, float], seconds: float
) -> tuple[float, float]:
    """Percent of the time in between that a thread ran, and waited."""
    return 100 * (after[0] - before[0]) / seconds, 100 * (after[1] - before[1]) / seconds


def one_term(process: CoordinatorProcess) -> Row:
    """How many terms there were, by the journal."""
    begun = [
        record
        for record in process.records()
        if record["kind"] == "term" and record["event"] == "elected"
    ]
    return Row("terms of the leader", "journal", [float(len(begun))], (Bar("max", 1),), "terms")


def many_sockets() -> None:
    """As many as this process may have: each session has one."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
