"""Inputs of the core recorded and replayed: limits, crashes, other versions, and a real coordinator
that is killed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.core import script as core_script
from tests.harness.command import PATIENCE_S, Running
from tests.harness.tape import begun
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, rigged
from tests.replay.incidents import of_seed, of_transcript, written
from zkcoord.cli.main import main
from zkcoord.config.settings import InputsOptions, JournalOptions
from zkcoord.coordinator import input_recorder as inputs_module
from zkcoord.coordinator.input_recorder import InputLog, input_files
from zkcoord.coordinator.journal import Journal, Reading
from zkcoord.core import events as ev
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.group.view import GroupView
from zkcoord.core.options import CoordinatorOptions
from zkcoord.replay.replay import Recording, Replay
from zkcoord.replay.transcript import script

BIG = 1 << 30
OPTIONS = CoordinatorOptions(debounce_ms=7)


def log_into(folder: Path, bytes_max: int = BIG, terms_max: int = 100) -> tuple[InputLog, Journal]:
    journal = Journal(JournalOptions(folder, BIG, 100))
    return InputLog(InputsOptions(folder, bytes_max, terms_max), journal), journal


def term(log: InputLog, epoch: int, ticks: int) -> None:
    core = Coordinator(OPTIONS)
    for event in (ev.Elected(100, epoch), ev.Ready(100), *(ev.Tick(100 + n) for n in range(ticks))):
        log.step(OPTIONS, event, core.step(event))


def stopped(folder: Path) -> list[dict[str, Any]]:
    return [record for record in Reading().records(folder) if record["kind"] == "inputs"]


def test_what_is_recorded_replays_to_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, journal = log_into(tmp_path)
    term(log, 7, 2_000)
    log.ended("stopped")
    term(log, 8, 3)
    journal.close()
    seven, eight = (Recording(str(path), path) for path in input_files(tmp_path))
    assert (seven.epoch, seven.options, eight.epoch) == (7, OPTIONS, 8)
    verdict = Replay(seven).run()
    assert (verdict.inputs, verdict.difference, verdict.complete, verdict.end) == (
        2_002,
        None,
        True,
        "the term ended: stopped",
    )
    verdict = Replay(eight).run()
    assert (verdict.inputs, verdict.complete) == (5, False) and "no end" in verdict.end
    assert main(["replay", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out == "2007 inputs, 0 writes in 2 terms: identical\n"


def test_nothing_is_recorded_before_an_election_or_after_the_end(tmp_path: Path) -> None:
    log, journal = log_into(tmp_path)
    log.step(OPTIONS, ev.Tick(1), [])
    log.ended("there was none")
    term(log, 7, 1)
    log.ended("stopped")
    log.step(OPTIONS, ev.Tick(9), [])
    journal.close()
    (path,) = input_files(tmp_path)
    assert len(path.read_bytes().splitlines()) == 5


def test_the_limit_of_a_term_ends_its_recording_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, journal = log_into(tmp_path, bytes_max=4_096)
    term(log, 7, 500)
    term(log, 8, 1)
    journal.close()
    seven, eight = input_files(tmp_path)
    assert 3_900 < seven.stat().st_size < 4_300
    assert main(["replay", str(seven)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "the recording stopped: the limit of 4096 bytes" in out[-2] and out[-1].endswith(
        "identical"
    )
    assert Replay(Recording("8", eight)).run().inputs == 3, "the next term is recorded"
    (record,) = stopped(tmp_path)
    assert record["epoch"] == 7 and "journal_inputs_bytes_max" in record["reason"]


def test_a_full_disk_ends_the_recording_of_the_term_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path, epoch: int, header: bytes) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    log, journal = log_into(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(inputs_module, "_create", full)
        term(log, 7, 1)
        wait_until(lambda: stopped(tmp_path), PATIENCE_S, "the record that says so")
    term(log, 8, 1)
    journal.close()
    (path,) = input_files(tmp_path)
    assert Replay(Recording("8", path)).run().inputs == 3
    assert "No space left" in stopped(tmp_path)[0]["reason"]


def test_a_disk_that_is_full_for_a_moment_costs_the_term_and_not_the_next_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, journal = log_into(tmp_path)
    real, submit = inputs_module.step_line, journal.submit

    def failing(event: ev.Event, actions: Any) -> bytes:
        if log._epoch == 7 and isinstance(event, ev.Tick):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(event, actions)

    monkeypatch.setattr(inputs_module, "step_line", failing)
    monkeypatch.setattr(journal, "submit", lambda job: True)
    term(log, 7, 2)
    log.ended("stopped")
    term(log, 8, 1)
    assert submit(log._drain), "one batch"
    journal.close()
    seven, eight = input_files(tmp_path)
    assert Replay(Recording("8", eight)).run().inputs == 3
    assert "No space left" in Replay(Recording("7", seven)).run().end
    assert [record["epoch"] for record in stopped(tmp_path)] == [7]


def test_terms_on_a_full_disk_push_no_recording_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file can be made where nothing can be written: an empty one is no recording."""
    log, journal = log_into(tmp_path, terms_max=2)
    term(log, 1, 1)
    term(log, 2, 1)
    wait_until(lambda: log._epoch == 2 and not log._under_way, PATIENCE_S, "two recordings")
    real = open

    def full(*args: Any, **options: Any) -> Any:
        real(*args, **options).close()
        return real("/dev/full", "wb")

    monkeypatch.setattr(inputs_module, "open", full, raising=False)
    for epoch in (3, 4, 5):
        term(log, epoch, 1)
        wait_until(
            lambda: [record["epoch"] for record in stopped(tmp_path)][-1:] == [epoch],
            PATIENCE_S,
            "the record that says so",
        )
    monkeypatch.setattr(inputs_module, "open", real)
    term(log, 6, 1)
    journal.close()
    assert [path.name for path in input_files(tmp_path)] == ["inputs-2.jsonl", "inputs-6.jsonl"]


