"""How long a successor needs until it has read the world, and that it then writes nothing."""

from __future__ import annotations

from tests.bench.figures import Bar, Row, Section
from tests.bench.scale_rig import SESSION_MS, Rig
from tests.bench.scale_world import LAYOUT, Seed, Seeder, spread_evenly
from zkcoord.zk.port import Children, GetChildren

TOPICS = 50
MEMBERS, PARTITIONS = 3, 10
SETTLE_S = 3.0
BAR_MS = 5_000.0


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
    took, processor, memory, commands, writes, traffic = [
        Row(*what)
        for what in (
            ("session established to ready", "successor's own clock", [], (Bar("median", BAR_MS),)),
            ("processor time of the successor", "in between, both threads", [], (), "s"),
            ("peak memory of the successor", "when it is ready", [], (), "MiB"),
            ("commands found afterwards", "in the channels", [], (Bar("max", 0),), "nodes"),
            (
                "transactions but the election's",
                f"until {SETTLE_S:g} s after",
                [],
                (Bar("max", 0),),
                "multis",
            ),
            ("read from the server", "until ready", [], (), "MiB"),
        )
    ]
    section.rows += [took, processor, memory, commands, writes, traffic]
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
        for number in range(rounds):
            with rig.coordinator(hub, *flags) as process:
                hub.run_for(SETTLE_S)
                ended = process.stop()
            ready = process.said["ready"]
            assert ready["groups"] == groups, ready
            took.values.append((ready["t"] - process.said["connected"]["t"]) / 1e6)
            processor.values.append(ready["cpu_s"] - process.said["connected"]["cpu_s"])
            memory.values.append(ready["rss_mib"])
            traffic.values.append(ready["received"] / 2**20)
            writes.values.append(float(sum(1 for what, *_ in ended["trace"] if what == "multi")))
            commands.values.append(float(commands_left(seeder, seeds)))
            rig.say(
                f"  takeover, round {number + 1} of {rounds}: {took.values[-1]:.0f} ms,"
                f" {processor.values[-1]:.2f} s of processor time, {memory.values[-1]:.0f} MiB"
            )
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
