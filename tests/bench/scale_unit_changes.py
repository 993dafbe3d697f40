"""What one join, one leave, one commit and one idle second cost: transactions, their operations and
bytes, watch events, bytes that the coordinator reads.

Members are the consumer's own driver (`scale_world.Member`), each with a session and a connection
of its own, and whatever they ask is counted (`scale_counted`); the coordinator counts for itself.
Changes are made one after the other, each in a group of its own that is at rest. While they are
made no lease has to be renewed; what renewing costs is measured beside, with the settings that
ship.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil

from consumer.core import messages as msg
from tests.bench.figures import Row, Section
from tests.bench.scale_counted import CountedPort, CountingHub, Traffic
from tests.bench.scale_rig import SESSION_MS, CoordinatorProcess, Rig
from tests.bench.scale_server import held
from tests.bench.scale_storms import WAIT_S
from tests.bench.scale_world import Member, Seeder
from tests.harness.zookeeper import fresh_chroot
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.port import Check, Committed, MultiResult, Op, PortEvent, SetData

SHAPES = ((3, 10), (3, 40), (10, 30))
COMMITTED = (1, 10, 100)
TIMES = 10
SETTLE_S = 0.5
SHIPPED_SESSION_MS = 18_000
IDLE_MEMBERS, IDLE_S = 100, 20.0
FLOOD_SESSIONS, FLOOD_EACH, FLOOD_OFFSETS, FLOOD_S = 20, 8, 10, 3.0
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
    """How often each change is made, how long and with how many members nothing happens, for how
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


def rest(rig: Rig, sections: list[Section], plan: ChangesPlan) -> None:
    """What members cost that do nothing, with the settings that ship."""
    count = plan.idle_members
    section = Section("units-idle", f"{count} members that do nothing for {plan.idle_s:g} s")
    sections.append(section)
    before = held(rig)
    with counting(rig, SHIPPED_SESSION_MS) as (hub, seeder):
        with rig.coordinator(hub, "--counts", "--weighs") as process:
            alone = held(rig, heap=False)
            gathered(rig, hub, seeder, "idle", (count, count), 1)
            found = held(rig)
            spending = Spending(hub, process)
            began_s = time.monotonic()
            hub.run_for(plan.idle_s)
            seconds = time.monotonic() - began_s
            traffic, spent = spending.end()
    each, nodes = 1_000 / count / seconds, found.nodes - alone.nodes
    section.rows += [
        Row(what, clock, [value], (), unit)
        for what, clock, value, unit in (
            ("members: transactions", "each, a second", traffic.multis * each, "of 1,000"),
            ("members: bytes of one", "all of them", traffic.written / traffic.multis, "bytes"),
            ("members: watches", "each", (found.watches - alone.watches) / count, "watches"),
            ("server: nodes", "of their group, of as many partitions", nodes, "nodes"),
            ("coordinator: transactions", "all of them", spent["multis"], "multis"),
            ("coordinator: watch events", "all of them", spent["events"], "events"),
            ("coordinator: read", "all of it", spent["received"], "bytes"),
        )
    ]
    if found.heap is not None and before.heap is not None:
        bytes_each = (found.heap - before.heap) / count
        section.rows.append(
            Row("server: heap that is alive", "each member", [bytes_each], (), "bytes")
        )
    lease_s = min(SHIPPED_SESSION_MS * 2 // 3, CoordinatorOptions().lease_max_ms) / 1000
    section.notes.append(
        f"session timeout {SHIPPED_SESSION_MS / 1000:g} s, lease {lease_s:g} s; who has"
        " nothing to commit proves its membership after a third of its lease"
    )


def flood(rig: Rig, sections: list[Section], plan: ChangesPlan) -> None:
    """What the server takes of the two transactions that members make all the time."""
    section = Section(
        "units-flood",
        f"As many transactions as one thread with {FLOOD_SESSIONS} sessions can ask for, each"
        f" {plan.flood_s:g} s",
    )
    sections.append(section)
    server = psutil.Process(rig.server.pid)
    with counting(rig, SESSION_MS) as (hub, seeder):
        for what, ops in flood_kinds(seeder).items():
            before = server.cpu_times()
            done = asked_all_the_time(hub, ops, plan.flood_s)
            after = server.cpu_times()
            used_s = after.user + after.system - before.user - before.system
            rate, each_us = done / plan.flood_s, used_s * 1e6 / max(done, 1)
            section.rows += [
                Row(what, "answered", [rate], (), "a second"),
                Row(what, "the server's processor time of one", [each_us], (), "us"),
            ]
    section.notes.append(
        "the server forces its log to disk, has no followers, and shares the processors with the"
        " thread that asks: a rate is what it takes at least"
    )


def flood_kinds(seeder: Seeder) -> dict[str, list[Op]]:
    """What to ask for, on nodes that are there."""
    nodes = [f"/flood-{number}" for number in range(1 + FLOOD_OFFSETS)]
    seeder.make(nodes)
    proof: list[Op] = [Check(nodes[0], 0)]
    commits: list[Op] = [SetData(node, b"1234567", -1) for node in nodes[1:]]
    return {
        "a proof of membership": proof,
        f"a commit of {FLOOD_OFFSETS} partitions": [*proof, *commits],
    }


def asked_all_the_time(hub: CountingHub, ops: list[Op], seconds: float) -> int:
    """How many of these transactions were answered within that time."""
    found: list[PortEvent] = []
    ports = [hub.open(found.append) for _ in range(FLOOD_SESSIONS)]
    hub.run_until(lambda: len(found) == len(ports), WAIT_S, "sessions")
    until_s, done = time.monotonic() + seconds, 0

    def ask(port: CountedPort) -> None:
        port.multi(ops, partial(answered, port))

    def answered(port: CountedPort, result: MultiResult) -> None:
        nonlocal done
        if not port.over:
            assert isinstance(result, Committed), result
            done += 1
            ask(port)

    for port in ports * FLOOD_EACH:
        ask(port)
    hub.run_until(lambda: time.monotonic() >= until_s, WAIT_S, "the end")
    for port in ports:
        port.abandon()
    return done


def run(rig: Rig, sections: list[Section], plan: ChangesPlan) -> None:
    """All sections."""
    section = Section("units-changes", "One change at a time, in a group that is at rest")
    sections.append(section)
    long_ms = str(SESSION_MS)
    with counting(rig, SESSION_MS) as (hub, seeder):
        flags = ("--counts", "--weighs", "--session-ms", long_ms, "--lease-ms", long_ms)
        with rig.coordinator(hub, *flags) as process:
            changes = Changes(section)
            for measure in (join_and_leave, commit):
                measure(rig, hub, seeder, process, changes, plan.times)
    rest(rig, sections, plan)
    flood(rig, sections, plan)
