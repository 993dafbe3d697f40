"""Carries a schedule out: each fault at its time, and its undoing at its end."""

from __future__ import annotations

import heapq
import itertools
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.chaos.disks import why_none
from tests.chaos.faking import library
from tests.chaos.rig import TOPICS, Rig
from tests.chaos.schedule import (
    BROKER,
    CLOCKS,
    DISKS,
    JOURNALS,
    SERVERS_CLOCKS,
    ZOOKEEPER,
    Happening,
    Kind,
    Who,
)
from tests.harness.kafka import CHROOT
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.znodes.paths import Layout

SLOW_MS = 150
HALF_AN_HOUR_S = 1_800
JUNK = (
    b"",
    b"\xff\xfe\x00",
    b"{",
    b"[1,2,3]",
    b'{"version":"x","subscription":7}',
    b'{"version":1,"subscription":{"' + b"t" * 3000 + b'":1}}',
)

Undo = Callable[[], None]


class Nemesis:
    """`play` returns when the last fault has ended. `say(text)` tells of each."""

    def __init__(self, rig: Rig, say: Callable[[str], None]) -> None:
        self.rig = rig
        self.say = say
        self.left_out = 0
        self._ends: list[tuple[float, int, Undo]] = []  # of what has begun, by time
        self._numbers = itertools.count()
        self._acts: dict[Who, Callable[[Happening], Undo]] = {
            Who.COORDINATOR: self._process,
            Who.CONSUMER: self._process,
            Who.VISITOR: self._visit,
            Who.ZOOKEEPER: self._zookeeper,
            Who.BROKER: self._broker,
            Who.JOURNALS: self._journals,
        }

    def play(self, schedule: Sequence[Happening]) -> None:
        """Raises `ScenarioError` when a process ends that nobody ended. Nothing begins while
        something is done that takes long (a server that starts, a leader or a member that is waited
        for), and all that follows is later by as much, so that what the schedule keeps apart stays
        apart. What has begun ends in time meanwhile, or it would be waited for what it keeps away.
        """
        began = time.monotonic()
        coming = deque(schedule)
        while coming or self._ends:
            at = began + coming[0].at_ms / 1000 if coming else math.inf
            if self._ends and self._ends[0][0] <= at:
                at, _, act = heapq.heappop(self._ends)
            else:
                act = partial(self._begin, coming.popleft())
            self._until(at)
            acting = time.monotonic()
            act()
            began += time.monotonic() - acting

    def _begin(self, happening: Happening) -> None:
        why_not = self.why_not(happening.kind)
        self.say(f"  {happening.text}" + (f": LEFT OUT, {why_not}" if why_not else ""))
        if why_not:
            self.left_out += 1
            return
        undo = self._acts[happening.kind.who](happening)
        heapq.heappush(
            self._ends, (time.monotonic() + happening.for_ms / 1000, next(self._numbers), undo)
        )

    def _until(self, at: float, condition: Callable[[], bool] = lambda: False) -> bool:
        """Wait for a time, or for the condition before it; whether it was that."""
        met = False

        def enough() -> bool:
            nonlocal met
            met = condition()
            return met or time.monotonic() >= at

        self.rig.wait(enough, "the next fault", max(0.0, at - time.monotonic()) + 60)
        return met

    def _meanwhile(self, condition: Callable[[], bool]) -> None:
        """Until the condition, or until nothing is left of what has begun: that ends in time."""
        while self._ends and not self._until(self._ends[0][0], condition):
            heapq.heappop(self._ends)[2]()

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for the condition, while what has begun ends in time."""
        self._meanwhile(condition)
        self.rig.wait(condition, what)

    def why_not(self, kind: Kind) -> str:
        """Why a fault cannot be had here; empty where it can."""
        if kind in DISKS:
            return why_none()
        return "libfaketime is not here" if kind in SERVERS_CLOCKS and library() is None else ""

    # processes

    def _process(self, happening: Happening) -> Undo:
        rig, slot, kind = self.rig, happening.slot, happening.kind
        if kind in (Kind.COORDINATOR_KILLED, Kind.CONSUMER_KILLED):
            rig.kill(slot)
            return lambda: self._again(slot)
        if kind in (
            Kind.COORDINATOR_STOPPED_BRIEFLY,
            Kind.COORDINATOR_STOPPED_LONG,
            Kind.CONSUMER_STOPPED_BRIEFLY,
            Kind.CONSUMER_STOPPED_LONG,
        ):
            pid = rig.running[slot].pid
            os.kill(pid, signal.SIGSTOP)
            return lambda: os.kill(pid, signal.SIGCONT)
        if kind in CLOCKS:
            return self._jump(slot)
        proxies = rig.proxies[slot]
        for proxy in proxies:
            if kind in (Kind.COORDINATOR_CUT, Kind.CONSUMER_CUT):
                proxy.cut()
            elif kind in (Kind.COORDINATOR_UNREACHED, Kind.CONSUMER_UNREACHED):
                proxy.black_hole()
            else:
                proxy.delay_ms(SLOW_MS)
        return lambda: [proxy.heal() for proxy in proxies] and None

    def _jump(self, slot: str) -> Undo:
        """One jump now and one at the end, of a process that can take them (before it runs, a
        signal would end it).
        """
        child = self.rig.running[slot]
        self._await(lambda: self.rig.runs(slot), f"{child.name} to run")
        os.kill(child.pid, signal.SIGUSR2)
        return lambda: os.kill(child.pid, signal.SIGUSR2)

    def _again(self, slot: str) -> None:
        self.rig.start_process(slot)

    def _visit(self, happening: Happening) -> Undo:
        name = self.rig.start_process(happening.slot).name

        def leave() -> None:
            self._await(lambda: name in self.rig.seen.registered, f"{name} to be a member")
            self.rig.leave(happening.slot)

        return leave

    # servers

    def _broker(self, happening: Happening) -> Undo:
        if happening.kind is Kind.BROKER_CLOCK:
            return self._servers_clock(BROKER)
        if happening.kind is Kind.BROKER_KILLED:
            self.rig.broker.kill()
            return self._when_it_runs(self.rig.broker_again())
        self.rig.broker.pause()
        return self.rig.broker.resume

    def _when_it_runs(self, start: Future[None]) -> Undo:
        def undo() -> None:
            self._meanwhile(start.done)
            start.result()

        return undo

    def _zookeeper(self, happening: Happening) -> Undo:
        ensemble, kind = self.rig.ensemble, happening.kind
        if kind is Kind.JUNK_WRITTEN:
            return self._junk()
        if kind is Kind.ZOOKEEPER_CLOCK:
            return self._servers_clock(ZOOKEEPER)
        if kind is Kind.ZOOKEEPER_DISK_FULL:
            return self._full(ensemble.leader())
        leader = ensemble.leader()
        others = [member for member in ensemble.members.values() if member is not leader]
        if kind is Kind.LEADER_STOPPED:
            leader.pause()
            return leader.resume
        if kind is Kind.LEADER_KILLED:
            victims = [leader]
        elif kind is Kind.FOLLOWER_KILLED:
            victims = others[:1]
        elif kind in (Kind.QUORUM_LOST_BRIEFLY, Kind.QUORUM_LOST_LONG):
            victims = [leader, others[0]]
        else:
            victims = [leader, *others]
        for victim in victims:
            victim.kill()
        return lambda: self._serve_again(victims)

    def _servers_clock(self, slot: str) -> Undo:
        clock = self.rig.clocks[slot]
        clock.put_forward(HALF_AN_HOUR_S)
        return lambda: clock.put_forward(0)

    def _full(self, server: ZooKeeperServer) -> Undo:
        """Its next write fails, and it ends; what is left of it at the end is killed."""
        disk = self.rig.disks[server.number]
        disk.fill()

        def undo() -> None:
            disk.free()
            server.kill()
            server.launch()

        return undo

    def _journals(self, _: Happening) -> Undo:
        disk = self.rig.disks[JOURNALS]
        disk.fill()
        return disk.free

    def _serve_again(self, victims: Sequence[ZooKeeperServer]) -> None:
        for victim in victims:
            victim.launch()

    def _junk(self) -> Undo:
        """What is no registration and no command where those are expected; removed again."""
        paths: list[str] = []
        for number, data in enumerate(JUNK):
            group = list(TOPICS)[number % len(TOPICS)]
            paths += [
                self._put(Layout.DRAFT.registration(group, f"junk-{number}"), data),
                self._put(Layout.DRAFT.group(f"junk-{number}"), data),
            ]
        return lambda: [self._remove(path) for path in paths if path] and None

    def _put(self, path: str, data: bytes) -> str:
        return (
            path if self._plainly(lambda client: client.create(path, data, makepath=True)) else ""
        )

    def _remove(self, path: str) -> None:
        self._plainly(lambda client: client.delete(path, recursive=True))

    def _plainly(self, act: Callable[..., object]) -> bool:
        """With a client of its own; False where ZooKeeper would not have it just now."""
        try:
            client = connect(self.rig.ensemble.hosts + CHROOT)
        except KazooTimeoutError:
            return False
        try:
            act(client)
        except KazooException:
            return False
        finally:
            disconnect(client)
        return True
