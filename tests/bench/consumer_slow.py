"""A member that spends 15 s in its handler while another one joins, and what that does to the rest
of the group; zkcoord's consumer, then kafka-python's group consumer.

The group has three members that process a steady load. One of them blocks in its handler, and a
fourth joins. The joiner is served when it is handed its first record; its clock starts at its
registration (kafka-python: at its constructor). The gap is the longest time between two hand-outs,
until the handler ends, of a partition that was *not* the slow member's before.

What if all that the joiner shall get is the slow member's? Then it waits: a stop is answered when
the records in the handler are processed, or at once where it names no partition of theirs and there
is no listener to be called before. A handler that never ends ends with the eviction of its member,
`rebalance_timeout_ms` after the stop. Nobody else waits in either case.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.bench.figures import Bar, Row, Section
from tests.bench.group import Group
from tests.bench.joins import LOAD_PER_S, MEMBERS, Side
from tests.bench.rig import NS, Rig

BLOCK_S = 15.0
PARTITIONS = 24
SERVED_BAR_MS, GAP_BAR_MS = 300.0, 200.0


@dataclass
class Found:
    """All rounds of one side, in ms: the joiner's first record (by its registration and by its
    constructor), the worst gap of the others' partitions that stay and of those that go to the
    joiner, and the slow member's partitions' way to it.
    """

    registered: list[float] = field(default_factory=list)
    constructed: list[float] = field(default_factory=list)
    stay: list[float] = field(default_factory=list)
    move: list[float] = field(default_factory=list)
    from_slow: list[float] = field(default_factory=list)


def first_hand_out_ns(group: Group, numbers: Iterable[int], since_ns: int) -> int:
    """The first time at which a record of these partitions was handed out; 0 for never."""
    return min(
        (t for number in numbers for t, _ in group.handed_out.get(number, ()) if t >= since_ns),
        default=0,
    )


def once(rig: Rig, side: Side, block_s: float, found: Found) -> None:
    """One slow handler and one join."""
    group, slow = side.group, side.members[0]
    rig.pause()
    group.forget(0)
    before = group.owners()
    healthy = {number for number, who in before.items() if who != slow}
    view = group.views[slow]
    view.at.pop("blocked", None)
    view.at.pop("unblocked", None)
    rig.homes[slow][0].order(do="block", who=slow, s=block_s)
    rig.wait(lambda: "blocked" in view.at, "a member in its handler")
    joiner = rig.join(group, side.guest, side.order)
    rig.wait(lambda: "unblocked" in view.at, "the end of the handler", block_s + 60.0)
    rig.wait_balanced(group, [*side.members, joiner])
    after = group.owners()
    mine = {number for number, who in after.items() if who == joiner}
    rig.wait(
        lambda: all(
            group.last_hand_out_ns(number) > group.views[joiner].at["assigned"] for number in mine
        ),
        "records of all that the joiner has",
    )
    rig.children.drain()
    asked_ns, unblocked_ns = group.views[joiner].at["new"], view.at["unblocked"]
    known_ns = rig.registered_ns(side.group_id, group.views[joiner].name) if side.ours else asked_ns
    first = min(
        (seen for seen in group.since(asked_ns, "assigned") if seen.who == joiner),
        key=lambda seen: seen.t_ns,
    )
    served_ns = first_hand_out_ns(group, first.partitions, first.t_ns)
    found.registered.append((served_ns - known_ns) / NS)
    found.constructed.append((served_ns - asked_ns) / NS)
    for into, numbers in ((found.stay, healthy - mine), (found.move, healthy & mine)):
        if numbers:
            into.append(
                max(group.gap_ns(number, asked_ns, unblocked_ns) for number in numbers) / NS
            )
    late_ns = first_hand_out_ns(group, mine - healthy, unblocked_ns)
    if late_ns:
        found.from_slow.append((late_ns - unblocked_ns) / NS)
    rig.leave(joiner)
    rig.wait_balanced(group, side.members)
    rig.wait(lambda: "closed" in group.views[joiner].at, "the end of the member that joined")
    with rig.children.lock:
        group.gone(joiner)


def measure(rig: Rig, found: Found, order: dict[str, object], rounds: int, block_s: float) -> None:
    """One side."""
    with rig.staff(MEMBERS + 1) as workers:
        side = Side(rig, PARTITIONS, order, workers)
        side.warm_up()
        for number in range(rounds):
            once(rig, side, block_s, found)
            rig.say(
                f"  slow, {order['kind']}: round {number + 1} of {rounds}: joiner served after"
                f" {found.registered[-1]:.0f} ms, others' gap"
                f" {max([*found.stay[-1:], *found.move[-1:]], default=0):.0f} ms"
            )


def run(rig: Rig, sections: list[Section], rounds: int, block_s: float = BLOCK_S) -> None:
    """The section."""
    section = Section(
        "slow",
        f"A member that spends {block_s:g} s in its handler while another one joins, {MEMBERS} ->"
        f" {MEMBERS + 1} members, {PARTITIONS} partitions, {LOAD_PER_S} records/s",
    )
    sections.append(section)
    topic = rig.topic(PARTITIONS)
    ours, theirs = Found(), Found()

    with rig.coordinators(), rig.producer(topic, PARTITIONS, LOAD_PER_S):
        section.attempt(
            "zkcoord",
            lambda: measure(
                rig, ours, rig.ours(rig.unique("g"), topic, records=True), rounds, block_s
            ),
        )
        section.attempt(
            "kafka-python",
            lambda: measure(
                rig,
                theirs,
                {**rig.theirs(rig.unique("k"), topic), "records": True},
                max(1, rounds // 2),
                block_s,
            ),
        )
    ratio = (
        statistics.median(theirs.constructed) / statistics.median(ours.constructed)
        if ours.constructed and theirs.constructed
        else None
    )
    section.rows += [
        Row(
            "the joiner's first record",
            "from its registration",
            ours.registered,
            (Bar("median", SERVED_BAR_MS),),
        ),
        Row(
            "the joiner's first record",
            "from its constructor",
            ours.constructed,
            peer=theirs.constructed,
            ratio=ratio,
        ),
        Row(
            "longest gap, the others' partitions that stay",
            "hand-out to hand-out",
            ours.stay,
            (Bar("median", GAP_BAR_MS),),
            peer=theirs.stay,
        ),
        Row(
            "longest gap, the others' partitions that move",
            "hand-out to hand-out",
            ours.move,
            (Bar("median", GAP_BAR_MS),),
            peer=theirs.move,
        ),
        Row(
            "the slow member's partitions that move",
            "from the handler's end",
            ours.from_slow,
            peer=theirs.from_slow,
        ),
    ]
