"""What members cost while nothing changes: the transactions by which they prove their membership,
and commits, a second; and how many of those a server takes.

Members are the consumer's own driver, and what they ask is counted. A member proves its membership
after a third of its lease, unless a commit has just done so: so the lease says how much is written.
"""

from __future__ import annotations

import time
from functools import partial

import psutil

from tests.bench.figures import Row, Section
from tests.bench.scale_counted import CountedPort, CountingHub
from tests.bench.scale_rig import SESSION_MS, Rig
from tests.bench.scale_server import Held, held, small_transactions
from tests.bench.scale_storms import WAIT_S
from tests.bench.scale_unit_changes import ChangesPlan, Owner, Spending, counting, gathered
from tests.bench.scale_world import Seeder
from zkcoord.zk.port import Check, Committed, MultiResult, Op, PortEvent, SetData

SETTINGS_MS = ((18_000, 12_000), (24_000, 16_000))
"""Session timeout and `lease_max_ms`: as they ship, and with a third of the lease above the time
between two automatic commits.
"""
COMMIT_EVERY_S = 5.0
FLOOD_SESSIONS, FLOOD_EACH, FLOOD_OFFSETS = 20, 8, 10


def rest(
    rig: Rig, sections: list[Section], plan: ChangesPlan, session_ms: int, lease_ms: int
) -> None:
    """What members cost that do nothing, and that commit all the time."""
    count = plan.idle_members
    section = Section(
        "units-idle",
        f"{count} members at rest, session timeout {session_ms / 1000:g} s, lease"
        f" {lease_ms / 1000:g} s",
    )
    sections.append(section)
    with counting(rig, session_ms) as (hub, seeder):
        small_transactions(seeder)
        with rig.coordinator(hub, "--counts", "--weighs", "--lease-ms", str(lease_ms)) as process:
            before = held(rig)
            (members,) = gathered(rig, hub, seeder, "idle", (count, count), 1)
            small_transactions(seeder)
            of_members(section, held(rig).since(before), count)
            for clock, every_s in (
                ("who do nothing", 0.0),
                (f"who commit every {COMMIT_EVERY_S:g} s", COMMIT_EVERY_S),
            ):
                spending = Spending(hub, process)
                began_s = time.monotonic()
                live(hub, members, plan.idle_s, every_s)
                seconds = time.monotonic() - began_s
                traffic, spent = spending.end()
                each = 1_000 * traffic.multis / count / seconds
                bytes_each = traffic.written / max(traffic.multis, 1)
                section.rows += [
                    Row("transactions of a member, a second", clock, [each], (), "of 1,000"),
                    Row("bytes of one", clock, [bytes_each], (), "bytes"),
                    Row("transactions of the coordinator", clock, [spent["multis"]], (), "multis"),
                    Row("read by the coordinator", clock, [spent["received"]], (), "bytes"),
                ]


def live(hub: CountingHub, members: list[Owner], seconds: float, every_s: float) -> None:
    """For so long; all commit now and then, or never (0)."""
    until_s, offset = time.monotonic() + seconds, 0
    while (left_s := until_s - time.monotonic()) > 0:
        if every_s:
            offset += 1
            for member in members:
                member.commit(offset)
        hub.run_for(min(left_s, every_s or left_s))


def of_members(section: Section, found: Held, count: int) -> None:
    """What the server holds for members that are connected, and for what they own: a partition of
    one group each.
    """
    values = [("watches", found.watches, "watches"), ("data", found.data, "bytes")]
    values += [("nodes", found.nodes, "nodes")]
    if found.heap is not None:
        values.append(("heap that is alive", found.heap, "bytes"))
    section.rows += [
        Row(f"server: {what}", "each member, with a partition", [value / count], (), unit)
        for what, value, unit in values
    ]


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
    for session_ms, lease_ms in SETTINGS_MS:
        rest(rig, sections, plan, session_ms, lease_ms)
    flood(rig, sections, plan)
