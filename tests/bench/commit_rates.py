"""How many commits a second, and how long each takes: zkcoord's consumer with its offsets in
ZooKeeper, the same with its offsets in Kafka, and kafka-python's group consumer on the same broker.

Real consumers, `PER_WORKER` to a process, each owning its share of an idle topic. All at once each
commits everything that it owns, waits for the answer and commits again, one offset further, for
`SAMPLE_S`. The sides alternate, and each sample is a group of its own. At the end members of the
consumer's own driver, hundreds in one thread without a fetching side, do the same as fast as they
can: what is then left is the ensemble, and one thread of Python.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.bench.consumer_apps import OURS, THEIRS, alternating
from tests.bench.figures import Row, Section, quantile
from tests.bench.group import Group
from tests.bench.joins import GROUPS_OF_THEIRS
from tests.bench.rig import Rig
from zkcoord.demo.processes import Line
from zkcoord.errors import ConditionTimeoutError

IN_KAFKA = "zkcoord, offsets in Kafka"
SIDES = (OURS, IN_KAFKA, THEIRS)
SETTINGS = ((1, 1), (1, 10), (1, 100), (4, 1), (4, 10), (4, 100), (16, 1), (16, 10))
MANY = ((100, 1), (100, 10), (100, 100))
PER_WORKER = 4
SAMPLE_S = 5.0
WARM_S = 1.0
MANY_SAMPLES = 5
LOAD_PARTITIONS = 100


@dataclass
class Samples:
    """Of one side and setting, one value per sample."""

    per_s: list[float] = field(default_factory=list)
    median_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)

    def add(self, per_s: float, took_us: Sequence[int]) -> None:
        """One sample."""
        self.per_s.append(per_s)
        self.median_ms.append(statistics.median(took_us) / 1000)
        self.p99_ms.append(quantile(took_us, 0.99) / 1000)

    def rows(self, label: str, partitions: int, peer: Samples | None = None) -> list[Row]:
        """Lines of the table."""
        offsets = f"{statistics.median(self.per_s) * partitions:,.0f} offsets/s"
        return [
            Row(
                label,
                "all members together",
                self.per_s,
                unit="commits/s",
                note=offsets,
                peer=peer.per_s if peer else (),
            ),
            Row(
                f"{label}, median",
                "call to answer",
                self.median_ms,
                peer=peer.median_ms if peer else (),
            ),
            Row(f"{label}, p99", "call to answer", self.p99_ms, peer=peer.p99_ms if peer else ()),
        ]


def order_of(rig: Rig, side: str, topic: str) -> dict[str, Any]:
    """A member of one side, in a group that is new."""
    group = rig.unique("c")
    if side == THEIRS:
        return rig.theirs(group, topic, enable_auto_commit=False)
    return rig.ours(
        group,
        topic,
        enable_auto_commit=False,
        **({"offsets_storage": "kafka"} if side == IN_KAFKA else {}),
    )


def sample(
    rig: Rig, side: str, topic: str, members: int, each: int, seconds: float, into: Samples
) -> None:
    """A group from its first member to its last."""
    group, order = Group(members * each), order_of(rig, side, topic)
    with rig.staff(-(-members // PER_WORKER)) as workers:
        names = [rig.join(group, workers[number // PER_WORKER], order) for number in range(members)]
        rig.wait_balanced(group, names)
        warm = commits(rig, names, WARM_S, 1)
        lines = commits(rig, names, seconds, max(line["last"] for line in warm) + 1)
        for name in names:
            rig.leave(name)
        rig.wait(
            lambda: all("closed" in group.views[name].at for name in names),
            "the end of the members",
        )
    into.add(
        sum(len(line["us"]) / line["s"] for line in lines),
        [us for line in lines for us in line["us"]],
    )


def sampled(
    rig: Rig,
    section: Section,
    side: str,
    topic: str,
    members: int,
    each: int,
    seconds: float,
    into: Samples,
) -> bool:
    """A sample. A group of kafka-python's that gets stuck (see `joins.rounds_of_theirs`) is noted,
    and another takes its place; False where that does not help either: the others count without it.
    """
    for number in range(1, GROUPS_OF_THEIRS + 1):
        try:
            sample(rig, side, topic, members, each, seconds, into)
            return True
        except ConditionTimeoutError as error:
            if side != THEIRS:
                raise
            what = (
                "another took its place"
                if number < GROUPS_OF_THEIRS
                else "like those before it, and the sample is missing"
            )
            section.notes.append(
                f"{members} x {each}, kafka-python: a group got stuck, {what}: {error}"
            )
    return False


def commits(rig: Rig, names: Sequence[str], seconds: float, first: int) -> list[Line]:
    """Let all of them commit at once; what each says of it."""
    with rig.children.lock:
        rig.commits.clear()
    for name in names:
        rig.homes[name][0].order(do="commit", who=name, s=seconds, **{"from": first})
    rig.wait(lambda: len(rig.commits) == len(names), "the commits")
    return list(rig.commits)


def setting(
    rig: Rig,
    section: Section,
    members: int,
    each: int,
    samples: int,
    seconds: float,
    sides: Sequence[str],
) -> None:
    """One number of members and of partitions of each."""
    topic = rig.topic(members * each)
    found = {side: Samples() for side in sides}
    for number, side in alternating(sides, samples):
        if not sampled(rig, section, side, topic, members, each, seconds, found[side]):
            continue
        rig.say(
            f"  commit, {members} x {each}, {side}: sample {number + 1} of {samples}:"
            f" {found[side].per_s[-1]:,.0f}/s, p99 {found[side].p99_ms[-1]:.1f} ms"
        )
    for side in sides:
        if side != THEIRS:
            section.rows += found[side].rows(
                f"{members} x {each}" + ("" if side == OURS else ", offsets in Kafka"),
                each,
                found.get(THEIRS) if side == OURS else None,
            )


def many(rig: Rig, section: Section, topic: str, members: int, each: int, samples: int) -> None:
    """Drivers in one thread, as fast as they can."""
    found = Samples()
    with rig.staff(0):
        load = rig.worker(
            "tests.bench.commit_load", rig.zookeeper, topic, str(LOAD_PARTITIONS), str(each), "0"
        )
        rig.wait_ready(load)
        load.order(do="grow", members=members)
        rig.wait(lambda: load.steady >= members, "members that own their share")
        with rig.children.lock:
            rig.commits.clear()
        rig.wait(lambda: len(rig.commits) > samples, "commits")
        # the first second may have begun before all of them did
        lines = rig.commits[1 : samples + 1]
    for line in lines:
        found.add(len(line["us"]) / line["s"], line["us"])
    failed = sum(line["failed"] for line in lines)
    assert not failed, f"{failed} commits were not stored"
    section.rows += found.rows(f"{members} x {each}, drivers in one thread", each)
    rig.say(
        f"  commit, {members} x {each}, drivers: {statistics.median(found.per_s):,.0f}/s, p99"
        f" {statistics.median(found.p99_ms):.1f} ms"
    )


def run(
    rig: Rig,
    sections: list[Section],
    samples: int,
    seconds: float = SAMPLE_S,
    settings: Sequence[tuple[int, int]] = SETTINGS,
    drivers: Sequence[tuple[int, int]] = MANY,
    sides: Sequence[str] = SIDES,
) -> None:
    """The section."""
    section = Section(
        "commit",
        "Commits, members x partitions of each: commit() of all, again as soon as it is answered",
    )
    sections.append(section)
    with rig.coordinators():
        for members, each in settings:
            section.attempt(
                f"{members} x {each}",
                partial(setting, rig, section, members, each, samples, seconds, sides),
            )
        topic = rig.topic(LOAD_PARTITIONS) if drivers else ""
        for members, each in drivers:
            section.attempt(
                f"{members} x {each}, drivers",
                partial(many, rig, section, topic, members, each, samples),
            )
