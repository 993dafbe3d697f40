"""The views show what they should: rendered into text, with a made-up group."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.demo.test_state import state as group_state
from zkcoord.demo import live
from zkcoord.demo.state import GroupShown
from zkcoord.demo.story import ScenarioJournal

state = group_state


class FakeCast:
    """As much of a cast as a view looks at."""

    partitions = 4

    def __init__(self, group: GroupShown, story: ScenarioJournal) -> None:
        self.state = group
        self.story = story
        self.children = self
        self.lock = threading.Lock()


def test_the_screen(state: GroupShown, tmp_path: Path) -> None:
    rich_console = pytest.importorskip("rich.console")
    story = ScenarioJournal(tmp_path / "steps.jsonl", lambda text: None)
    story.balanced(story.began("a consumer joins"), 5, 42.0)
    story.began("a consumer is killed")
    state.note("coordinator A leads, epoch 7")
    view = live.LiveView()
    view.console = rich_console.Console(file=io.StringIO(), width=120, force_terminal=False)
    cast: Any = FakeCast(state, story)
    view.console.print(view.screen(cast))
    text = view.console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "c1   member  ██··" in text and "c2   member  ··██" in text and "all          ████" in text
    )
    assert "✓  a consumer joins      42 ms" in text and "▶  a consumer is killed" in text
    assert "nobody leads" in text and "coordinator A leads, epoch 7" in text
    story.close()


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    view = live.view_for(True)
    assert type(view) is live.PlainView
    view.say("hello")
    assert capsys.readouterr().out.endswith(" s  hello\n")


def test_lines_where_rich_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert type(live.view_for(True)) is live.PlainView
    assert type(live.view_for(False)) is live.PlainView


def test_plain_lines_come_while_the_group_is_watched(
    state: GroupShown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PLAIN_EVERY_S", 0.01)
    said: list[str] = []
    shown = threading.Event()
    view = live.PlainView()
    monkeypatch.setattr(view, "say", lambda text: (said.append(text), shown.set()))
    story = ScenarioJournal(tmp_path / "steps.jsonl", lambda text: None)
    cast: Any = FakeCast(state, story)
    with view.watching(cast):
        assert shown.wait(20.0)
    story.close()
    assert "nobody leads; partitions  c1:2  c2:2" in said[0]
