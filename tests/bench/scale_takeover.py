"""How long a successor needs until it has read the world, and that it then writes nothing."""

from __future__ import annotations

from tests.bench.figures import Bar, Row, Section
from tests.bench.scale_rig import SESSION_MS, CoordinatorProcess, Rig
from tests.bench.scale_world import LAYOUT, Seed, Seeder, spread_evenly
from zkcoord.zk.port import Children, GetChildren

TOPICS = 50
MEMBERS, PARTITIONS = 3, 10
SETTLE_S = 3.0
BAR_MS = 5_000.0
STOOD_BY_BAR_MS = 1_500.0


class Takeovers:
    """Those by one kind of successor. `since` is what it says when the time begins."""

    def __init__(self, section: Section, who: str, since: str, bar_ms: float) -> None:
        self.since = since
        clock = f"{who}, from {since} to ready"
        self.took, self.processor, self.memory, self.traffic, self.writes, self.commands = rows = [
            Row(*what)
            for what in (
                ("takeover", clock, [], (Bar("median", bar_ms),)),
                ("processor time of the successor", f"{who}, both threads", [], (), "s"),
                ("peak memory of the successor", f"{who}, when it is ready", [], (), "MiB"),
                ("read from the server", clock, [], (), "MiB"),
                (
                    "transactions but the election's",
                    f"{who}, until {SETTLE_S:g} s after",
                    [],
                    (Bar("max", 0),),
                    "multis",
                ),
                ("commands found afterwards", "in the channels", [], (Bar("max", 0),), "nodes"),
            )
        ]
        section.rows += rows

    def add(self, process: CoordinatorProcess, groups: int, commands: int) -> str:
        """One that has ended; what it was like."""
        ready, since, ended = (process.said[one] for one in ("ready", self.since, "ended"))
        assert ready["groups"] == groups, ready
        self.took.values.append((ready["t"] - since["t"]) / 1e6)
        self.processor.values.append(ready["cpu_s"] - since["cpu_s"])
        self.memory.values.append(ready["rss_mib"])
        self.traffic.values.append((ready["received"] - since.get("received", 0)) / 2**20)
        self.writes.values.append(float(sum(1 for what, *_ in ended["trace"] if what == "multi")))
        self.commands.values.append(float(commands))
        return (
            f"{self.took.values[-1]:.0f} ms, {self.processor.values[-1]:.2f} s of processor time,"
            f" {self.memory.values[-1]:.0f} MiB"
        )


def run(
    rig: Rig,
    sections: list[Section],
    groups: int,
    rounds: int,
    members: int = MEMBERS,
    partitions: int = PARTITIONS,
    flags: tuple[str, ...] = (),
) -> None:
    """The section."""
    section = Section(
        "takeover", f"Takeover of {groups:,} groups x {members} members x {partitions} partitions"
    )
    sections.append(section)
    stood_by = Takeovers(section, "one that stood by", "elected", STOOD_BY_BAR_MS)
    fresh = Takeovers(section, "one that has just started", "connected", BAR_MS)
    with rig.hub(SESSION_MS) as (hub, seeder):
        topics = [f"topic-{number}" for number in range(min(TOPICS, groups))]
        for topic in topics:
            seeder.topic(topic, partitions)
        seeds = [
            spread_evenly(f"group-{number:05d}", members, topics[number % len(topics)], partitions)
            for number in range(groups)
        ]
        for begin in range(0, groups, 1_000):
            seeder.groups(seeds[begin : begin + 1_000])
            rig.say(f"  takeover: {min(begin + 1_000, groups):,} groups written")
        waits = ("--stands-by", str(groups))
        for number in range(rounds):
            with rig.coordinator(hub, *flags) as first:
                hub.run_for(SETTLE_S)
                with rig.coordinator(hub, *waits, *flags, until="ahead") as second:
                    first.stop()
                    rig.wait(hub, second, "ready")
                    hub.run_for(SETTLE_S)
                    second.stop()
            commands = commands_left(seeder, seeds)
            for kind, process in ((fresh, first), (stood_by, second)):
                said = kind.add(process, groups, commands)
                rig.say(f"  takeover, round {number + 1} of {rounds}, from {kind.since}: {said}")
    section.notes.append(
        f"{groups * members:,} members, each registered by a session of its own that was then left"
        " without a connection (it lives at the server, and sends no pings);"
        f" {groups * partitions:,} owner nodes"
    )


def commands_left(seeder: Seeder, seeds: list[Seed]) -> int:
    """Nodes in the channels of all members."""
    reads = [
        GetChildren(LAYOUT.channel(seed.group, name)) for seed in seeds for name in seed.members
    ]
    found = 0
    for begin in range(0, len(reads), 1_000):
        found += sum(
            len(answer.names)
            for answer in seeder.read(*reads[begin : begin + 1_000])
            if isinstance(answer, Children)
        )
    return found
