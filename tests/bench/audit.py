"""The audit on 64 million records with violations whose places are known: is every one found, is
anything else, how long does it take, how much memory.

    python -m tests.bench.audit [--quick] [--only journal|even|skewed]

Each audit is the command line in a process of its own, on two processors, from its start to its
end. `journal`: no records, the journals of 64 million hand-outs have a thousand violations of each
of five kinds. `even`, `skewed`: the records, in Parquet, lack a thousand and have a thousand twice,
the journals have the other three kinds; both plans; in `skewed` nine of ten records are in one
partition. Memory is what the command's processes (its own, the JVM, Python workers) occupy
together. Prints a table with the bars beside the figures and writes build/reports/bench-audit.json.
The exit status is 1 when a bar is missed. `--quick`: a fortieth of the records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from consumer.spark.audit.record_ranges import SearchPlan as RecordsPlan
from consumer.spark.audit.session import session, uri
from tests.bench.audit_world import Journals, Shape, World, plant_in_records, records
from tests.bench.figures import Bar, Row, Section
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named, say
from zkcoord.stack.java import find_java
from zkcoord.verdict.rules import Rule

NAMES = ("journal", "even", "skewed")
EACH, CHUNK = 1_000, 500
SLICES, QUICK_SLICES, SLICE_RECORDS = 6_400, 160, 10_000
MASTER, DRIVER_MEMORY, GENERATOR_MEMORY = "local[2]", "2g", "2g"
BAR_S, BAR_MIB = 120.0, 4_096.0
SAMPLE_S = 0.2
TIMEOUT_S = 1_800.0
FINDINGS_MAX = 1_000_000
IN_RECORDS = (Rule.LOST, Rule.DUPLICATED)


@dataclass(frozen=True)
class Plan:
    """What to do. `each`: violations of each kind."""

    only: tuple[str, ...] = NAMES
    slices: int = SLICES
    slice_records: int = SLICE_RECORDS
    chunk: int = CHUNK
    each: int = EACH
    master: str = MASTER

    def shape(self, skewed: bool) -> Shape:
        """The group of a part."""
        return Shape(self.slices, self.slice_records, self.chunk, skewed)


@dataclass
class Measured:
    """One run of the command line."""

    seconds: float
    memory_mib: float
    answer: dict[str, Any]


class Memory:
    """The peak of what a process and everything below it occupy, sampled on a thread of its own."""

    def __init__(self, pid: int) -> None:
        self.peak_mib = 0.0
        self._process = psutil.Process(pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_S):
            with suppress(psutil.NoSuchProcess):
                self.peak_mib = max(
                    self.peak_mib,
                    sum(map(occupied, [self._process, *self._process.children(recursive=True)]))
                    / 2**20,
                )

    def stop(self) -> float:
        """The peak in MiB."""
        self._done.set()
        self._thread.join()
        return self.peak_mib


def occupied(process: psutil.Process) -> float:
    """Bytes of memory; pages that forked workers share count once for each of them that uses them,
    in equal parts, where the system tells.
    """
    try:
        return float(process.memory_full_info().pss)
    except psutil.AccessDenied:
        return float(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0.0


def audited(words: Sequence[str], folder: Path, master: str) -> Measured:
    """Run the command line. Raises `AssertionError` when it does not answer."""
    command = [
        sys.executable,
        "-m",
        "consumer.spark.audit",
        *words,
        "--json",
        "--examples",
        str(FINDINGS_MAX),
        "--master",
        master,
        "--memory",
        DRIVER_MEMORY,
    ]
    began = time.monotonic()
    with (folder / "answer.json").open("wb") as out, (folder / "audit.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=log,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "SPARK_LOCAL_DIRS": str(folder)},
        )
        memory = Memory(process.pid)
        try:
            process.wait(TIMEOUT_S)
        finally:
            process.kill()
            peak = memory.stop()
    seconds = time.monotonic() - began
    assert process.returncode in (0, 1), (
        f"the audit ended with {process.returncode}:"
        f" {(folder / 'audit.log').read_text(errors='replace')[-2000:]}"
    )
    return Measured(seconds, peak, json.loads((folder / "answer.json").read_bytes()))


def rows_of(measured: Measured, world: World, label: str, kinds: Sequence[Rule]) -> list[Row]:
    """The figures of one run, with what should be."""
    found = {
        rule: {
            (finding["partition"], finding["offset"])
            for finding in measured.answer["findings"]
            if finding["rule"] == rule.value
        }
        for rule in Rule
    }
    rows = [
        Row(
            label,
            "from start to end of the command",
            [measured.seconds],
            (Bar("max", BAR_S),),
            "s",
            note=f"{world.shape.records / measured.seconds / 1e6:.2f} M records/s",
        ),
        Row(
            label,
            "peak memory of all its processes",
            [measured.memory_mib],
            (Bar("max", BAR_MIB),),
            "MiB",
        ),
    ]
    rows += [
        Row(
            label,
            f"{rule.value}: found of {len(world.planted[rule]):,}",
            [float(len(found[rule] & world.planted[rule]))],
            (Bar("min", len(world.planted[rule]), True),),
            "places",
        )
        for rule in kinds
    ]
    rows.append(
        Row(
            label,
            "found and not planted",
            [float(sum(len(found[rule] - world.planted[rule]) for rule in Rule))],
            (Bar("max", 0),),
            "places",
        )
    )
    return rows


def of_journal(plan: Plan, folder: Path, sections: list[Section]) -> None:
    """Journals alone."""
    section = Section("journal", f"Journals of {plan.shape(False).records:,} records handed out")
    sections.append(section)
    world = Journals(folder / "journal", plan.shape(False), list(Rule), plan.each).write()
    say(f"  journal: {world.lines:,} lines written")
    section.rows += rows_of(
        audited(["--journal", str(folder / "journal")], folder, plan.master),
        world,
        "journals alone",
        list(Rule),
    )
    section.notes.append(
        f"{world.lines:,} lines of {world.shape.members} consumers, {len(world.shape.ends)}"
        " partitions"
    )


def of_records(plan: Plan, folder: Path, sections: list[Section], skewed: bool) -> None:
    """Journals and records, by both plans."""
    shape = plan.shape(skewed)
    name = "skewed" if skewed else "even"
    section = Section(
        name,
        f"{shape.records:,} records,"
        f" {'90 % of them in one partition' if skewed else 'spread evenly'}",
    )
    sections.append(section)
    journal, output = folder / "journal", folder / "records"
    world = Journals(
        journal, shape, [rule for rule in Rule if rule not in IN_RECORDS], plan.each
    ).write()
    plant_in_records(world, plan.each)
    made(world, output, plan.master)
    say(f"  {name}: {world.lines:,} lines and {shape.records:,} records written")
    for how in RecordsPlan:
        measured = audited(
            ["--journal", str(journal), "--records", str(output), "--plan", how.value],
            folder,
            plan.master,
        )
        section.rows += rows_of(measured, world, f"plan {how.value}", list(Rule))
        say(f"  {name}, plan {how.value}: {measured.seconds:.1f} s, {measured.memory_mib:.0f} MiB")
    section.notes.append(
        f"Parquet of {sum(file.stat().st_size for file in output.rglob('*.parquet')) / 2**20:.0f}"
        f" MiB; {world.lines:,} lines of {shape.members} consumers, {len(shape.ends)} partitions"
    )


def made(world: World, output: Path, master: str) -> None:
    """Write the records, in a session that is over before anything is measured."""
    code = [
        "-c",
        "import sys; from tests.bench.audit import write_records; write_records(sys.argv[1:])",
        json.dumps(asdict(world.shape)),
        json.dumps([world.places(rule) for rule in IN_RECORDS]),
        str(output),
        master,
    ]
    subprocess.run(
        [sys.executable, *code],
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "SPARK_LOCAL_DIRS": str(output.parent)},
        timeout=TIMEOUT_S,
    )


def write_records(words: Sequence[str]) -> None:
    """The process that writes the records: shape, places, folder, master."""
    shape, places, output, master = words
    world = World(Shape(**json.loads(shape)))
    for rule, found in zip(IN_RECORDS, json.loads(places)):
        for number, offset in found:
            world.plant(rule, number, offset)
    with session("records for the audit", master, GENERATOR_MEMORY) as spark:
        records(spark, world).write.parquet(uri(Path(output)))


def parts(plan: Plan, folder: Path) -> dict[str, Part]:
    """What can be asked for, each in a folder of its own that is gone afterwards."""

    def within(measure: Any) -> Part:
        def part(sections: list[Section]) -> None:
            with tempfile.TemporaryDirectory(dir=folder) as own:
                measure(plan, Path(own), sections)

        return part

    return {
        "journal": within(of_journal),
        "even": within(lambda *given: of_records(*given, skewed=False)),
        "skewed": within(lambda *given: of_records(*given, skewed=True)),
    }


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; the exit status."""
    sections = measure_all(parts(plan, folder), plan.only)
    return conclude(sections, asdict(plan), str(find_java().major), report, "bench-audit")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.audit",
        description="The audit on many records, with violations whose places are known.",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a fortieth of the records, a hundred violations of each kind",
    )
    parser.add_argument("--only", choices=NAMES, help="only this part")
    args = parser.parse_args(arguments)
    only = (args.only,) if args.only else NAMES
    plan = Plan(only, QUICK_SLICES, chunk=125, each=100) if args.quick else Plan(only)
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named("bench-audit", plan.only, NAMES))
    )


if __name__ == "__main__":
    raise SystemExit(main())
