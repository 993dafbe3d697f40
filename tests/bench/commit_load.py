"""Thousands of members that commit: `python -m tests.bench.commit_load CONTROL HOSTS TOPIC TOTAL
EACH INTERVAL_MS`.

Each is the consumer's own driver on a session of its own, all in one thread (`scale_wire`), in
groups that share a topic of TOTAL partitions, EACH for a member. Nothing is fetched; but once all
own their share every member polls and commits all that it owns every INTERVAL_MS, each time one
offset further, at a moment of its own, as automatic commits do where records come all the time.
With 0 it commits again as soon as the last commit is answered. CONTROL is a FIFO with orders:

    {"do": "grow", "members": 500}      so many in all; whole groups are added

It prints {"event": "steady", "members"} once so many own their share, and from then on each second

    {"event": "stored", "t", "s", "due", "behind", "failed", "us"}

`us`: how long each commit took in microseconds, counted from the moment at which it was due,
however late this program came to it; `behind`: those of the ones that were due that were left out,
because the last one was not answered yet or the next is due already; `failed`: those that were not
stored. SIGTERM: all leave their groups.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import resource
import selectors
import signal
import sys
import time
from types import FrameType
from typing import Any

from consumer.core import messages as msg
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import Member
from zkcoord.core.model import TopicPartition

SESSION_MS = 60_000
JOINING_MAX = 100
REPORT_S = 1.0
TURN_S = 0.05
LEAVE_S = 60.0


def tell(event: str, **fields: Any) -> None:
    """One line."""
    sys.stdout.write(
        json.dumps({"event": event, "t": time.time_ns(), **fields}, separators=(",", ":")) + "\n"
    )
    sys.stdout.flush()


class Committing(Member):
    """A member that commits when it is told to; `load` hears how it ended."""

    def __init__(self, load: Load, group: str, number: int) -> None:
        self.load = load
        self.owned: dict[TopicPartition, None] = {}
        self.offset = 0
        self.due_s: float | None = None  # of the commit that is under way
        super().__init__(load.hub, group, [load.topic], f"host-{number:03d}")

    def _hear(self, message: msg.ToFetcher) -> None:
        super()._hear(message)
        if isinstance(message, msg.Assigned):
            self.owned.update(dict.fromkeys(message.offsets))
            self.load.settle(self)
        elif isinstance(message, (msg.Lost, msg.Revoke)):
            for tp in message.partitions:
                self.owned.pop(tp, None)
            self.load.settle(self)
        elif isinstance(message, msg.CommitDone):
            due_s, self.due_s = self.due_s, None
            assert due_s is not None, message
            self.load.answered(self, due_s, message.outcome is msg.CommitOutcome.OK)

    def commit(self, due_s: float) -> None:
        """Commit everything, one offset further."""
        self.due_s = due_s
        self.offset += 1
        self.hub.drive(self.driver, self._commit)

    def _commit(self) -> None:
        self.driver.receive(msg.Polled())
        self.driver.receive(
            msg.Commit(self.offset, dict.fromkeys(self.owned, self.offset), self.assignment_epoch)
        )


class Load:
    """All members, when each is due, and what came of it."""

    def __init__(self, hosts: str, topic: str, total: int, each: int, interval_ms: int) -> None:
        self.hub = Hub(hosts, SESSION_MS)
        self.topic, self.each, self.interval_s = topic, each, interval_ms / 1000
        self.per_group = total // each
        self.random = random.Random(0)
        self.count = itertools.count()
        self.members: list[Committing] = []
        self.settled: set[Committing] = set()
        self.due: list[tuple[float, int, Committing]] = []
        self.wanted = 0
        self.told = 0
        self.stopping = False
        self._restart(time.monotonic())

    def _restart(self, now_s: float) -> None:
        self.since_s, self.was_due, self.behind, self.failed = now_s, 0, 0, 0
        self.took_us: list[int] = []

    def settle(self, member: Committing) -> None:
        """It owns something more or less: is that its share?"""
        if len(member.owned) == self.each:
            self.settled.add(member)
        else:
            self.settled.discard(member)

    def answered(self, member: Committing, due_s: float, stored: bool) -> None:
        """A commit ended."""
        now_s = time.monotonic()
        self.failed += not stored
        if stored:
            self.took_us.append(round((now_s - due_s) * 1e6))
        if not self.interval_s and not self.stopping:
            member.commit(now_s)

    def _later(self, member: Committing, due_s: float) -> None:
        heapq.heappush(self.due, (due_s, next(self.count), member))

    def grow(self) -> None:
        """Add groups, few members at a time on their way in."""
        while (
            len(self.members) < self.wanted and len(self.members) - len(self.settled) < JOINING_MAX
        ):
            group = f"load-{os.getpid()}-{len(self.members) // self.per_group}"
            self.members += [Committing(self, group, number) for number in range(self.per_group)]
        if self.wanted > self.told and len(self.settled) >= self.wanted:
            now_s = time.monotonic()
            for member in self.members[self.told :]:
                self._later(member, now_s + self.random.uniform(0, self.interval_s))
            self.told = len(self.members)
            self._restart(now_s)
            tell("steady", members=self.told)

    def turn(self) -> None:
        """What is due, and what arrives."""
        now_s = time.monotonic()
        while self.due and self.due[0][0] <= now_s:
            due_s, _, member = heapq.heappop(self.due)
            self.was_due += 1
            if member.due_s is None and (now_s - due_s < self.interval_s or not self.interval_s):
                member.commit(due_s)
            else:
                self.behind += 1
            if self.interval_s:
                self._later(member, due_s + self.interval_s)
        self.hub.turn(max(0.0, min(TURN_S, self.due[0][0] - now_s)) if self.due else TURN_S)
        if self.told and now_s - self.since_s >= REPORT_S:
            tell(
                "stored",
                s=now_s - self.since_s,
                due=self.was_due,
                behind=self.behind,
                failed=self.failed,
                us=self.took_us,
            )
            self._restart(now_s)

    def leave(self) -> None:
        """All of them, at once."""
        self.stopping = True
        self.due.clear()
        for member in self.members:
            member.leave()
        until_s = time.monotonic() + LEAVE_S
        while time.monotonic() < until_s and not all(member.gone for member in self.members):
            self.hub.turn(TURN_S)
        self.hub.close()


class Orders:
    """What comes through the FIFO, taken by the hub's selector."""

    def __init__(self, load: Load, path: str) -> None:
        self.load = load
        self.rest = b""
        self.descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        load.hub.selector.register(self.descriptor, selectors.EVENT_READ, self)

    def ready(self, _what: int) -> None:
        """The selector says so."""
        *lines, self.rest = (self.rest + os.read(self.descriptor, 65536)).split(b"\n")
        for line in lines:
            self.load.wanted = json.loads(line)["members"]


def leave(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM."""
    raise SystemExit(0)


def main() -> int:
    """Obey until the end."""
    control, hosts, topic, *numbers = sys.argv[1:]
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))  # a socket for each
    load = Load(hosts, topic, *map(int, numbers))
    Orders(load, control)
    signal.signal(signal.SIGTERM, leave)
    tell("ready")
    try:
        while True:
            load.grow()
            load.turn()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        load.leave()


if __name__ == "__main__":
    raise SystemExit(main())
