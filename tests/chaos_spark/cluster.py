"""Does a group of Spark applications in a cluster lose or duplicate anything, and how much can they
read?

    python -m tests.chaos_spark.cluster [--executors N] [--workers N] [--drivers N] [--rounds N]
                                        [--only PART ...]

A standalone master and two workers, each a JVM. Two applications share a group under load with the
fenced sink; executors, workers and drivers are killed in batches, before, in and after their tasks.
Then zkcoord's source beside Spark's own Kafka source in the same cluster. Prints a table and writes
build/reports/spark-cluster.json; 1 when a bar was missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.bench import spark_throughput
from tests.bench.consumer import bytecode_in, progress
from tests.bench.figures import Section, lines_of
from tests.bench.rig import Rig as BenchRig
from tests.bench.running import (
    Part,
    conclude,
    measured,
    measured_in_a_folder,
    on_a_stack,
    report_named,
    say,
)
from tests.bench.spark_rig import InCluster
from tests.chaos_spark.in_cluster import CRASHES, TITLES
from tests.chaos_spark.parts import Groups, audited, crashes
from tests.chaos_spark.rig import Rig, Where
from tests.spark.cluster import Cluster, cluster, python_with
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import running_stack

WORKERS = 2
WORKER_CORES = 4
WORKER_MEMORY = "4g"
APP_CORES = 2
COUNTS = {"executor": 20, "worker": 10, "driver": 10}
ROUNDS = 3
SEED = 39
THROUGHPUT = "throughput"
PARTS = (*COUNTS, THROUGHPUT)


def kills(
    args: argparse.Namespace, folder: Path, where: Where, parts: Sequence[str]
) -> list[Section]:
    """Every kind of kill, and the audit of all of them."""
    sections: list[Section] = []
    with running_stack(folder / "stack", progress=say) as stack:
        assert stack.zookeeper is not None and stack.kafka is not None
        groups = Groups(
            folder / "run", stack.zookeeper.address, stack.kafka.address, "fenced", where
        )
        acts: dict[str, tuple[str, Callable[[Rig, Section], None]]] = {
            kind: (
                TITLES[kind],
                lambda rig, section, kind=kind: crashes(  # type: ignore[misc]
                    rig, kind, CRASHES[kind], vars(args)[f"{kind}s"], section
                ),
            )
            for kind in parts
        }
        acts["audit"] = f"by the audit: {', '.join(parts)}", audited
        try:
            for name, (title, act) in acts.items():
                say(f"{name} ...")
                found = measured(
                    name,
                    lambda into, name=name, title=title, act=act: groups.part(  # type: ignore[misc]
                        f"cluster-{name}", title, act, into
                    ),
                )
                sections += found
                say("\n".join(line for section in found for line in lines_of(section)) + "\n")
        finally:
            groups.close()
    return sections


def throughput(folder: Path, at: Cluster, python: str, rounds: int) -> list[Section]:
    """zkcoord's source beside Spark's own, each in an application of the cluster."""

    def parts(rig: BenchRig) -> dict[str, Part]:
        return {
            THROUGHPUT: partial(
                spark_throughput.run,
                rig,
                rounds=rounds,
                java=find_java(),
                settings=spark_throughput.SETTINGS[:1],
                where=InCluster(at.address, python),
            )
        }

    with bytecode_in(folder / "bytecode"):
        return on_a_stack(folder / "bench", SEED, parts, (THROUGHPUT,), progress)


def run(args: argparse.Namespace, folder: Path) -> int:
    """Everything that was asked for; the exit status."""
    sections: list[Section] = []
    parts = args.only or PARTS
    folder.mkdir(parents=True, exist_ok=True)
    python = str(python_with(folder / "python"))
    (folder / "cluster").mkdir()
    with cluster(folder / "cluster", WORKERS, WORKER_CORES, WORKER_MEMORY) as found:
        of_kills = [part for part in COUNTS if part in parts]
        if of_kills:
            sections += kills(args, folder, Where(found, python, APP_CORES), of_kills)
        if THROUGHPUT in parts:
            sections += throughput(folder, found, python, args.rounds)
    options = {name: getattr(args, name) for name in ("executors", "workers", "drivers", "rounds")}
    return conclude(
        sections,
        {**options, "only": list(parts)},
        str(find_java().major),
        report_named("spark-cluster", parts, PARTS),
        "spark-cluster",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos_spark.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for kind, count in COUNTS.items():
        parser.add_argument(
            f"--{kind}s", type=int, default=count, help=f"so many are killed (default: {count})"
        )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"of the throughput (default: {ROUNDS})"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    parser.add_argument("--dir", type=Path, help="keep what the processes write here")
    args = parser.parse_args(argv)
    return measured_in_a_folder(lambda folder: run(args, args.dir or folder))


if __name__ == "__main__":
    raise SystemExit(main())
