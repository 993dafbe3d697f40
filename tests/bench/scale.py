"""How far one coordinator goes: takeover, one ack in wide groups, storms, many groups at once,
poison, a rolling restart of a large group, many changes a second; what a group, a member and a
partition cost.

    python -m tests.bench.scale [--quick] [--groups N] [--rounds N]
        [--only takeover|ack|storm|groups|poison|restart|changes|units]

A real ZooKeeper with the stack's settings, coordinators in processes of their own, members that are
the consumer's own driver (without Kafka: they process nothing) or, where only their nodes matter,
sessions that hold these. Prints a table with the bars beside the figures and writes
build/reports/bench-scale.json; with --only the report is bench-scale-NAME.json. The exit status is
0 when every bar is reached, 1 when one is missed or something could not be measured. `--quick`:
everything at a tenth of its size, three rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.bench import (
    scale_ack,
    scale_changes,
    scale_poison,
    scale_restart,
    scale_storms,
    scale_takeover,
    scale_unit_changes,
    scale_unit_rates,
    scale_units,
)
from tests.bench.figures import Section
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named, say
from tests.bench.scale_rig import Rig

NAMES = ("takeover", "ack", "storm", "groups", "poison", "restart", "changes", "units")
GROUPS, ROUNDS, ACK_ROUNDS, POISON_ROUNDS = 10_000, 5, 30, 7
QUICK_GROUPS, QUICK_ROUNDS = 1_000, 3


@dataclass(frozen=True)
class Plan:
    """What to do. `groups` is the size of the takeover, `acks` how often each size of group is
    asked, `sizes` those sizes, `flap_s` how long a member comes and goes, `together` how many
    groups change at once, `healthy` how many are beside the poison, `restarted` the size of the
    group that is restarted within `restart_s`, `changing` the groups in which there are `changes`
    a second for `changes_s`, `units` and `unit_changes` how unit costs are found.
    """

    only: tuple[str, ...] = NAMES
    groups: int = GROUPS
    rounds: int = ROUNDS
    poison_rounds: int = POISON_ROUNDS
    acks: int = ACK_ROUNDS
    sizes: tuple[int, ...] = scale_ack.SIZES
    flap_s: float = scale_storms.FLAP_S
    together: int = scale_storms.MANY_GROUPS
    healthy: int = scale_poison.GROUPS
    restarted: int = scale_restart.MEMBERS
    restart_s: float = scale_restart.SECONDS
    changing: int = scale_changes.GROUPS
    changes: float = scale_changes.PER_S
    changes_s: float = scale_changes.SECONDS
    units: scale_units.UnitsPlan = scale_units.UnitsPlan()
    unit_changes: scale_unit_changes.ChangesPlan = scale_unit_changes.ChangesPlan()


def parts(plan: Plan, rig: Rig) -> dict[str, Part]:
    """What can be asked for, each with a server of its own."""

    def served(measure: Part) -> Part:
        def within(sections: list[Section]) -> None:
            with rig.running():
                measure(sections)

        return within

    return {
        "takeover": served(
            lambda sections: scale_takeover.run(rig, sections, plan.groups, plan.rounds)
        ),
        "ack": served(lambda sections: scale_ack.run(rig, sections, plan.acks, plan.sizes)),
        "storm": served(lambda sections: scale_storms.run(rig, sections, plan.rounds, plan.flap_s)),
        "groups": served(lambda sections: scale_storms.run_together(rig, sections, plan.together)),
        "poison": served(
            lambda sections: scale_poison.run(rig, sections, plan.poison_rounds, plan.healthy)
        ),
        "restart": served(
            lambda sections: scale_restart.run(rig, sections, plan.restarted, plan.restart_s)
        ),
        "changes": served(
            lambda sections: scale_changes.run(
                rig, sections, plan.changing, plan.changes, plan.changes_s
            )
        ),
        "units": served(lambda sections: unit_costs(rig, sections, plan)),
    }


def unit_costs(rig: Rig, sections: list[Section], plan: Plan) -> None:
    """Of what is there, and of what happens."""
    scale_units.run(rig, sections, plan.units)
    scale_unit_changes.run(rig, sections, plan.unit_changes)
    scale_unit_rates.run(rig, sections, plan.unit_changes)


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; the exit status."""
    rig = Rig(folder, say)
    sections = measure_all(parts(plan, rig), plan.only)
    return conclude(sections, asdict(plan), str(rig.java.major), report, "bench-scale")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scale", description="How far one coordinator goes."
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--only", choices=NAMES, help="only this part")
    parser.add_argument("--groups", type=int, help=f"groups of the takeover (default {GROUPS})")
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"rounds of each part (default {ROUNDS}, of the poison {POISON_ROUNDS})",
    )
    args = parser.parse_args(arguments)
    only = (args.only,) if args.only else NAMES
    plan = (
        Plan(
            only,
            QUICK_GROUPS,
            QUICK_ROUNDS,
            QUICK_ROUNDS,
            QUICK_ROUNDS,
            scale_ack.SIZES[:2],
            scale_storms.FLAP_S / 5,
            scale_storms.MANY_GROUPS // 10,
            scale_poison.GROUPS // 5,
            scale_restart.MEMBERS // 10,
            scale_restart.SECONDS / 10,
            scale_changes.GROUPS // 10,
            scale_changes.PER_S / 10,
            scale_changes.SECONDS / 10,
            scale_units.UnitsPlan(scale_units.QUICK_FITTED, scale_units.QUICK_CHECKED),
            scale_unit_changes.ChangesPlan(3, 10, 10.0, 1.0),
        )
        if args.quick
        else Plan(only)
    )
    plan = replace(
        plan,
        groups=args.groups or plan.groups,
        rounds=args.rounds or plan.rounds,
        poison_rounds=args.rounds or plan.poison_rounds,
        units=replace(plan.units, rounds=args.rounds or plan.units.rounds),
    )
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named("bench-scale", plan.only, NAMES))
    )


if __name__ == "__main__":
    raise SystemExit(main())
