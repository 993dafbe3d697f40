"""Small disks and clocks of servers: what the nemesis needs of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.chaos.disks import private_mounts
from tests.chaos.faking import FakedClock, library
from tests.chaos.nemesis import HALF_AN_HOUR_S
from zkcoord.demo.processes import environment
from zkcoord.stack.java import Java

TIMEOUT_S = 120.0


def _said(folder: Path, function: str) -> dict[str, str]:
    """What a function of this module says in a process of its own: one that has mounts of its own
    cannot go back.
    """
    code = (
        "import json, pathlib; from tests.chaos import test_disks;"
        f" print(json.dumps(test_disks.{function}(pathlib.Path({str(folder)!r}))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT_S,
        check=True,
    )
    return dict(json.loads(done.stdout))


def fill_and_free(folder: Path) -> dict[str, str]:
    """A disk that is written to, filled, freed and closed."""
    from tests.chaos import disks

    private_mounts()
    if disks.why_none():
        return {"why": disks.why_none()}
    disk = disks.Disk(folder / "disk", 1)
    (disk.folder / "before").write_text("before")
    disk.fill()
    try:
        (disk.folder / "while").write_bytes(bytes(100_000))
        full = "it was written"
    except OSError as error:
        full = str(error.strerror)
    disk.free()
    (disk.folder / "after").write_bytes(b"after" * 10_000)
    mounts = {
        "ours": _mounts("self", disk.folder),
        "others": _mounts(str(os.getppid()), disk.folder),
    }
    disk.close()
    return {"full": full, **mounts, "left": _mounts("self", disk.folder)}


def _mounts(process: str, folder: Path) -> str:
    """How many of its mounts are this folder."""
    return str(Path(f"/proc/{process}/mounts").read_text(encoding="utf-8").count(f" {folder} "))


def test_a_disk_that_nobody_else_sees_is_full_and_free_again_and_what_is_on_it_stays(
    tmp_path: Path,
) -> None:
    said = _said(tmp_path, "fill_and_free")
    if "why" in said:
        pytest.skip(said["why"])
    assert said == {"full": "No space left on device", "ours": "1", "others": "0", "left": "0"}
    assert (tmp_path / "disk" / "before").read_text() == "before"
    assert (tmp_path / "disk" / "after").stat().st_size == 50_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk"]


@pytest.mark.skipif(
    library() is None, reason="libfaketime is not here (Debian: the package libfaketime)"
)
def test_a_servers_wall_clock_is_ahead_and_right_again(tmp_path: Path, java: Java) -> None:
    clock = FakedClock(tmp_path / "clock", java)

    def ahead() -> timedelta:
        """A new virtual machine's, from the time of its first log line."""
        done = subprocess.run(
            [str(clock.java.executable), "-Xlog:gc+init:stdout:utctime", "-version"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        return datetime.fromisoformat(done.stdout.partition("[")[2].partition("+")[0]).replace(
            tzinfo=timezone.utc
        ) - datetime.now(timezone.utc)

    for seconds in (0, HALF_AN_HOUR_S, 0):
        clock.put_forward(seconds)
        assert abs(ahead() - timedelta(seconds=seconds)) < timedelta(seconds=HALF_AN_HOUR_S / 2)
