"""What the benchmarks' command lines share: one part after the other, its tables as it ends, the
report, the last lines.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import figures
from tests.bench.figures import Busy, Section
from tests.bench.rig import Rig
from zkcoord.demo.run import uninterrupted
from zkcoord.errors import ZkcoordError
from zkcoord.stack.servers import ZooKeeperOptions
from zkcoord.stack.stack import KafkaKind, running_stack

Part = Callable[[list[Section]], None]
"""Adds its sections to a list before it fills them."""


def say(text: str) -> None:
    """Progress."""
    print(text, flush=True)


def measured(name: str, part: Part) -> list[Section]:
    """One part's sections; one that could not be finished says why."""
    busy = Busy()
    found: list[Section] = []
    whole = Section(name, name)
    whole.attempt("the whole part", lambda: part(found))
    for section in found or [whole]:
        section.busy_percent, section.seconds = busy.percent, busy.seconds
        if section is not whole:
            section.failure = "; ".join(filter(None, (section.failure, whole.failure)))
    return found or [whole]


def measure_all(
    parts: Mapping[str, Part], only: Collection[str], progress: Callable[[str], None] = say
) -> list[Section]:
    """The parts that are wanted, in order, each table as soon as it is whole."""
    sections: list[Section] = []
    for name, part in parts.items():
        if name in only:
            progress(f"{name} ...")
            found = measured(name, part)
            sections += found
            for section in found:
                say("\n".join(figures.lines_of(section)) + "\n")
    return sections


def conclude(
    sections: Sequence[Section], options: dict[str, Any], java: str, report: Path, what: str
) -> int:
    """Write the report, say what was missed; the exit status of every benchmark: 1 when a bar was
    missed or something could not be measured.
    """
    figures.write(sections, options, java, report, what)
    missed = figures.missed_of(sections)
    say(
        "\n".join(
            [
                (
                    f"{len(missed)} bars missed of"
                    f" {sum(len(row.bars) for section in sections for row in section.rows)}."
                ),
                *(f"  {sentence}" for sentence in missed),
                f"Written: {report}",
            ]
        )
    )
    return 1 if missed or any(section.failure for section in sections) else 0


def measured_in_a_folder(measure: Callable[[Path], int]) -> int:
    """The exit status of a command line: of `measure`, which gets a folder that is gone afterwards;
    130 when interrupted, 1 with one sentence on an error of ours.
    """
    with tempfile.TemporaryDirectory(prefix="zkcoord-bench-") as name:
        try:
            return measure(Path(name))
        except KeyboardInterrupt:
            print("Interrupted: everything is stopped.", file=sys.stderr)
            return 130
        except (ZkcoordError, OSError, subprocess.SubprocessError) as error:
            print(f"It could not be done: {error}", file=sys.stderr)
            return 1


def on_a_stack(
    folder: Path,
    seed: int,
    parts_of: Callable[[Rig], Mapping[str, Part]],
    only: Collection[str],
    progress: Callable[[str], None] = say,
    zookeeper_options: ZooKeeperOptions = ZooKeeperOptions(),
    kind: KafkaKind = KafkaKind.ZOOKEEPER,
) -> list[Section]:
    """The parts that are wanted, each on the same ZooKeeper and broker; afterwards both are
    stopped, and all processes that a part left.
    """
    with running_stack(
        folder / "stack", progress=progress, zookeeper_options=zookeeper_options, kind=kind
    ) as stack:
        assert stack.zookeeper is not None and stack.kafka is not None, "both run inside the block"
        rig = Rig(folder / "run", stack.zookeeper.address, stack.kafka.address, seed, progress)
        rig.kafka_log = stack.kafka.log
        rig.asks_brokers = kind is not KafkaKind.ZOOKEEPER
        try:
            rig.warm_up()
            return measure_all(parts_of(rig), only, progress)
        finally:
            with uninterrupted():
                rig.close()


def report_named(what: str, only: Sequence[str], names: Sequence[str]) -> Path:
    """Where a report goes: a part does not take the place of the whole."""
    return figures.REPORT.with_name(
        f"{what}.json" if set(only) == set(names) else f"{what}-{'-'.join(only)}.json"
    )
