"""Why a rebalance was decided so, and what if: `zkcoord replay` over the recording of its term, for
its page. Recordings are beside the journals of coordinators with `--journal-inputs`.

A replay takes a processor for up to `REPLAY_S`: one runs at a time, after all else on the machine,
and what it said is kept for a while.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zkcoord.config.files import read_file
from zkcoord.console.acting.running import BusyError, CommandResult, CommandRunner
from zkcoord.console.views.texts import iso, short
from zkcoord.coordinator.input_recorder import input_files
from zkcoord.core.value_type import value
from zkcoord.zk.clock import boot_ms

REPLAY_S = 60.0
NICE = 10
KEPT_MAX = 20
KEPT_MS = 300_000
HEADER_BYTES_MAX = 64 * 1024
BEFORE_MS, AFTER_MS = 2_000, 1_000
STEPS_SHOWN = 50
TEXTS_SHOWN = 20
NONE_THERE = (
    "there is no recording of this rebalance's term beside the journals: run the coordinator with"
    " --journal-inputs"
)
TOO_LONG = f"it was ended after {REPLAY_S:g} s: run zkcoord replay by hand"


@value
class DecisionTold:
    """What was decided at one time (ms since 1970), and because of what."""

    at_ms: int
    decided: Sequence[str]
    because: Sequence[str]


@dataclass(frozen=True)
class ReplayTold:
    """What a replay says. `command` is what a shell would be told; `text` as it was printed."""

    problem: str = ""
    command: str = ""
    steps: Sequence[DecisionTold] = ()
    left_out: int = 0
    text: str = ""


class Replayer:
    """See the module. Any thread."""

    def __init__(self, folders: Sequence[Path], environment: Mapping[str, str]) -> None:
        self._folders = tuple(folders)
        self._runner = CommandRunner(environment, REPLAY_S, at_once=1, nice=NICE)
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], tuple[int, CommandResult]] = {}

    def close(self) -> None:
        """End what runs."""
        self._runner.close()

    def why(self, group: str, record: Mapping[str, Any]) -> ReplayTold:
        """The decisions of a group while it was rebalanced."""
        path, wall_ms = self._recording(record["t"])
        if path is None:
            return ReplayTold(NONE_THERE)
        begin_ms, end_ms = record["t"] - _took_ms(record) - BEFORE_MS, record["t"] + AFTER_MS
        times = [f"--from={iso(max(0, begin_ms))}", f"--until={iso(end_ms)}"]
        arguments = ["replay", f"--group={group}", *times, "--json", "--", str(path)]
        result, problem = self._run(arguments)
        steps = _steps(result.text if result else "", wall_ms)
        shown = steps[:STEPS_SHOWN]
        if result and not problem and not steps:
            problem = "the recording does not reach to this rebalance, or begins after it"
        return ReplayTold(problem, _shown(arguments), shown, len(steps) - len(shown))

    def what_if(self, group: str, record: Mapping[str, Any], option: str) -> ReplayTold:
        """The same term with another option, `NAME=VALUE`."""
        path, _ = self._recording(record["t"])
        if path is None:
            return ReplayTold(NONE_THERE)
        arguments = ["replay", f"--group={group}", f"--with={option}", "--", str(path)]
        result, problem = self._run(arguments)
        return ReplayTold(problem, _shown(arguments), text=result.text if result else "")

    def _run(self, arguments: list[str]) -> tuple[CommandResult | None, str]:
        """What it printed, and why not, or not all."""
        key, now_ms = tuple(arguments), boot_ms()
        with self._lock:
            at_ms, kept = self._kept.get(key, (0, None))
        if kept is None or now_ms - at_ms > KEPT_MS:
            try:
                kept = self._runner.run(arguments, "")
            except BusyError:
                return None, "another replay is under way: try again when it has ended"
            except OSError as error:
                return None, f"it cannot be run: {error.strerror or error}"
            with self._lock:
                self._kept.pop(key, None)
                while len(self._kept) >= KEPT_MAX:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = (now_ms, kept)
        if kept.status is None:
            return kept, TOO_LONG
        lines = kept.text.splitlines()
        return kept, "" if kept.is_done else short(lines[-1] if lines else "it failed", 1_000)

    def _recording(self, at_ms: int) -> tuple[Path | None, int]:
        """That of the newest term that had begun by then, and when (ms since 1970) that was."""
        found: list[tuple[int, Path]] = []
        for folder in self._folders:
            for path in _files(folder):
                began_ms = _began(path)
                if began_ms is not None and began_ms <= at_ms:
                    found.append((began_ms, path))
        began_ms, newest = max(found, default=(0, None))
        return newest, began_ms


def _files(folder: Path) -> list[Path]:
    try:
        return list(input_files(folder))
    except OSError:
        return []  # as journals, which are waited for


def _began(path: Path) -> int | None:
    """When a recording's term began; None: that cannot be read."""
    try:
        header = json.loads(read_file(str(path), HEADER_BYTES_MAX).partition(b"\n")[0])
    except (OSError, ValueError, RecursionError):
        return None
    at_ms = header.get("t") if isinstance(header, dict) else None
    return at_ms if type(at_ms) is int else None


def _took_ms(record: Mapping[str, Any]) -> int:
    took_ms = record.get("duration_ms")
    return took_ms if type(took_ms) is int and took_ms >= 0 else 0


def _steps(text: str, wall_ms: int) -> list[DecisionTold]:
    found = []
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(said, dict) or type(said.get("ms")) is not int or not said.get("group"):
            continue
        because = [_because(one) for one in _listed(said.get("because"))]
        decided = [short(one, 600) for one in _listed(said.get("decided"))]
        found.append(DecisionTold(wall_ms + said["ms"], decided, because))
    return found


def _because(said: object) -> str:
    if not isinstance(said, dict):
        return short(said, 600)
    before_ms = said.get("ms_before")
    ago = f" ({before_ms} ms before)" if type(before_ms) is int and before_ms else ""
    return short(said.get("what", "?"), 600) + ago


def _listed(value: object) -> list[object]:
    return value[:TEXTS_SHOWN] if isinstance(value, list) else []


def _shown(arguments: Sequence[str]) -> str:
    return short(shlex.join(["zkcoord", *arguments]), 2_000)
