"""Topics from brokers: how soon a new one is assigned, and what very many of them take.

    python -m tests.bench.topics [--quick] [--only created|many]

`created`: real brokers, one of 3.9 on ZooKeeper, whose topics come from there and then from the
broker, and one of 4.3 without ZooKeeper; a member has a pattern. `many`: a broker that only says
which topics there are (`topics_broker`), 20,000 of them; what that takes of a processor, and
whether joins of other groups notice. Prints a table with the bars beside the figures and writes
build/reports/bench-topics.json. The exit status is 0 when every bar is reached. `--quick`: fewer of
everything, and a tenth of the topics.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.bench.figures import Section
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named, say
from tests.bench.scale_rig import Rig
from tests.bench.topics_created import CreatedPart
from tests.bench.topics_many import ManyPlan, ManyTopicsPart
from zkcoord.stack.java import find_java

NAMES = ("created", "many")
CREATED, QUICK_CREATED = 30, 5
QUICK_MANY = ManyPlan(topics=2_000, blocks=2, joins=20, window_s=5.0)


@dataclass(frozen=True)
class Plan:
    """What to do: so many topics are created in each setting, and the other part's own."""

    only: tuple[str, ...] = NAMES
    created: int = CREATED
    many: ManyPlan = field(default_factory=ManyPlan)


def parts(plan: Plan, folder: Path) -> dict[str, Part]:
    """What can be asked for, each with servers of its own."""

    def created(sections: list[Section]) -> None:
        CreatedPart(folder / "created", find_java(), plan.created, say).run(sections)

    def many(sections: list[Section]) -> None:
        with Rig(folder / "many", say).running() as rig:
            ManyTopicsPart(rig, plan.many).run(sections)

    return {"created": created, "many": many}


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; the exit status."""
    sections = measure_all(parts(plan, folder), plan.only)
    java = str(find_java().major)
    return conclude(sections, asdict(plan), java, report, "bench-topics")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.topics", description="Topics from brokers."
    )
    parser.add_argument("--quick", action="store_true", help="fewer of everything")
    parser.add_argument("--only", choices=NAMES, help="only this part")
    args = parser.parse_args(arguments)
    only = (args.only,) if args.only else NAMES
    plan = Plan(only, QUICK_CREATED, QUICK_MANY) if args.quick else Plan(only)
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named("bench-topics", only, NAMES))
    )


if __name__ == "__main__":
    raise SystemExit(main())
