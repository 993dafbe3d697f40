"""Who did what is on the disk before it is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zkcoord.console.acting.audit import CHARS_MAX, AuditLog
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
