"""Joins while many members commit: up to how many members and partitions is a join's median at most
`RATIO_MAX` times that beside nothing?

The members are drivers on sessions of their own (`commit_load`), coordinated as all others, and
commit all their partitions every `INTERVAL_MS`, the default that ships. They become more step by
step, until joins take too long or commits fall behind; at each step another group goes from three
members to four and back, as in `joins`. What old consumers do is beside it: as many offsets in the
same time, each in a write of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.bench.background import writing
from tests.bench.commit_rates import LOAD_PARTITIONS
from tests.bench.figures import Busy, Row, Section, quantile
from tests.bench.joins import MEMBERS, Found, Side, rounds_of
from tests.bench.rig import Rig, Worker
from zkcoord.errors import ConditionTimeoutError

INTERVAL_MS = 5_000
PARTITIONS = 24
RATIO_MAX = 1.5
KEPT_UP = 0.95
"""Of the commits that are due, so many must be done for the joins to count."""
STEPS = {
    1: (2_000, 6_000, 10_000, 14_000, 18_000),
    10: (2_000, 6_000, 10_000, 14_000, 18_000),
    100: (400, 1_200, 2_400, 3_600, 4_800, 6_000),
}
"""Partitions of a member -> how many members."""
OLD_STEPS = (1_000, 2_000, 4_000, 6_000, 8_000)
"""Offsets a second, each in a write of its own."""
GROWN_S = 600.0


@dataclass
class Step:
    """How many members beside the joins, what these took (ms), whether all commits came in time,
    and whether so many came to own their share at all.
    """

    size: int
    joins: list[float]
    kept_up: bool = True
    grown: bool = True

    def by(self, idle: float) -> float:
        """Its median by that of `idle`."""
        return statistics.median(self.joins) / idle


def joined(side: Side, rounds: int, section: Section, label: str) -> Found:
    """Joins and leaves, `rounds` of each."""
    found = Found()
    rounds_of(found, side, rounds, section, label, False)
    return found


def step(
    side: Side, load: Worker, rounds: int, section: Section, size: int, each: int, idle: float
) -> Step:
    """One number of members: what joins take beside them, and what came of the commits
    meanwhile.
    """
    rig = side.rig
    label = f"beside {size:,} members x {each}"
    load.order(do="grow", members=size)
    try:
        rig.wait(lambda: load.steady >= size, f"{size:,} members that own their share", GROWN_S)
    except ConditionTimeoutError as error:
        section.notes.append(f"{label}: {error}")
        return Step(size, [], grown=False)
    side.group.forget(0)
    busy = Busy()
    with rig.children.lock:
        rig.commits.clear()
    found = joined(side, rounds, section, label)
    rig.wait(lambda: len(rig.commits) > 1, "commits")
    percent = busy.percent
    with rig.children.lock:
        lines = list(rig.commits)
    seconds = sum(line["s"] for line in lines)
    due, behind, failed = (
        sum(line[name] for line in lines) for name in ("due", "behind", "failed")
    )
    assert not failed, f"{failed} commits were not stored"
    per_s = sum(len(line["us"]) for line in lines) / seconds
    made = Step(
        size,
        found.of("join", "known"),
        due - behind >= KEPT_UP * due and per_s >= KEPT_UP * size / INTERVAL_MS * 1000,
    )
    took_ms = [[us / 1000 for us in line["us"]] for line in lines if line["us"]]
    section.rows += [
        Row(
            f"join, {label}",
            "from the registration",
            made.joins,
            note=f"{made.by(idle):.2f} times as long as beside nothing; {percent:.0f} % busy",
        ),
        Row("the same", "from constructor", found.of("join", "asked")),
        Row(
            f"commit, {size:,} members x {each}, median",
            "of each second",
            [statistics.median(took) for took in took_ms],
            note=f"{per_s:,.0f} commits/s, {per_s * each:,.0f} offsets/s"
            + ("" if made.kept_up else ": FALLS BEHIND"),
        ),
        Row(
            f"commit, {size:,} members x {each}, p99",
            "of each second",
            [quantile(took, 0.99) for took in took_ms],
        ),
    ]
    rig.say(
        f"  joins {label}: {made.by(idle):.2f} times as long as beside nothing; {per_s:,.0f}"
        f" commits/s of {size / INTERVAL_MS * 1000:,.0f}, p99"
        f" {quantile([ms for took in took_ms for ms in took], 0.99):.1f} ms, {percent:.0f} % busy"
    )
    return made


def climb(sizes: Sequence[int], idle: float, act: Callable[[int], Step]) -> tuple[int, str]:
    """(the largest size up to which joins keep to the bar, what ended it)."""
    largest = 0
    for size in sizes:
        made = act(size)
        if not made.grown:
            return largest, f"{size:,} did not come to own their share within {GROWN_S:.0f} s"
        if not made.kept_up:
            return largest, f"at {size:,} the commits fall behind"
        if made.by(idle) > RATIO_MAX:
            return largest, f"at {size:,} joins take {made.by(idle):.2f} times as long"
        largest = size
    return largest, "no more were tried"


def ladder(
    rig: Rig, section: Section, topic: str, rounds: int, each: int, sizes: Sequence[int]
) -> None:
    """More and more members of `each` partitions."""
    with rig.staff(MEMBERS + 1) as workers:
        side = Side(rig, PARTITIONS, rig.ours(rig.unique("g"), rig.topic(PARTITIONS)), workers)
        idle = joined(side, 2 * rounds, section, f"beside nothing (before {each})").of(
            "join", "known"
        )
        section.rows.append(Row("join, beside nothing", "from the registration", idle))
        load = rig.worker(
            "tests.bench.commit_load",
            rig.zookeeper,
            topic,
            str(LOAD_PARTITIONS),
            str(each),
            str(INTERVAL_MS),
        )
        rig.wait_ready(load)
        median = statistics.median(idle)
        largest, why = climb(
            sizes, median, lambda size: step(side, load, rounds, section, size, each, median)
        )
    section.rows.append(
        Row(
            f"members that each commit {each} partitions",
            f"join p50 <= {RATIO_MAX} x idle",
            [float(largest)],
            unit="members",
            note=f"{largest * each:,} partitions; {why}",
        )
    )


def old_step(side: Side, rounds: int, section: Section, per_s: int, idle: float) -> Step:
    """So many plain writes a second."""
    rig = side.rig
    label = f"beside {per_s:,} plain writes/s"
    side.group.forget(0)
    with rig.children.lock:
        rig.written_per_s.clear()
    with writing(rig, True, per_s, 1):
        busy = Busy()
        found = joined(side, rounds, section, label)
        percent = busy.percent
    written = statistics.median(rig.written_per_s)
    made = Step(per_s, found.of("join", "known"), written >= KEPT_UP * per_s)
    section.rows.append(
        Row(
            f"join, {label}",
            "from the registration",
            made.joins,
            note=(
                f"{made.by(idle):.2f} times as long as beside nothing; {percent:.0f} % busy;"
                f" {written:,.0f} writes/s acknowledged"
            ),
        )
    )
    rig.say(
        f"  joins {label}: {made.by(idle):.2f} times as long as beside nothing; {written:,.0f}/s,"
        f" {percent:.0f} % busy"
    )
    return made


def old_ladder(rig: Rig, section: Section, rounds: int, rates: Sequence[int]) -> None:
    """More and more offsets, one write each."""
    with rig.staff(MEMBERS + 1) as workers:
        side = Side(rig, PARTITIONS, rig.ours(rig.unique("g"), rig.topic(PARTITIONS)), workers)
        idle = joined(side, 2 * rounds, section, "beside nothing (before plain writes)").of(
            "join", "known"
        )
        section.rows.append(Row("join, beside nothing", "from the registration", idle))
        median = statistics.median(idle)
        largest, why = climb(
            rates, median, lambda per_s: old_step(side, rounds, section, per_s, median)
        )
    section.rows.append(
        Row(
            "offsets/s in a write each, as old consumers do",
            f"join p50 <= {RATIO_MAX} x idle",
            [float(largest)],
            unit="offsets/s",
            note=why,
        )
    )


def run(
    rig: Rig,
    sections: list[Section],
    rounds: int,
    steps: dict[int, Sequence[int]],
    old: Sequence[int],
) -> None:
    """The section."""
    section = Section(
        "join",
        f"Joins, {MEMBERS} -> {MEMBERS + 1} members, {PARTITIONS} partitions, while members x"
        f" partitions of each commit every {INTERVAL_MS / 1000:g} s",
    )
    sections.append(section)
    topic = rig.topic(LOAD_PARTITIONS)
    with rig.coordinators():
        for each, sizes in steps.items():
            section.attempt(
                f"{each} partitions", partial(ladder, rig, section, topic, rounds, each, sizes)
            )
        if old:
            section.attempt("plain writes", partial(old_ladder, rig, section, rounds, old))
    section.steps = {
        label: found for label, found in section.steps.items() if label.startswith("join")
    }
