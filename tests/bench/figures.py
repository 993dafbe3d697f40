"""Figures, bars and the two forms of a report: a table for people and JSON. Durations are
milliseconds.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from kafka.errors import KafkaError
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from zkcoord import __version__
from zkcoord.demo.summary import machine
from zkcoord.errors import ZkcoordError

PACKAGES = ("kazoo", "kafka-python", "pyspark")
BROKEN_OFF = (ZkcoordError, AssertionError, KafkaError, KazooException, KazooTimeoutError)
"""What ends a part of a run before its end and is written down as that."""
REPORT = Path(__file__).parents[2] / "build" / "reports" / "bench-rebalance.json"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    found = sorted(values)
    return found[max(0, math.ceil(share * len(found)) - 1)]


def rounded(value: float) -> float:
    """To a tenth, and small figures (quotients) to a hundredth."""
    return round(value, 2 if abs(value) < 10 else 1)


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """n, min, median, p95, max."""
    if not values:
        return {"n": 0}
    return {
        "n": len(values),
        "min": rounded(min(values)),
        "median": rounded(statistics.median(values)),
        "p95": rounded(quantile(values, 0.95)),
        "max": rounded(max(values)),
    }


@dataclass(frozen=True)
class Bar:
    """What a figure should stay at or below, or with `at_least` reach; `what` is `min`, `median`,
    `p95` or `max`.
    """

    what: str
    limit: float
    at_least: bool = False

    def reached(self, found: Mapping[str, float]) -> bool:
        """By these figures (`spread`)."""
        return found[self.what] >= self.limit if self.at_least else found[self.what] <= self.limit

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.what} {'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass
class Row:
    """One line of a section: what was measured, from which clock, and its values. `ratio` is
    kafka-python's median of the same clock divided by this one's, `peer` what kafka-python's
    consumer showed by that clock.
    """

    what: str
    clock: str
    values: list[float]
    bars: tuple[Bar, ...] = ()
    unit: str = "ms"
    ratio: float | None = None
    note: str = ""
    peer: Sequence[float] = ()

    @property
    def missed(self) -> list[Bar]:
        """Bars that were not reached."""
        found = spread(self.values)
        return [bar for bar in self.bars if found["n"] and not bar.reached(found)]

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        return {
            "what": self.what,
            "clock": self.clock,
            "unit": self.unit,
            **spread(self.values),
            "bars": [{**asdict(bar), "reached": bar not in self.missed} for bar in self.bars],
            "kafka_python_ratio": None if self.ratio is None else round(self.ratio, 1),
            "kafka_python": spread(self.peer) if self.peer else None,
            "note": self.note,
            "values": [rounded(value) for value in self.values],
        }


@dataclass
class Section:
    """One part of the benchmark. `steps`: where the time of an event goes, row label -> step ->
    values. `failure`: why it did not end.
    """

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    steps: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failure: str = ""
    busy_percent: float = 0.0
    seconds: float = 0.0

    def attempt(self, what: str, act: Callable[[], None]) -> None:
        """Do a part; when it cannot be finished, say why and go on with the others."""
        try:
            act()
        except BROKEN_OFF as error:
            self.failure = "; ".join(filter(None, (self.failure, f"{what}: {error}")))

    def step(self, label: str, name: str, value: float) -> None:
        """One event's duration of one step."""
        self.steps.setdefault(label, {}).setdefault(name, []).append(value)

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        return {
            "name": self.name,
            "title": self.title,
            "busy_percent": round(self.busy_percent, 1),
            "seconds": round(self.seconds, 1),
            "failure": self.failure,
            "rows": [row.to_json() for row in self.rows],
            "steps": {
                label: {name: spread(values) for name, values in steps.items()}
                for label, steps in self.steps.items()
            },
            "notes": self.notes,
        }


class Busy:
    """The share of all processors that was busy since it was made, everything on the machine
    included.
    """

    def __init__(self) -> None:
        self.begin = psutil.cpu_times()
        self.began = time.monotonic()

    @property
    def percent(self) -> float:
        """Now."""
        now = psutil.cpu_times()
        idle = (now.idle - self.begin.idle) + (now.iowait - self.begin.iowait)
        total = (
            sum(now)
            - sum(self.begin)
            - (now.guest - self.begin.guest)
            - (now.guest_nice - self.begin.guest_nice)
        )
        return 100.0 * (1 - idle / total) if total > 0 else 0.0

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self.began


HEAD = ("what", "clock", "n", "min", "median", "p95", "max", "bars")


def peer_of(found: Mapping[str, float]) -> str:
    """kafka-python's figures in a few words."""
    return (
        f"kafka-python: {found['median']:g} ({found['min']:g} to {found['max']:g}, n ="
        f" {found['n']})"
    )


def cells_of(row: Row) -> tuple[str, ...]:
    """One line of a table."""
    found = spread(row.values)
    marks = [f"{bar.text} {'MISSED' if bar in row.missed else 'ok'}" for bar in row.bars]
    marks += [f"kafka-python takes {row.ratio:.1f} times as long"] if row.ratio is not None else []
    marks += [peer_of(spread(row.peer))] if row.peer else []
    marks += [row.note] if row.note else []
    figures = [
        f"{found[name]:g}" if name in found else "-"
        for name in ("n", "min", "median", "p95", "max")
    ]
    return (
        row.what,
        row.clock + ("" if row.unit == "ms" else f" ({row.unit})"),
        *figures,
        "; ".join(marks),
    )


def lines_of(section: Section) -> list[str]:
    """A section as a table."""
    table = [HEAD, *map(cells_of, section.rows)]
    widths = [max(len(cells[at]) for cells in table) for at in range(len(HEAD) - 1)]
    lines = [
        "",
        (
            f"{section.title} (busy {section.busy_percent:.0f} %, {section.seconds:.0f} s; ms"
            " unless said)"
        ),
    ]
    for cells in table if section.rows else ():
        padded = [
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths))
        ]
        lines.append(("  " + "  ".join([*padded, cells[-1]])).rstrip())
    for label, steps in section.steps.items():
        lines.append(
            f"  where the time goes, {label} (medians): "
            + ", ".join(f"{name} {statistics.median(values):.0f}" for name, values in steps.items())
        )
    lines += [f"  {note}" for note in section.notes]
    if section.failure:
        lines.append(f"  NOT FINISHED: {section.failure}")
    return lines


def missed_of(sections: Sequence[Section]) -> list[str]:
    """A sentence per bar that was not reached."""
    return [
        f"{section.name}: {row.what}, {row.clock}: {bar.what} is {spread(row.values)[bar.what]:g},"
        f" the bar is {bar.text}"
        for section in sections
        for row in section.rows
        for bar in row.missed
    ]


def write(
    sections: Sequence[Section],
    options: dict[str, Any],
    java: str,
    path: Path = REPORT,
    what: str = "bench-rebalance",
) -> None:
    """The JSON report of the benchmark `what`."""
    content = {
        "what": what,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "options": options,
        "versions": {
            "zkcoord": __version__,
            "python": platform.python_version(),
            "java": java,
            "kafka": "3.9 (ZooKeeper mode)",
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "machine": machine(),
        "sections": [section.to_json() for section in sections],
        "missed": missed_of(sections),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
