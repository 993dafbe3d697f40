"""Journals, recordings and backups are their user's alone, whatever the umask is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrations.journal import RunJournal
from tests.replay.test_replay import log_into, term
from zkcoord.private_files import private_folder


@pytest.fixture
def generous() -> Iterator[None]:
    """A umask that hides nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> set[tuple[str, int]]:
    return {
        ("folder" if path.is_dir() else "file", path.stat().st_mode & 0o777)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.usefixtures("generous")
def test_a_journal_and_a_recording(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "zkcoord" / "journal"
    log, journal = log_into(folder)
    term(log, 7, 3)
    journal.close()
    assert len(list(folder.iterdir())) == 2, "a journal and a recording"
    assert modes(tmp_path / "state") == {("folder", 0o700), ("file", 0o600)}


@pytest.mark.usefixtures("generous")
def test_a_migrations_backup(tmp_path: Path) -> None:
    with RunJournal(tmp_path / "runs" / "one") as journal:
        journal.begin({"migration": "0001"})
    assert modes(tmp_path / "runs") == {("folder", 0o700), ("file", 0o600)}


@pytest.mark.usefixtures("generous")
def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(0o770)
    private_folder(tmp_path / "shared")
    private_folder(tmp_path / "shared" / "own")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o770
    assert (tmp_path / "shared" / "own").stat().st_mode & 0o777 == 0o700
