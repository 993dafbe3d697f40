"""Which figures reach docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.figures import Bar, Row, Section
from tests.bench.tables import PAGE, REPORTS, SCHEDULES, gathered, keep, parts, put, rendered, together


def report(time: str, **sections: str) -> dict[str, Any]:
    """A report with sections (title -> a note)."""
    return {"time": time, "sections": [{"title": title, "notes": [note]} for title, note in sections.items()]}


def test_the_newest_report_of_a_section_counts_whichever_file_it_is_in() -> None:
    whole = report("2026-01-01T10:00:00Z", joins="old", crashes="old")
    part, before = report("2026-01-01T11:00:00Z", joins="new"), report("2026-01-01T09:00:00Z", crashes="older", storms="only one")
    for reports in ([whole, part, before], [part, before, whole]):
        assert [(section["title"], section["notes"][0], of["time"][11:13]) for section, of in gathered(reports)] == [("crashes", "old", "10"), ("storms", "only one", "09"), ("joins", "new", "11")]


def schedules(time: str, found: dict[int, float], machine: str = "A", **options: Any) -> dict[str, Any]:
    """A report of random schedules (seed -> findings); a second each, the machine as busy as its seed."""
    section = Section(SCHEDULES, f"part of {found}", [Row("findings", "by name", list(found.values()), (Bar("max", 0),))], busy_percent=min(found), seconds=len(found))
    return {"what": SCHEDULES, "time": time, "options": {"seeds": sorted(found), "seconds": 60.0, "kinds": [], **options}, "versions": dict.fromkeys(("python", "java", "kafka", "kazoo", "kafka-python"), "1"),
            "machine": {"cpus": 2, "model": machine, "memory_gib": 1, "kernel": "6", "load_1min": 1}, "sections": [section.to_json()]}


def test_schedules_that_were_played_in_parts_are_one_table() -> None:
    parts = [schedules("2026-01-01T10:00:00Z", {10: 0, 11: 0, 12: 0}), schedules("2026-01-01T11:00:00Z", {20: 1}), schedules("2026-01-01T09:00:00Z", {12: 7, 13: 0}), schedules("2026-01-01T08:00:00Z", {13: 0})]
    other = [schedules("2026-01-01T12:00:00Z", {1: 0}, "B"), schedules("2026-01-01T12:00:00Z", {2: 0}, kinds=["BROKER_KILLED"])]
    text = rendered(parts + other)
    assert "### 5 schedules of 60 s, seeds 10 to 13, 20\n\n13 % of all processors busy, 5 s." in text, "by their length; a part that a newer one has a seed of does not count"
    assert "| findings | by name | 5 | 0 | 0 | 1 | 1 | max <= 0: **missed** |" in text and "played in 3 parts, which ended from 2026-01-01T08:00:00Z to 2026-01-01T11:00:00Z" in text
    assert text.count("### part of") == 2 and len(together(other)) == 2, "another machine, other faults"


def test_each_benchmark_has_its_place_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in REPORTS:
        assert f"<!-- {name}: begin -->\nfigures of {name}\n<!-- {name}: end -->" in put(page, name, f"figures of {name}")


def test_other_benchmarks_are_no_parts(tmp_path: Path) -> None:
    side, small, scale, part = (tmp_path / f"bench-{name}.json" for name in ("members", "members-4", "scale", "scale-ack"))
    for path in (small, scale, part, tmp_path / "bench.json", tmp_path / "bench-part.json"):
        path.touch()
    assert parts(side) == [small] and parts(scale) == [part, scale]
    chaos, deaths, spark, of_spark = (tmp_path / f"chaos{name}.json" for name in ("", "-deaths", "-spark", "-spark-plain-jvm"))
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