def test_a_writer_that_does_not_keep_up_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs_module, "STEPS_WAITING_MAX", 10)
    log, journal = log_into(tmp_path)
    real = journal.submit
    monkeypatch.setattr(journal, "submit", lambda job: True)
    term(log, 7, 20)
    assert len(log._waiting) == 11, "nothing is kept after the recording has ended"
    monkeypatch.setattr(journal, "submit", real)
    assert journal.submit(log._drain)
    journal.close()
    (path,) = input_files(tmp_path)
    verdict = Replay(Recording("7", path)).run()
    assert verdict.inputs == 9 and "10 inputs wait" in verdict.end
    assert "wait to be written" in stopped(tmp_path)[0]["reason"]


def test_an_epoch_twice_and_the_oldest_terms_go(tmp_path: Path) -> None:
    log, journal = log_into(tmp_path, terms_max=3)
    for number, epoch in enumerate((3, 3, 4, 5)):
        term(log, epoch, 1)
        log.ended("stopped")
        wait_until(lambda: log._file is None and not log._waiting, PATIENCE_S, "the term's file")
        for path in input_files(tmp_path):
            if path.stat().st_mtime > 1_000_000:
                # so that their order does not hang on the clock's grain
                os.utime(path, (number, number))
    journal.close()
    assert [path.name for path in input_files(tmp_path)] == [
        "inputs-3.1.jsonl",
        "inputs-4.jsonl",
        "inputs-5.jsonl",
    ]


def test_a_file_that_another_process_deletes_meanwhile_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "inputs-1.jsonl").symlink_to(tmp_path / "gone")
    written(tmp_path, of_transcript("fenced"))
    assert [path.name for path in input_files(tmp_path)] == ["inputs-7.jsonl"]


def test_the_story_names_decisions_and_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, of_transcript("join_and_leave"))
    assert main(["replay", str(path)]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[-1].endswith(" writes: identical")
    joined = next(n for n, line in enumerate(lines) if ": start " in line)
    assert (
        "partition" in lines[joined]
        and "joined" in lines[joined + 1]
        and lines[joined + 1].strip().startswith("because")
    )
    assert any("acked stop-fetcher #" in line for line in lines) and any(
        "left" in line for line in lines
    )
    assert main(["replay", str(path), "--json"]) == 0
    *decisions, verdict = map(json.loads, capsys.readouterr().out.splitlines())
    assert verdict["identical"] is True and {
        "ms",
        "group",
        "decided",
        "because",
        "line",
        "epoch",
    } == set(decisions[0])
    assert main(["replay", str(path), "--group", "nobody"]) == 1
    said = capsys.readouterr()
    assert not said.out and "has nothing about the group nobody: it tells of g" in said.err


@pytest.mark.parametrize(
    "name",
    [
        "eviction",
        "wildcard",
        "malformed",
        "fenced",
        "unknown_outcome",
        "partitions_grow_topic_appears_and_goes",
        "no_common_assignor",
    ],
)
def test_every_transcript_is_a_story(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(written(tmp_path, of_transcript(name)))]) == 0
    out = capsys.readouterr().out
    assert "identical" in out and "because" in out
    words = {
        "eviction": "evict ",
        "wildcard": "matches",
        "malformed": "malformed",
        "fenced": "resign",
        "unknown_outcome": "unknown",
        "no_common_assignor": "reject ",
    }
    assert words.get(name, "topic") in out


