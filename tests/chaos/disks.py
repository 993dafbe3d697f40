"""Small disks that can be full: each a tmpfs, which only root may mount, in mounts that are this
process's alone (and its children's), so that none outlives them, however they end.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from contextlib import suppress
from pathlib import Path

CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 2
MEGABYTE = 1 << 20
FILLER = "filler"

_libc = ctypes.CDLL(None, use_errno=True)
_ours = ["only python -m tests.chaos has mounts of its own"]


def why_none() -> str:
    """Why this process can have no small disk; empty where it can."""
    return _ours[0]


def private_mounts() -> None:
    """From here on this process has mounts of its own, if it may: to be called before it has
    threads.
    """
    try:
        _called(_libc.unshare(CLONE_NEWNS))
        _called(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    except OSError as error:
        _ours[0] = f"it takes a mount, which only root may ({error.strerror})"
    else:
        _ours[0] = ""


def _called(answer: int) -> None:
    if answer:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Disk:
    """An empty folder becomes a disk of `megabytes`. What is on it stays in the folder after
    `close`. Raises `OSError`.
    """

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self.filler = folder / FILLER
        folder.mkdir(parents=True, exist_ok=True)
        _called(_libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={megabytes}m".encode()))

    def fill(self) -> None:
        """Nothing more can be written."""
        with suppress(OSError), self.filler.open("wb", buffering=0) as file:
            while file.write(bytes(MEGABYTE)):
                pass

    def free(self) -> None:
        """As before `fill`."""
        self.filler.unlink(missing_ok=True)

    def close(self) -> None:
        """A plain folder again."""
        self.free()
        kept = self.folder.with_name(f"{self.folder.name}-kept")
        shutil.copytree(self.folder, kept)
        _called(_libc.umount2(bytes(self.folder), MNT_DETACH))
        self.folder.rmdir()
        kept.rename(self.folder)
