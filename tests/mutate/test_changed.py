"""Which files the mutants of a night are made in: those of the commits of the last days."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.mutate.__main__ import changed_files


def commit(folder: Path, name: str, days_ago: float) -> None:
    when = (datetime.now(timezone.utc) - timedelta(days=days_ago)).isoformat()
    (folder / name).write_text("", encoding="utf-8")
    who = {
        f"GIT_{role}_{part}": "x" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
    }
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    for command in (["git", "add", name], ["git", "commit", "-q", "-m", name]):
        subprocess.run(command, cwd=folder, check=True, env=os.environ | who | dates)


@pytest.mark.parametrize(
    ("days", "found"),
    [
        (0.5, {"not_committed.py"}),
        (1.0, {"not_committed.py", "yesterday.py"}),
        (7.0, {"not_committed.py", "yesterday.py", "six_days.py"}),
        (10.0, {"not_committed.py", "yesterday.py", "six_days.py", "nine_days.py"}),
    ],
)
def test_files_of_the_last_days(tmp_path: Path, days: float, found: set[str]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    commit(tmp_path, "not_committed.py", 40)
    commit(tmp_path, "nine_days.py", 9)
    commit(tmp_path, "six_days.py", 6)
    commit(tmp_path, "yesterday.py", 0.9)
    (tmp_path / "not_committed.py").write_text("changed", encoding="utf-8")

    assert changed_files(days, tmp_path) == found
