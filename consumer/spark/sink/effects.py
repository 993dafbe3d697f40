"""Effects of the sink, carried out: a ZooKeeper session of the driver's own, which is no member and
owns nothing, and the sink's directory.

The session proves nothing by itself: every write checks the registration of the member that planned
the batch. So it may be lost and replaced at any time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from consumer.spark.sink import publication
from consumer.spark.sink.files import Files
from zkcoord.core.value_type import assert_never
from zkcoord.errors import UnavailableError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import MultiResult, Op, Read, ReadAnswer, Unanswered
from zkcoord.zk.sync.client import SyncClient

log = logging.getLogger(__name__)

R = TypeVar("R")
LEFT_MAX = 1_000


class Keeper:
    """One session, opened when it is first needed. Safe for one thread at a time."""

    def __init__(self, options: ZkOptions) -> None:
        self.options = options
        # Intents that were left alone, and why, each named once. Of the thread that uses it.
        self.left: dict[str, str] = {}
        # None before the first use and after `close`. Under `_lock`.
        self._writer: SyncClient | None = None
        self._lock = threading.Lock()

    def look(self, reads: Sequence[Read]) -> list[ReadAnswer]:
        """Sync, then read. Raises `UnavailableError`."""
        writer = self._opened()
        writer.sync()
        return writer.read(reads)

    def transact(self, ops: Sequence[Op]) -> MultiResult:
        """Send a multi once."""
        try:
            return self._opened().multi(ops)
        except UnavailableError:
            return Unanswered()

    def leave(self, path: str, why: str) -> None:
        """Name an intent that nothing is done about; the same one once."""
        if path not in self.left and len(self.left) < LEFT_MAX:
            self.left[path] = why
            log.warning(
                "%s is left alone, because no sink has written it like this: %s; see who made it,"
                " then delete it by hand",
                path,
                why,
            )

    def close(self) -> None:
        """End the session."""
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _opened(self) -> SyncClient:
        with self._lock:
            if self._writer is None:
                writer = SyncClient(self.options)
                writer.__enter__()
                self._writer = writer
            return self._writer


def perform(
    work: Generator[publication.Effect, Any, R],
    keeper: Keeper,
    files: Files | None = None,
    stage: Callable[[str], Sequence[str]] | None = None,
) -> R:
    """Do what `work` says, to its end. `stage` writes the batch into a folder of the sink and gives
    the files' paths relative to it; both may be left out where `work` has nothing to do with files.
    """
    answer: Any = None
    while True:
        try:
            effect = work.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the effect answered
        answer = carry_out(effect, keeper, files, stage)


def carry_out(
    effect: publication.Effect,
    keeper: Keeper,
    files: Files | None,
    stage: Callable[[str], Sequence[str]] | None,
) -> Any:
    """One effect, and its answer."""
    match effect:
        case publication.Look():
            return keeper.look(effect.reads)
        case publication.Transact():
            return keeper.transact(effect.ops)
        case publication.Leave():
            return keeper.leave(effect.path, effect.why)
        case _:
            assert files is not None
            return _carry_out_on_files(effect, files, stage)


def _carry_out_on_files(
    effect: publication.FilesEffect,
    files: Files,
    stage: Callable[[str], Sequence[str]] | None,
) -> Any:
    match effect:
        case publication.StageRows():
            assert stage is not None
            return tuple(stage(effect.folder))
        case publication.Put():
            return files.put(effect.path, effect.data)
        case publication.Fetch():
            return files.fetch(effect.path)
        case publication.Move():
            return files.move(effect.source, effect.target)
        case publication.Folders():
            return files.folders(effect.path)
        case publication.Remove():
            return files.remove(effect.path)
        case _:
            assert_never(effect)
