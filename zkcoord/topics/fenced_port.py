"""Reads and writes of one connection of a term: nothing is answered once it is over, and each write
begins with the fence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zkcoord.zk.port import (
    AclEntry,
    Check,
    Children,
    Committed,
    Create,
    Delete,
    GetChildren,
    MultiResult,
    Op,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    ZkError,
)

READS_MAX = 100
"""In one request, whose answer has to fit into a frame: a node may hold a megabyte."""
CLEARED_MAX = 1_000


class FencedPort:
    """See the module. `fenced` is told that another coordinator leads."""

    def __init__(
        self, port: Port, fence: Check, acl: tuple[AclEntry, ...], fenced: Callable[[str], None]
    ) -> None:
        self.acl = acl
        self._port = port
        self._fence = fence
        self._fenced = fenced
        self._dead = False

    def lost(self) -> None:
        """The connection is gone: answers still to come mean nothing."""
        self._dead = True

    @property
    def dead(self) -> bool:
        """Whether it is."""
        return self._dead

    def sync(self, done: Callable[[], None]) -> None:
        """What is read from now on is not older than this."""
        self._port.sync(lambda result: None if self._dead else done())

    def read(self, reads: Sequence[Read], done: Callable[[list[ReadAnswer]], None]) -> None:
        """The answers, of several requests where they are many."""
        found: list[ReadAnswer] = []

        def read(result: ReadResult) -> None:
            if self._dead or not isinstance(result, ReadDone):
                return
            found.extend(result.answers)
            following()

        def following() -> None:
            part = reads[len(found) : len(found) + READS_MAX]
            if part:
                self._port.read(part, read)
            else:
                done(found)

        following()

    def make(self, paths: Sequence[str], done: Callable[[], None]) -> None:
        """Nodes that only hold others. One by one: a refusal says that it is there."""
        if not paths:
            return done()
        op = Create(paths[0], b"", acl=self.acl)
        return self.write([op], lambda refused: self.make(paths[1:], done))

    def clear(self, path: str, done: Callable[[], None], most: int = CLEARED_MAX) -> None:
        """Delete what somebody has put below a node of ours that is to have nothing there. Not all
        at once, where that is much or deep: the rest when it is in the way again.
        """
        waiting: set[str] = set()
        left = most

        def listed(answers: list[ReadAnswer]) -> None:
            nonlocal left
            waiting.update(f"{path}/{name}" for name in names_of(answers[0])[:most])
            left -= len(waiting)
            for below in sorted(waiting):
                self.write([Delete(below)], partial(deleted, below))
            if not waiting:
                done()

        def deleted(below: str, refused: Rejected | None) -> None:
            nonlocal left
            if refused is not None and refused.error is ZkError.NOT_EMPTY and left > 0:
                some, left = left, 0
                return self.clear(below, partial(deleted, below, None), some)
            waiting.discard(below)
            if not waiting:
                done()
            return None

        self.read([GetChildren(path)], listed)

    def write(self, ops: Sequence[Op], done: Callable[[Rejected | None], None]) -> None:
        """One multi; `done` is told which of `ops` was refused, if one was."""

        def ended(result: MultiResult) -> None:
            match result:
                case _ if self._dead:
                    return
                case Committed():
                    done(None)
                case Rejected(0, ZkError.BAD_VERSION | ZkError.NO_NODE):
                    self._fenced("another epoch is in force")
                case Rejected():
                    done(Rejected(result.index - 1, result.error))
                case _:
                    pass  # whoever reads next knows

        self._port.multi([self._fence, *ops], ended)


def names_of(answer: ReadAnswer) -> Sequence[str]:
    """The children of a node; none where there is none."""
    return answer.names if isinstance(answer, Children) else ()
