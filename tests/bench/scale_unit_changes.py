"""What one join, one leave and one commit cost: transactions, their operations and bytes, watch
events, bytes that the coordinator reads.

Members are the consumer's own driver (`scale_world.Member`), each with a session and a connection
of its own, and whatever they ask is counted (`scale_counted`); the coordinator counts for itself.
Changes are made one after the other, each in a group of its own that is at rest. While they are
made no lease has to be renewed: what that costs is measured apart (`scale_unit_rates`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from consumer.core import messages as msg
from tests.bench.figures import Row, Section
from tests.bench.scale_counted import CountingHub, Traffic
from tests.bench.scale_rig import SESSION_MS, CoordinatorProcess, Rig
from tests.bench.scale_storms import WAIT_S
from tests.bench.scale_world import Member, Seeder
from tests.harness.zookeeper import fresh_chroot

SHAPES = ((3, 10), (3, 40), (10, 30))
COMMITTED = (1, 10, 100)
TIMES = 10
SETTLE_S = 0.5
IDLE_MEMBERS, IDLE_S = 100, 20.0
FLOOD_S = 3.0
OF_COORDINATOR = {
    "multis": ("transactions", "multis"),
    "ops": ("operations in them", "operations"),
    "written": ("bytes of them", "bytes"),
    "events": ("watch events", "events"),
    "received": ("read", "bytes"),
    "cpu_s": ("processor time", "ms"),
}
OF_MEMBERS = {
    "requests": ("requests", "requests"),
    "multis": ("transactions", "multis"),
    "ops": ("operations in them", "operations"),
    "written": ("bytes of them", "bytes"),
    "events": ("watch events", "events"),
    "received": ("read", "bytes"),
}


@dataclass(frozen=True)
class ChangesPlan:
    """How often each change is made; how long and with how many members nothing changes; for how
    long the server is given all that one thread can ask.
    """

    times: int = TIMES
    idle_members: int = IDLE_MEMBERS
    idle_s: float = IDLE_S
    flood_s: float = FLOOD_S


class Owner(Member):
    """A member that knows what it has, and commits when it is told to."""

    def __init__(self, hub: CountingHub, group: str, topic: str) -> None:
        self.stored = 0
        super().__init__(hub, group, [topic])

    def _hear(self, message: msg.ToFetcher) -> None:
        super()._hear(message)
        self.stored += isinstance(message, msg.CommitDone)

    def commit(self, offset: int) -> None:
        """All that it owns."""
        found = msg.Commit(offset, dict.fromkeys(self.held, offset), self.assignment_epoch)
        self.hub.drive(self.driver, lambda: self.driver.receive(found))


class Spending:
    """What everybody has spent since it was made."""

    def __init__(self, hub: CountingHub, process: CoordinatorProcess) -> None:
        self.hub, self.process = hub, process
        self.said = process.now(hub)
        self.traffic = hub.traffic.copy()

    def end(self) -> tuple[Traffic, Mapping[str, float]]:
        """Of the members, and of the coordinator."""
        traffic = self.hub.traffic.copy()
        said: dict[str, Any] = self.process.now(self.hub)
        spent = {what: said[what] - self.said[what] for what in OF_COORDINATOR}
        spent["cpu_s"] *= 1_000
        return traffic.since(self.traffic), spent


@contextmanager
def counting(rig: Rig, timeout_ms: int) -> Iterator[tuple[CountingHub, Seeder]]:
    """Sessions that are counted, in a fresh root."""
    hub = CountingHub(fresh_chroot(rig.server.address, "units"), timeout_ms)
    try:
        seeder = Seeder(hub)
        seeder.roots()
        yield hub, seeder
    finally:
        hub.close()


def balanced(members: list[Owner], partitions: int) -> bool:
    """Whether all is owned, and by each its share."""
    found = sorted(len(member.held) for member in members)
    return sum(found) == partitions and found[-1] - found[0] <= 1


class Changes:
    """One shape of group, measured; `rows` are filled change by change."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.rows: dict[tuple[str, str], Row] = {}

    def add(
        self, clock: str, who: str, spent: Mapping[str, float], names: Mapping[str, Any]
    ) -> None:
        """What one change cost somebody."""
        for key, (what, unit) in names.items():
            name = f"{who}: {what}"
            if (clock, name) not in self.rows:
                self.rows[clock, name] = Row(name, clock, [], (), unit)
                self.section.rows.append(self.rows[clock, name])
            self.rows[clock, name].values.append(spent[key])

    def both(self, clock: str, spending: Spending) -> None:
        """What a change has cost members and coordinator."""
        traffic, spent = spending.end()
        self.add(clock, "members", vars(traffic), OF_MEMBERS)
        self.add(clock, "coordinator", spent, OF_COORDINATOR)


