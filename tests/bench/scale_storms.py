"""Many changes at once: fifty joins in a second, a member that comes and goes, a thousand groups
that change together.

Members are real (`scale_world.Member`), and what happened is read from ZooKeeper: a partition moved
when its owner node was made, generations are the difference of the group's reports.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from tests.bench.figures import Bar, Row, Section
from tests.bench.scale_rig import CoordinatorProcess, Rig
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import LAYOUT, Member, Seeder
from zkcoord.core.model import GroupState, TopicPartition
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.port import Change, Fired, PortEvent, WatchMode
from zkcoord.znodes.places import OwnerAt

GROUP, TOPIC = "stormy", "orders"
WAIT_S = 300.0
STORM_S, STORM_JOINS, STORM_BEFORE, STORM_PARTITIONS = 1.0, 50, 5, 240
FLAP_S, FLAP_PERIOD_S, FLAP_MEMBERS, FLAP_PARTITIONS = 10.0, 0.1, 5, 60
MANY_GROUPS, MANY_BEFORE, MANY_AFTER = 1_000, 2, 6
IDLE_S = 5.0


class Moves:
    """Counts how often the owner of each partition of a group changed."""

    def __init__(self, hub: Hub, group: str) -> None:
        self.counts: Counter[TopicPartition] = Counter()
        answers: list[object] = []
        port = hub.open(self._event)
        hub.run_until(lambda: port.connected, WAIT_S, "a session that watches")
        port.watch(LAYOUT.owners(group), WatchMode.RECURSIVE, answers.append)
        hub.run_until(lambda: answers, WAIT_S, "a watch")

    def _event(self, event: PortEvent) -> None:
        if isinstance(event, Fired) and event.change is Change.CREATED:
            where = LAYOUT.locate(event.path)
            if isinstance(where, OwnerAt):
                self.counts[where.partition] += 1

    def beyond(
        self, before: dict[TopicPartition, Member], after: dict[TopicPartition, Member]
    ) -> list[int]:
        """For each partition: its moves beyond those that lead from its first owner to its last
        (one, or none where that is the same).
        """
        return [self.counts[tp] - (before.get(tp) is not member) for tp, member in after.items()]


def owners(members: Sequence[Member]) -> dict[TopicPartition, Member]:
    """Who holds what, by the members' own account."""
    return {tp: member for member in members for tp in member.held}


def await_balance(
    hub: Hub, seeder: Seeder, group: str, members: Sequence[Member], partitions: int
) -> None:
    """Until these members own everything, evenly, and the coordinator says that the group is at
    rest.
    """

    def even() -> bool:
        held = [len(member.held) for member in members]
        return sum(held) == partitions and max(held) - min(held) <= 1

    hub.run_until(even, WAIT_S, f"a balanced group of {len(members)}")
    await_rest(hub, seeder, group, len(members))


def await_rest(hub: Hub, seeder: Seeder, group: str, members: int) -> None:
    """Until the coordinator says that the group is at rest with so many members."""

    def rests() -> bool:
        report = seeder.metadata(group)
        return report.state is GroupState.STABLE and report.members == members

    hub.run_until(rests, WAIT_S, "a group at rest")


def storm(rig: Rig, rounds: int, joins: int = STORM_JOINS, present: int = STORM_BEFORE) -> Section:
    """Joins within a second, of a group with so many members before."""
    section = Section(
        "storm",
        f"{joins} joins within {STORM_S:g} s, {present} members before, {STORM_PARTITIONS}"
        " partitions",
    )
    generations = Row("generations", "of the group's report", [], (Bar("max", 4),), "generations")
    beyond = Row(
        "moves of a partition beyond those needed",
        "owner nodes made, worst partition",
        [],
        (Bar("max", 1),),
        "moves",
    )
    moved = Row("moves of all partitions beyond those needed", "owner nodes made", [], (), "moves")
    settled = Row("last join to a balanced group", "benchmark's clock", [])
    section.rows += [generations, beyond, moved, settled]
    for number in range(rounds):
        with rig.hub() as (hub, seeder), rig.coordinator(hub):
            seeder.topic(TOPIC, STORM_PARTITIONS)
            members = [Member(hub, GROUP, [TOPIC]) for _ in range(present)]
            await_balance(hub, seeder, GROUP, members, STORM_PARTITIONS)
            hub.run_for(2.0)
            before, generation, moves = (
                owners(members),
                seeder.metadata(GROUP).generation,
                Moves(hub, GROUP),
            )
            began = time.monotonic()
            for join in range(joins):
                hub.run_for(began + join * STORM_S / joins - time.monotonic())
                members.append(Member(hub, GROUP, [TOPIC]))
            last = time.monotonic()
            await_balance(hub, seeder, GROUP, members, STORM_PARTITIONS)
            settled.values.append((time.monotonic() - last) * 1000)
            generations.values.append(seeder.metadata(GROUP).generation - generation)
            found = moves.beyond(before, owners(members))
            beyond.values.append(max(found))
            moved.values.append(sum(found))
            rig.say(
                f"  storm after {present} members, round {number + 1} of {rounds}:"
                f" {generations.values[-1]:g} generations, worst partition {max(found)} moves too"
                f" many, all {sum(found)}"
            )
    return section


