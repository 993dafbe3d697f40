"""The end of a run: a table for people, `demo.json` for programs."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zkcoord import __version__
from zkcoord.demo.options import DemoOptions
from zkcoord.demo.story import ScenarioJournal
from zkcoord.stack import jars
from zkcoord.verdict.outcome import Verdict
from zkcoord.verdict.rules import Gap, PartitionReport, Rule

PACKAGES = ("kazoo", "kafka-python", "pyspark")
FINDINGS_MAX = 12


def table(verdict: Verdict, measured: Iterable[tuple[str, float]] = ()) -> list[str]:
    """The lines of the table; the verdict's sentence is not among them. `measured`: what else took
    how long, in ms.
    """
    lines = [
        "",
        "Steps: from the event to the first fetch response of the last partition that moved",
    ]
    for step in verdict.steps:
        if step.balanced_ns is not None:
            took = "no command, no move" if step.quiet else took_text(step.took_ms)
            if step in verdict.noisy:
                took = "NOT QUIET"
            lines.append(f"  {step.name:<64} {took:>22}")
    lines += [f"  {name:<64} {ms:>19.0f} ms" for name, ms in measured]
    longest = worst(verdict.partitions)
    lines += ["", "Records and rules"]
    lines += [
        f"  {name:<64} {value:>22}"
        for name, value in (
            ("produced", number(sum(report.produced for report in verdict.partitions))),
            ("handed out", number(sum(report.delivered for report in verdict.partitions))),
            ("lost", number(verdict.amount(Rule.LOST))),
            (
                "handed out again after kill -9, not yet committed",
                number(sum(report.excused for report in verdict.partitions)),
            ),
            ("duplicated beyond that", number(verdict.amount(Rule.DUPLICATED))),
            ("owned twice", number(verdict.amount(Rule.OWNED_TWICE))),
            ("delivered without ownership", number(verdict.amount(Rule.UNOWNED))),
            ("offsets that went back", number(verdict.amount(Rule.OFFSET_BACK))),
            ("longest gap of a partition that moved", longest["moved"]),
            ("longest gap of a partition that stayed", longest["stayed"]),
            ("the producer's own longest pause", longest["producer"]),
            (
                "rebalances in the coordinators' journals: n, min / median / max",
                rebalances(verdict),
            ),
        )
    ]
    lines += gaps(verdict.partitions)
    lines += verdict.wrong(FINDINGS_MAX)
    if verdict.unreadable:
        lines.append(f"  {verdict.unreadable} lines of the journals could not be read")
    return [*lines, ""]


def took_text(ms: float | None) -> str:
    """A duration, or that nothing moved."""
    return "nothing moved" if ms is None else f"{ms:.0f} ms"


def number(value: int) -> str:
    """With thousands separated."""
    return f"{value:,}"


def worst(reports: Sequence[PartitionReport]) -> dict[str, str]:
    """The longest gaps of all partitions."""
    longest: dict[str, Gap] = {
        "moved": max(
            (report.longest_moved for report in reports), key=lambda gap: gap.ms, default=Gap(0, 0)
        ),
        "stayed": max(
            (report.longest_kept for report in reports), key=lambda gap: gap.ms, default=Gap(0, 0)
        ),
        "producer": max(
            (report.longest_unproduced for report in reports),
            key=lambda gap: gap.ms,
            default=Gap(0, 0),
        ),
    }
    return {name: f"{gap.ms:.0f} ms" for name, gap in longest.items()}


def gaps(reports: Sequence[PartitionReport]) -> list[str]:
    """The longest gap of each partition, a few to a line."""
    cells = [
        f"{report.partition.number:>3}:"
        f" {max(report.longest_kept.ms, report.longest_moved.ms):>5.0f}"
        + ("*" if report.longest_moved.ms > report.longest_kept.ms else " ")
        for report in reports
    ]
    lines = ["", "Longest gap of each partition while the producer ran, in ms (*: while it moved)"]
    return lines + ["  " + "  ".join(cells[at : at + 8]) for at in range(0, len(cells), 8)]


def rebalances(verdict: Verdict) -> str:
    """How many, and how long."""
    durations = [rebalance.duration_ms for rebalance in verdict.rebalances if rebalance.moved]
    return (
        "none"
        if not durations
        else (
            f"{len(durations)}, {min(durations)} / {statistics.median(durations):.0f} /"
            f" {max(durations)} ms"
        )
    )


def spread(values: Iterable[float]) -> dict[str, float | int]:
    """n, min, median, max."""
    found = sorted(values)
    return (
        {"n": 0}
        if not found
        else {
            "n": len(found),
            "min": round(found[0], 1),
            "median": round(statistics.median(found), 1),
            "max": round(found[-1], 1),
        }
    )


def report(
    options: DemoOptions,
    verdict: Verdict,
    story: ScenarioJournal,
    duration_s: float,
    java: str,
) -> dict[str, Any]:
    """What `demo.json` holds; durations in ms unless named otherwise."""
    return {
        "what": options.name,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "verdict": verdict.sentence,
        "clean": verdict.clean,
        "duration_s": round(duration_s, 1),
        "versions": {
            "zkcoord": __version__,
            "python": platform.python_version(),
            "java": java,
            "kafka": jars.KAFKA.version,
            "zookeeper": zookeeper_version(),
            **{name: _version(name) for name in PACKAGES},
        },
        "machine": machine(),
        "options": {
            "fault": None if options.fault is None else options.fault.value,
            "seed": options.seed,
            "partitions": options.pace.partitions,
            "grown": options.pace.grown,
            "rate_per_s": options.pace.rate,
            "records_between_steps": options.pace.records_between_steps,
        },
        "records": {
            "produced": sum(r.produced for r in verdict.partitions),
            "handed_out": sum(r.delivered for r in verdict.partitions),
            "again_after_kill": sum(r.excused for r in verdict.partitions),
        },
        "rules": {rule.value: verdict.amount(rule) for rule in Rule},
        "steps": [
            {
                "name": step.name,
                "quiet": step.quiet,
                "took_ms": step.took_ms,
                "commands": step.commands,
                "first_fetches": step.fetched,
            }
            for step in verdict.steps
        ],
        "step_ms": spread(step.took_ms for step in verdict.steps if step.took_ms is not None),
        "rebalance_ms": spread(
            rebalance.duration_ms for rebalance in verdict.rebalances if rebalance.moved
        ),
        "succession_ms": story.succession_ms,
        "handed_on_ms": story.handed_on_ms,
        "longest_gap_ms": {
            "moved": spread(r.longest_moved.ms for r in verdict.partitions if r.longest_moved.ms),
            "stayed": spread(r.longest_kept.ms for r in verdict.partitions),
            "producer": spread(r.longest_unproduced.ms for r in verdict.partitions),
        },
        "partitions": {
            str(r.partition): {
                "produced": r.produced,
                "handed_out": r.delivered,
                "owners": r.owners,
                "longest_moved_ms": round(r.longest_moved.ms, 1),
                "longest_stayed_ms": round(r.longest_kept.ms, 1),
            }
            for r in verdict.partitions
        },
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write the report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def zookeeper_version() -> str:
    """The version of the server in PySpark's jars."""
    names = [Path(jar).stem for jar in jars.zookeeper_classpath().split(os.pathsep)]
    return next(
        (
            name.removeprefix("zookeeper-")
            for name in names
            if name.removeprefix("zookeeper-")[:1].isdigit()
        ),
        "",
    )


def machine() -> dict[str, Any]:
    """What it ran on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory_kib = next(
        (int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0
    )
    return {
        "cpus": os.cpu_count(),
        "model": model,
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "load_1min": round(os.getloadavg()[0], 1),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
