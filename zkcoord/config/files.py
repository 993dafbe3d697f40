"""Files that options name. A pipe may be one, as a shell's <(...) is; one that nobody writes to is
not waited for.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import threading

from zkcoord.zk.clock import boot_ms

WRITER_WAIT_MS = 1_000
LOOK_S = 0.02
NO_WRITER = "it is a pipe, and nobody writes to it"


def read_file(path: str, bytes_max: int) -> bytes:
    """At most `bytes_max` of it. Raises `OSError`, with a reason for people."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return _piped(descriptor, bytes_max)
        os.set_blocking(descriptor, True)
        return file.read(bytes_max)


def _piped(descriptor: int, bytes_max: int) -> bytes:
    data = b""
    until_ms = boot_ms() + WRITER_WAIT_MS
    while len(data) < bytes_max:
        try:
            part = os.read(descriptor, bytes_max - len(data))
        except BlockingIOError:  # somebody has it open to write, and is to be waited for
            select.select([descriptor], [], [])
            continue
        data += part
        if not part and (data or boot_ms() >= until_ms):
            break
        if not part:
            threading.Event().wait(LOOK_S)
    if not data:
        raise OSError(errno.ENXIO, NO_WRITER)
    return data


def refuse_pipe(path: str) -> None:
    """For files that others open: raises `OSError` for what would be waited for. What is not there
    is theirs to say.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is no file")
