"""Every input of the coordinator's core, kept: the core is pure, so these and its options are all
that is needed to see again, offline, what it decided and why (`zkcoord replay`).

Files. One per term in the journal's folder, `inputs-<epoch>.jsonl`; where that name is taken (by
another ensemble's term, or one of before a reset) `inputs-<epoch>.<n>.jsonl`. First line: format
version, epoch, wall-clock time and the core's options. Then one line per input, in the order in
which the core took them: {"event": ..., "actions": [...]} as `zkcoord.core_encoding` writes them.
Last, where the term or the recording ended in order: {"end": why}. A crash leaves a line without
its end, or no last line.

A recording is whole or it ends: where a line is too much (`journal_inputs_bytes_max`), the disk is
full or the writer does not keep up, it stops there for this term, and a record in the journal says
so.

Cost. The thread that decides only appends the event and the actions, which are immutable, to a
list; they are encoded and written by the journal's thread, once each.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from zkcoord import __version__
from zkcoord.config.settings import InputsOptions
from zkcoord.coordinator.journal import Journal
from zkcoord.core.events import Action, Elected, Event
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.value_type import value
from zkcoord.core_encoding import codec, whole
from zkcoord.private_files import private
from zkcoord.zk.clock import wall_ms

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
KNOWS = ["more"]
"""Words of commands that an earlier release did not have; they are left out where they are false.
"""
STEPS_WAITING_MAX = 50_000
BATCH_STEPS_MAX = 500
SAME_EPOCH_FILES_MAX = 10_000
PREFIX, SUFFIX = "inputs-", ".jsonl"

_EVENT, _ACTION = codec(Event), codec(Action)


@value
class _Begin:
    epoch: int
    wall_ms: int
    options: CoordinatorOptions


@value
class _End:
    why: str
    early: bool


_Item = _Begin | _End | tuple[Event, Sequence[Action]]


def header_line(options: CoordinatorOptions, epoch: int, wall: int) -> bytes:
    """The first line: all fields of the options, whatever their defaults will be, and which later
    words this release knows.
    """
    return _line(
        {
            "version": FORMAT_VERSION,
            "zkcoord": __version__,
            "epoch": epoch,
            "t": wall,
            "options": whole(options),
            "knows": KNOWS,
        }
    )


def step_line(event: Event, actions: Sequence[Action]) -> bytes:
    """The line of one input."""
    return _line(
        {"event": _EVENT.encode(event), "actions": [_ACTION.encode(action) for action in actions]}
    )


def end_line(why: str) -> bytes:
    """The last line of a term."""
    return _line({"end": why})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


class Inputs(Protocol):
    """What a driver tells of its core."""

    def step(self, options: CoordinatorOptions, event: Event, actions: Sequence[Action]) -> None:
        """The core took an event and answered."""

    def ended(self, why: str) -> None:
        """The term ended."""


class InputLog:
    """The recorder of one process. `step` and `ended` are called on the loop's thread and cost it
    nothing; the rest runs on the journal's.
    """

    def __init__(
        self, options: InputsOptions, journal: Journal, wall_clock: Callable[[], int] = wall_ms
    ) -> None:
        self.options = options
        self.journal = journal
        self.wall_clock = wall_clock
        self._waiting: deque[_Item] = deque()
        self._lock = threading.Lock()
        self._under_way = False
        self._recording = False
        self._epoch = 0
        self._file: BinaryIO | None = None
        self._size = 0

    # on the loop's thread

    def step(self, options: CoordinatorOptions, event: Event, actions: Sequence[Action]) -> None:
        """The core took an event and answered. `Elected` begins a file; what comes outside of a
        term is not kept.
        """
        if isinstance(event, Elected):
            self._recording = True
            self._put(_Begin(event.epoch, self.wall_clock(), options))
        if not self._recording:
            return
        if len(self._waiting) >= STEPS_WAITING_MAX:
            self._recording = False
            self._put(_End(f"{STEPS_WAITING_MAX} inputs wait to be written", early=True))
        else:
            self._put((event, actions))

    def ended(self, why: str) -> None:
        """The term ended."""
        if self._recording:
            self._recording = False
            self._put(_End(f"the term ended: {why}", early=False))

    def _put(self, item: _Item) -> None:
        self._waiting.append(item)
        with self._lock:
            if not self._under_way:
                self._under_way = self.journal.submit(self._drain)

    # on the journal's thread

    def _drain(self) -> None:
        """Write a batch; another is asked for while something waits. What fails ends the recording
        of its term: the next term's may be in the same batch.
        """
        for _ in range(min(len(self._waiting), BATCH_STEPS_MAX)):
            self._trying(self._write, self._waiting.popleft())
        if self._file is not None:
            self._trying(self._file.flush)
        with self._lock:
            self._under_way = bool(self._waiting) and self.journal.submit(self._drain)

    def _trying(self, work: Callable[..., None], *given: _Item) -> None:
        try:
            work(*given)
        except OSError as error:
            self._stop(f"it cannot be written ({error.strerror})")

    def _write(self, item: _Item) -> None:
        if isinstance(item, _Begin):
            self._open(item)
        elif self._file is None:
            return
        elif isinstance(item, _End):
            end = self._stop if item.early else self._finish
            end(item.why)
        else:
            line = step_line(*item)
            if self._size + len(line) > self.options.bytes_max:
                self._stop(
                    f"the limit of {self.options.bytes_max} bytes (journal_inputs_bytes_max) is"
                    " reached"
                )
            else:
                self._append(line)

    def _append(self, line: bytes) -> None:
        assert self._file is not None
        self._file.write(line)
        self._size += len(line)

    def _open(self, begin: _Begin) -> None:
        self._close()
        self._epoch, self._size = begin.epoch, 0
        header = header_line(begin.options, begin.epoch, begin.wall_ms)
        self._file = _create(self.options.dir, begin.epoch, header)
        self._size = len(header)
        # says to others: this one is being written
        fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _prune(self.options, Path(self._file.name))

    def _stop(self, why: str) -> None:
        """The recording of this term ends before the term does."""
        log.warning(
            "the inputs of this term are not recorded any more",
            extra={"fields": {"epoch": self._epoch, "reason": why}},
        )
        self.journal.write(
            {
                "t": self.wall_clock(),
                "kind": "inputs",
                "event": "stopped",
                "epoch": self._epoch,
                "reason": f"recording of inputs stopped: {why}",
            }
        )
        self._finish(f"the recording stopped: {why}")

    def _finish(self, why: str) -> None:
        try:
            if self._file is not None:
                self._append(end_line(why))
            self._close()
        except OSError as error:
            self._file = None
            log.error("a file of inputs could not be closed: %s", error.strerror)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _create(folder: Path, epoch: int, header: bytes) -> BinaryIO:
    """A new file with its first line; none where that cannot be written, since an empty one would
    push a recording out of the folder.
    """
    for number in range(SAME_EPOCH_FILES_MAX):
        path = folder / f"{PREFIX}{epoch}{f'.{number}' if number else ''}{SUFFIX}"
        try:
            file = open(path, "xb", opener=private)  # noqa: SIM115 (it lives as long as the term)
        except FileExistsError:
            continue
        try:
            file.write(header)
            file.flush()
        except OSError:
            with suppress(OSError):
                file.close()  # writes once more, and closes whatever comes of it
            path.unlink(missing_ok=True)
            raise
        return file
    raise OSError(0, f"there are {SAME_EPOCH_FILES_MAX} files of epoch {epoch}")


def input_files(folder: Path) -> list[Path]:
    """The recordings in a folder, oldest first. Raises `OSError` where there is none."""
    found = []
    for path in folder.iterdir():
        if path.name.startswith(PREFIX) and path.name.endswith(SUFFIX):
            try:
                found.append((path.stat().st_mtime_ns, _order(path), path))
            except FileNotFoundError:
                continue  # deleted since it was listed: another process was faster
    return [path for _, _, path in sorted(found)]


def _order(path: Path) -> tuple[int, str]:
    epoch = path.name.removeprefix(PREFIX).partition(".")[0]
    return int(epoch) if epoch.isascii() and epoch.isdigit() else 0, path.name


def _prune(options: InputsOptions, current: Path) -> None:
    """Delete the oldest terms beyond `terms_max`, but none that is being written."""
    files = [path for path in input_files(options.dir) if path != current]
    for path in files[: max(0, len(files) + 1 - options.terms_max)]:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
        except OSError:
            continue  # locked by its writer, or another process was faster
