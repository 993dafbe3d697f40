"""Which figures reach docs/figures, and that docs/benchmarks.md stays a page that people read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.figures import Bar, Row, Section
from tests.bench.tables import (
    FIGURES,
    HEADS,
    LONG,
    PAGE,
    REPORTS,
    SCHEDULES,
    SHOWN,
    anchor,
    gathered,
    head,
    keep,
    parts,
    rendered,
    together,
    write,
)

LINES_MAX = 400
COLUMNS_MAX = 100
LINK = re.compile(r"\]\(([^)#]*)#?([^)]*)\)")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """(number, line) of what stands in no table and in no code."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("|"):
            yield number, line


def report(time: str, **sections: str) -> dict[str, Any]:
    """A report with sections (title -> a note)."""
    return {
        "time": time,
        "sections": [{"title": title, "notes": [note]} for title, note in sections.items()],
    }


def test_the_newest_report_of_a_section_counts_whichever_file_it_is_in() -> None:
    whole = report("2026-01-01T10:00:00Z", joins="old", crashes="old")
    part = report("2026-01-01T11:00:00Z", joins="new")
    before = report("2026-01-01T09:00:00Z", crashes="older", storms="only one")
    for reports in ([whole, part, before], [part, before, whole]):
        found = [
            (section["title"], section["notes"][0], of["time"][11:13])
            for section, of in gathered(reports)
        ]
        assert found == [
            ("crashes", "old", "10"),
            ("storms", "only one", "09"),
            ("joins", "new", "11"),
        ]


def schedules(
    time: str, found: dict[int, float], machine: str = "A", **options: Any
) -> dict[str, Any]:
    """A report of random schedules (seed -> findings); a second each, the machine as busy as its
    seed.
    """
    row = Row("findings", "by name", list(found.values()), (Bar("max", 0),))
    section = Section(
        SCHEDULES, f"part of {found}", [row], busy_percent=min(found), seconds=len(found)
    )
    return {
        "what": SCHEDULES,
        "time": time,
        "options": {"seeds": sorted(found), "seconds": 60.0, "kinds": [], **options},
        "versions": dict.fromkeys(("python", "java", "kafka", "kazoo", "kafka-python"), "1"),
        "machine": {
            "cpus": 2,
            "model": machine,
            "memory_gib": 1,
            "kernel": "6",
            "load_1min": 1,
        },
        "sections": [section.to_json()],
    }


def test_schedules_that_were_played_in_parts_are_one_table() -> None:
    parts = [
        schedules("2026-01-01T10:00:00Z", {10: 0, 11: 0, 12: 0}),
        schedules("2026-01-01T11:00:00Z", {20: 1}),
        schedules("2026-01-01T09:00:00Z", {12: 7, 13: 0}),
        schedules("2026-01-01T08:00:00Z", {13: 0}),
    ]
    other = [
        schedules("2026-01-01T12:00:00Z", {1: 0}, "B"),
        schedules("2026-01-01T12:00:00Z", {2: 0}, kinds=["BROKER_KILLED"]),
    ]
    text = rendered(parts + other)
    busy = "13 % of all processors busy, 5 s."
    assert f"### 5 schedules of 60 s, seeds 10 to 13, 20\n\n{busy}" in text, (
        "by their length; a part that a newer one has a seed of does not count"
    )
    assert "| findings | by name | 5 | 0 | 0 | 1 | 1 | max <= 0: **missed** |" in text
    ended = "which ended from 2026-01-01T08:00:00Z to 2026-01-01T11:00:00Z"
    assert f"played in 3 parts, {ended}" in text
    assert text.count("### part of") == 2 and len(together(other)) == 2, (
        "another machine, other faults"
    )