def gathered(
    rig: Rig, hub: CountingHub, seeder: Seeder, name: str, shape: tuple[int, int], groups: int
) -> list[list[Owner]]:
    """Groups of real members at rest."""
    members, partitions = shape
    seeder.topic(name, partitions)
    found = [
        [Owner(hub, f"{name}-{number}", name) for _ in range(members)] for number in range(groups)
    ]
    hub.run_until(
        lambda: all(balanced(group, partitions) for group in found), WAIT_S, f"groups of {name}"
    )
    hub.run_for(SETTLE_S)
    rig.say(f"  units: {groups} groups of {members} members with {partitions} partitions rest")
    return found


def join_and_leave(
    rig: Rig,
    hub: CountingHub,
    seeder: Seeder,
    process: CoordinatorProcess,
    changes: Changes,
    times: int,
) -> None:
    """One after the other, each in a group of its own."""
    for members, partitions in SHAPES:
        shape = f"{members} members, {partitions} partitions"
        name = f"joined-{members}-{partitions}"
        for group in gathered(rig, hub, seeder, name, (members, partitions), times):
            spending = Spending(hub, process)
            newcomer = Owner(hub, group[0].group, name)
            everybody = [*group, newcomer]
            hub.run_until(partial(balanced, everybody, partitions), WAIT_S, "a join")
            hub.run_for(SETTLE_S)
            changes.both(f"a join to {shape}", spending)
            spending = Spending(hub, process)
            newcomer.leave()
            hub.run_until(lambda: newcomer.gone and balanced(group, partitions), WAIT_S, "a leave")
            hub.run_for(SETTLE_S)
            changes.both(f"a leave, to {shape}", spending)
            for member in everybody:
                hub.forget(member.driver)


def commit(
    rig: Rig,
    hub: CountingHub,
    seeder: Seeder,
    process: CoordinatorProcess,
    changes: Changes,
    times: int,
) -> None:
    """By a member that owns so many partitions, which it has committed before."""
    for partitions in COMMITTED:
        name = f"committed-{partitions}"
        ((member,),) = gathered(rig, hub, seeder, name, (1, partitions), 1)
        for number in range(times + 1):
            spending = Spending(hub, process)
            member.commit(number)
            hub.run_until(lambda: member.stored > number, WAIT_S, "a commit")
            if number:  # the first one makes the nodes
                changes.both(f"a commit of {partitions} partitions", spending)


def run(rig: Rig, sections: list[Section], plan: ChangesPlan) -> None:
    """The section."""
    section = Section("units-changes", "One change at a time, in a group that is at rest")
    sections.append(section)
    long_ms = str(SESSION_MS)
    with counting(rig, SESSION_MS) as (hub, seeder):
        flags = ("--counts", "--weighs", "--session-ms", long_ms, "--lease-ms", long_ms)
        with rig.coordinator(hub, *flags) as process:
            changes = Changes(section)
            for measure in (join_and_leave, commit):
                measure(rig, hub, seeder, process, changes, plan.times)
    section.notes.append(
        "asking the coordinator what it has spent is some tenths of a millisecond of its processor"
        " time, as a commit shows, of which it hears nothing"
    )
