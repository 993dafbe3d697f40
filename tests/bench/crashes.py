"""Sections 3 and 4: kill -9 of the coordinator that leads, and of a consumer; with the guardian,
without it, and SIGSTOP, which is no death.

Clocks start just before the signal. A succession ends with the successor's election as its journal
says (whole milliseconds); a dead consumer's partitions are served again with the first fetch
response of the last of them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from tests.bench.figures import Bar, Row, Section
from tests.bench.group import TOUCHING, Group
from tests.bench.joins import LOAD_PER_S, MEMBERS, Side
from tests.bench.rig import NS, Rig, Worker

COORDINATOR_SESSION_MS = 6_000
CONSUMER_SESSION_MS = 6_000
KAFKA_HEARTBEAT_MS = 2_000
QUIET_S = 1.0
PARTITIONS_OF_COORDINATOR_SECTION = 24
PARTITIONS_OF_CONSUMER_SECTION = 96
CONSUMERS = 4
GUARDED_BARS = (Bar("median", 250), Bar("p95", 600))
UNGUARDED_BARS = (Bar("median", CONSUMER_SESSION_MS + 500),)
STOPPED_BARS = UNGUARDED_BARS


def kill_leader(rig: Rig) -> tuple[str, int]:
    """kill -9 of the coordinator that leads; its name and the time just before the signal."""
    name, rig.leader = rig.leader, ""
    return name, rig.children.kill(rig.children.children[name])


def come_back(rig: Rig, name: str, *flags: str) -> None:
    """Start a killed coordinator again and wait until it stands by."""
    rig.start_coordinator(name, *flags)
    rig.wait(lambda: rig.is_ready(name), f"{name} to stand by")


def successions(rig: Rig, section: Section, rounds: int, guarded: bool) -> None:
    """Kill, wait for the successor, see that nobody noticed; then kill and join at once."""
    flags = () if guarded else ("--no-guardian",)
    label = "with the guardian" if guarded else f"without it, session {COORDINATOR_SESSION_MS} ms"
    partitions = PARTITIONS_OF_COORDINATOR_SECTION
    led: list[float] = []
    touches: list[float] = []
    served: list[float] = []
    after: list[float] = []
    with rig.coordinators(*flags), rig.staff(MEMBERS + 1) as workers:
        side = Side(rig, partitions, rig.ours(rig.unique("g"), rig.topic(partitions)), workers)
        side.warm_up()
        for number in range(rounds):
            rig.pause()
            name, killed_ns = kill_leader(rig)
            rig.wait(lambda: rig.leader != "", "a successor")
            led.append((rig.elected_ns - killed_ns) / NS)
            time.sleep(QUIET_S)
            rig.children.drain()
            touches.append(float(len(side.group.since(killed_ns, "command", *TOUCHING))))
            come_back(rig, name, *flags)
            rig.pause()
            name, killed_ns = kill_leader(rig)
            event = side.join()
            rig.wait(lambda: rig.leader != "", "a successor")
            served.append((event.end_ns - killed_ns) / NS)
            after.append((event.end_ns - max(event.known_ns, rig.elected_ns)) / NS)
            side.leave()
            come_back(rig, name, *flags)
            rig.say(
                f"  leader killed, {label}: round {number + 1} of {rounds}: successor {led[-1]:.0f}"
                f" ms, join served {served[-1]:.0f} ms after the kill"
            )
    bar = Bar("median", 500 if guarded else COORDINATOR_SESSION_MS + 1_000)
    section.rows += [
        Row(f"a successor leads, {label}", "from kill -9", led, (bar,)),
        Row(
            f"commands and callbacks in the balanced group, {label}",
            "until 1 s after",
            touches,
            (Bar("max", 0),),
            unit="touches",
        ),
        Row(f"a join at the moment of the kill is served, {label}", "from kill -9", served),
        Row(f"the same, {label}", "from successor and registr.", after, (Bar("median", 250),)),
    ]


def run_coordinator(rig: Rig, sections: list[Section], rounds: int) -> None:
    """Section 3."""
    section = Section(
        "coordinator",
        f"kill -9 of the elected coordinator, {MEMBERS} members,"
        f" {PARTITIONS_OF_COORDINATOR_SECTION} partitions, idle",
    )
    sections.append(section)
    for guarded in (True, False):
        section.attempt(
            "with the guardian" if guarded else "without the guardian",
            partial(successions, rig, section, rounds, guarded),
        )


class Victims:
    """A group of four, each in a process of its own, of which one dies and is replaced, again and
    again.
    """

    def __init__(
        self, rig: Rig, partitions: int, order: Mapping[str, Any], workers: list[Worker]
    ) -> None:
        self.rig = rig
        self.order = order
        self.group = Group(partitions)
        self.members: dict[str, Worker] = {
            rig.join(self.group, worker, order): worker for worker in workers
        }

    def strike(self, number: int, section: Section, label: str) -> float:
        """End one by signal `number`: ms from just before the signal to the last first fetch among
        its partitions. The group is whole again afterwards.
        """
        rig, group = self.rig, self.group
        rig.wait_balanced(group, self.members)
        spare = rig.worker()
        rig.wait_ready(spare)
        rig.pause()
        victim = rig.random.choice(sorted(self.members))
        worker = self.members.pop(victim)
        theirs = set(group.views[victim].owned)
        name = group.views[victim].name
        heard = rig.when_gone(self.order["configs"]["group_id"], name) if name else []
        group.forget(time.time_ns())
        if number == signal.SIGKILL:
            struck_ns = rig.kill(worker)
        else:
            struck_ns = time.time_ns()
            os.kill(worker.child.pid, number)
            rig.buried(worker)
        rig.wait_balanced(group, self.members)
        end_ns = max(
            seen.t_ns
            for seen in group.since(struck_ns, "first_fetch")
            if theirs.intersection(seen.partitions)
        )
        steps(section, label, struck_ns, end_ns, heard, group)
        if number != signal.SIGKILL:
            rig.kill(worker)
        self.members[rig.join(group, spare, self.order)] = spare
        rig.wait_balanced(group, self.members)
        return (end_ns - struck_ns) / NS


def steps(
    section: Section, label: str, struck_ns: int, end_ns: int, heard: list[int], group: Group
) -> None:
    """Where the time went, in ms since the signal."""
    starts = [seen.t_ns for seen in group.since(struck_ns, "command")]
    assigned = [seen.t_ns for seen in group.since(struck_ns, "assigned")]
    marks = {
        "registration gone": heard[:1],
        "first command heard": [min(starts, default=0)] if starts else [],
        "last command heard": starts,
        "last assigned": assigned,
        "last first fetch": [end_ns],
    }
    for name, times in marks.items():
        if times:
            section.step(label, name, (max(times) - struck_ns) / NS)


def deaths(
    rig: Rig,
    section: Section,
    rounds: int,
    what: str,
    per_s: int,
    order: Mapping[str, Any],
    number: int,
    bars: tuple[Bar, ...],
) -> None:
    """One way to die."""
    found: list[float] = []
    with (
        rig.producer(order["topic"], PARTITIONS_OF_CONSUMER_SECTION, per_s),
        rig.staff(CONSUMERS) as workers,
    ):
        victims = Victims(rig, PARTITIONS_OF_CONSUMER_SECTION, order, workers)
        for done in range(rounds):
            found.append(victims.strike(number, section, what))
            rig.say(
                f"  {what}: round {done + 1} of {rounds}: fetched again {found[-1]:.0f} ms after"
                " the signal"
            )
    section.rows.append(Row(what, "from the signal", found, bars))


def run_consumer(rig: Rig, sections: list[Section], rounds: int, theirs: bool) -> None:
    """Section 4."""
    section = Section(
        "consumer",
        f"A consumer of {CONSUMERS} ends without goodbye, {PARTITIONS_OF_CONSUMER_SECTION}"
        f" partitions; loaded: {LOAD_PER_S} records/s",
    )
    sections.append(section)
    session = f"session {CONSUMER_SESSION_MS} ms"
    slow = {"zookeeper_session_timeout_ms": CONSUMER_SESSION_MS}

    def ours(**configs: Any) -> dict[str, Any]:
        return rig.ours(rig.unique("g"), rig.topic(PARTITIONS_OF_CONSUMER_SECTION), **configs)

    def one(
        what: str,
        per_s: int,
        order: Mapping[str, Any],
        number: int,
        bars: tuple[Bar, ...],
        times: int = rounds,
    ) -> None:
        section.attempt(what, lambda: deaths(rig, section, times, what, per_s, order, number, bars))

    with rig.coordinators():
        one("kill -9, with the guardian, idle", 0, ours(), signal.SIGKILL, GUARDED_BARS)
        one("kill -9, with the guardian, loaded", LOAD_PER_S, ours(), signal.SIGKILL, GUARDED_BARS)
        one(
            f"kill -9, without the guardian, {session}, idle",
            0,
            ours(guardian=False, **slow),
            signal.SIGKILL,
            UNGUARDED_BARS,
        )
        one(f"SIGSTOP, {session}, idle", 0, ours(**slow), signal.SIGSTOP, STOPPED_BARS)
    if theirs:
        order = rig.theirs(
            rig.unique("k"),
            rig.topic(PARTITIONS_OF_CONSUMER_SECTION),
            session_timeout_ms=CONSUMER_SESSION_MS,
            heartbeat_interval_ms=KAFKA_HEARTBEAT_MS,
        )
        one(
            f"kill -9, kafka-python, {session}, idle",
            0,
            order,
            signal.SIGKILL,
            (),
            max(1, rounds // 2),
        )
