"""Do handovers between Spark applications lose or duplicate anything?

    python -m tests.chaos_spark [--handovers N] [--moves N] [--only KIND ...] [--sink fenced|plain]

Two applications share a group under load, first with the fenced sink, then with a plain one.
Graceful moves, then crashes: each hits one of the two at a gate, so always at the same point: past
its session while the batch goes on (a zombie, which must come to the fence every time), in a batch,
between Spark's commit and ZooKeeper's, between the multi and the move of the files. With the fenced
sink nothing may be lost or duplicated; with a plain one at most the planned batch of each crash may
be there twice, and the audit lists it. Prints a table and writes build/reports/chaos-spark.json (a
part: chaos-spark-SINK-KIND.json); 1 when a bar was missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.figures import Section, lines_of
from tests.bench.running import conclude, measured, measured_in_a_folder, report_named, say
from tests.chaos_spark.parts import Groups, audited, crashes, moves
from tests.chaos_spark.rig import Rig
from tests.chaos_spark.scenarios import CRASHES, TITLES, WITHOUT_FENCE
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import running_stack

HANDOVERS = 20
MOVES = 50
GRACEFUL = "graceful"
KINDS = (GRACEFUL, *CRASHES)
SINKS = ("fenced", "plain")


def run(args: argparse.Namespace, folder: Path) -> int:
    """Everything that was asked for; the exit status."""
    sections: list[Section] = []
    kinds, sinks = args.only or KINDS, args.sink or SINKS
    with running_stack(folder / "stack", progress=say) as stack:
        assert stack.zookeeper is not None and stack.kafka is not None
        for sink in sinks:
            groups = Groups(folder / "run", stack.zookeeper.address, stack.kafka.address, sink)
            parts: dict[str, tuple[str, Callable[[Rig, Section], None]]] = {}
            for kind in kinds:
                if kind == GRACEFUL:
                    parts[kind] = TITLES[kind], lambda rig, section: moves(rig, args.moves, section)
                elif sink == "fenced" or kind in WITHOUT_FENCE:
                    parts[kind] = (
                        TITLES[kind],
                        lambda rig, section, kind=kind: crashes(
                            rig, kind, CRASHES[kind], args.handovers, section
                        ),
                    )  # type: ignore[misc]
            parts["audit"] = f"by the audit: {', '.join(kinds)}", audited
            try:
                for name, (title, act) in parts.items():
                    say(f"{name}, {sink} sink ...")
                    found = measured(
                        name,
                        lambda into, name=name, title=title, act=act: groups.part(
                            f"{name}-{sink}", title, act, into
                        ),
                    )  # type: ignore[misc]
                    sections += found
                    say("\n".join(line for section in found for line in lines_of(section)) + "\n")
            finally:
                groups.close()
    options = {
        "handovers": args.handovers,
        "moves": args.moves,
        "only": list(kinds),
        "sinks": list(sinks),
    }
    return conclude(
        sections,
        options,
        str(find_java().major),
        report_named("chaos-spark", (*sinks, *kinds), (*SINKS, *KINDS)),
        "chaos-spark",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos_spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--handovers", type=int, default=HANDOVERS, help=f"of each kind (default: {HANDOVERS})"
    )
    parser.add_argument(
        "--moves", type=int, default=MOVES, help=f"graceful ones, partitions (default: {MOVES})"
    )
    parser.add_argument("--only", action="append", choices=KINDS, help="may be given several times")
    parser.add_argument("--sink", action="append", choices=SINKS, help="may be given several times")
    parser.add_argument("--dir", type=Path, help="keep what the processes write here")
    args = parser.parse_args(argv)
    return measured_in_a_folder(lambda folder: run(args, args.dir or folder))


if __name__ == "__main__":
    raise SystemExit(main())
