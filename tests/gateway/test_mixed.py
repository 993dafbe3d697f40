"""The mixed group (`tests.gateway.mixed`): which steps are drawn, what clients of other languages
say as facts, whether forged reports are found out, and whole runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.demo.faults import each_fault
from tests.gateway.mixed import command
from tests.gateway.mixed.again import again
from tests.gateway.mixed.plan import FLOOR, GROUP, Act, drawn, first
from tests.gateway.mixed.told import events
from zkcoord.demo.processes import environment
from zkcoord.verdict.engine import Unreadable, facts_in, judge_folder
from zkcoord.verdict.outcome import Verdict
from zkcoord.verdict.rules import Rule

RUN_TIMEOUT_S = 3_000.0
STEPS = 60
S = 1_000_000_000
Lines = list[dict[str, Any]]


def test_steps_are_the_same_for_a_seed_and_keep_between_floor_and_ceiling() -> None:
    assert drawn(7, 200, GROUP) == drawn(7, 200, GROUP) != drawn(8, 200, GROUP)
    live, gone = first(GROUP), set[str]()
    seen = Counter[Act]()
    for step in drawn(7, 2_000, GROUP):
        seen[step.act] += 1
        if step.act is Act.JOIN:
            assert step.name not in gone, "nobody has the name of one who is gone"
            live.append(step.name)
        else:
            live.remove(step.name)
            gone.add(step.name)
        assert FLOOR <= len(live) <= sum(GROUP.values())
        assert not Counter(name[0] for name in live) - Counter(GROUP)
    assert min(seen.values()) > 300


def told(*lines: str) -> Lines:
    """What follows from lines of a client, whose clock is 100 ns behind."""
    return [event for line in lines for event in events("t", line, 100)]


def test_lines_of_a_client_become_those_of_the_others() -> None:
    assert told(
        "1 ready ", "2 joins ", "3 assigned 0,4", "4 records 4", "5 took 4,10,12", "6 stored 4,13",
        "7 assigned ", "8 revoked 0", "9 lost 4", "10 committed ", "11 closes ", "12 closed ",
    ) == [
        {"event": "registered", "t": 102, "name": ""},
        {"event": "assigned", "t": 103, "offsets": {"t-0": None, "t-4": None}},
        {"event": "records", "t": 105, "ranges": {"t-4": [[10, 12, 3, 0]]}, "count": 3},
        {"event": "committed", "t": 106, "offsets": {"t-4": 13}},
        {"event": "revoked", "t": 108, "positions": {"t-0": -1}},
        {"event": "lost", "t": 109, "partitions": ["t-4"], "reason": "it says so"},
        {"event": "closing", "t": 111},
    ]  # fmt: skip
    with pytest.raises(ValueError, match="invalid literal"):
        told("Exception in thread main")


def records(t: int, first: int, last: int) -> dict[str, Any]:
    """So many records of the only partition."""
    return {"event": "records", "t": t * S, "ranges": {"t-0": [[first, last, last - first + 1, 0]]}}


def reports(folder: Path, one: Lines, other: Lines, scenario: Lines) -> Verdict:
    """The verdict over a kafkajs client and another one, of which twenty records are expected."""
    produced = {"event": "produced", "t": 9 * S, "ends": {"t-0": 20}}
    for name, lines in (
        ("consumers/k1", one),
        ("consumers/j1", other),
        ("producers/producer", [produced]),
        ("scenario/steps", scenario),
    ):
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return judge_folder(folder)


ASSIGNED: dict[str, Any] = {"event": "assigned", "t": 1 * S, "offsets": {"t-0": None}}
COMMITTED: dict[str, Any] = {"event": "committed", "t": 3 * S, "offsets": {"t-0": 8}}
REVOKED: dict[str, Any] = {"event": "revoked", "t": 4 * S, "positions": {"t-0": -1}}
TAKES_OVER: dict[str, Any] = {"event": "assigned", "t": 5 * S, "offsets": {"t-0": 8}}
LEFT: dict[str, Any] = {"event": "exit", "t": 4 * S, "process": "k1", "killed": False}
KILLED = {**LEFT, "killed": True}
TEN = [ASSIGNED, records(2, 0, 9)]


def test_a_clean_leave_is_clean(tmp_path: Path) -> None:
    other = [{**TAKES_OVER, "offsets": {"t-0": 10}}, records(6, 10, 19)]
    stored = {"event": "committed", "t": 3 * S, "offsets": {"t-0": 10}}
    assert reports(tmp_path, [*TEN, stored, REVOKED], other, [LEFT]).clean
    found = again(facts_in(tmp_path, Unreadable()))
    assert not found.kills and not found.others and not found.losses


def test_a_record_that_nobody_was_handed_is_lost(tmp_path: Path) -> None:
    other = [{**TAKES_OVER, "offsets": {"t-0": 10}}, records(6, 12, 19)]
    verdict = reports(tmp_path, [*TEN, REVOKED], other, [LEFT])
    assert verdict.amount(Rule.LOST) == 2 and not verdict.clean


@pytest.mark.parametrize("how", [REVOKED, records(6, 10, 11)])
def test_two_who_own_a_partition_are_found(tmp_path: Path, how: dict[str, Any]) -> None:
    other = [{**TAKES_OVER, "t": 3 * S, "offsets": {"t-0": None}}, records(7, 12, 19)]
    verdict = reports(tmp_path, [*TEN, how], other, [{**LEFT, "t": 8 * S}])
    assert verdict.amount(Rule.OWNED_TWICE) == 1 and not verdict.clean


def test_records_again_after_a_clean_leave_are_duplicates(tmp_path: Path) -> None:
    verdict = reports(tmp_path, [*TEN, COMMITTED, REVOKED], [TAKES_OVER, records(6, 8, 19)], [LEFT])
    assert verdict.amount(Rule.DUPLICATED) == 2 and not verdict.clean
    found = again(facts_in(tmp_path, Unreadable()))
    assert found.others == {"k1": 2} and found.after_kills == 0
    assert "was killed: 2 (k1: 2)" in found.lines()[1]


def test_records_again_after_a_kill_are_his_and_no_more_than_he_had_not_committed(
    tmp_path: Path,
) -> None:
    other = [TAKES_OVER, records(6, 8, 19)]
    assert reports(tmp_path / "a", [*TEN, COMMITTED], other, [KILLED]).clean
    found = again(facts_in(tmp_path / "a", Unreadable()))
    assert found.kills == {"k1": 2} and not found.others
    assert "after 1 of 1 kills (k1: 2)" in found.lines()[0]
    more = [{**TAKES_OVER, "offsets": {"t-0": 5}}, records(6, 5, 19)]
    verdict = reports(tmp_path / "b", [*TEN, COMMITTED], more, [KILLED])
    assert verdict.amount(Rule.DUPLICATED) == 3 and verdict.amount(Rule.OFFSET_BACK) == 1


def test_what_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").touch()
    for words in (
        ["--dir", str(tmp_path)],
        ["--group", "jjj"],
        ["--group", "xy"],
        ["--group", "cc", "--break", "lost"],
    ):
        with pytest.raises(SystemExit) as ended:
            command.main(words)
        assert ended.value.code == 2 and capsys.readouterr().err


def test_a_toolchain_that_is_missing_is_named_and_its_client_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    group = command.group_of("rkfc")
    assert group.counts == {"r": 1, "c": 1} and not group.foreign
    assert [one.split(":")[0] for one in group.missing] == [
        "a kafkajs client was left out",
        "a franz-go client was left out",
    ]


def run(tmp_path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """A run to its end."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.gateway.mixed",
            *("--dir", str(tmp_path / "run"), "--reports", str(tmp_path / "reports"), *flags),
        ],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        env={**environment(), "PYTHONPATH": os.getcwd()},
        check=False,
    )


@pytest.mark.kafka
@pytest.mark.nightly
def test_sixty_steps_lose_nothing_and_repeat_nothing_but_after_kills(tmp_path: Path) -> None:
    """From another seed each night, which the output names."""
    ended = run(tmp_path, "--steps", str(STEPS))
    said = ended.stdout[-6_000:] + ended.stderr
    print(said)
    assert ended.returncode in (0, command.EXIT_MISSING), said
    assert "VERDICT: clean" in ended.stdout
    if ended.returncode == command.EXIT_MISSING:
        pytest.skip(f"clean, but {ended.stdout.splitlines()[-1]}")


@pytest.mark.kafka
@pytest.mark.nightly
@each_fault
def test_an_injected_fault_is_found(tmp_path: Path, fault: str, named: str) -> None:
    ended = run(tmp_path, "--steps", "0", "--group", "rrcc", "--break", fault)
    verdict = next(line for line in ended.stdout.splitlines() if line.startswith("VERDICT"))
    assert ended.returncode == 1, ended.stdout[-4_000:] + ended.stderr
    assert verdict.startswith("VERDICT: not clean") and named in verdict
