"""Which figures reach docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.tables import PAGE, REPORTS, gathered, keep, parts, put


def report(time: str, **sections: str) -> dict[str, Any]:
    """A report with sections (title -> a note)."""
    return {"time": time, "sections": [{"title": title, "notes": [note]} for title, note in sections.items()]}


def test_the_newest_report_of_a_section_counts_whichever_file_it_is_in() -> None:
    whole = report("2026-01-01T10:00:00Z", joins="old", crashes="old")
    part, before = report("2026-01-01T11:00:00Z", joins="new"), report("2026-01-01T09:00:00Z", crashes="older", storms="only one")
    for reports in ([whole, part, before], [part, before, whole]):
        assert [(section["title"], section["notes"][0], of["time"][11:13]) for section, of in gathered(reports)] == [("crashes", "old", "10"), ("storms", "only one", "09"), ("joins", "new", "11")]


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
