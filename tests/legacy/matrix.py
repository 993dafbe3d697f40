"""Our maths beside the real owners: releases x strategies x subscriptions x threads, each cell a
group of three old consumers whose owner nodes are compared with what
`zkcoord.core.legacy_assignment` computes.

    python -m tests.legacy.matrix [--version 1.1.1] [--strategy range] [--poison]

Then the registrations that kill old consumers (`tests.legacy.poisoned`). Prints a table and writes
build/reports/legacy-matrix.json; exit status 1 when a bar is missed. The broker is a Kafka 3.9:
assignments are made without it. Where a release refuses a cell (round robin of unequal
subscriptions before 0.10.2), the cell shows that the real consumer does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from kazoo.client import KazooClient

from tests.bench.figures import Bar, Row, Section
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named
from tests.harness.kafka import CHROOT, create_topic, start_broker, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, start_server
from tests.legacy.consumers import LegacyConsumer, LegacyProcess
from tests.legacy.jars import RELEASES, V0_8, V1_1
from tests.legacy.looking import as_text, owners, owners_since_last_join, registered
from tests.legacy.poisoned import play_poison
from zkcoord.core.assignment import AssignmentInput
from zkcoord.core.legacy_assignment import (
    LEGACY_ASSIGNORS,
    LEGACY_RANGE,
    LEGACY_ROUNDROBIN_08,
    LEGACY_ROUNDROBIN_10,
    EqualHashes,
    java_hash,
)
from zkcoord.core.model import TopicPartition
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.servers import KafkaBroker

STRATEGIES, SUBSCRIPTIONS, THREADS = ("range", "roundrobin"), ("equal", "unequal"), (1, 2, 12)
PARTITIONS = {"orders": 8, "payments": 5, "clicks": 24}
MEMBERS = ("b", "B", "a-10")  # as texts they sort otherwise than as words
SETTLE_TIMEOUT_S = 180.0
LOOKING_SESSION_S = 60.0
BACKOFF_MS = 500
HEAP_MB = 384
# three members that start at once may be in each other's way for longer than a default's four
ATTEMPTS = 60
WHOLE = (Bar("min", 100, at_least=True),)
POISON = "poison"


@dataclass(frozen=True)
class Cell:
    """One group. `threads` is each member's number of streams for its topics; with unequal
    subscriptions also one more, and one.
    """

    version: str
    strategy: str
    subscriptions: str
    threads: int

    @property
    def refused(self) -> bool:
        """Whether this release cannot do it, and says so."""
        return (self.version, self.strategy, self.subscriptions) == (V0_8, "roundrobin", "unequal")

    @property
    def assignor(self) -> str:
        """Our name of what this release does."""
        if self.strategy == "range":
            return LEGACY_RANGE
        return LEGACY_ROUNDROBIN_10 if self.version == V1_1 else LEGACY_ROUNDROBIN_08

    @property
    def title(self) -> str:
        """For people."""
        return (
            f"{self.strategy}, {self.subscriptions} subscriptions, {self.threads}"
            f" thread{'s' if self.threads > 1 else ''}"
        )

    def wanted(self, topics: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """Member -> topic -> streams; `topics` maps a kind to a topic's name."""
        orders, payments, clicks = (topics[kind] for kind in PARTITIONS)
        if self.subscriptions == "equal":
            return {name: dict.fromkeys(topics.values(), self.threads) for name in MEMBERS}
        several = (
            {orders: self.threads, payments: self.threads},
            {payments: self.threads + 1, clicks: self.threads},
            {orders: 1},
        )
        return dict(zip(MEMBERS, several))


@dataclass(frozen=True)
class Outcome:
    """What a cell showed: partitions owned as computed, of how many, and what differs."""

    agreeing: int
    partitions: int
    seconds: float
    difference: str = ""


def cells(version: str, strategies: Sequence[str] = STRATEGIES) -> list[Cell]:
    """Every combination of a release."""
    return [Cell(version, *each) for each in product(strategies, SUBSCRIPTIONS, THREADS)]


def make_topics(bootstrap: str) -> dict[str, str]:
    """Kind -> name. The names are new each time, and with them the order of the hashes, but no cell
    agrees by chance: they are drawn until every order that could be taken for another differs from
    it.
    """
    names = {kind: unique(kind) for kind in PARTITIONS}
    while not telling(names):
        names = {kind: unique(kind) for kind in PARTITIONS}
    return {
        kind: create_topic(bootstrap, names[kind], partitions)
        for kind, partitions in PARTITIONS.items()
    }


def telling(names: Mapping[str, str]) -> bool:
    """Whether earlier and later texts, their hashes signed and unsigned, and no hashes at all are
    five orders of these topics' partitions.
    """
    partitions = [
        TopicPartition(names[kind], number)
        for kind, count in PARTITIONS.items()
        for number in range(count)
    ]
    hashes = [
        {partition: java_hash(form.format(*partition)) for partition in partitions}
        for form in ("[{},{}]", "{}-{}")
    ]
    orders = [
        sorted(partitions),
        *(sorted(partitions, key=found.__getitem__) for found in hashes),
        *(
            sorted(partitions, key=lambda partition, found=found: found[partition] % 2**32)
            for found in hashes
        ),
    ]
    topics = {tuple(partition.topic for partition in order) for order in orders}
    return len(topics) == len(orders)


