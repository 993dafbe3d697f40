"""Archives of the classes that a server loads: with one the virtual machine starts in a third of
the time, and everything else is as without. Whoever starts many servers makes them (`making`); a
server's start takes the one of its very class path, if there is one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from zkcoord.stack import jars
from zkcoord.stack.java import Java


def archive_of(java: Java, class_path: str) -> Path:
    """Where it would be, for this Java and these jars as they are now: others refuse it."""
    of = hashlib.sha256(f"{java.executable.resolve()}".encode())
    for path in (java.executable, *map(Path, class_path.split(os.pathsep))):
        try:
            found = path.stat()
        except OSError:
            continue  # the server says that it is not there
        of.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return jars.cache_dir() / "class-data" / f"{of.hexdigest()[:32]}.jsa"


def options(java: Java, class_path: str) -> list[str]:
    """For the virtual machine; none where there is no archive."""
    archive = archive_of(java, class_path)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


@contextmanager
def making(java: Java, class_path: str) -> Iterator[Java]:
    """A Java for one server, of which an archive is there after the block. The server must have
    been stopped by then, not killed.
    """
    archive = archive_of(java, class_path)
    if archive.is_file():
        yield java
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        partial = Path(folder) / archive.name
        yield replace(java, flags=(*java.flags, f"-XX:ArchiveClassesAtExit={partial}"))
        if partial.is_file():
            partial.rename(archive)