def flap(rig: Rig, seconds: float = FLAP_S) -> Section:
    """A member that comes and goes."""
    section = Section(
        "flap",
        f"A member that joins and leaves every {FLAP_PERIOD_S * 1000:g} ms for {seconds:g} s beside"
        f" {FLAP_MEMBERS} others, {FLAP_PARTITIONS} partitions",
    )
    with rig.hub() as (hub, seeder), rig.coordinator(hub):
        seeder.topic(TOPIC, FLAP_PARTITIONS)
        members = [Member(hub, GROUP, [TOPIC]) for _ in range(FLAP_MEMBERS)]
        await_balance(hub, seeder, GROUP, members, FLAP_PARTITIONS)
        hub.run_for(2.0)
        before, generation, moves = (
            owners(members),
            seeder.metadata(GROUP).generation,
            Moves(hub, GROUP),
        )
        until = time.monotonic() + seconds
        flaps = 0
        while time.monotonic() < until:
            guest = Member(hub, GROUP, [TOPIC])
            hub.run_for(FLAP_PERIOD_S)
            guest.leave()
            hub.run_for(FLAP_PERIOD_S)
            flaps += 1
        hub.run_until(lambda: guest.gone, WAIT_S, "the last leave")
        await_balance(hub, seeder, GROUP, members, FLAP_PARTITIONS)
        found = moves.beyond(before, owners(members))
        share = -(-FLAP_PARTITIONS // (FLAP_MEMBERS + 1))
        made = seeder.metadata(GROUP).generation - generation
    section.rows += [
        Row(
            "generations",
            "of the group's report",
            [made],
            (Bar("max", seconds / 2 + 4),),
            "generations",
            note=f"{flaps} joins and as many leaves; no change waits longer than 2 s",
        ),
        Row(
            "moves of all partitions beyond those needed",
            "owner nodes made",
            [sum(found)],
            (Bar("max", (made + 1) * share),),
            "moves",
            note=f"a generation needs at most {share}",
        ),
        Row(
            "partitions that never moved",
            "of the others'",
            [sum(1 for tp in before if not moves.counts[tp])],
            (),
            "partitions",
        ),
    ]
    return section


def together(rig: Rig, groups: int = MANY_GROUPS) -> Section:
    """Groups that subscribe to one topic, which gets more partitions."""
    section = Section(
        "groups",
        f"{groups:,} groups change at once: their topic grows from {MANY_BEFORE} to {MANY_AFTER}"
        " partitions",
    )
    with rig.hub() as (hub, seeder), rig.coordinator(hub) as process:
        seeder.topic(TOPIC, MANY_BEFORE)
        names = [f"group-{number:04d}" for number in range(groups)]
        members = []
        for begin in range(0, groups, 50):
            members += [Member(hub, name, [TOPIC]) for name in names[begin : begin + 50]]
            hub.run_until(
                lambda: all(len(member.held) == MANY_BEFORE for member in members),
                WAIT_S,
                "groups at rest",
            )
        hub.run_for(IDLE_S / 2)
        idle_from = rig.received()
        hub.run_for(IDLE_S)
        idle_per_s = (rig.received() - idle_from) / IDLE_S
        process.records()
        began_ms, received = wall_ms(), rig.received()
        seeder.grow(TOPIC, MANY_AFTER)
        hub.run_until(
            lambda: all(len(member.held) == MANY_AFTER for member in members), WAIT_S, "all groups"
        )
        found = rebalances(hub, process, set(names))
        took_ms = max(int(record["t"]) for record in found.values()) - began_ms
        requests = rig.received() - received - idle_per_s * took_ms / 1000
    durations = [float(record["duration_ms"]) for record in found.values()]
    section.rows += [
        Row("until all are at rest", "journal", [took_ms]),
        Row("a group's rebalance", "journal", durations),
        Row(
            "the last group by the first",
            "journal",
            [max(durations) / max(1.0, min(durations))],
            (),
            "x",
        ),
        Row(
            "requests",
            "server, without the idle rate",
            [requests / groups],
            (),
            "requests/group",
            note=f"idle: {idle_per_s:.0f}/s",
        ),
    ]
    section.notes.append(
        "Benchmark and members share one thread, so these times are the members' as much as the"
        " coordinator's."
    )
    return section


def rebalances(
    hub: Hub, process: CoordinatorProcess, names: set[str]
) -> dict[str, dict[str, object]]:
    """The latest rebalance of each of these groups, once every one has had one."""
    found: dict[str, dict[str, object]] = {}

    def all_there() -> bool:
        found.update(
            {
                str(record["group"]): record
                for record in process.records()
                if record["kind"] == "rebalance" and record["group"] in names
            }
        )
        return len(found) == len(names)

    hub.run_until(all_there, WAIT_S, "a rebalance of every group")
    return found


def run(rig: Rig, sections: list[Section], rounds: int, flap_s: float) -> None:
    """Storm and flap."""
    sections.append(storm(rig, rounds))
    sections.append(storm(rig, rounds, STORM_JOINS - 1, 1))
    sections.append(flap(rig, flap_s))


def run_together(rig: Rig, sections: list[Section], groups: int) -> None:
    """Many groups."""
    sections.append(together(rig, groups))
