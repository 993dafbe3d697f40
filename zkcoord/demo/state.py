"""Who owns what now, as the processes' own lines tell it. A fold: lines in, a picture of the group
out; it starts nothing, waits for nothing and judges nothing.

All methods are called under the lock of `processes.Children`. Times are wall-clock nanoseconds.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

RATE_WINDOW_NS = 2_000_000_000
NOTES_MAX = 200

Line = Mapping[str, Any]


class ProcessKind(enum.Enum):
    """What a process is."""

    CONSUMER = "consumer"
    COORDINATOR = "coordinator"
    PRODUCER = "producer"
    ROGUE = "rogue"
    GATEWAY = "gateway"


class ConsumerPhase(enum.Enum):
    """Where a consumer stands; the values are shown."""

    STARTING = "starting"
    WAITING = "waiting"
    MEMBER = "member"
    CLOSING = "leaving"
    GONE = "left"
    KILLED = "killed"


@dataclass
class ConsumerView:
    """One consumer process. `owned` are partition numbers; `fetched` those of them whose first
    fetch came since (or whose first records: not every client tells of fetches).
    """

    name: str
    number: int
    phase: ConsumerPhase = ConsumerPhase.STARTING
    owned: set[int] = field(default_factory=set)
    fetched: set[int] = field(default_factory=set)
    delivered: int = 0
    registered_ns: int = 0


class GroupShown:
    """The group. `leader` is the name of the coordinator process that leads, "" for none known."""

    def __init__(self, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self.kinds: dict[str, ProcessKind] = {}
        self.consumers: dict[str, ConsumerView] = {}
        self.leader = ""
        self.epoch = 0
        self.elected_ns = 0
        self.last_fetch_ns = 0
        self.commands = 0
        self.fired: dict[str, int] = {}
        self.produced: dict[int, int] = {}
        self.produced_ns = 0
        self.handed_out: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.delivered = 0
        self.notes: deque[tuple[int, str]] = deque(maxlen=NOTES_MAX)
        self._recent: deque[tuple[int, int]] = deque()

    # processes

    def expect(self, name: str, kind: ProcessKind) -> None:
        """A process of this name is started."""
        self.kinds[name] = kind
        if kind is ProcessKind.CONSUMER and name not in self.consumers:
            self.consumers[name] = ConsumerView(name, len(self.consumers))

    def gone(self, name: str, killed: bool) -> None:
        """A process is gone."""
        if name in self.consumers:
            view = self.consumers[name]
            view.phase = ConsumerPhase.KILLED if killed else ConsumerPhase.GONE
            view.owned.clear()
            view.fetched.clear()
        if name == self.leader:
            self.leader = ""

    def note(self, text: str) -> None:
        """Something that people want to read."""
        self.notes.append((self._now_ns(), text))

    # lines

    def line(self, name: str, line: Line) -> None:
        """Take a line of a process."""
        kind = self.kinds.get(name)
        if kind is ProcessKind.CONSUMER:
            self._consumer(self.consumers[name], line)
        elif kind is ProcessKind.PRODUCER and line.get("event") == "produced":
            self.produced.update({_number(at): end for at, end in line["ends"].items()})
            self.produced_ns = line["t"]
        elif kind is ProcessKind.COORDINATOR:
            self._coordinator(name, line)
        elif kind is ProcessKind.ROGUE and line.get("event") == "records":
            self.fired[name] = self.fired.get(name, 0) + line["count"]

    def _coordinator(self, name: str, line: Line) -> None:
        if line.get("kind") == "term" and line.get("event") == "elected":
            if line["epoch"] > self.epoch:
                self.leader, self.epoch, self.elected_ns = (
                    name,
                    line["epoch"],
                    line["t"] * 1_000_000,
                )
                self.note(f"{name} leads, epoch {self.epoch}")
        elif line.get("kind") == "rebalance":
            self.note(
                f"{name}: {line['cause']}, {line['moved']} partitions moved in"
                f" {line['duration_ms']} ms"
            )

    def _consumer(self, view: ConsumerView, line: Line) -> None:
        event = line.get("event")
        if event == "records":
            self._records(view, line)
        elif event == "committed":
            self.committed.update(
                {
                    _number(at): max(offset, self.committed.get(_number(at), 0))
                    for at, offset in line.get("offsets", {}).items()
                }
            )
        elif event == "registered":
            view.phase, view.registered_ns = ConsumerPhase.MEMBER, line["t"]
        elif event == "assigned":
            view.owned.update(map(_number, line["offsets"]))
        elif event in ("revoked", "lost"):
            left = set(map(_number, line["positions" if event == "revoked" else "partitions"]))
            view.owned -= left
            view.fetched -= left
            if event == "lost" and left:
                self.note(f"{view.name} lost {len(left)} partitions: {line['reason']}")
        elif event == "first_fetch":
            self._fetched(view, _number(line["partition"]), line["t"])
        elif event == "waiting":
            view.phase = ConsumerPhase.WAITING
        elif event == "closing":
            view.phase = ConsumerPhase.CLOSING
            view.owned.clear()
            view.fetched.clear()
        elif event == "fault":
            self.fired[view.name] = self.fired.get(view.name, 0) + 1
        elif event == "notice" and line.get("kind") == "command":
            self.commands += 1
        elif event == "error":
            self.note(f"{view.name}: {line['message']}")

    def _fetched(self, view: ConsumerView, number: int, t_ns: int) -> None:
        view.fetched.add(number)
        self.last_fetch_ns = max(self.last_fetch_ns, t_ns)

    def _records(self, view: ConsumerView, line: Line) -> None:
        view.delivered += line["count"]
        self.delivered += line["count"]
        for at, ranges in line["ranges"].items():
            number = _number(at)
            self.handed_out[number] = max(self.handed_out.get(number, 0), ranges[-1][1] + 1)
            if number in view.owned and number not in view.fetched:
                self._fetched(view, number, line["t"])
        self._recent.append((line["t"], line["count"]))

    def stored(self, offsets: Mapping[int, int]) -> None:
        """What an observer found stored."""
        self.committed.update(
            {
                number: max(offset, self.committed.get(number, 0))
                for number, offset in offsets.items()
            }
        )

    # questions

    def balanced(self, members: Collection[str], partitions: int) -> bool:
        """Do exactly these members own all partitions, each one, within one of each other, and is
        each partition fetched?
        """
        views = [view for view in self.consumers.values() if view.owned or view.name in members]
        sizes = [len(view.owned) for view in views]
        return (
            {view.name for view in views} == set(members)
            and all(
                view.phase is ConsumerPhase.MEMBER and view.owned <= view.fetched for view in views
            )
            and sum(sizes) == partitions == len(set().union(*[view.owned for view in views]))
            and max(sizes) - min(sizes) <= 1
        )

    def caught_up(self) -> bool:
        """Was everything that was produced handed out?"""
        return all(self.handed_out.get(number, 0) >= end for number, end in self.produced.items())

    @property
    def rate(self) -> float:
        """Records handed out per second of late."""
        since = self._now_ns() - RATE_WINDOW_NS
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        return sum(count for _, count in self._recent) / (RATE_WINDOW_NS / 1e9)

    @property
    def lag(self) -> int:
        """Records produced and not yet committed."""
        return sum(
            max(0, end - self.committed.get(number, 0)) for number, end in self.produced.items()
        )


def _number(partition: str) -> int:
    """The number of a partition that is written topic-number."""
    return int(partition.rpartition("-")[2])
