"""Who did what: a line of JSON for each sign-in and each action, in a file that only the console's
user may read. An action's first line is on the disk before its command begins, a second one says
how it ended: what has a first one and no second is a command whose end nobody saw.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from zkcoord.errors import UnavailableError
from zkcoord.private_files import private, private_folder
from zkcoord.zk.clock import wall_ms

CHARS_MAX = 2_000


class AuditLog:
    """See the module. Raises `UnavailableError` where the file cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            private_folder(path.parent)
            self._descriptor = private(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, what: str, **fields: object) -> None:
        """One line, on the disk when this returns. Raises `UnavailableError`."""
        line = json.dumps({"t": wall_ms(), "what": what, **_bounded(fields)}) + "\n"
        with self._lock:
            try:
                os.write(self._descriptor, line.encode())
                os.fsync(self._descriptor)
            except OSError as error:
                raise self._unwritable(error) from error

    def close(self) -> None:
        """Nothing is written any more."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1

    def _unwritable(self, error: Exception) -> UnavailableError:
        why = getattr(error, "strerror", None) or str(error)
        return UnavailableError(
            f"the audit log {self.path} cannot be written ({why}), so nothing is done: name another"
            " with --audit-log, or make room"
        )


def _bounded(fields: dict[str, object]) -> dict[str, object]:
    return {k: v[:CHARS_MAX] if isinstance(v, str) else v for k, v in fields.items()}
