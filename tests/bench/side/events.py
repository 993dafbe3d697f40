"""The events, and what each does to a group: the same code for every system. All clocks are those
of the processes where things happen; an event is over when everything is handed out by its last
owner (`flow.change`).

A group of N has N-1 members in a few processes and one, the guest, in a process of its own, so that
the guest can be killed. `join` is N-1 -> N and begins at the guest's constructor, `leave` N -> N-1
and begins at its `close()`, `crash` N -> N-1 and begins just before its kill -9. `slow`: one of the
N-1 stays in its handler, and a second later the guest joins. `coordinator`: what coordinates the
group is killed with -9 (zkcoord: the coordinator that leads; Kafka: the broker that coordinates the
group), and at that moment the guest joins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tests.bench.crashes import come_back, kill_leader
from tests.bench.figures import Busy
from tests.bench.side.flow import MS, Change, MemberFailedError, change, gap_ns
from tests.bench.side.rig import SideRig
from tests.bench.side.systems import (
    COORDINATOR,
    CRASH,
    JOIN,
    LEAVE,
    SLOW,
    Crew,
    House,
    System,
    spread_over,
)
from zkcoord.errors import ConditionTimeoutError

PARTITIONS = 96
BEATS_MS = {4: 40, 24: 100, 96: 250}
BEAT_MS_OTHERS = 100
HOUSES = 4
GROUPS = 3
SLOW_BEGINS_S = 1.0
AHEAD_NS = 300 * MS
GOLDEN = 0.618034
FAILURE_CHARS = 400


@dataclass(frozen=True)
class Rounds:
    """How many of each, but for `at`; `block_s`: how long the slow member's handler takes; `warm`:
    joins and leaves before that do not count; `idle_s`: for so long it is looked what an idle group
    asks of ZooKeeper.
    """

    joins: int = 7
    crashes: int = 3
    slow: int = 5
    coordinators: int = 2
    block_s: float = 8.0
    warm: int = 1
    idle_s: float = 10.0

    def at(self, size: int) -> Rounds:
        """Of a group of this size. Where hardly more than one partition moves, each figure has a
        beat of its own in it, from nothing to the whole: twice as many joins and leaves.
        """
        return replace(self, joins=2 * self.joins) if 2 * size > PARTITIONS else self


@dataclass
class Found:
    """What one system showed at one size: figure -> values (ms, but for requests), by event; the
    busy share of the machine in each event's part (%).
    """

    system: System
    size: int
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failure: str = ""

    def add(self, event: str, **figures: float | None) -> None:
        """One round's figures; what there is not is None."""
        for name, value in figures.items():
            if value is not None:
                self.values.setdefault(event, {}).setdefault(name, []).append(value)

    def rounds(self, event: str) -> int:
        """How many were measured."""
        return max(map(len, self.values.get(event, {}).values()), default=0)


def beat_ms(size: int) -> int:
    """Between two records of a partition: the larger the group, the longer, because each record
    costs a member a fetch.
    """
    return BEATS_MS.get(size, BEAT_MS_OTHERS)


