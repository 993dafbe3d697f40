"""The engine: files merged by time, bad lines counted, steps measured, and the last line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zkcoord.verdict.engine import Unreadable, facts_in, judge_folder
from zkcoord.verdict.facts import PartitionAssigned
from zkcoord.verdict.rules import Rule

S = 1_000_000_000
Lines = list[dict[str, Any]]


def write(folder: Path, files: Mapping[str, Iterable[Mapping[str, Any]]]) -> Path:
    """Files of JSON lines."""
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def clean_run() -> dict[str, Lines]:
    """Two consumers, a hand-over of one partition, a kill."""
    return {
        "producers/producer.jsonl": [
            {"event": "produced", "t": 2 * S, "ends": {"t-0": 10, "t-1": 10}},
            {"event": "produced", "t": 9 * S, "ends": {"t-0": 20, "t-1": 20}},
            {"event": "stopped", "t": 9 * S},
        ],
        "consumers/c1.jsonl": [
            {"event": "assigned", "t": 1 * S, "offsets": {"t-0": 0, "t-1": 0}},
            {
                "event": "records",
                "t": 2 * S,
                "ranges": {"t-0": [[0, 9, 10, 1]], "t-1": [[0, 9, 10, 1]]},
            },
            {"event": "notice", "t": 3 * S, "kind": "command"},
            {"event": "revoked", "t": 3 * S, "positions": {"t-1": 10}},
            {"event": "committed", "t": 4 * S, "offsets": {"t-0": 10}},
            {"event": "records", "t": 5 * S, "ranges": {"t-0": [[10, 14, 5, 1]]}},
        ],
        "consumers/c2.jsonl": [
            {"event": "assigned", "t": int(3.1 * S), "offsets": {"t-1": 10}},
            {"event": "first_fetch", "t": int(3.25 * S), "partition": "t-1"},
            {"event": "assigned", "t": 7 * S, "offsets": {"t-0": 10}},
            {
                "event": "records",
                "t": 8 * S,
                "ranges": {"t-0": [[10, 19, 10, 1]], "t-1": [[10, 19, 10, 1]]},
            },
            {"event": "closing", "t": 10 * S},
        ],
        "scenario/steps.jsonl": [
            {"event": "step", "t": int(2.5 * S), "name": "join", "quiet": False},
            {"event": "balanced", "t": int(3.5 * S), "name": "join", "clock": 3 * S},
            {"event": "step", "t": 4 * S, "name": "kill the coordinator", "quiet": True},
            {"event": "balanced", "t": 5 * S, "name": "kill the coordinator", "clock": 4 * S},
            {"event": "exit", "t": 6 * S, "process": "c1", "killed": True},
        ],
        "coordinators/a/1-2.000001.jsonl": [
            {
                "t": 3_300,
                "kind": "rebalance",
                "cause": "member joined",
                "trigger": "c2",
                "duration_ms": 40,
                "moved": 1,
            }
        ],
    }


def test_a_clean_run(tmp_path: Path) -> None:
    verdict = judge_folder(write(tmp_path, clean_run()))
    assert verdict.sentence == "VERDICT: clean" and verdict.clean and verdict.unreadable == 0
    assert sum(report.excused for report in verdict.partitions) == 5
    assert [(step.name, step.took_ms, step.commands) for step in verdict.steps] == [
        ("join", 250.0, 1),
        ("kill the coordinator", None, 0),
    ]
    assert [rebalance.duration_ms for rebalance in verdict.rebalances] == [40]


def test_what_a_consumer_wrote_down_when_it_went_on_after_a_long_stop_is_in_order(
    tmp_path: Path,
) -> None:
    """It was stopped between a thing and its line, and another thread's came first."""
    handed_out = {"event": "records", "t": 5 * S, "ranges": {"t-0": [[10, 14, 5, 1]]}}
    lost = {"event": "lost", "t": 17 * S, "partitions": ["t-0"], "reason": "the session is over"}
    again = {"event": "assigned", "t": 20 * S, "offsets": {"t-1": 0}}
    folder = write(
        tmp_path,
        {
            "consumers/c1.jsonl": [
                {"event": "assigned", "t": S, "offsets": {"t-0": 10}},
                lost,
                again,
                handed_out,
            ],
            "consumers/c2.jsonl": [{"event": "assigned", "t": 7 * S, "offsets": {"t-0": 10}}],
        },
    )
    assert [fact.t_ns // S for fact in facts_in(folder, Unreadable())] == [1, 5, 7, 17, 20]


def test_lines_out_of_order_and_torn_lines_change_nothing(tmp_path: Path) -> None:
    files = clean_run()
    shuffled = random.Random(1)
    shuffled.shuffle(files["scenario/steps.jsonl"])
    one, two = files["consumers/c1.jsonl"][2], files["consumers/c1.jsonl"][3]
    files["consumers/c1.jsonl"][2:4] = [{**two, "t": two["t"]}, {**one, "t": one["t"] - 1000}]
    folder = write(tmp_path, files)
    with (folder / "consumers" / "c1.jsonl").open("a") as file:
        file.write('{"event": "records", "t": 5')
    verdict = judge_folder(folder)
    assert verdict.clean and verdict.unreadable == 0
    assert [step.took_ms for step in verdict.steps] == [250.0, None]


def test_lines_that_are_not_what_they_should_be_are_counted(tmp_path: Path) -> None:
    files = clean_run()
    files["consumers/c1.jsonl"] += [
        {"event": "assigned", "t": 3, "offsets": 5},
        {"no": "event"},
        {"event": "records", "t": 3, "ranges": {"t": [[1, 2]]}},
        {"event": "records", "t": 3, "ranges": {"t-0": [[1]]}},
    ]
    assert judge_folder(write(tmp_path, files)).unreadable == 4


def test_a_command_in_a_quiet_step_is_not_clean(tmp_path: Path) -> None:
    files = clean_run()
    files["consumers/c1.jsonl"].insert(5, {"event": "notice", "t": int(4.5 * S), "kind": "command"})
    verdict = judge_folder(write(tmp_path, files))
    assert (
        verdict.sentence
        == "VERDICT: not clean: 1 commands and 0 changes of ownership in the quiet step 'kill the"
        " coordinator'"
    )


def test_a_move_in_a_quiet_step_is_not_clean(tmp_path: Path) -> None:
    """Given up, taken, and its first records: three."""
    files = clean_run()
    files["consumers/c1.jsonl"].insert(
        5, {"event": "revoked", "t": int(4.5 * S), "positions": {"t-0": 10}}
    )
    files["consumers/c1.jsonl"].insert(
        6, {"event": "assigned", "t": int(4.6 * S), "offsets": {"t-0": 10}}
    )
    verdict = judge_folder(write(tmp_path, files))
    assert (
        verdict.sentence
        == "VERDICT: not clean: 0 commands and 3 changes of ownership in the quiet step 'kill the"
        " coordinator'"
    )


def test_a_kill_that_nobody_wrote_down_excuses_nothing(tmp_path: Path) -> None:
    files = clean_run()
    files["scenario/steps.jsonl"].pop()
    verdict = judge_folder(write(tmp_path, files))
    assert verdict.amount(Rule.DUPLICATED) == 5 and verdict.amount(Rule.OWNED_TWICE) == 1
    assert verdict.sentence == "VERDICT: not clean: 5 duplicated, 1 owned twice"
    assert [str(finding.partition) for finding in verdict.findings] == ["t-0", "t-0"]


def test_nothing_produced_is_not_clean(tmp_path: Path) -> None:
    assert judge_folder(tmp_path).sentence == "VERDICT: not clean: nothing was produced"


def test_a_failure_of_the_scenario_is_not_clean(tmp_path: Path) -> None:
    verdict = judge_folder(write(tmp_path, clean_run()))
    verdict.failures.append("waited 60 s in vain for a balanced group")
    assert verdict.sentence == "VERDICT: not clean: waited 60 s in vain for a balanced group"


def test_first_records_stand_for_a_first_fetch_that_is_not_told_of(tmp_path: Path) -> None:
    files = clean_run()
    files["consumers/c2.jsonl"][1] = {
        "event": "records",
        "t": int(3.3 * S),
        "ranges": {"t-1": [[10, 14, 5, 1]]},
    }
    files["consumers/c2.jsonl"][3]["ranges"]["t-1"] = [[15, 19, 5, 1]]
    verdict = judge_folder(write(tmp_path, files))
    assert verdict.clean and [step.took_ms for step in verdict.steps] == [300.0, None]


def test_a_file_that_is_alone_in_a_folder_is_of_whom_the_folder_is_named_after(
    tmp_path: Path,
) -> None:
    assigned = {"event": "assigned", "t": S, "offsets": {"t-0": 0}}
    folder = write(
        tmp_path,
        {
            f"consumers/{name}.jsonl": [assigned]
            for name in ("c1", "s1/spark-1", "s2/spark-2", "s2/spark-3")
        },
    )
    members = {
        fact.member
        for fact in facts_in(folder, Unreadable())
        if isinstance(fact, PartitionAssigned)
    }
    assert members == {"c1", "s1", "spark-2", "spark-3"}
