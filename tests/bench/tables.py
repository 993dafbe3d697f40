"""Puts the figures of the last report into docs/benchmarks.md: `python -m tests.bench.tables`.

What stands between the two marks there is replaced by what build/reports/bench-rebalance.json says; the rest of the page is written by people.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.figures import REPORT

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def cell(row: Mapping[str, Any]) -> str:
    """Bars, the ratio and the note of a row."""
    found = [f"{bar['what']} <= {bar['limit']:g}: {'reached' if bar['reached'] else '**missed**'}" for bar in row["bars"]]
    found += [f"kafka-python takes {row['kafka_python_ratio']:g} times as long"] if row["kafka_python_ratio"] is not None else []
    return "; ".join([*found, *([row["note"]] if row["note"] else [])])


def rendered(report: Mapping[str, Any]) -> str:
    """The report as markdown."""
    machine, versions = report["machine"], report["versions"]
    lines = [f"Measured {report['time']}: {machine['cpus']} processors ({machine['model']}), {machine['memory_gib']:g} GiB, Linux {machine['kernel']}, load average {machine['load_1min']:g} at the end; "
             f"Python {versions['python']}, Java {versions['java']}, Kafka {versions['kafka']}, kazoo {versions['kazoo']}, kafka-python {versions['kafka-python']}. {len(report['missed'])} bars missed."]
    for section in report["sections"]:
        lines += ["", f"### {section['title']}", "", f"{section['busy_percent']:.0f} % of all processors busy, {section['seconds']:.0f} s. Milliseconds unless said."
                  + (f" **Not finished**: {section['failure']}" if section["failure"] else ""), ""]
        lines += ["| what | clock | n | min | median | p95 | max | bars |", "|---|---|---|---|---|---|---|---|"]
        for row in section["rows"]:
            figures = " | ".join(f"{row[name]:g}" if name in row else "-" for name in ("n", "min", "median", "p95", "max"))
            lines.append(f"| {row['what']} | {row['clock']}{'' if row['unit'] == 'ms' else ' (' + row['unit'] + ')'} | {figures} | {cell(row)} |")
        steps = [f"* {label}: " + ", ".join(f"{name} {values['median']:.0f}" for name, values in found.items()) for label, found in section["steps"].items()]
        lines += ["", "Where the time goes (medians):", "", *steps] if steps else []
        lines += ["", *(f"* {note}" for note in section["notes"])] if section["notes"] else []
    return "\n".join(lines)


def put(page: str, text: str) -> str:
    """The page with `text` between its marks."""
    head, _, rest = page.partition(BEGIN)
    _, mark, tail = rest.partition(END)
    assert mark, f"the page has no {BEGIN} before {END}"
    return f"{head}{BEGIN}\n{text}\n{END}{tail}"


def main() -> int:
    """Rewrite the page."""
    if not REPORT.exists():
        print(f"There is no report at {REPORT}: run `make bench-rebalance` first.", file=sys.stderr)
        return 1
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), rendered(json.loads(REPORT.read_text(encoding="utf-8")))), encoding="utf-8")
    print(f"Written: {PAGE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