class Group:
    """N-1 members, and a guest now and then."""

    def __init__(self, rig: SideRig, crew: Crew, size: int) -> None:
        self.rig, self.crew, self.size, self.flow = rig, crew, size, crew.flow
        crew.new_group()
        self.homes: dict[str, House] = {}
        for room in spread_over(size - 1, HOUSES):
            house = crew.house(room)
            self.homes |= {house.join(): house for _ in range(room)}
        self.guest = crew.house()
        self.idle_per_s = 0.0
        self.phase = rig.random.random()
        self.began_ns = time.time_ns()
        self.settle()

    @property
    def members(self) -> list[str]:
        return list(self.homes)

    def settle(self, since_ns: int | None = None) -> None:
        """All partitions at their places."""
        self.rig.settle(self.flow, self.members, self.began_ns if since_ns is None else since_ns)

    def calm(self) -> dict[int, str]:
        """A random moment of a settled group; its owners. What was handed out before it was settled
        is forgotten.
        """
        settled_ns = time.time_ns() - self.flow.quiet_ns
        self.rig.pause()
        self.settle()
        with self.rig.children.lock:
            self.flow.forget(settled_ns)
            return self.flow.owners()

    def moment_ns(self) -> int:
        """When the next event shall be: far enough ahead that everybody can be told. Each partition
        gets its records at the same moment of every beat, so by luck an event waits long for the
        next one or not at all; these moments go round the beat by the golden ratio, so that few
        events are spread evenly over it.
        """
        self.phase = (self.phase + GOLDEN) % 1
        beat_ns = self.flow.beat_ms * MS
        earliest_ns = time.time_ns() + AHEAD_NS
        return earliest_ns - earliest_ns % beat_ns + beat_ns + int(self.phase * beat_ns)

    def event_ns(self, who: str, event: str) -> int:
        """When a member did this."""
        self.rig.wait(lambda: event in self.flow.at[who], f"{event} of {who}")
        return self.flow.at[who][event]

    def joined(self) -> str:
        """The guest is told to join, at the next event's moment; its name."""
        self.rig.sleep_until(self.moment_ns())
        return self.guest_joins()

    def guest_joins(self) -> str:
        """At once."""
        who = self.guest.join()
        self.homes[who] = self.guest
        return who

    def see(self, asked_ns: int, before: dict[int, str]) -> Change:
        """Wait until an event is over; what it did."""
        self.settle(asked_ns)
        with self.rig.children.lock:
            return change(self.flow, before, asked_ns)

    def join(self) -> Change:
        before = self.calm()
        return self.see(self.event_ns(self.joined(), "new"), before)

    def leave(self) -> Change:
        before = self.calm()
        who, _ = self.homes.popitem()
        self.guest.leave(who, self.moment_ns())
        asked_ns = self.event_ns(who, "closing")
        found = self.see(asked_ns, before)
        self.event_ns(who, "closed")
        with self.rig.children.lock:
            self.flow.gone(who)
        return found

    def crash(self) -> Change:
        """Kill the guest, which is there, and get another process for the next."""
        before = self.calm()
        self.homes.popitem()
        self.rig.sleep_until(self.moment_ns())
        asked_ns = self.guest.kill()
        found = self.see(asked_ns, before)
        self.guest = self.crew.house()
        return found

    def idle(self, seconds: float) -> None:
        """Learn what the group costs ZooKeeper when nothing happens."""
        received, began = self.rig.received(), time.monotonic()
        time.sleep(seconds)
        self.idle_per_s = (self.rig.received() - received) / (time.monotonic() - began)

    def costing(self, act: Callable[[], Change]) -> tuple[Change, float]:
        """An event and the requests that ZooKeeper got for it, from before the random moment until
        all is settled, without what the idle group costs in that time.
        """
        received, began = self.rig.received(), time.monotonic()
        found = act()
        return found, self.rig.received() - received - self.idle_per_s * (time.monotonic() - began)


def figures(found: Change) -> dict[str, float | None]:
    """Of joins, leaves and crashes."""
    return {"took": found.took, "moved": found.moved, "kept": found.kept, "quiet": found.quiet}


def joins_and_leaves(group: Group, found: Found, rounds: Rounds) -> None:
    """Both at once: who joined must leave again."""
    counts = group.crew.system.asks_zookeeper
    if counts and not group.idle_per_s:
        group.idle(rounds.idle_s)
    while found.rounds(LEAVE) < rounds.joins:
        for event, act in ((JOIN, group.join), (LEAVE, group.leave)):
            change_seen, requests = group.costing(act) if counts else (act(), None)
            found.add(event, **figures(change_seen), requests=requests)
        group.rig.say(
            f"  {label(found)}: join {found.values[JOIN]['took'][-1]:.0f} ms, leave"
            f" {found.values[LEAVE]['took'][-1]:.0f} ms"
        )


def crashes(group: Group, found: Found, rounds: int) -> None:
    """Kill the guest; another joins."""
    while found.rounds(CRASH) < rounds:
        group.join()
        found.add(CRASH, **figures(group.crash()))
        group.rig.say(
            f"  {label(found)}: handed out again {found.values[CRASH]['took'][-1]:.0f} ms after"
            " kill -9"
        )