def test_each_benchmark_has_a_page_of_raw_tables_that_says_what_makes_it() -> None:
    assert set(HEADS) == set(REPORTS)
    makefile = (PAGE.parents[1] / "Makefile").read_text(encoding="utf-8")
    headings = {
        anchor(line.lstrip("# "))
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("#")
    }
    for name, (_, target, section) in HEADS.items():
        text = (FIGURES / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith(head(name) + "\n"), name
        assert "\n| what | clock | n |" in text, name
        assert f"\n{target}: setup" in makefile and f"`make {target}`" in head(name)
        assert anchor(section) in headings and f"../{PAGE.name}#{anchor(section)}" in head(name)
        assert max(map(len, head(name).splitlines())) <= COLUMNS_MAX
    assert (FIGURES / SHOWN.partition("](")[2].strip(")\n")).is_file()


def test_what_takes_hours_is_shown_as_it_is_kept(tmp_path: Path) -> None:
    found = {
        name: [json.loads(path.read_text(encoding="utf-8")) for path in parts(FIGURES / of.name)]
        for name, of in REPORTS.items()
    }
    written = write(found, tmp_path)
    assert written == [f"{name}.md" for name in REPORTS if name in LONG]
    for name in written:
        assert (tmp_path / name).read_bytes() == (FIGURES / name).read_bytes()


def test_a_page_without_a_report_stays(tmp_path: Path) -> None:
    (tmp_path / "spark.md").write_text("yesterday")
    (tmp_path / "faults.md").write_text("yesterday")
    reports = [schedules("2026-01-01T10:00:00Z", {10: 0})]
    assert write({"spark": [], "faults": reports}, tmp_path) == ["faults.md"]
    assert (tmp_path / "spark.md").read_text() == "yesterday"
    text = (tmp_path / "faults.md").read_text()
    assert text == f"{head('faults')}\n{rendered(reports)}\n" and "| findings | by name" in text


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= LINES_MAX


def test_the_page_links_to_all_raw_tables_and_to_nothing_that_is_not_there() -> None:
    links = {target for target, _ in LINK.findall(PAGE.read_text(encoding="utf-8"))}
    pages = {f"{FIGURES.name}/{path.name}" for path in FIGURES.glob("*.md")}
    assert len(pages) >= len(REPORTS)
    assert pages <= links
    assert [target for target in links if not (PAGE.parent / target).exists()] == []


def test_prose_of_the_page_is_wrapped() -> None:
    text = PAGE.read_text(encoding="utf-8")
    long = [number for number, line in prose(text) if len(line) > COLUMNS_MAX]
    assert long == [], f"{PAGE.name}: lines of more than {COLUMNS_MAX} columns"


def test_prose_is_what_stands_in_no_table_and_in_no_code() -> None:
    text = "# a\n\n| b |\n```\nc\n| d |\n```\n* e\n"
    assert list(prose(text)) == [(1, "# a"), (2, ""), (8, "* e")]


def test_other_benchmarks_are_no_parts(tmp_path: Path) -> None:
    names = ("members", "members-4", "scale", "scale-ack")
    side, small, scale, part = (tmp_path / f"bench-{name}.json" for name in names)
    for path in (small, scale, part, tmp_path / "bench.json", tmp_path / "bench-part.json"):
        path.touch()
    assert parts(side) == [small] and parts(scale) == [part, scale]
    names = ("", "-deaths", "-spark", "-spark-plain-jvm")
    chaos, deaths, spark, of_spark = (tmp_path / f"chaos{name}.json" for name in names)
    for path in (chaos, deaths, spark, of_spark):
        path.touch()
    assert parts(chaos) == [deaths, chaos] and parts(spark) == [of_spark, spark]


def test_a_part_that_was_measured_another_day_stays(tmp_path: Path) -> None:
    whole, kept = tmp_path / "bench-members.json", tmp_path / "figures"
    new = tmp_path / "bench-members-4.json"
    for text in ('{"time": "yesterday"}', '{"time": "today"}'):
        new.write_text(text)
        assert keep(whole, kept) == [kept / new.name]
    new.rename(other := tmp_path / "bench-members-24.json")
    assert keep(whole, kept) == [kept / other.name, kept / new.name]
    assert (kept / new.name).read_text() == '{"time":"today"}\n'
    assert keep(tmp_path / "chaos-spark.json", kept) == [], "another benchmark's"


def test_the_readme_says_how_often_each_median_was_measured() -> None:
    """The rounds in the head, and the medians of zkcoord's row, are the report's."""
    readme = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    lines = readme.split("## Beside the others", 1)[1].splitlines()
    head = next(line for line in lines if line.startswith("| |"))
    row = next(line for line in lines if line.startswith("| **zkcoord** |"))
    report = json.loads((FIGURES / "bench-members-24.json").read_text())
    measured = [
        next(one for one in section["rows"] if one["what"] == "24 members: zkcoord")
        for section in report["sections"][:5]
    ]
    assert re.findall(r"\(n = (\d+)\)", head) == [str(one["n"]) for one in measured]
    said = [int(number) for number in re.findall(r"\*\*(\d+) ms\*\*", row)]
    assert said == [int(one["median"] + 0.5) for one in measured]
