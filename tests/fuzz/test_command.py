"""The command: what it lists, refuses and says where there is no atheris."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz import finding, running
from tests.fuzz.known import KnownFinding
from tests.fuzz.parsers import all_harnesses
from tests.packages.tools import MissingToolError


def test_it_lists_parsers_and_what_they_cover(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert "zkcoord.guardian.handover:parse" in said
    assert len(said.splitlines()) == len(all_harnesses())


@pytest.mark.parametrize("given", [["--parser", "nobody"], ["--inputs", "0"], ["--seconds", "-1"]])
def test_what_it_refuses(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(given) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_atheris_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> Path:
        raise MissingToolError(f"no {name}\nfor this Python")

    monkeypatch.setattr(command, "tools", missing)
    assert command.main(["--inputs", "5"]) == 4
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "atheris" in said and "nothing is fuzzed" in said


def test_what_a_fuzzer_tells_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A known finding is counted, a new one is kept, as small as can be."""
    monkeypatch.setattr(finding, "FOUND", tmp_path / "found")
    monkeypatch.setattr(running, "ROOT", tmp_path)
    known = KnownFinding("handover/some.bin", "IndexError in y (*)", "for a test")
    monkeypatch.setattr(finding, "KNOWN", (known,))
    harness = all_harnesses()["handover"]
    told = [
        {"signature": "IndexError in y (z)", "input": b"watch".hex(), "trace": "t"},
        {"signature": "KeyError in x", "input": b"stop".hex(), "trace": "a trace"},
    ]
    findings = tmp_path / "findings"
    findings.write_text("".join(json.dumps(one) + "\n" for one in told))
    run = running.ParserRun("handover", 5)
    running.judge(run, harness, findings)
    assert run.known == [told[0]["signature"]]
    assert [path.read_bytes() for path in run.files] == [b"stop"]
    assert "KeyError in x" in capsys.readouterr().out
    assert "1 new, 1 known" in run.row()


def test_what_a_process_died_of_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "FOUND", tmp_path / "found")
    (tmp_path / f"crash-{'ab' * 20}").write_bytes(b"x")
    (path,) = running.kept_as_it_is("p", tmp_path)
    assert path.read_bytes() == b"x" and path.parent == tmp_path / "found" / "p"
    assert not list(running.kept_as_it_is("p", tmp_path))


def test_what_is_said_at_the_end_of_a_run_is_read() -> None:
    said = "#1000\tDONE   cov: 57 ft: 93 corp: 5/9b\nstat::average_exec_per_sec:     250\n"
    found = running.LINE.search(said)
    assert found is not None and found.groups() == ("1000", "57", "93")
    speed = running.SPEED.search(said)
    assert speed is not None and speed[1] == "250"


def test_words_are_written_as_a_dictionary_has_them() -> None:
    assert running.escaped(b'a"\\\n\xff') == "a\\x22\\x5c\\x0a\\xff"