def slow(group: Group, found: Found, rounds: int, block_s: float) -> None:
    """The slow one is of those that have least, so that in a large group nothing has to be taken
    from it.
    """
    rig, flow = group.rig, group.flow
    while found.rounds(SLOW) < rounds:
        before = group.calm()
        owned = {who: sum(owner == who for owner in before.values()) for who in group.members}
        blocked = rig.random.choice(
            [who for who, count in owned.items() if count == min(owned.values())]
        )
        for event in ("blocked", "unblocked"):
            flow.at[blocked].pop(event, None)
        group.homes[blocked].block(blocked, block_s)
        group.event_ns(blocked, "blocked")
        time.sleep(SLOW_BEGINS_S)
        guest = group.joined()
        asked_ns = group.event_ns(guest, "new")
        unblocked_ns = group.event_ns(blocked, "unblocked")
        group.settle(asked_ns)
        with rig.children.lock:
            after = flow.owners()
            served = min(t_ns for of in flow.handed for t_ns, who in of if who == guest)
            healthy = [number for number, who in before.items() if who != blocked]
            gaps = {
                name: max(
                    (
                        gap_ns(flow.handed[number], asked_ns, unblocked_ns)
                        for number in healthy
                        if (after[number] == before[number]) == (name == "kept")
                    ),
                    default=None,
                )
                for name in ("kept", "moved")
            }
        found.add(
            SLOW,
            took=(served - asked_ns) / MS,
            **{name: None if gap is None else gap / MS for name, gap in gaps.items()},
        )
        rig.say(
            f"  {label(found)}: beside a slow member a joiner is served after"
            f" {found.values[SLOW]['took'][-1]:.0f} ms, the others' partitions are silent for"
            f" {max(gap or 0 for gap in gaps.values()) / MS:.0f} ms"
        )
        group.leave()


@contextmanager
def coordinator_killed(group: Group) -> Iterator[int]:
    """kill -9 of what coordinates this group; the time just before it. It is back after the
    block.
    """
    rig, cluster = group.rig, group.crew.cluster
    if group.crew.system.kind == "zkcoord":
        name, killed_ns = kill_leader(rig)
        try:
            yield killed_ns
        finally:
            come_back(rig, name)
    else:
        killed_ns = time.time_ns()
        cluster.coordinator.kill()
        try:
            yield killed_ns
        finally:
            cluster.come_back()


def coordinators(group: Group, found: Found, rounds: int) -> None:
    """Kill, and join at that moment."""
    while found.rounds(COORDINATOR) < rounds:
        before = group.calm()
        with coordinator_killed(group) as killed_ns:
            group.guest_joins()
            found.add(COORDINATOR, **figures(group.see(killed_ns, before)))
            group.rig.say(
                f"  {label(found)}: a join at the coordinator's death is served after"
                f" {found.values[COORDINATOR]['took'][-1]:.0f} ms"
            )
        group.leave()


def label(found: Found) -> str:
    """For progress."""
    return f"{found.system.label}, {found.size} members"


def measure(rig: SideRig, found: Found, events: tuple[str, ...], rounds: Rounds) -> None:
    """One system at one size: all that is asked of it. A group of another system than ours that
    gets stuck or fails is noted, and another one does the rounds that are left.
    """
    parts: dict[tuple[str, ...], Callable[[Group], None]] = {
        (JOIN, LEAVE): lambda group: joins_and_leaves(group, found, rounds),
        (SLOW,): lambda group: slow(group, found, rounds.slow, rounds.block_s),
        (CRASH,): lambda group: crashes(group, found, rounds.crashes),
        (COORDINATOR,): lambda group: coordinators(group, found, rounds.coordinators),
    }
    wanted = {
        names: part
        for names, part in parts.items()
        if any(name in events and name in found.system.events for name in names)
    }
    crew = Crew(rig, found.system, PARTITIONS, beat_ms(found.size))
    with crew.at_work():
        for groups_left in reversed(range(GROUPS)):
            try:
                group = Group(rig, crew, found.size)
                for _ in range(rounds.warm):
                    group.join()
                    group.leave()
                for names, part in wanted.items():
                    busy = Busy()
                    part(group)
                    found.busy |= dict.fromkeys(names, busy.percent)
                return
            except (ConditionTimeoutError, MemberFailedError) as error:
                if not groups_left or found.system.kind == "zkcoord":
                    raise
                found.notes.append(
                    f"{label(found)}: a group got stuck, another took its place: {error}"
                )
                rig.say(f"  {found.notes[-1]}")
                crew.dismiss()
                with rig.children.lock:
                    crew.flow.errors.clear()


def attempt(rig: SideRig, found: Found, events: tuple[str, ...], rounds: Rounds) -> None:
    """Measure, or say why not: whatever it is, the others' hours are not lost by it."""
    try:
        measure(rig, found, events, rounds)
    except Exception as error:
        found.failure = f"{label(found)}: {type(error).__name__}: {str(error)[:FAILURE_CHARS]}"
        rig.say(f"  NOT FINISHED: {found.failure}")
