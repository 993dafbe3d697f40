"""`SyncWriter`: a `SyncReader` that can also run a multi, for an operator's commands.

A multi is sent once. One that was refused or whose outcome is not known is the caller's to judge:
after `sync` it reads what is there now, and decides again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zkcoord.zk.kazoo_port.session import KazooPort
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPS_PER_MULTI_MAX,
    MultiResult,
    Op,
    Unanswered,
    encoded_bytes,
)
from zkcoord.zk.sync.reader import SyncReader


class SyncWriter(SyncReader):
    """Reads and multis that block. A context manager. Raises `UnavailableError`, one sentence,
    where there is no connection to send on.
    """

    def multi(self, ops: Sequence[Op]) -> MultiResult:
        """Run `ops` as one transaction and wait for its outcome; `Unanswered` where none comes in
        time: it may or may not have happened.
        """
        assert ops
        self._await_connected(self._read_deadline_ms)

        def send(port: KazooPort, done: Callable[[MultiResult], None]) -> None:
            port.multi(tuple(ops), done)

        result = self._ask(send, self._read_deadline_ms)
        return Unanswered() if result is None else result


def fitting(groups: Sequence[Sequence[Op]], ops_max: int = OPS_PER_MULTI_MAX) -> int:
    """How many of the leading groups of operations fit into one multi; the first always counts."""
    count, total_ops, total_bytes = 0, 0, 0
    for ops in groups:
        total_ops += len(ops)
        total_bytes += sum(map(encoded_bytes, ops))
        if count and (total_ops > ops_max or total_bytes > MULTI_BYTES_MAX):
            break
        count += 1
    return count
