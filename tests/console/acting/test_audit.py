"""Who did what is on the disk before it is done."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from zkcoord.console.acting import audit as module
from zkcoord.console.acting.audit import CHARS_MAX, MINUTE_MS, REFUSALS_PER_MINUTE, AuditLog
from zkcoord.errors import UnavailableError


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "state" / "actions.jsonl"
    for what in ("begins", "ended"):
        log = AuditLog(path)
        log.write(what, who="ann", status=0, command="x" * 9_999)
        log.close()
    one, two = lines(path)
    assert one["what"] == "begins" and two["what"] == "ended" and one["who"] == "ann"
    assert len(str(one["command"])) == CHARS_MAX and one["status"] == 0
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_text_makes_no_second_line(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log")
    log.write("begins", who='ann"\n{"what": "ended"}')
    assert len(lines(tmp_path / "log")) == 1


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="--audit-log"):
        AuditLog(tmp_path / "file" / "log")
    with pytest.raises(UnavailableError, match="--audit-log"):
        AuditLog(tmp_path)
    log = AuditLog(tmp_path / "log")
    log.close()
    with pytest.raises(UnavailableError, match="nothing is done"):
        log.write("begins")


def test_a_disk_that_gets_full_takes_a_part_first(tmp_path: Path, monkeypatch: Any) -> None:
    log, real, room = AuditLog(tmp_path / "log"), os.write, [20]

    def write(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = data[: room[0]]
        room[0] -= len(taken)
        return real(descriptor, taken)

    monkeypatch.setattr(module.os, "write", write)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="No space left"):
            log.write("begins", who="ann", command="zkcoord groups delete -- billing")
    room[0] = 10_000
    log.write("begins", who="bob")
    torn, *whole = (tmp_path / "log").read_text().splitlines()
    assert len(torn) == 20 and [json.loads(line)["who"] for line in whole] == ["bob"]


def test_what_another_process_left_torn_is_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"what": "begi')
    AuditLog(path).write("begins", who="ann")
    assert json.loads(path.read_text().splitlines()[1])["who"] == "ann"


@pytest.mark.parametrize("how", ["deleted", "moved", "moved, and made anew", "its folder, too"])
def test_a_file_that_is_moved_away_is_begun_anew(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "state"
    path = folder / "log"
    log = AuditLog(path)
    log.write("begins", who="ann")
    if how == "deleted":
        path.unlink()
    elif how == "its folder, too":
        folder.rename(tmp_path / "old")
        with pytest.raises(UnavailableError, match="nothing is done"):
            log.write("begins", who="carol")
        folder.mkdir()
    else:
        path.rename(folder / "log.1")
        if how != "moved":
            path.touch(0o600)
    log.write("begins", who="bob")
    assert [one["who"] for one in lines(path)] == ["bob"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_said_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(UnavailableError, match="no file"):
            AuditLog(path)


def test_who_tries_tokens_fills_no_disk(tmp_path: Path) -> None:
    now = [5]
    log = AuditLog(tmp_path / "log", lambda: now[0])
    for _ in range(1_000):
        log.refused("10.0.0.1")
    assert len(lines(tmp_path / "log")) == REFUSALS_PER_MINUTE
    log.write("begins", who="ann")
    now[0] += MINUTE_MS
    log.refused("10.0.0.2")
    last = lines(tmp_path / "log")[-1]
    assert last["address"] == "10.0.0.2" and last["more_before"] == 1_000 - REFUSALS_PER_MINUTE
    log.refused("10.0.0.2")
    assert "more_before" not in lines(tmp_path / "log")[-1]