def test_decisions_of_a_time_and_the_whole_term_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(written(tmp_path, of_transcript("join_and_leave")))

    def told(*arguments: str) -> list[dict[str, Any]]:
        assert main(["replay", path, "--json", *arguments]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    *decisions, verdict = told()
    times = [one["ms"] for one in decisions]
    distinct = sorted(set(times))
    begin, end = distinct[1], distinct[-2]
    assert begin < end, "there is something to leave out at both ends"
    window = ["--from", stamp(begin), "--until", stamp(end)]
    *found, of_window = told(*window)
    assert [one["ms"] for one in found] == [ms for ms in times if begin <= ms <= end]
    assert of_window == verdict, "what is compared is all of it"
    assert main(["replay", path, *window]) == 0
    out = capsys.readouterr().out
    assert f"the decisions from {stamp(begin)} until {stamp(end)}, in ms" in out
    assert main(["replay", path, "--from", "2026-01-31", "--group", "g"]) == 0
    out = capsys.readouterr().out
    assert "none  of its decisions is among the decisions for g from 2026-01-31" in out


def stamp(ms: int) -> str:
    """As `--from` takes it; a transcript's term begins in 1970."""
    return f"1970-01-01T00:{ms // 60_000:02}:{ms // 1000 % 60:02}.{ms % 1000:03}Z"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--from", "2026-01-31T10:15:00Z", "--until", "2026-01-31T10:14:00Z"], "exchange"),
        (["--from", "2026-01-31", "--with", "debounce_ms=0"], "leave one of them out"),
        (["--until", "2026-01-31", "--to-script", "out.txt"], "leave one of them out"),
        (["--from", "yesterday"], "--from is 'yesterday'"),
    ],
)
def test_times_that_show_nothing_are_refused(
    arguments: list[str],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, of_transcript("join_and_leave"))
    assert main(["replay", str(path), *arguments]) == 2
    said = capsys.readouterr()
    assert word in said.err and said.err.count("\n") == 1 and said.out == ""
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("operator_pauses", ["because ann paused it", "bob resumed it", "its mode was deleted"]),
        ("operator_evicts", [" asked to have "]),
        ("operator_request", [" asked to have it rebalanced"]),
    ],
)
def test_what_an_operator_wants_is_a_reason(
    name: str, reasons: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(written(tmp_path, of_transcript(name)))]) == 0
    out = capsys.readouterr().out
    assert [one for one in reasons if one not in out] == [], out


