"""Files that only their user may read, whatever the umask is: journals, recordings, backups. They
name groups, members, hosts and topics.
"""

from __future__ import annotations

import os
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def private(path: str, flags: int) -> int:
    """The `opener` of `open`: what it makes is its user's alone; what is there keeps its mode."""
    return os.open(path, flags, FILE_MODE)


def private_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, for its user alone; one that is there keeps its
    mode. Raises `OSError`.
    """
    missing = [folder, *folder.parents]
    for place in reversed([place for place in missing if not place.exists()]):
        place.mkdir(FOLDER_MODE, exist_ok=True)
