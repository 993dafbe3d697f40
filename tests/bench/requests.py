"""Section 5: what a membership change costs ZooKeeper, counted by the server.

`srvr` says how many packets the server has received. A window begins before a member is told to
join (or leave) and ends at least a second after the group is balanced; what the same group costs in
the same time when nothing happens (pings, lease checks), measured just before, is taken off, and so
is the question itself. Lease checks come every four seconds and in bunches, because members that
started together check together; so a window lasts a whole number of those periods, in which each
member checks the same number of times. What is left includes the member's own session, from connect
to close. Nothing else talks to the server meanwhile but the broker and this program's idle session,
which the idle rate has in it.
"""

from __future__ import annotations

import time
from functools import partial

from tests.bench.figures import Bar, Row, Section
from tests.bench.group import Group
from tests.bench.rig import Rig, Worker
from tests.harness.zookeeper import srvr_stats

SIZES = (4, 24, 95)
PARTITIONS = 96
MEMBERS_PER_WORKER = 12
PERIOD_S = 4.0  # between a member's lease checks: a third of lease_max_ms
IDLE_PERIODS = 4
TAIL_S = 1.0
BASE, PER_MEMBER = 20, 8


class Meter:
    """The server's counter over time."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.per_s = 0.0
        self.started = (0, 0.0)

    def begin(self) -> None:
        """Begin a window."""
        self.started = (srvr_stats(self.rig.zookeeper_port).received, time.monotonic())

    def end(self) -> tuple[int, float]:
        """(packets, seconds) since `begin`, when the next period is over, without the question that
        ends it.
        """
        time.sleep(-(time.monotonic() - self.started[1]) % PERIOD_S)
        now = time.monotonic()
        return (
            srvr_stats(self.rig.zookeeper_port).received - 1 - self.started[0],
            now - self.started[1],
        )

    def rest(self) -> None:
        """Learn the idle rate."""
        self.begin()
        time.sleep((IDLE_PERIODS - 0.5) * PERIOD_S)
        packets, took_s = self.end()
        self.per_s = packets / took_s

    def cost(self) -> float:
        """Packets of the window that an idle group would not have caused."""
        packets, took_s = self.end()
        return packets - self.per_s * took_s


def moved(group: Group, since_ns: int, leaver: str = "") -> int:
    """Members whose partitions moved since then."""
    return len(
        {seen.who for seen in group.since(since_ns, "revoke", "assigned") if seen.partitions}
        | ({leaver} if leaver else set())
    )


def measure(rig: Rig, section: Section, size: int, rounds: int) -> None:
    """One size of group: joins to it and leaves from it."""
    topic = rig.topic(PARTITIONS)
    group_id = rig.unique("g")
    filler, guest_order = rig.ours(group_id, topic, guardian=False), rig.ours(group_id, topic)
    group, meter = Group(PARTITIONS), Meter(rig)
    costs: dict[str, list[float]] = {"join": [], "leave": []}
    budgets: dict[str, list[float]] = {"join": [], "leave": []}
    with rig.staff((size + MEMBERS_PER_WORKER - 2) // MEMBERS_PER_WORKER + 1) as workers:
        members = [
            rig.join(group, workers[number // MEMBERS_PER_WORKER], filler)
            for number in range(size - 1)
        ]
        rig.wait_balanced(group, members)
        once(rig, group, meter, members, workers[-1], guest_order)
        meter.rest()
        for number in range(rounds):
            for kind, (cost, touched) in once(
                rig, group, meter, members, workers[-1], guest_order
            ).items():
                costs[kind].append(cost)
                budgets[kind].append(cost / (BASE + PER_MEMBER * touched))
            rig.say(
                f"  requests, {size} members: round {number + 1} of {rounds}: join"
                f" {costs['join'][-1]:.0f}, leave {costs['leave'][-1]:.0f}"
            )
    for kind in costs:
        section.rows.append(
            Row(
                f"{kind}, {size - 1} {'->' if kind == 'join' else '<-'} {size} members",
                "counted by the server",
                costs[kind],
                unit="requests",
                note=f"idle: {meter.per_s:.1f}/s",
            )
        )
        section.rows.append(
            Row(
                f"{kind}, the same, share of the bar used",
                f"{BASE} + {PER_MEMBER} x members moved",
                budgets[kind],
                (Bar("median", 1.0),),
                unit="x bar",
            )
        )


def once(
    rig: Rig,
    group: Group,
    meter: Meter,
    members: list[str],
    worker: Worker,
    order: dict[str, object],
) -> dict[str, tuple[float, int]]:
    """A join and a leave: kind -> (requests, members whose partitions moved)."""
    found = {}
    time.sleep(rig.random.uniform(0, TAIL_S))
    began_ns = time.time_ns()
    group.forget(began_ns)
    meter.begin()
    who = rig.join(group, worker, order)
    rig.wait_balanced(group, [*members, who])
    time.sleep(TAIL_S)
    found["join"] = (meter.cost(), moved(group, began_ns))
    began_ns = time.time_ns()
    meter.begin()
    rig.leave(who)
    view = group.views[who]
    rig.wait(lambda: "closed" in view.at, "the end of a member that left")
    rig.wait_balanced(group, members)
    time.sleep(TAIL_S)
    found["leave"] = (meter.cost(), moved(group, began_ns, who))
    with rig.children.lock:
        group.gone(who)
    return found


def run(rig: Rig, sections: list[Section], rounds: int, sizes: tuple[int, ...] = SIZES) -> None:
    """Section 5."""
    section = Section(
        "requests", f"ZooKeeper requests per membership change, {PARTITIONS} partitions, idle"
    )
    sections.append(section)
    with rig.coordinators():
        for size in sizes:
            section.attempt(f"{size} members", partial(measure, rig, section, size, rounds))