def test_a_core_that_decides_otherwise_is_seen_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, of_transcript("join_and_leave"))
    monkeypatch.setattr(GroupView, "current_owners", lambda self: {})  # stickiness forgets
    assert main(["replay", str(path)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-1].endswith(": different")
    assert any(line.startswith("  recorded: ") for line in out) and any(
        line.startswith("  now: ") for line in out
    )
    assert main(["replay", str(path), "--json"]) == 1
    *_, difference, verdict = map(json.loads, capsys.readouterr().out.splitlines())
    assert difference["recorded"] != difference["now"] and verdict["identical"] is False


def test_what_reports_did_not_have_yet_is_no_difference(tmp_path: Path) -> None:
    """A recording of an earlier release replays to the same; another decision is one all the same,
    and a report that says otherwise what it did have.
    """
    lines = of_transcript("join_and_leave")
    configuration = re.compile(rb'"configuration":\{[^{}]*\},?')
    earlier = [configuration.sub(b"", line) for line in lines]
    assert earlier != lines
    assert Replay(Recording("earlier", earlier)).run().difference is None
    for before, after in ((b'"generation":1', b'"generation":9'), (b"sticky", b"range")):
        at = next(n for n, line in enumerate(earlier) if n and before in line)
        changed = [*earlier[:at], earlier[at].replace(before, after), *earlier[at + 1 :]]
        assert Replay(Recording("changed", changed)).run().difference is not None
    window = b'"debounce_ms":%d'
    ours = CoordinatorOptions().debounce_ms
    other = [line.replace(window % ours, window % (ours + 1)) for line in lines[1:]]
    assert Replay(Recording("other", [lines[0], *other])).run().difference is not None


def test_what_records_did_not_have_yet_is_no_difference() -> None:
    """Who owns what after a rebalance, and its steps, are newer than rebalances are recorded."""
    lines = of_transcript("join_and_leave")
    newer = re.compile(rb'"decided_ms":\d+,|"steps":\[[^]]*\],|"owned":\{(?:[^{}]|\{[^{}]*\})*\},')
    earlier = [newer.sub(b"", line) for line in lines]
    assert earlier != lines and b'"steps"' not in b"".join(earlier)
    assert Replay(Recording("earlier", earlier)).run().difference is None
    at = next(n for n, line in enumerate(earlier) if b'"moved":' in line)
    changed = [
        *earlier[:at],
        re.sub(rb'"moved":\d+', b'"moved":77', earlier[at]),
        *earlier[at + 1 :],
    ]
    assert Replay(Recording("changed", changed)).run().difference is not None


def test_what_commands_did_not_have_yet_is_no_difference() -> None:
    """A release that knows the word leaves it out where it is false: there it is one."""
    lines = of_transcript("a_slow_member_delays_only_its_partitions")
    without = [line.replace(b',"more":true', b"") for line in lines]
    first = json.loads(lines[0])
    assert first.pop("knows") == ["more"] and without != lines
    earlier = [json.dumps(first).encode() + b"\n", *without[1:]]
    assert Replay(Recording("earlier", earlier)).run().difference is None
    assert Replay(Recording("later", without)).run().difference is not None


def test_an_action_of_another_version_is_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = of_transcript("join_and_leave")
    step = json.loads(lines[1])
    step["actions"] = [{"Novelty": {}}]
    lines[1] = json.dumps(step).encode() + b"\n"
    assert main(["replay", str(written(tmp_path, lines))]) == 1
    assert "Novelty" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [], "names no version"),
        (lambda lines: [b'{"t":1,"kind":"term"}\n'], "names no version"),
        (
            lambda lines: [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]],
            "names no version 1",
        ),
        (
            lambda lines: [lines[0].replace(b'"debounce_ms"', b'"patience_ms"'), *lines[1:]],
            "another version",
        ),
        (
            lambda lines: [lines[0], lines[1].replace(b"Elected", b"Chosen"), *lines[2:]],
            "another version",
        ),
        (lambda lines: [lines[0], b"\x00\xff\n", *lines[1:]], "line 2"),
        (lambda lines: [lines[0], b"[]\n"], "line 2"),
        (lambda lines: [lines[0], b"{}\n"], "line 2"),
        (lambda lines: [lines[0], b"[" * 100_000 + b"\n"], "line 2"),
    ],
)
def test_what_is_no_recording_is_refused_in_one_sentence(
    change: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "-q", str(written(tmp_path, change(of_transcript("fenced"))))]) == 1
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1 and err.startswith("zkcoord replay: ")


