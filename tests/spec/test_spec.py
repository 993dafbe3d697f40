"""The specification, as far as seconds go; the rest is `make spec`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spec import tlc
from tests.spec.__main__ import MISSING, main, removed_text
from tests.spec.configurations import REMOVED
from tests.spec.tlc import SPEC, check, promising, setting
from tests.spec.traces import record
from zkcoord.errors import StackError

HERE = Path(__file__).parents[2]
# TLC takes a second where the processors are free
pytestmark = pytest.mark.timeout(900)


@pytest.mark.usefixtures("model_checker")
def test_a_small_world_holds_and_all_of_it_was_seen() -> None:
    said = check("Coordination", (SPEC / "live-elections.cfg").read_text())
    assert (said.failure, said.broken) == ("", "") and said.distinct > 100
    assert "0 states left on queue" in said.text


@pytest.mark.usefixtures("model_checker")
@pytest.mark.parametrize("rule", ("EpochFence", "AckChecksRegistration", "LeavesOwnSeat"))
def test_a_rule_is_needed(rule: str) -> None:
    removed = next(one for one in REMOVED if one.rule == rule)
    said = check(removed.module, removed_text(removed))
    assert said.failure == "" and said.broken in (removed.breaks, "Temporal properties")
    assert len(said.steps) > 3
    assert check(removed.module, removed_text(removed, True)).broken == ""


@pytest.mark.usefixtures("model_checker")
def test_what_tlc_cannot_read_is_no_answer() -> None:
    said = check("Coordination", "SPECIFICATION NoSuchThing\n")
    assert said.failure and not said.broken


def test_a_constant_that_a_configuration_does_not_set_is_noticed() -> None:
    text = (SPEC / "none.cfg").read_text()
    assert "EpochFence = FALSE" in setting(text, {"EpochFence": "FALSE"})
    with pytest.raises(AssertionError, match="NoSuchRule"):
        setting(text, {"NoSuchRule": "FALSE"})


def test_what_is_live_is_checked_without_symmetry() -> None:
    text = promising((SPEC / "none.cfg").read_text(), (), ("I8",))
    assert "SYMMETRY" not in text and "FairSpec" in text and "PROPERTY I8" in text
    assert "INVARIANT" not in text


def test_a_jar_with_other_bytes_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCOORD_CACHE", str(tmp_path))
    jar = tmp_path / "tla" / f"tla2tools-{tlc.JAR_SHA256[:12]}.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"another jar")
    with pytest.raises(StackError, match="other bytes"):
        tlc.tla_jar()


def test_without_java_it_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing() -> None:
        raise StackError("Java 17 or newer is needed: install one.")

    monkeypatch.setattr("tests.spec.__main__.java_for_tlc", nothing)
    assert main(["--only", "small"]) == MISSING
    assert capsys.readouterr().err == "Java 17 or newer is needed: install one.\n"


def test_help_has_examples_and_a_wrong_name_is_refused() -> None:
    command = [sys.executable, "-m", "tests.spec"]
    shown = subprocess.run([*command, "--help"], cwd=HERE, capture_output=True, text=True)
    assert shown.returncode == 0 and "--only EpochFence" in shown.stdout
    wrong = subprocess.run([*command, "--only", "x"], cwd=HERE, capture_output=True, text=True)
    assert wrong.returncode == 2 and "there is no x" in wrong.stderr


def test_a_run_of_the_simulator_is_recorded_as_events_that_the_specification_has() -> None:
    steps = (SPEC / "Traces.tla").read_text()
    for one in record(1, "default"):
        assert len(one.events) > 5
        for event in one.events:
            assert f"e.do = {event.split('|-> ')[1].split(',')[0].rstrip(']')} ->" in steps
