"""Why, and what if, for a rebalance's page: which recording is replayed, what of it is shown, and
what it may cost. (`tests/console/test_acting.py` has a real one.)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.console.pictures import ToldPages, rebalance
from zkcoord.console import replaying
from zkcoord.console.acting.running import BusyError, CommandResult
from zkcoord.console.pages import NotThereError
from zkcoord.console.replaying import Replayer

AT_MS = 1_795_000_000_000
EVIL = "<script>alert(1)</script>"


class Told:
    """A runner that says what a test has set."""

    def __init__(self, *results: CommandResult | Exception) -> None:
        self.results = list(results)
        self.ran: list[list[str]] = []

    def run(self, arguments: list[str], who: str) -> CommandResult:
        self.ran.append(arguments)
        found = self.results.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def recording(folder: Path, epoch: int, began_ms: object) -> Path:
    path = folder / f"inputs-{epoch}.jsonl"
    path.write_text(json.dumps({"version": 1, "epoch": epoch, "t": began_ms}) + "\n{}\n")
    return path


def told(folder: Path, *results: CommandResult | Exception) -> tuple[Replayer, Told]:
    found, runner = Replayer([folder, folder / "none"], {}), Told(*results)
    fake: Any = runner
    found._runner = fake
    return found, runner


def said(**more: object) -> str:
    line = {"epoch": 7, "ms": 100, "group": "billing", "decided": ["stop m1"]}
    return json.dumps({**line, "because": [{"ms_before": 5, "what": "m2 joined"}], **more}) + "\n"


def test_the_newest_term_that_had_begun_is_replayed(tmp_path: Path) -> None:
    recording(tmp_path, 6, AT_MS - 9_000)
    path = recording(tmp_path, 7, AT_MS - 5_000)
    recording(tmp_path, 8, AT_MS + 1)
    recording(tmp_path, 9, "soon")
    (tmp_path / "inputs-10.jsonl").write_bytes(b"\xff\n")
    replayer, runner = told(tmp_path, CommandResult(0, said()))
    found = replayer.why("billing", rebalance(AT_MS, duration_ms=400))
    (ran,) = runner.ran
    assert ran[:2] == ["replay", "--group=billing"] and ran[-2:] == ["--", str(path)]
    assert ran[2:4] == ["--from=2026-11-18T11:06:37.600Z", "--until=2026-11-18T11:06:41.000Z"]
    (step,) = found.steps
    assert step.at_ms == AT_MS - 4_900 and step.decided == ["stop m1"]
    assert step.because == ["m2 joined (5 ms before)"] and not found.problem


def test_where_there_is_none(tmp_path: Path) -> None:
    replayer, runner = told(tmp_path)
    assert "--journal-inputs" in replayer.why("billing", rebalance(AT_MS)).problem
    assert "--journal-inputs" in replayer.what_if("billing", rebalance(AT_MS), "a=b").problem
    assert runner.ran == []


def test_it_is_not_replayed_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording(tmp_path, 7, AT_MS)
    monkeypatch.setattr(replaying, "KEPT_MAX", 2)
    replayer, runner = told(tmp_path, *(CommandResult(0, said()) for _ in range(4)))
    for option in ("a=1", "a=1", "b=1", "a=1", "c=1", "b=1"):
        assert replayer.what_if("billing", rebalance(AT_MS), option).text == said()
    assert [ran[2] for ran in runner.ran] == ["--with=a=1", "--with=b=1", "--with=c=1"]
    assert len(replayer._kept) == 2


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (BusyError("x"), "another replay is under way"),
        (OSError(2, "No such file"), "cannot be run: No such file"),
        (CommandResult(None, ""), "it was ended after 60 s"),
        (CommandResult(1, "x\nzkcoord replay: it differs\n"), "zkcoord replay: it differs"),
        (CommandResult(2, ""), "it failed"),
        (CommandResult(0, ""), "does not reach to this rebalance"),
    ],
)
def test_what_goes_wrong_is_a_sentence(
    tmp_path: Path, result: CommandResult | Exception, problem: str
) -> None:
    recording(tmp_path, 7, AT_MS)
    replayer, _ = told(tmp_path, result)
    assert problem in replayer.why("billing", rebalance(AT_MS)).problem


@pytest.mark.parametrize(
    "line",
    [
        "null",
        "[]",
        "{",
        said(ms="x"),
        said(group=""),
        said(decided=None, because={"a": 1}),
        said(decided=[{"a": [1]}] * 999, because=[None, 7, {"what": EVIL * 999}]),
        "[" * 100_000,
    ],
)
def test_what_a_changed_recording_says_is_bounded(tmp_path: Path, line: str) -> None:
    recording(tmp_path, 7, AT_MS)
    replayer, _ = told(tmp_path, CommandResult(0, line.strip() + "\n" + said() * 100))
    found = replayer.why("billing", rebalance(AT_MS))
    assert 1 <= len(found.steps) <= replaying.STEPS_SHOWN and found.left_out >= 50
    assert all(len(step.decided) <= replaying.TEXTS_SHOWN for step in found.steps)
    assert all(len(one) <= 600 for step in found.steps for one in (*step.decided, *step.because))


def test_the_page(tmp_path: Path) -> None:
    recording(tmp_path, 7, AT_MS)
    replayer, runner = told(
        tmp_path, CommandResult(0, said(decided=[EVIL])), CommandResult(0, f"{EVIL}\nRECORDED\n")
    )
    pages = ToldPages(records=[rebalance(AT_MS, generation=3)], replayer=replayer).pages
    query = {"name": "billing", "at": f"{AT_MS}-3"}
    page = pages.whole("rebalance", query)
    assert f'href="why?name=billing&amp;at={AT_MS}-3"' in page
    page = pages.whole("why", query)
    assert "m2 joined" in page and EVIL not in page and "data-live" not in page
    page = pages.whole("why", query | {"with": "assignor=range"})
    assert "\nRECORDED</pre>" in page and EVIL not in page and "What if assignor=range" in page
    for wrong in ("x", "a=", "--to-script=/tmp/x", "a=b c", "a=" + "b" * 300, "a=/etc"):
        with pytest.raises(NotThereError):
            pages.whole("why", query | {"with": wrong})
    with pytest.raises(NotThereError):
        pages.whole("why", query | {"at": "1-1"})
    assert len(runner.ran) == 2
    pages = ToldPages(records=[rebalance(AT_MS, generation=3)]).pages
    assert "why?" not in pages.whole("rebalance", query)
    with pytest.raises(NotThereError):
        pages.whole("why", query)
