"""Section 6: joins while other groups commit. Blocks without and with the writer alternate, so that
a drift of the machine meets both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.figures import Bar, Row, Section
from tests.bench.joins import MEMBERS, Side, steps
from tests.bench.offset_writer import PER_MULTI
from tests.bench.rig import Rig

WRITES_PER_S = 5_000
PARTITIONS = 24
BLOCKS = 4
RATIO_MAX = 1.2
WARM_REPORTS = 2
PER_ROUND = 2  # joins of each kind: a quotient of two medians needs more of them than a median


@contextmanager
def writing(
    rig: Rig, on: bool, per_s: int = WRITES_PER_S, per_multi: int = PER_MULTI
) -> Iterator[None]:
    """Other groups' commits inside the block, so many offsets a second."""
    if not on:
        yield
        return
    name = rig.unique("offsets-")
    before = len(rig.written_per_s)
    child = rig.children.start(
        name,
        ["tests.bench.offset_writer", rig.zookeeper, str(per_s), str(per_multi)],
        rig.folder / "lines" / f"{name}.jsonl",
        rig.folder / "logs" / f"{name}.log",
    )
    try:
        rig.wait(lambda: len(rig.written_per_s) >= before + WARM_REPORTS, "offsets being written")
        yield
    finally:
        rig.end(child)


def run(rig: Rig, sections: list[Section], rounds: int) -> None:
    """Section 6."""
    section = Section(
        "background",
        f"Joins while other groups write {WRITES_PER_S} offsets/s, {MEMBERS} -> {MEMBERS + 1}"
        f" members, {PARTITIONS} partitions, idle topic",
    )
    sections.append(section)
    found: dict[bool, dict[str, list[float]]] = {
        on: {"join": [], "leave": []} for on in (False, True)
    }
    per_block = max(1, rounds * 2 * PER_ROUND // BLOCKS)
    with rig.coordinators(), rig.staff(MEMBERS + 1) as workers:
        side = Side(rig, PARTITIONS, rig.ours(rig.unique("g"), rig.topic(PARTITIONS)), workers)
        side.warm_up()
        for block in range(BLOCKS):
            on = bool(block % 2)
            with writing(rig, on):
                for _ in range(per_block):
                    for act in (side.join, side.leave):
                        rig.pause()
                        side.group.forget(time.time_ns())
                        event = act()
                        steps(
                            section,
                            f"{event.kind}, {'beside the writes' if on else 'quiet'}",
                            side,
                            event,
                        )
                        found[on][event.kind].append(event.known_ms)
            rig.say(
                f"  background, block {block + 1} of {BLOCKS} ({'with' if on else 'without'} the"
                f" writer): join {statistics.median(found[on]['join']):.0f} ms"
            )
    for on, label in (
        (False, "quiet"),
        (True, f"beside {statistics.median(rig.written_per_s):.0f} writes/s"),
    ):
        section.rows += [
            Row(
                f"{kind}, {label}",
                "from the registration" if kind == "join" else "from the end of registr.",
                values,
            )
            for kind, values in found[on].items()
        ]
    ratio = statistics.median(found[True]["join"]) / statistics.median(found[False]["join"])
    section.rows.append(
        Row(
            "join, median beside the writes by median without",
            "from the registration",
            [ratio],
            (Bar("median", RATIO_MAX),),
            unit="x",
        )
    )