def test_a_recording_that_was_changed_is_refused_by_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each value is of its type, and no coordinator is ever told it: the core checks it no more."""
    lines = of_transcript("shared_group")
    changed = [line.replace(b"legacy-roundrobin-0.8", b"somebodys") for line in lines]
    assert changed != lines
    assert main(["replay", "-q", str(written(tmp_path, changed))]) == 1
    err = capsys.readouterr().err
    assert (
        "is nothing that a coordinator is told or says (KeyError)" in err and err.count("\n") == 1
    )


def test_without_a_path_it_is_the_journals_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, of_transcript("fenced"))
    monkeypatch.setenv("ZKCOORD_JOURNAL_DIR", str(tmp_path))
    assert main(["replay", "-q"]) == 0 and capsys.readouterr().out.endswith(": identical\n")
    monkeypatch.setenv("ZKCOORD_JOURNAL_DIR", str(tmp_path / "none"))
    assert main(["replay", "-q"]) == 1 and "cannot be read" in capsys.readouterr().err


def test_a_folder_without_inputs_and_no_file_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, said in ((tmp_path, "--journal-inputs"), (tmp_path / "none", "cannot be read")):
        assert main(["replay", str(path)]) == 1
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1


def test_a_recording_cut_anywhere_replays_up_to_there(tmp_path: Path) -> None:
    data = b"".join(of_transcript("eviction")[:-1])
    head = data.index(b"\n") + 1
    whole = data.count(b"\n") - 1
    for cut in {head, head + 1, len(data) - 1, len(data), *range(head, len(data), 97)}:
        path = tmp_path / "inputs-7.jsonl"
        path.write_bytes(data[:cut])
        verdict = Replay(Recording("cut", path)).run()
        assert (
            verdict.difference is None
            and not verdict.complete
            and verdict.inputs == data[head:cut].count(b"\n") <= whole
        )


def test_runs_of_the_simulator_replay_from_their_text() -> None:
    terms = of_seed(3)
    verdicts = [Replay(recording).run() for recording in terms]
    assert sum(verdict.writes for verdict in verdicts) > 10
    assert all(verdict.difference is None and verdict.complete for verdict in verdicts)


def test_a_real_coordinator_killed_in_the_middle_replays_up_to_there(
    tmp_path: Path, zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        rigged(zk_hosts) as rig,
        Running(
            tmp_path,
            "--zookeeper",
            zk_hosts,
            "--debounce-ms",
            "20",
            "--session-timeout-ms",
            "40000",
        ) as process,
    ):
        process.ready("leading")
        partitions = rig.topic("t", 6)
        members = [rig.member(f"m{n}", "t") for n in range(3)]
        for m in members:
            m.wait(lambda m=m: len(m.fetching()) == 2, "a third of the topic")  # type: ignore[misc]
        members[0].leave()
        members[1].wait(
            lambda: sorted(tp for m in members[1:] for tp in m.fetching()) == list(partitions),
            "the rest to take over",
        )
        wait_until(
            lambda: _taken_over(process.journal, members[0].member, len(partitions)),
            PATIENCE_S,
            "the recording to be written",
        )
        assert process.signal(signal.SIGKILL) == -signal.SIGKILL
    (path,) = input_files(process.journal)
    recording = Recording("real", path)
    assert recording.options.debounce_ms == 20
    data = path.read_bytes()
    # and half a line, as a crash in the middle of a write leaves it
    path.write_bytes(data[: data.rindex(b"\n", 0, len(data) - 1) + 40])
    assert main(["replay", str(process.journal), "--group", GROUP]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "the last line has no end" in out[-2] and out[-1].endswith(": identical")
    out_path = tmp_path / "incident.txt"
    assert main(["replay", str(path), "--group", GROUP, "--to-script", str(out_path)]) == 0
    transcript = out_path.read_text()
    assert core_script.replay(transcript) == transcript and transcript.count("start-fetcher") >= 4
    said = "\n".join(out)
    assert (
        said.count("start g_m") >= 4
        and said.count(" joined") >= 3
        and " left" in said
        and " acked start-fetcher #" in said
    )


def test_an_incident_of_the_simulator_becomes_a_transcript(tmp_path: Path) -> None:
    checked = 0
    for recording in [*of_seed(11), *of_seed(12)]:
        text = script(recording, None)
        assert core_script.replay(text) == text
        for group in sorted(
            {
                step.event.group
                for step in recording.steps()
                if isinstance(step.event, ev.GroupChanged)
            }
        ):
            alone = script(recording, group)
            assert core_script.replay(alone) == alone
            checked += alone.count("start-fetcher")
    assert checked


def test_a_transcript_of_one_group_has_the_numbers_that_others_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, of_transcript("fairness"))
    out = tmp_path / "one.txt"
    assert main(["replay", str(path), "--group", "one", "--to-script", str(out)]) == 0
    text = out.read_text()
    assert "numbers 1 1\n" in text and "two" not in text and core_script.replay(text) == text
    assert main(["replay", str(path), "--group", "three", "--to-script", str(out)]) == 1
    err = capsys.readouterr().err
    assert (
        "three depends on other groups" in err and err.count("\n") == 1 and out.read_text() == text
    ), "it waited for a slot of others, so it cannot be told alone"


def test_a_transcript_is_of_one_recording_that_replays_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, of_transcript("join_and_leave"))
    out = tmp_path / "out.txt"
    assert main(["replay", str(path), "--group", "nobody", "--to-script", str(out)]) == 1
    assert not out.exists() and "nothing about the group nobody" in capsys.readouterr().err
    assert main(["replay", str(path), "--to-script", str(tmp_path / "no" / "folder")]) == 2
    with monkeypatch.context() as patched:
        patched.setattr(GroupView, "current_owners", lambda self: {})
        assert main(["replay", str(path), "--to-script", str(out)]) == 1
    written(tmp_path, of_transcript("eviction"), "inputs-8.jsonl")
    assert main(["replay", str(tmp_path), "--to-script", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def _taken_over(folder: Path, name: str, partitions: int) -> bool:
    """Is it recorded that this member was there and is gone, and that others own everything?"""
    there, group = False, None
    for recording in begun(folder):
        replay = Replay(recording)
        for _ in replay.steps():
            group = replay.core.groups.get(GROUP)
            there = there or (group is not None and name in group.view.members)
    return (
        there
        and group is not None
        and name not in group.view.members
        and len(group.view.current_owners()) == partitions
    )
