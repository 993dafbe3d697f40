"""Groups that never were, for the audit: journals and records of any size with violations whose
places are known.

Records go to partitions in slices, evenly, or nine of ten to partition 0. Each partition is owned
by one member after another, for `OWNED_CHUNKS` hand-outs of `chunk` records each, with a commit
after half of them and one at the end. Each ownership has one violation at most, so that none hides
another; a hand-over without one is clean. Every write has its place in ZooKeeper's order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zkcoord.verdict.rules import Rule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "orders"
EVEN_PARTITIONS, SKEWED_PARTITIONS = 16, 17
SLICES = 160
OWNED_CHUNKS = 8
STEP_NS = 1_000
Place = tuple[str, int]


@dataclass(frozen=True)
class Shape:
    """How many records, and where. `slices` is a multiple of 160; `hosts`: on how many machines the
    members are, whose clocks differ by hours.
    """

    slices: int
    slice_records: int
    chunk: int
    skewed: bool = False
    members: int = 6
    hosts: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        assert self.slices % SLICES == 0 and self.slice_records % self.chunk == 0, self

    @property
    def records(self) -> int:
        """In all partitions."""
        return self.slices * self.slice_records

    @property
    def ends(self) -> list[int]:
        """The records of each partition."""
        if not self.skewed:
            return [self.records // EVEN_PARTITIONS] * EVEN_PARTITIONS
        return [self.records * 9 // 10] + [self.records // 10 // (SKEWED_PARTITIONS - 1)] * (
            SKEWED_PARTITIONS - 1
        )


@dataclass
class World:
    """What was written. `planted`: where the audit must find what, as (partition, first offset);
    nothing else may be found.
    """

    shape: Shape
    planted: dict[Rule, set[Place]] = field(default_factory=lambda: {rule: set() for rule in Rule})
    lines: int = 0

    def plant(self, rule: Rule, number: int, offset: int) -> None:
        """One more."""
        self.planted[rule].add((f"{TOPIC}-{number}", offset))

    def places(self, rule: Rule) -> list[tuple[int, int]]:
        """(partition number, offset) of what was planted."""
        return [
            (int(partition.rpartition("-")[2]), offset)
            for partition, offset in sorted(self.planted[rule])
        ]


class Journals:
    """Writes the journals of a group. `each`: how many violations of each of `kinds` are
    planted.
    """

    def __init__(self, folder: Path, shape: Shape, kinds: Collection[Rule], each: int) -> None:
        self.folder = folder
        self.world = World(shape)
        self.shape = shape
        self.random = random.Random(shape.seed)
        self.clock = count(1_700_000_000_000_000_000, STEP_NS)
        self.files: dict[str, IO[str]] = {}
        owned = OWNED_CHUNKS * shape.chunk
        self.ownerships = [
            (number, start, min(start + owned, end))
            for number, end in enumerate(shape.ends)
            for start in range(0, end, owned)
        ]
        middle = [
            at
            for at, (number, start, end) in enumerate(self.ownerships)
            if end - start == owned
            and at + 1 < len(self.ownerships)
            and self.ownerships[at + 1][0] == number
        ]
        chosen = iter(self.random.sample(middle, each * len(kinds)))
        self.plans: dict[int, Rule] = {next(chosen): kind for kind in kinds for _ in range(each)}

    def write(self) -> World:
        """All files."""
        for role in ("consumers", "producers"):
            (self.folder / role).mkdir(parents=True, exist_ok=True)
        names = [f"c{number}" for number in range(self.shape.members)]
        self.files = {
            name: (self.folder / "consumers" / f"{name}.jsonl").open("w", encoding="utf-8")
            for name in names
        }
        for number, name in enumerate(names):
            self.say(name, "start", host=f"host-{number % self.shape.hosts}")
        version: dict[int, Iterator[int]] = {}
        released = False
        for at, (number, start, end) in enumerate(self.ownerships):
            if number not in version:
                version[number], released = count(1), False
            released = self.own(at, number, start, end, version[number], claimed=released)
        for name in names:
            self.say(name, "closed", ms=1)
        for file in self.files.values():
            file.close()
        ends = {f"{TOPIC}-{number}": end for number, end in enumerate(self.shape.ends)}
        (self.folder / "producers" / "producer.jsonl").write_text(
            json.dumps({"event": "produced", "t": next(self.clock), "ends": ends}) + "\n",
            encoding="utf-8",
        )
        return self.world

    def own(
        self, at: int, number: int, start: int, end: int, version: Iterator[int], claimed: bool
    ) -> bool:
        """One ownership and what is wrong with it; True when the next owner's claim was written
        already. `claimed`: this one's was.
        """
        name, here = self.owner(at), f"{TOPIC}-{number}"
        plan = self.plans.get(at)
        if not claimed:
            self.claim(at, here, start, next(version))
        chunks = [
            (first, min(first + self.shape.chunk, end))
            for first in range(start, end, self.shape.chunk)
        ]
        half = chunks[len(chunks) // 2][0]
        for first, stop in chunks[:-1]:
            if first == half and half > start:
                self.say(name, "committed", offsets={here: half}, orders={here: next(version)})
                if plan is Rule.OFFSET_BACK:
                    self.say(
                        name, "committed", offsets={here: half - 1}, orders={here: next(version)}
                    )
                    self.plant(plan, here, half - 1)
            if plan is Rule.LOST and first == half:
                self.hand_out(name, here, first + 1, stop)
                self.plant(plan, here, first)
            elif plan is Rule.DUPLICATED and first == half:
                self.hand_out(name, here, first - 1, stop)
                self.plant(plan, here, first - 1)
            else:
                self.hand_out(name, here, first, stop)
        last, stop = chunks[-1]
        if plan is Rule.OWNED_TWICE:
            self.claim(at + 1, here, end, next(version))
            self.hand_out(name, here, last, stop)
            self.say(name, "revoked", positions={here: end}, orders={here: next(version)})
            self.plant(plan, here, start)
        elif plan is Rule.UNOWNED:
            self.say(name, "revoked", positions={here: last}, orders={here: next(version)})
            self.hand_out(name, here, last, stop)
            self.plant(plan, here, last)
        else:
            self.hand_out(name, here, last, stop)
            self.say(name, "committed", offsets={here: end}, orders={here: next(version)})
            self.say(name, "revoked", positions={here: end}, orders={here: next(version)})
        return plan is Rule.OWNED_TWICE

    def owner(self, at: int) -> str:
        return f"c{at % self.shape.members}"

    def claim(self, at: int, here: str, offset: int, version: int) -> None:
        self.say(self.owner(at), "assigned", offsets={here: offset}, orders={here: version})

    def hand_out(self, name: str, here: str, first: int, stop: int) -> None:
        self.say(
            name, "records", count=stop - first, ranges={here: [[first, stop - 1, stop - first, 0]]}
        )

    def plant(self, rule: Rule, here: str, offset: int) -> None:
        self.world.planted[rule].add((here, offset))

    def say(self, name: str, event: str, **fields: Any) -> None:
        # each host's clock is an hour off the one before
        skew = int(name[1:]) % self.shape.hosts * 3_600_000_000_000
        self.files[name].write(
            json.dumps(
                {"event": event, "t": next(self.clock) - skew, **fields}, separators=(",", ":")
            )
            + "\n"
        )
        self.world.lines += 1


def plant_in_records(world: World, each: int) -> None:
    """Choose what the records lack and have twice; not at the first or last of a partition."""
    numbers = random.Random(world.shape.seed + 1)
    ends = world.shape.ends
    for rule in (Rule.LOST, Rule.DUPLICATED):
        while len(world.planted[rule]) < each:
            number = numbers.choices(range(len(ends)), weights=ends)[0]
            place = (
                f"{TOPIC}-{number}",
                numbers.randrange(1, ends[number] - 1, 3) + (rule is Rule.DUPLICATED),
            )
            world.planted[rule].add(place)


def records(spark: SparkSession, world: World) -> DataFrame:
    """All records as they came out: topic, partition, offset; made inside Spark. What lies in one
    task is a run of slices, as a sink writes them.
    """
    from pyspark.sql import functions as F

    shape = world.shape
    size = shape.slice_records
    base = (
        spark.range(shape.records)
        .withColumn("slice", F.expr(f"id div {size}"))
        .withColumn("inner", F.expr(f"id % {size}"))
    )
    if shape.skewed:
        others = SKEWED_PARTITIONS - 1
        number = F.expr(f"if(slice % 10 < 9, 0, 1 + (slice div 10) % {others})")
        run = F.expr(
            f"if(slice % 10 < 9, slice div 10 * 9 + slice % 10, slice div 10 div {others})"
        )
    else:
        number, run = F.expr(f"slice % {EVEN_PARTITIONS}"), F.expr(f"slice div {EVEN_PARTITIONS}")
    all_records = base.select(
        F.lit(TOPIC).alias("topic"),
        number.cast("int").alias("partition"),
        (run * size + F.col("inner")).alias("offset"),
    )

    def places(rule: Rule) -> DataFrame:
        found = spark.createDataFrame(
            [(TOPIC, number, offset) for number, offset in world.places(rule)],
            "topic string, partition int, offset long",
        )
        return F.broadcast(found)

    return all_records.join(
        places(Rule.LOST), ["topic", "partition", "offset"], "left_anti"
    ).unionAll(places(Rule.DUPLICATED))
