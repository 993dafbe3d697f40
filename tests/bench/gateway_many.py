"""A thousand members of clients on one gateway, in fifty groups, and further joins beside them.

The members are light (`gateway_members`): raw protocol clients in a few processes. When all groups
stand, one member after the other joins a group, each another one, and leaves again. A join is over
when every partition of its group is owned once and evenly, by what the members say. Memory: what
the gateway's process has resident with all members, less what it had before, for each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.bench.figures import Bar, Row, Section
from tests.bench.gateway_place import THROUGH, Place
from tests.bench.running import say
from tests.harness.kafka import create_topic, unique
from zkcoord.errors import UnavailableError
from zkcoord.stack.process import owned_command

ROOT = Path(__file__).parents[2]
GROUPS, QUICK_GROUPS = 50, 5
MEMBERS = 20
PARTITIONS = 60
PROCESSES = 4
AT_ONCE = 10
JOINS, QUICK_JOINS = 50, 5
QUIET_S = 1.0
FORM_S, JOIN_S = 300.0, 30.0
JOIN_MS = 300.0
KIB = 1024.0


class Crowd:
    """The processes. `owned`: member -> what it has; `changed_s`: group -> when a member of it last
    said what it has (monotonic).
    """

    def __init__(self, address: str, topic: str) -> None:
        self.owned: dict[str, frozenset[int]] = {}
        self.groups: dict[str, set[str]] = {}
        self.changed_s: dict[str, float] = {}
        self.failed: list[str] = []
        self._ready = 0
        self._group_of: dict[str, str] = {}
        self._home: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Condition()
        command = [sys.executable, "-m", "tests.bench.gateway_members", address, topic]
        self._processes = [
            subprocess.Popen(
                owned_command(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for _ in range(PROCESSES)
        ]
        for process in self._processes:
            threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def __enter__(self) -> Crowd:
        self.wait(lambda: self._ready == PROCESSES, FORM_S, "the processes of light clients")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            at, name, text = (*line.split(maxsplit=2), "")[:3]
            with self._lock:
                self._take(int(at) / 1e9, name, text.strip())
                self._lock.notify_all()

    def _take(self, at: float, name: str, text: str) -> None:
        if text == "ready":
            self._ready += 1
        elif text.startswith("failed"):
            self.failed.append(f"{name} {text}")
        elif text == "left":
            self.owned.pop(name, None)
            self.groups[self._group_of[name]].discard(name)
        else:
            self.owned[name] = frozenset(map(int, text.split(","))) if text else frozenset()
            group = self._group_of[name]
            self.changed_s[group] = max(at, self.changed_s.get(group, 0.0))

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Until it holds, asked under the lock."""
        with self._lock:
            if not self._lock.wait_for(lambda: bool(self.failed) or condition(), seconds):
                raise UnavailableError(f"not within {seconds:.0f} s: {what}")
            if self.failed:
                raise UnavailableError(f"{what}: {self.failed[0]}")

    def join(self, name: str, group: str) -> float:
        """Returns at once; when it was."""
        with self._lock:
            home = self._processes[len(self._home) % PROCESSES]
            self._home[name] = home
            self._group_of[name] = group
            self.groups.setdefault(group, set()).add(name)
        at = time.monotonic()
        self._order(home, f"join {name} {group}")
        return at

    def leave(self, name: str) -> None:
        """Returns at once."""
        self._order(self._home[name], f"leave {name}")

    def _order(self, home: subprocess.Popen[str], line: str) -> None:
        assert home.stdin is not None
        home.stdin.write(line + "\n")
        home.stdin.flush()

    def is_even(self, group: str) -> bool:
        """Whether its members have everything, each partition once, evenly."""
        parts = [self.owned.get(name, frozenset()) for name in self.groups[group]]
        sizes = [len(part) for part in parts]
        return (
            len(frozenset().union(*parts)) == PARTITIONS == sum(sizes)
            and max(sizes) - min(sizes) <= 1
        )


def form(crowd: Crowd, groups: list[str]) -> None:
    """All groups, `AT_ONCE` members at a time."""
    names = [(f"{group}-{n}", group) for n in range(MEMBERS) for group in groups]
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        for name, group in some:
            crowd.join(name, group)
        arrived(crowd, [name for name, _ in some])
    crowd.wait(lambda: all(map(crowd.is_even, groups)), FORM_S, "groups that share evenly")


def arrived(crowd: Crowd, names: list[str]) -> None:
    """Wait until these have said what they have."""
    crowd.wait(lambda: all(name in crowd.owned for name in names), FORM_S, "members")


def come_and_go(crowd: Crowd, group: str) -> float:
    """One more member, and without it again; how long its join took, in ms."""
    name = unique("joiner")
    time.sleep(QUIET_S)
    at = crowd.join(name, group)
    crowd.wait(
        lambda: bool(crowd.owned.get(name)) and crowd.is_even(group), JOIN_S, "an even group"
    )
    took = 1000 * (crowd.changed_s[group] - at)
    crowd.leave(name)
    crowd.wait(lambda: name not in crowd.owned and crowd.is_even(group), JOIN_S, "a leave")
    return took


def measure(place: Place, section: Section, groups: int, joins: int) -> None:
    """Everything."""
    topic = create_topic(place.broker, unique("many"), PARTITIONS)
    names = [unique("many") for _ in range(groups)]
    before_mib = place.resident_mib()
    with Crowd(f"127.0.0.1:{place.gateway.broker_port}", topic) as crowd:
        began = time.monotonic()
        form(crowd, names)
        count = groups * MEMBERS
        say(f"  many: {count} members in {groups} groups after {time.monotonic() - began:.0f} s")
        each_kib = (place.resident_mib() - before_mib) * KIB / count
        times: list[float] = []
        cpu_s, since = place.cpu_s(), time.monotonic()
        for number in range(joins):
            times.append(come_and_go(crowd, names[number % groups]))
            if number % 10 == 9 or number == joins - 1:
                say(f"  many: join {number + 1} of {joins}: {times[-1]:,.0f} ms")
        busy = 100 * (place.cpu_s() - cpu_s) / (time.monotonic() - since)
    label = f"with {count} members"
    section.rows += [
        Row(f"a further join, {label}", THROUGH, times, (Bar("p95", JOIN_MS),)),
        Row(f"resident memory per member, {label}", THROUGH, [each_kib], unit="KiB"),
        Row(f"the gateway's processor meanwhile, {label}", THROUGH, [busy], unit="%"),
    ]


def run(place: Place, sections: list[Section], quick: bool) -> None:
    """The section."""
    groups = QUICK_GROUPS if quick else GROUPS
    title = f"{groups * MEMBERS} light members in {groups} groups of {PARTITIONS} partitions"
    section = Section("many", title)
    sections.append(section)
    joins = QUICK_JOINS if quick else JOINS
    section.attempt("many", lambda: measure(place, section, groups, joins))
