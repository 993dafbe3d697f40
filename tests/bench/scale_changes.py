"""So many membership changes a second over many groups, for a while.

Each group has resting members, which own its partitions. Visitors come one at a time, to the group
that has had none for longest, and leave cleanly after a while: a join takes one partition from a
resting member, a leave gives it back. Half of the groups have a visitor at a time. All are real
members on sessions of their own. A visitor that has been given nothing when its time is over stays
until it has; so what takes too long makes changes fewer.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial

from consumer.core import messages as msg
from tests.bench.figures import Bar, Row, Section
from tests.bench.scale_load import Cost, TimedMember, Timetable, many_sockets, one_term
from tests.bench.scale_rig import Rig
from tests.bench.scale_storms import WAIT_S
from tests.bench.scale_wire import Hub

TOPIC = "orders"
GROUPS, PER_S, SECONDS = 1_000, 300.0, 60.0
RESTING, PARTITIONS = 3, 4
GROUPS_AT_ONCE = 50
REACHED_SHARE = 0.98
P95_BAR_MS = 300.0


class Visits:
    """Who comes and goes."""

    def __init__(self, hub: Hub, groups: int, per_s: float) -> None:
        self.hub = hub
        self.table = Timetable(hub)
        self.groups = [f"group-{number:04d}" for number in range(groups)]
        self.without = deque(self.groups)  # a visitor
        self.every_s = 2 / per_s  # a visit is two changes
        self.stay_s = groups * self.every_s / 2
        self.resting: list[TimedMember] = []
        self.held = 0  # by the resting
        self.leave_s: dict[TimedMember, float] = {}
        self.leaving: set[TimedMember] = set()
        self.assigned: list[TimedMember] = []
        self.registered, self.left = 0, 0

    def heard(self, member: TimedMember, message: msg.ToFetcher, now_s: float) -> None:
        """See `Hearer`."""
        if isinstance(message, msg.Notice):
            self.registered += message.kind is msg.NoticeKind.REGISTERED
        elif member in self.leave_s:
            if isinstance(message, msg.Assigned):
                self.assigned.append(member)
                self.table.at(max(now_s, self.leave_s.pop(member)), partial(self.go, member))
        elif isinstance(message, msg.Assigned):
            self.held += len(message.offsets)

    def gather(self) -> None:
        """The resting members."""
        for begin in range(0, len(self.groups), GROUPS_AT_ONCE):
            for group in self.groups[begin : begin + GROUPS_AT_ONCE]:
                self.resting += [
                    TimedMember(self.hub, self, group, [TOPIC]) for _ in range(RESTING)
                ]
            wanted = len(self.resting) // RESTING * PARTITIONS
            self.hub.run_until(
                lambda: (
                    sum(len(member.held) for member in self.resting) == wanted
                    and all(member.held for member in self.resting[-GROUPS_AT_ONCE * RESTING :])
                ),
                WAIT_S,
                "groups at rest",
            )

    def come(self, leave_s: float) -> None:
        """A visitor, if there is a group for it."""
        if self.without:
            member = TimedMember(self.hub, self, self.without.popleft(), [TOPIC])
            self.leave_s[member] = leave_s

    def go(self, member: TimedMember) -> None:
        """Its time is over."""
        member.leave()
        self.leaving.add(member)

    def look(self) -> None:
        """Count those that are gone."""
        for member in [member for member in self.leaving if member.gone]:
            self.leaving.discard(member)
            self.hub.forget(member.driver)
            self.without.append(member.group)
            self.left += 1

    def plan(self, seconds: float) -> float:
        """Visits from now on; the time when as many leave as come, from which on it counts."""
        come_s = time.monotonic()
        from_s = come_s + self.stay_s
        while come_s < from_s + seconds:
            self.table.at(come_s, partial(self.come, come_s + self.stay_s))
            come_s += self.every_s
        return from_s

    def run_until(self, until_s: float) -> None:
        """Keep the timetable until then."""

        def over() -> bool:
            self.look()
            return time.monotonic() >= until_s

        self.table.run_until(over, until_s - time.monotonic() + WAIT_S, "the end")

    def count_anew(self) -> None:
        """From here on it counts."""
        self.registered, self.left, self.assigned = 0, 0, []
        self.table.late_ms, self.table.longest_turn_ms = [], 0.0


def run(rig: Rig, sections: list[Section], groups: int, per_s: float, seconds: float) -> None:
    """The section."""
    many_sockets()
    section = Section(
        "changes",
        f"{per_s:g} changes of membership a second for {seconds:g} s over {groups:,} groups of"
        f" {RESTING} resting members, {PARTITIONS} partitions each",
    )
    sections.append(section)
    with rig.hub() as (hub, seeder), rig.coordinator(hub, "--counts") as process:
        seeder.topic(TOPIC, PARTITIONS)
        visits = Visits(hub, groups, per_s)
        visits.gather()
        rig.say(f"  changes: {len(visits.resting):,} members rest in {groups:,} groups")
        from_s = visits.plan(seconds)
        visits.run_until(from_s)
        cost = Cost(rig, hub, process)
        visits.count_anew()
        began_s = time.monotonic()
        visits.run_until(from_s + seconds)
        took_s = time.monotonic() - began_s
        changes = visits.registered + visits.left
        waiting = len(visits.leave_s)
        rows, notes, queue = cost.rows(changes, visits.table)
        rig.say(f"  changes: {changes / took_s:.1f} a second for {took_s:.1f} s")
        joins = visits.assigned
        section.rows += [
            Row(
                "changes made and done",
                "registrations and sessions closed",
                [changes / took_s],
                (Bar("min", per_s * REACHED_SHARE, at_least=True),),
                "changes/s",
            ),
            Row(
                "registration to first assignment",
                "members",
                [member.from_registered_ms for member in joins],
                (Bar("p95", P95_BAR_MS),),
            ),
            Row(
                "constructor to first assignment",
                "members",
                [member.from_made_ms for member in joins],
            ),
            Row("visitors without an assignment", "at the end", [waiting], (), "members"),
            Row(
                "groups that wait for their turn", "coordinator, at the end", [queue], (), "groups"
            ),
            *rows,
            one_term(process),
        ]
        section.notes += notes
