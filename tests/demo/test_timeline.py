"""The picture's data and the picture, of a small made-up run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.verdict.test_engine import clean_run, write
from zkcoord.demo import picture, summary, timeline
from zkcoord.demo.options import Break, DemoOptions
from zkcoord.demo.story import ScenarioJournal
from zkcoord.verdict.engine import judge_folder

S = 1_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with marks."""
    files = clean_run()
    files["scenario/steps.jsonl"].insert(1, {"event": "mark", "t": 3 * S, "label": "c2 joins"})
    files["scenario/steps.jsonl"].append({"event": "mark", "t": 6 * S, "label": "kill -9 c1"})
    return write(tmp_path / "run", files)


def test_intervals_and_marks(folder: Path) -> None:
    line = timeline.read(folder, judge_folder(folder).steps)
    found = sorted(
        (str(i.partition), i.member, i.start_ns / S, i.end_ns / S) for i in line.intervals
    )
    assert found == [
        ("t-0", "c1", 1.0, 6.0),
        ("t-0", "c2", 7.0, 10.0),
        ("t-1", "c1", 1.0, 3.0),
        ("t-1", "c2", 3.1, 10.0),
    ]
    assert [(mark.label, mark.took_ms) for mark in line.marks] == [
        ("c2 joins", 250.0),
        ("kill -9 c1", None),
    ]
    assert (
        line.records == 45
        and line.members == ["c1", "c2"]
        and (line.start_ns, line.end_ns) == (S, 10 * S)
    )


def test_neighbours_that_move_together_carry_one_name(folder: Path) -> None:
    line = timeline.read(folder, [])
    assert sorted(len(block) for block in picture.blocks(line)) == [1, 1, 1, 1]
    line.intervals = [i for i in line.intervals if i.member == "c1"]
    line.intervals = [timeline.Interval(i.partition, "c1", S, 3 * S) for i in line.intervals]
    assert [len(block) for block in picture.blocks(line)] == [2]


def test_the_picture_is_drawn(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "reports" / "demo.png"
    picture.draw(timeline.read(folder, judge_folder(folder).steps), path, "a subtitle")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_report_and_the_table(folder: Path, tmp_path: Path) -> None:
    verdict = judge_folder(folder)
    options = DemoOptions(tmp_path, tmp_path, fault=Break.LOST)
    path = tmp_path / "reports" / "demo.json"
    story = ScenarioJournal(tmp_path / "story.jsonl", lambda text: None)
    story.succession_ms = 51.0
    story.close()
    summary.write(path, summary.report(options, verdict, story, 12.3, "17"))
    found = json.loads(path.read_text())
    assert (
        found["clean"] is True
        and found["options"]["fault"] == "lost"
        and found["succession_ms"] == 51.0
    )
    assert found["step_ms"] == {"n": 1, "min": 250.0, "median": 250.0, "max": 250.0}
    assert found["records"] == {"produced": 40, "handed_out": 45, "again_after_kill": 5}
    assert {"zkcoord", "python", "kazoo", "kafka-python"} <= set(found["versions"])
    text = "\n".join(summary.table(verdict, story.measured()))
    assert (
        "join" in text
        and "250 ms" in text
        and "another coordinator leads after the kill" in text
        and "no command, no move" in text
        and "What is wrong" not in text
    )


def test_the_table_names_what_is_wrong(tmp_path: Path) -> None:
    files = clean_run()
    files["scenario/steps.jsonl"].pop()
    text = "\n".join(summary.table(judge_folder(write(tmp_path, files))))
    assert "t-0: owned twice: c2 began while c1 held it" in text
