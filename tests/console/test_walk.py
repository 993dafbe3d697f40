"""What the walk through the console says, without a browser: nothing of it is walked here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console import walk


def test_where_there_is_no_browser_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(walk, "MISSING", ["chromium", "selenium"])
    assert walk.main(["--out", str(tmp_path / "out")]) == walk.NO_BROWSER
    said = capsys.readouterr().err
    assert "chromium, selenium missing" in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_what_takes_too_many_clicks_is_named() -> None:
    asked = [walk.Asked("Who?", 3, 3, ["m1"]), walk.Asked("Why?", 3, 4), walk.Asked("Do", 5, 5)]
    assert walk.too_many(asked) == ["Why? It takes 4 clicks, 3 are allowed."]
    assert [line.split()[1:3] for line in walk.table(asked)[1:3]] == [["3", "3"], ["4", "3"]]


def test_the_pictures_of_the_docs_are_there_and_small() -> None:
    text = (walk.ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    for name in walk.IN_DOCS:
        path = walk.IMAGES / f"console-{name}.png"
        assert f"](img/{path.name})" in text
        assert path.stat().st_size <= walk.IMAGE_BYTES_MAX
