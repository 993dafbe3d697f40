"""The journal: what happened to each group and why, as JSON lines in files that are followed by
others when they are full.

Writing. `write` is called on the loop's thread and must cost it nothing: it puts the record into a
list of at most `RECORDS_WAITING_MAX` and returns. A thread of its own makes lines, writes and
flushes them in batches. It never raises: when the disk is full or the folder is gone, that is
logged, records are counted as lost, and it tries again every `RETRY_MS`; the first record that gets
through again is a {"kind": "lost", "records": n}. The file stays the same, without the beginning of
a line that the disk did not take whole; and older files are deleted only for one that was written
to. Others who write files may have a job done on that thread (`submit`).

Files. Only their user may read them. A folder may be shared by the coordinators of a machine: each
process writes its own `<start ms>-<pid>.<n>.jsonl`, n counts up, and no file is ever renamed, so a
reader can follow. A file that
reached `file_bytes_max` is closed and the next begun; then the oldest files beyond `files_max` are
deleted, whoever wrote them, except one that a live process holds locked.

Reading. `read_journal` merges the files by time. A line that is not a record is counted, not fatal;
a last line without its end (a crash, or a write that is under way) is not even counted.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from zkcoord.config.settings import JournalOptions
from zkcoord.private_files import private, private_folder
from zkcoord.zk.clock import boot_ms, wall_ms

log = logging.getLogger(__name__)

RECORDS_WAITING_MAX = 50_000
RECORD_BYTES_MAX = 256 * 1024
BATCH_RECORDS_MAX = 1_000
RETRY_MS = 2_000
CLOSE_WAIT_MS = 2_000
DIGITS_MAX = 20  # of each number in the name of a file
SUFFIX = ".jsonl"

Record = dict[str, Any]


class Journal:
    """The writer. Thread-safe. Raises `OSError` only when it is made: the folder cannot be made or
    written.
    """

    def __init__(self, options: JournalOptions) -> None:
        self.options = options
        self.lost = 0
        self._stem = f"{wall_ms()}-{os.getpid()}"
        self._number = 0
        self._file: FileIO | None = None
        self._to_prune = False
        self._waiting: deque[Record] = deque()
        self._jobs: deque[Callable[[], None]] = deque()
        self._lost_untold = 0
        self._retry_at_ms = 0
        self._wake = threading.Condition()
        self._closing = False
        private_folder(options.dir)
        self._open_next()
        self._thread = threading.Thread(
            target=self._write_until_closed, name="zkcoord-journal", daemon=True
        )
        self._thread.start()

    def write(self, record: Mapping[str, object]) -> None:
        """Keep a record; returns at once, never raises."""
        with self._wake:
            if len(self._waiting) >= RECORDS_WAITING_MAX or self._closed_to_caller():
                self._lose(1)
            else:
                self._waiting.append(dict(record))
                self._wake.notify()

    def submit(self, job: Callable[[], None]) -> bool:
        """Have a job done on the writing thread, between two batches; it must not raise. False: the
        journal is closed, and nobody will. A job under way may submit another.
        """
        with self._wake:
            if self._closed_to_caller():
                return False
            self._jobs.append(job)
            self._wake.notify()
            return True

    def _closed_to_caller(self) -> bool:
        """A job that is done while the journal is closing may still write."""
        return self._closing and threading.current_thread() is not self._thread

    def close(self) -> None:
        """Write out what waits, for at most `CLOSE_WAIT_MS`."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(CLOSE_WAIT_MS / 1000)

    # the writing thread

    def _write_until_closed(self) -> None:
        try:
            while self._turn():
                pass
        except Exception:  # the thread's main: log and stop
            log.exception("the journal ends after an error that should not happen")
        finally:
            self._close_file()

    def _turn(self) -> bool:
        """Do one job and write one batch; False when closed and nothing waits."""
        with self._wake:
            while not self._waiting and not self._jobs and not self._closing:
                self._wake.wait()
            job = self._jobs.popleft() if self._jobs else None
        if job is not None:
            job()
        return self._batch() or job is not None

    def _batch(self) -> bool:
        """Write one batch of records; False when none waits."""
        with self._wake:
            batch = [
                self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_RECORDS_MAX))
            ]
            if not batch:
                return False
            told, self._lost_untold = self._lost_untold, 0
        if told:
            batch.insert(0, {"t": wall_ms(), "kind": "lost", "records": told})
        stored = self._store(b"".join(_line(record) for record in batch))
        if stored < len(batch):
            with self._wake:
                self._lose(len(batch) - max(stored, bool(told)))
                self._lost_untold += told if not stored else 0
        return True

    def _store(self, data: bytes) -> int:
        """How many of these lines are in the file now: all, or those before the one that failed."""
        if boot_ms() < self._retry_at_ms:
            return 0
        stored = 0
        try:
            if self._file is None or self._file.tell() >= self.options.file_bytes_max:
                self._close_file()
                self._open_next()
            assert self._file is not None
            stored, error = _append(self._file, data)
            if error is not None:
                raise error
        except OSError as error:
            log.error(
                "the journal in %s cannot be written (%s): records are lost until it can",
                self.options.dir,
                error.strerror,
            )
            self._retry_at_ms = boot_ms() + RETRY_MS
        if stored and self._to_prune and self._file is not None:
            self._to_prune = False
            _prune(self.options, self._file.name)
        return stored

    def _open_next(self) -> None:
        self._number += 1
        file = open(  # noqa: SIM115  the next one replaces it
            self.options.dir / f"{self._stem}.{self._number:06d}{SUFFIX}",
            "ab",
            buffering=0,
            opener=private,
        )
        # says to others: this one is being written
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._file, self._to_prune = file, True

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
        except OSError as error:
            log.error("a journal file could not be closed: %s", error.strerror)

    def _lose(self, count: int) -> None:
        self.lost += count
        self._lost_untold += count