def play(
    cell: Cell, process: LegacyProcess, client: KazooClient, topics: Mapping[str, str]
) -> Outcome:
    """Start the cell's group, all members at once, wait until all owner nodes that were made since
    the last join are as computed (or for as long as may be), and close it.
    """
    began = time.monotonic()
    group, wanted = unique("matrix"), cell.wanted(topics)
    attempts = 4 if cell.refused else ATTEMPTS
    members = [
        process.consumer(
            group,
            streams,
            name=name,
            strategy=cell.strategy,
            wait=False,
            rebalance_backoff_ms=BACKOFF_MS,
            rebalance_max_retries=attempts,
            auto_commit_enable="false",
        )
        for name, streams in wanted.items()
    ]
    try:
        return (
            _refused(members, client, group, began)
            if cell.refused
            else _compared(cell, wanted, client, group, topics, began)
        )
    finally:
        for member in members:
            member.ask_to_close()
        for member in members:
            wait_until(
                lambda member=member: member.said("closed"),
                SETTLE_TIMEOUT_S,
                f"the end of {member.id}",
            )


def _compared(
    cell: Cell,
    wanted: Mapping[str, Mapping[str, int]],
    client: KazooClient,
    group: str,
    topics: Mapping[str, str],
    began: float,
) -> Outcome:
    existing = {topics[kind]: tuple(range(count)) for kind, count in PARTITIONS.items()}
    found = LEGACY_ASSIGNORS[cell.assignor](
        AssignmentInput({f"{group}_{name}": streams for name, streams in wanted.items()}, existing)
    )
    if isinstance(found, EqualHashes):
        raise AssertionError(found.sentence)
    expected = as_text(found.targets)
    readings: list[dict[TopicPartition, str]] = []

    def as_computed() -> bool:
        everybody = len(registered(client, group)) == len(wanted)
        readings[:] = [owners_since_last_join(client, group) if everybody else {}]
        return readings == [expected]

    try:
        wait_until(as_computed, SETTLE_TIMEOUT_S, "the owners that were computed")
    except AssertionError:  # what differs is the answer
        pass
    (real,) = readings
    differing = sorted(
        partition
        for partition in expected.keys() | real.keys()
        if expected.get(partition) != real.get(partition)
    )
    told = "; ".join(
        f"{partition} is {real.get(partition)}'s, computed {expected.get(partition)}"
        for partition in differing[:3]
    )
    return Outcome(len(expected) - len(differing), len(expected), time.monotonic() - began, told)


def _refused(
    members: Sequence[LegacyConsumer], client: KazooClient, group: str, began: float
) -> Outcome:
    """Every member of a group that the release refuses gives up, and nothing is owned."""
    wait_until(
        lambda: all(member.gave_up() for member in members) and not owners(client, group),
        SETTLE_TIMEOUT_S,
        "every member to give up",
    )
    return Outcome(1, 1, time.monotonic() - began)


def row_of(cell: Cell, outcome: Outcome) -> Row:
    """For the report."""
    note = (
        "refused by the release itself: every member gives up"
        if cell.refused
        else f"{outcome.agreeing} of {outcome.partitions} partitions"
    )
    return Row(
        cell.title,
        "owned as computed",
        [100.0 * outcome.agreeing / outcome.partitions],
        WHOLE,
        unit="%",
        note="; ".join(filter(None, (f"{note}, {outcome.seconds:.0f} s", outcome.difference))),
    )


def play_release(
    version: str,
    chosen: Sequence[Cell],
    folder: Path,
    broker: KafkaBroker,
    client: KazooClient,
    topics: Mapping[str, str],
    into: list[Section],
) -> None:
    """The cells of one release, one after the other, in one process."""
    section = Section(
        version,
        f"Old consumers {version}, groups of {len(MEMBERS)}, topics of"
        f" {', '.join(map(str, PARTITIONS.values()))} partitions",
    )
    into.append(section)
    with LegacyProcess(
        folder / version, version, broker.zookeeper, broker.program.java, heap_mb=HEAP_MB
    ) as process:
        for cell in chosen:
            section.attempt(
                cell.title,
                lambda cell=cell: section.rows.append(
                    row_of(cell, play(cell, process, client, topics))
                ),
            )


def play_all(
    chosen: Mapping[str, Sequence[Cell]], poison: bool, folder: Path, java: Java
) -> list[Section]:
    """Release -> its cells, and `poison`, on servers of its own."""
    server = start_server(folder / "zookeeper", java)
    try:
        broker = start_broker(folder / "kafka", server.address + CHROOT, java)
        client = connect(broker.zookeeper, LOOKING_SESSION_S)
        try:
            topics = make_topics(broker.address)
            parts: dict[str, Part] = {
                version: partial(play_release, version, of, folder, broker, client, topics)
                for version, of in chosen.items()
            }
            if poison:
                parts[POISON] = partial(play_poison, folder, broker, client)
            return measure_all(parts, parts)
        finally:
            disconnect(client)
            broker.kill()
    finally:
        server.kill()


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.legacy.matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="append", choices=tuple(RELEASES), help="may be given several times"
    )
    parser.add_argument(
        "--strategy", action="append", choices=STRATEGIES, help="may be given several times"
    )
    parser.add_argument(
        "--poison",
        action="store_true",
        help="what kills old consumers, and no cells but those that are asked for",
    )
    args = parser.parse_args(argv)
    some = args.version or args.strategy
    versions, strategies = (
        args.version or list(RELEASES if some or not args.poison else ()),
        args.strategy or list(STRATEGIES),
    )
    poison = args.poison or not some

    def play(folder: Path) -> int:
        java = find_java()
        sections = play_all(
            {version: cells(version, strategies) for version in versions}, poison, folder, java
        )
        played = [*versions, *(strategies if versions else ()), *([POISON] if poison else ())]
        return conclude(
            sections,
            {"versions": versions, "strategies": strategies, "poison": poison},
            str(java.major),
            report_named("legacy-matrix", played, [*RELEASES, *STRATEGIES, POISON]),
            "legacy-matrix",
        )

    return measured_in_a_folder(play)


if __name__ == "__main__":
    raise SystemExit(main())
