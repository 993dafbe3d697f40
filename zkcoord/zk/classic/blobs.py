"""What clients bring for each other, kept below a group: each under the digest of its bytes, from
the moment in which a state names it until no state does. Only the coordinator writes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from zkcoord.core.classic.requests import BlobRef, Opaque, Protocols
from zkcoord.core.classic.state import ClassicState
from zkcoord.zk.classic.edge import Edge
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPS_PER_MULTI_MAX,
    Create,
    Rejected,
    ZkError,
    encoded_bytes,
)
from zkcoord.znodes.classic.documents import blob_digest

BLOBS_BYTES_PER_READ = 512 * 1024
BLOBS_PER_READ = 500


def digests(of: Iterable[Opaque]) -> set[str]:
    """The names of blobs."""
    return {data.digest for data in of if isinstance(data, BlobRef)}


def _of(state: ClassicState) -> set[str]:
    said = (data for one in state.members for _, data in one.protocols)
    return digests([*said, *(one.assignment for one in state.members)])


class Blobs:
    """Of one group. `written` are those that are there."""

    def __init__(self, group: str, edge: Edge, written: Iterable[str] = ()) -> None:
        self._group = group
        self._edge = edge
        self.written = set(written)
        self._fresh: dict[str, bytes] = {}

    def take(self, pairs: Protocols) -> Protocols:
        """The same, with references to bytes that are kept here from now on."""
        return tuple((name, self._ref(data)) for name, data in pairs)

    def _ref(self, data: Opaque) -> Opaque:
        if not data or isinstance(data, BlobRef):
            return data
        digest = blob_digest(data)
        if digest not in self.written:
            self._fresh[digest] = data
        return BlobRef(digest, len(data))

    def keep(self, brought: Iterable[Opaque]) -> None:
        """Nothing else is needed any more, or will be: it is forgotten, and deleted where it is
        written. Whoever reads it just now joins again.
        """
        used = digests(brought)
        self._fresh = {digest: data for digest, data in self._fresh.items() if digest in used}
        stale = sorted(self.written - used)
        self.written.difference_update(stale)
        self._edge.delete([self._edge.paths.blob(self._group, one) for one in stale])

    def write(self, state: ClassicState, done: Callable[[Rejected | None], None]) -> None:
        """Write what this state names, then `done` (what was refused, None: nothing)."""
        lacking = sorted(_of(state) - self.written)
        if any(digest not in self._fresh for digest in lacking):
            # somebody has deleted it, and who brought it has not joined since
            return done(Rejected(-1, ZkError.NO_NODE))
        return self._write([self._create(digest) for digest in lacking], done)

    def _create(self, digest: str) -> Create:
        path = self._edge.paths.blob(self._group, digest)
        return self._edge.create(path, self._fresh[digest])

    def _write(self, creates: list[Create], done: Callable[[Rejected | None], None]) -> None:
        if not creates:
            return done(None)
        count, total = 1, encoded_bytes(creates[0])
        for op in creates[1 : OPS_PER_MULTI_MAX - 1]:
            total += encoded_bytes(op)
            if total > MULTI_BYTES_MAX:
                break
            count += 1
        now, later = creates[:count], creates[count:]

        def ended(refused: Rejected | None) -> None:
            if refused is None:
                self._are_there(now)
                self._write(later, done)
            elif refused.error is ZkError.NODE_EXISTS and 0 <= refused.index < len(now):
                self._are_there(now[refused.index : refused.index + 1])
                self._write([*now[: refused.index], *now[refused.index + 1 :], *later], done)
            else:
                done(refused)

        return self._edge.write(now, ended)

    def _are_there(self, creates: Iterable[Create]) -> None:
        for op in creates:
            digest = op.path.rsplit("/", 1)[1]
            self.written.add(digest)
            self._fresh.pop(digest, None)


def parts_of(refs: Iterable[BlobRef]) -> Iterator[list[BlobRef]]:
    """What is read at once, by number and by size."""
    part: list[BlobRef] = []
    size = 0
    for ref in refs:
        if part and (len(part) >= BLOBS_PER_READ or size + ref.size > BLOBS_BYTES_PER_READ):
            yield part
            part, size = [], 0
        part.append(ref)
        size += ref.size
    if part:
        yield part
