"""Who did what: a line of JSON for each sign-in and each action, in a file that only the console's
user may read. An action's first line is on the disk before its command begins, a second one says
how it ended: what has a first one and no second is a command whose end nobody saw.

The file may be moved away or deleted while the console runs (logrotate): the next line begins a new
one. Who tries tokens writes `REFUSALS_PER_MINUTE` lines a minute, with how many there were.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from zkcoord.errors import UnavailableError
from zkcoord.private_files import private, private_folder
from zkcoord.zk.clock import boot_ms, wall_ms

CHARS_MAX = 2_000
REFUSALS_PER_MINUTE = 10
MINUTE_MS = 60_000
NONE_OPEN = -1


class AuditLog:
    """See the module. Raises `UnavailableError` where the file cannot be written. `clock` in ms."""

    def __init__(self, path: Path, clock: Callable[[], int] = boot_ms) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._descriptor = NONE_OPEN
        self._is_torn = False
        self._over = False
        self._refused = 0
        self._untold = 0
        self._minute_ms: int | None = None
        try:
            private_folder(path.parent)
            self._open()
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, what: str, **fields: object) -> None:
        """One line, on the disk when this returns. Raises `UnavailableError`."""
        with self._lock:
            self._line(what, fields)

    def refused(self, address: str) -> None:
        """Somebody at this address had a token of nobody: one line, or, of many in a minute, the
        first lines, and how many there were with a later one. Raises `UnavailableError`.
        """
        with self._lock:
            now_ms = self._clock()
            if self._minute_ms is None or now_ms - self._minute_ms >= MINUTE_MS:
                self._minute_ms, self._refused = now_ms, 0
            self._refused += 1
            if self._refused > REFUSALS_PER_MINUTE:
                self._untold += 1
                return
            more = {"more_before": self._untold} if self._untold else {}
            self._line("refused", {"address": address, **more})
            self._untold = 0

    def close(self) -> None:
        """Nothing is written any more."""
        with self._lock:
            self._over = True
            self._shut()

    def _line(self, what: str, fields: dict[str, object]) -> None:
        line = json.dumps({"t": wall_ms(), "what": what, **_bounded(fields)}) + "\n"
        try:
            if self._over:
                raise OSError(errno.EBADF, "it is closed")
            if not self._is_there():
                self._shut()
                self._open()
            self._append(line.encode())
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._unwritable(error) from error

    def _append(self, data: bytes) -> None:
        """All of it: a disk that gets full takes a part first, after which a line of its own
        begins.
        """
        data = b"\n" + data if self._is_torn else data
        at = 0
        while at < len(data):
            at += os.write(self._descriptor, data[at:])
            self._is_torn = at < len(data)

    def _is_there(self) -> bool:
        """Whether what is open is what others see by its name."""
        if self._descriptor == NONE_OPEN:
            return False
        try:
            seen = os.stat(self.path)
        except FileNotFoundError:
            return False
        return os.path.samestat(seen, os.fstat(self._descriptor))

    def _open(self) -> None:
        """Raises `OSError`, also for what is no file."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = private(str(self.path), flags)
        seen = os.fstat(self._descriptor)
        if not stat.S_ISREG(seen.st_mode):
            self._shut()
            raise OSError(errno.EINVAL, "it is no file")
        end = os.pread(self._descriptor, 1, seen.st_size - 1) if seen.st_size else b"\n"
        self._is_torn = end != b"\n"

    def _shut(self) -> None:
        descriptor, self._descriptor = self._descriptor, NONE_OPEN
        if descriptor != NONE_OPEN:
            os.close(descriptor)

    def _unwritable(self, error: Exception) -> UnavailableError:
        why = getattr(error, "strerror", None) or str(error)
        return UnavailableError(
            f"the audit log {self.path} cannot be written ({why}), so nothing is done: name another"
            " with --audit-log, or make room"
        )


def _bounded(fields: dict[str, object]) -> dict[str, object]:
    return {k: v[:CHARS_MAX] if isinstance(v, str) else v for k, v in fields.items()}
