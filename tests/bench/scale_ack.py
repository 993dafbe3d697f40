"""What one ack costs the coordinator in groups of different sizes: from the watch event to the
transaction that the ack makes possible.

The group is at rest. By hand a partition is given from its owner, *giver*, to another member,
*taker*, in one transaction that no consumer would write. The coordinator sees an owner that
contradicts its target and sends *taker* a stop. This ack is measured: the stop's transaction frees
the partition, so a start for *giver* follows. It is acked too, and the group is at rest again. Both
members' acks are transactions made by hand on their own sessions, with everything that a consumer's
ack has but offsets. The other members are sessions without a connection: their nodes are all that
the coordinator knows of anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.bench.figures import Bar, Row, Section, spread
from tests.bench.scale_rig import SESSION_MS, Rig
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import LAYOUT, Seed, Seeder, owner_nodes, spread_evenly
from zkcoord.core.model import GroupState
from zkcoord.zk.port import Change, Check, Committed, Delete, Fired, Op, PortEvent, WatchMode

GROUP, TOPIC = "wide", "orders"
PARTITIONS_PER_MEMBER = 2
RATIO_MAX = 1.5
SIZES = (50, 500, 5_000)


class Hands:
    """The two members whose acks are made by hand, and what appears in their channels."""

    def __init__(self, hub: Hub, seeder: Seeder, seed: Seed) -> None:
        self.hub = hub
        self.seeder = seeder
        self.giver, self.taker = sorted(seed.connected)
        self.partition = seed.members[self.giver][0]
        self.commands: list[str] = []
        watcher = hub.open(self._event)
        hub.run_until(lambda: watcher.connected, 60.0, "a session that watches")
        for name in seed.connected:
            watcher.watch(LAYOUT.channel(GROUP, name), WatchMode.RECURSIVE, lambda result: None)

    def _event(self, event: PortEvent) -> None:
        if isinstance(event, Fired) and event.change is Change.CREATED:
            self.commands.append(event.path)

    def command_for(self, name: str) -> str:
        """Wait for a command in a member's channel; its path."""
        prefix = LAYOUT.channel(GROUP, name) + "/"
        self.hub.run_until(
            lambda: any(path.startswith(prefix) for path in self.commands),
            120.0,
            f"a command for {name}",
        )
        found = [path for path in self.commands if path.startswith(prefix)]
        assert len(found) == 1, found
        self.commands.remove(found[0])
        return found[0]

    def write(self, name: str, *ops: Op) -> None:
        """A transaction of a member, after the check that begins each of them."""
        result = self.seeder.multi(
            self.seeder.sessions[name], [Check(LAYOUT.registration(GROUP, name), 0), *ops]
        )
        assert isinstance(result, Committed), result

    def once(self) -> tuple[str, str]:
        """One turn; the paths of the stop's command and of the channel where the start appeared."""
        owner = LAYOUT.owner(GROUP, self.partition)
        self.write(self.taker, Delete(owner, 1), *owner_nodes(GROUP, self.taker, self.partition))
        stop = self.command_for(self.taker)
        self.rest()
        self.write(self.taker, Delete(stop), Delete(owner, 1))
        start = self.command_for(self.giver)
        self.rest()
        self.write(self.giver, Delete(start), *owner_nodes(GROUP, self.giver, self.partition))
        self.hub.run_until(
            lambda: self.seeder.metadata(GROUP).state is GroupState.STABLE, 120.0, "a group at rest"
        )
        self.rest()
        return stop, start

    def rest(self) -> None:
        """Let everything that is under way arrive, so that nothing of it is counted to what
        follows.
        """
        self.hub.run_for(0.1)


def judged(
    trace: Sequence[Sequence[Any]], turns: Sequence[tuple[str, str]]
) -> list[tuple[float, float]]:
    """(ms, bytes) of each turn: from the event that tells of the stop's end to the answer of the
    transaction that created the start.
    """
    found = []
    for stop, start in turns:
        event = min(
            entry[1]
            for entry in trace
            if entry[0] == "fired"
            and entry[3] in (stop, stop.rpartition("/")[0])
            and entry[1] > created(trace, stop)
        )
        before = next(entry for entry in trace if entry[0] == "fired" and entry[1] == event)
        prefix = start.rpartition("-")[0] + "-"
        multi = next(entry for entry in trace if entry[0] == "multi" and prefix in entry[4])
        found.append(((multi[2] - event) / 1e6, float(multi[3] - before[2])))
    return found


def created(trace: Sequence[Sequence[Any]], path: str) -> int:
    """When the event of a command's creation came."""
    return min(int(entry[1]) for entry in trace if entry[0] == "fired" and entry[3] == path)


def run(rig: Rig, sections: list[Section], rounds: int, sizes: Sequence[int] = SIZES) -> None:
    """The section."""
    section = Section(
        "ack",
        f"One ack in groups of {', '.join(f'{size:,}' for size in sizes)} members,"
        f" {PARTITIONS_PER_MEMBER} partitions each: from the watch event to the answered"
        " transaction that follows from it",
    )
    sections.append(section)
    base: tuple[float, float] | None = None
    for size in sizes:
        with rig.hub(SESSION_MS) as (hub, seeder):
            partitions = size * PARTITIONS_PER_MEMBER
            seeder.topic(TOPIC, partitions)
            seed = spread_evenly(GROUP, size, TOPIC, partitions, connected=(size // 3, size // 2))
            seeder.groups([seed])
            with rig.coordinator(hub) as process:
                hub.run_for(1.0)
                hands = Hands(hub, seeder, seed)
                hands.once()
                turns = [hands.once() for _ in range(rounds)]
                found = judged(process.stop()["trace"], turns)
        times, traffic = [ms for ms, _ in found], [read for _, read in found]
        section.rows += [
            Row(f"{size:,} members", "event to answered multi", times),
            Row(f"{size:,} members", "read by the coordinator", traffic, unit="bytes"),
        ]
        medians = float(spread(times)["median"]), float(spread(traffic)["median"])
        if base is not None:
            bars = (Bar("max", RATIO_MAX),) if size == max(sizes) else ()
            section.rows.append(
                Row(
                    f"{size:,} members by {sizes[0]}",
                    "medians of the times",
                    [medians[0] / base[0]],
                    bars,
                    "x",
                )
            )
            section.rows.append(
                Row(
                    f"{size:,} members by {sizes[0]}",
                    "medians of the bytes",
                    [medians[1] / base[1]],
                    bars,
                    "x",
                )
            )
        base = base or medians
        rig.say(f"  ack, {size:,} members: {medians[0]:.2f} ms, {medians[1]:.0f} bytes")
