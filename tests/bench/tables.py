"""Puts the figures of the last reports into docs/benchmarks.md: `python -m tests.bench.tables`.

What stands between two marks there is replaced by what the reports in build/reports (`REPORTS`) say, as far as they are there, and the reports of their parts (--only): the newest report of a section counts, and each section says
when it was measured. Of the side by side (`make bench`) there is a picture too, `PICTURE`. What takes hours (`LONG`) may be measured in parts, on several days: these reports are kept beside the page, in `KEPT`, and a part that was
measured another day stays. The rest of the page is written by people.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.figures import REPORT, Bar, Row, peer_of
from tests.bench.side.plot import draw
from tests.chaos.schedule import titled

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
SIDE = REPORT.with_name("bench-members.json")
REPORTS = {"figures": REPORT, "side": SIDE, **{name: REPORT.with_name(f"bench-{name}.json") for name in ("scale", "consumer", "spark", "audit", "commit")}, "handovers": REPORT.with_name("chaos-spark.json"), "faults": REPORT.with_name("chaos.json")}
"""What stands in the marks, `<!-- NAME: begin -->` and `<!-- NAME: end -->`, and where its figures come from."""
TARGETS = ("bench", *(report.stem for report in REPORTS.values() if report != SIDE))
PICTURE = PAGE.parent / "img" / "bench.png"
KEPT = PAGE.parent / "figures"
LONG = ("side", "handovers", "faults")
SCHEDULES = "chaos"
SHOWN = "![How long each takes](img/bench.png)\n\n"


def cell(row: Mapping[str, Any]) -> str:
    """Bars, the ratio and the note of a row."""
    found = [f"{Bar(bar['what'], bar['limit'], bar.get('at_least', False)).text}: {'reached' if bar['reached'] else '**missed**'}" for bar in row["bars"]]
    found += [f"kafka-python takes {row['kafka_python_ratio']:g} times as long"] if row["kafka_python_ratio"] is not None else []
    found += [peer_of(row["kafka_python"])] if row.get("kafka_python") else []
    return "; ".join([*found, *([row["note"]] if row["note"] else [])])


def gathered(reports: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(section, its report) of each section's newest report, in the order in which the sections came first."""
    found: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    for report in sorted(reports, key=lambda report: str(report["time"])):
        found.update({section["title"]: (section, report) for section in report["sections"]})
    return list(found.values())


def together(reports: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The reports, with those of random schedules that were played in parts, alike but for their seeds and on the same kind of machine, as one. A part does not count where a newer one has a seed of its, too."""
    found: list[Mapping[str, Any]] = []
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for report in sorted(reports, key=lambda report: str(report["time"]), reverse=True):
        if report["what"] != SCHEDULES:
            found.append(report)
            continue
        like = [report["options"] | {"seeds": []}, report["versions"], report["machine"]["cpus"], report["machine"]["model"]]
        others = alike.setdefault(json.dumps(like), [])
        if all(set(report["options"]["seeds"]).isdisjoint(other["options"]["seeds"]) for other in others):
            others.append(report)
    return found + [one_of(of) if len(of) > 1 else of[0] for of in alike.values()]


def one_of(reports: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The parts, newest first, as one report with one table."""
    seeds = sorted(seed for report in reports for seed in report["options"]["seeds"])
    tables = [section for report in reversed(reports) for section in report["sections"]]
    seconds = sum(table["seconds"] for table in tables)
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in (row for table in tables for row in table["rows"]):
        rows.setdefault((row["what"], row["clock"]), []).append(row)
    joined = [Row(what, clock, [value for row in of for value in row["values"]], tuple(Bar(bar["what"], bar["limit"], bar["at_least"]) for bar in of[0]["bars"]), of[0]["unit"], note=of[0]["note"]).to_json() for (what, clock), of in rows.items()]
    options = {**reports[0]["options"], "seeds": seeds}
    notes = [f"played in {len(reports)} parts, which ended from {reports[-1]['time']} to {reports[0]['time']}", *(note for table in tables for note in table["notes"])]
    section = {**tables[0], "title": ", ".join([titled(seeds, options["seconds"]), *options["kinds"]]), "rows": joined, "notes": notes, "seconds": seconds, "failure": "; ".join(filter(None, (table["failure"] for table in tables))),
               "busy_percent": sum(table["busy_percent"] * table["seconds"] for table in tables) / seconds}
    return {**reports[0], "options": options, "sections": [section]}


def measured(report: Mapping[str, Any]) -> str:
    """When, on what, with which versions."""
    machine, versions = report["machine"], report["versions"]
    return (f"Measured {report['time']}: {machine['cpus']} processors ({machine['model']}), {machine['memory_gib']:g} GiB, Linux {machine['kernel']}, load average {machine['load_1min']:g} at the end; "
            f"Python {versions['python']}, Java {versions['java']}, Kafka {versions['kafka']}, kazoo {versions['kazoo']}, kafka-python {versions['kafka-python']}.")


def rendered(reports: Iterable[Mapping[str, Any]]) -> str:
    """The reports as markdown."""
    lines: list[str] = []
    said = ""
    for section, report in gathered(together(reports)):
        if measured(report) != said:
            said = measured(report)
            lines += ["", said] if lines else [said]
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


def put(page: str, name: str, text: str) -> str:
    """The page with `text` between the marks of this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, _, rest = page.partition(begin)
    _, mark, tail = rest.partition(end)
    assert mark, f"the page has no {begin} before {end}"
    return f"{head}{begin}\n{text}\n{end}{tail}"


def parts(report: Path) -> list[Path]:
    """A report and those of its parts, without what is named after another benchmark that is named after it."""
    others = [other.stem for other in REPORTS.values() if other.stem.startswith(report.stem) and other.stem != report.stem]
    return sorted(path for path in report.parent.glob(f"{report.stem}*.json") if not path.name.startswith(tuple(others)))


def keep(report: Path, folder: Path) -> list[Path]:
    """Copies of a report and of its parts, and of what was kept of them before."""
    for part in parts(report):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / part.name).write_text(json.dumps(json.loads(part.read_text(encoding="utf-8")), separators=(",", ":")) + "\n", encoding="utf-8")
    return parts(folder / report.name)


def main() -> int:
    """Rewrite the page."""
    paths = {name: keep(report, KEPT) if name in LONG else parts(report) for name, report in REPORTS.items()}
    found = {name: [json.loads(path.read_text(encoding="utf-8")) for path in of] for name, of in paths.items()}
    if not any(found.values()):
        print(f"There is no report in {REPORT.parent}: run one of {', '.join(f'`make {target}`' for target in TARGETS)} first.", file=sys.stderr)
        return 1
    page = PAGE.read_text(encoding="utf-8")
    for name, reports in found.items():
        page = put(page, name, (SHOWN if name == "side" else "") + rendered(reports)) if reports else page
    PAGE.write_text(page, encoding="utf-8")
    if found["side"]:
        draw({"sections": [section for section, _ in gathered(found["side"])]}, PICTURE)
    print(f"Written: {PAGE} ({', '.join(name for name, reports in found.items() if reports)})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