def _append(file: FileIO, data: bytes) -> tuple[int, OSError | None]:
    """How many lines are written, and why not all. What a reader may have seen stays; the beginning
    of a line whose end could not be written is cut off.
    """
    at, written = file.seek(0, os.SEEK_END), 0
    try:
        while written < len(data):
            written += file.write(memoryview(data)[written:])
    except OSError as error:
        whole = data.rfind(b"\n", 0, written) + 1
        file.truncate(at + whole)
        return data.count(b"\n", 0, whole), error
    return data.count(b"\n"), None


def _line(record: Record) -> bytes:
    data = json.dumps(record, separators=(",", ":"), default=str).encode("ascii") + b"\n"
    if len(data) <= RECORD_BYTES_MAX:
        return data
    kept = {key: record[key] for key in ("t", "kind", "group") if key in record}
    return (
        json.dumps(
            {**kept, "oversize_bytes": len(data)}, separators=(",", ":"), default=str
        ).encode("ascii")
        + b"\n"
    )


def _prune(options: JournalOptions, current: str) -> None:
    """Delete the oldest files beyond `files_max`, but none that is being written."""
    files = [path for path in journal_files(options.dir) if str(path) != current]
    for path in files[: max(0, len(files) + 1 - options.files_max)]:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        except OSError:
            continue  # locked by its writer, or another process was faster


def journal_files(folder: Path) -> list[Path]:
    """The journal's files, oldest writer first, each writer's in order."""
    try:
        return sorted(
            (path for path in folder.iterdir() if path.name.endswith(SUFFIX) and _order(path)),
            key=_order,
        )
    except (FileNotFoundError, NotADirectoryError):
        return []


def _order(path: Path) -> tuple[int, ...]:
    """(start ms, pid, number) of a journal file's name; empty for another's."""
    stem, _, number = path.name[: -len(SUFFIX)].rpartition(".")
    started, _, pid = stem.partition("-")
    parts = (started, pid, number)
    if all(part.isascii() and part.isdigit() and len(part) <= DIGITS_MAX for part in parts):
        return int(started), int(pid), int(number)
    return ()


@dataclass
class Reading:
    """What was read of a journal so far: bytes consumed per file, and lines that are not
    records.
    """

    consumed: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0

    def records(self, folder: Path) -> Iterator[Record]:
        """Records that came since the last call, by time."""
        by_writer: dict[str, list[Path]] = {}
        for path in journal_files(folder):
            by_writer.setdefault(path.name.partition(".")[0], []).append(path)
        streams = [self._of(paths) for paths in by_writer.values()]
        yield from heapq.merge(*streams, key=lambda record: record["t"])

    def _of(self, paths: list[Path]) -> Iterator[Record]:
        for path in paths:
            try:
                with path.open("rb") as file:
                    file.seek(self.consumed.get(path.name, 0))
                    yield from self._lines(file, path.name)
            except (FileNotFoundError, IsADirectoryError):
                continue  # deleted since it was listed: it was the oldest; or no file of ours

    def _lines(self, file: BinaryIO, name: str) -> Iterator[Record]:
        while True:
            line = file.readline(RECORD_BYTES_MAX * 2)
            if not line.endswith(b"\n") and len(line) < RECORD_BYTES_MAX * 2:
                return  # nothing more, or a line whose end is missing: torn, or not yet written
            self.consumed[name] = file.tell()
            record = _record(line)
            if record is None:
                self.unreadable += 1
            else:
                yield record


def _record(line: bytes) -> Record | None:
    """A line's record; None for anything that has no time and kind."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if (
        not isinstance(found, dict)
        or type(found.get("t")) is not int
        or not isinstance(found.get("kind"), str)
    ):
        return None
    return found
