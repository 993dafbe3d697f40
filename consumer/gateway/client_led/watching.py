"""What a gateway sees of client-led groups: the state and the round of each that it serves, read
again whenever they change; those of others when they are asked for; and what clients have brought
for each other. Everything here runs on the members' loop.

With roles what is written of a group counts only where nobody but coordinators can have written it.
Else nothing is known of the group, which is not the same as that it has no members: who asks hears
that no coordinator is available, which is so, since coordinators do not serve it either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkcoord.core.classic.requests import BlobRef
from zkcoord.core.classic.state import ClassicState
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.zk.acl.led_belief import LedDoubts, ask_who_wrote
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.classic.blobs import parts_of
from zkcoord.zk.classic.pins import Pins
from zkcoord.zk.port import (
    Fired,
    GetData,
    Node,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    WatchMode,
)
from zkcoord.znodes.classic.documents import (
    ClassicRound,
    blob_digest,
    decode_round,
    decode_state,
)
from zkcoord.znodes.classic.paths import (
    ClassicPaths,
    ClassicPinAt,
    ClassicRoundAt,
    ClassicStateAt,
)
from zkcoord.znodes.classic.view import ClassicView
from zkcoord.znodes.names import shown

log = logging.getLogger(__name__)

LOOKS_MAX = 10_000
TOLD_MAX = 100
NOBODY = -1


@value
class LedSeen:
    """A group at one moment. `version`: of its state, which fences commits (`NOBODY`: it has
    none).
    """

    view: ClassicView
    version: int


def seen_of(group: str, state: ReadAnswer, begun: ReadAnswer) -> LedSeen | Malformed:
    """What these nodes of a group say."""
    found: ClassicState | None = None
    version = NOBODY
    if isinstance(state, Node):
        decoded = decode_state(group, state.data)
        if isinstance(decoded, Malformed):
            return decoded
        found, version = decoded, state.stat.version
    since = decode_round(group, begun.data) if isinstance(begun, Node) else ClassicRound()
    if isinstance(since, Malformed):
        since = ClassicRound()  # a hint, and the coordinator decides without it
    return LedSeen(ClassicView(found, since), version)


@dataclass(slots=True, eq=False)
class WatchedGroup:
    """`is_stale`: it has changed since it was read, or was never read; `is_read`: it is being
    read; `believed`: the nodes of which it was asked who can have written them.
    """

    is_stale: bool = True
    is_read: bool = False
    believed: tuple[int, ...] = ()


class Watching:
    """See the module. `seen` hears of each group that is watched, each time that it was read."""

    def __init__(self, paths: ClassicPaths, seen: Callable[[str, LedSeen], None]) -> None:
        self._paths = paths
        self._seen = seen
        self._port: Port | None = None
        self._watched: dict[str, WatchedGroup] = {}
        self._looks = 0
        self._roles: Roles | None = None
        self.pins = Pins(paths, self._strange)
        self._told: set[str] = set()

    def believe(self, roles: Roles | None) -> None:
        """Whose words count from now on."""
        self._roles = self.pins.roles = roles

    # the session

    def connected(self, port: Port, new: bool) -> None:
        """See `UsesSession`. All is read again."""
        self._port = port
        port.watch(self._paths.pins, WatchMode.RECURSIVE, lambda result: None)
        self.pins.read_all(port)
        for group in self._watched:
            self._watched[group] = WatchedGroup()
            self._begin(port, group)

    def fired(self, event: Fired) -> None:
        """See `UsesSession`."""
        where = self._paths.locate(event.path)
        if isinstance(where, ClassicPinAt):
            self.pins.changed(where.group)
        elif isinstance(where, ClassicStateAt | ClassicRoundAt) and where.group in self._watched:
            self.read_again(where.group)

    # those that are served

    def watch(self, group: str) -> None:
        """Hear of it from now on."""
        self._watched[group] = WatchedGroup()
        if self._port is not None:
            self._begin(self._port, group)

    def forget(self, group: str) -> None:
        """No more."""
        del self._watched[group]
        if self._port is not None:
            self._port.unwatch(self._paths.group(group), lambda result: None)

    def is_current(self, group: str) -> bool:
        """Whether nothing has changed since it was read, as far as that is known."""
        found = self._watched.get(group)
        return found is not None and not found.is_stale and not found.is_read

    def read_again(self, group: str) -> None:
        """It has changed."""
        watched = self._watched[group]
        watched.is_stale = True
        if not watched.is_read and self._port is not None:
            self._read(self._port, group, watched)

    def ask_again(self, group: str) -> None:
        """Somebody wants to know it: what was not believed may be mended, which nothing tells."""
        watched = self._watched[group]
        if watched.is_stale and not watched.is_read and self._port is not None:
            self._read(self._port, group, watched)

    def _begin(self, port: Port, group: str) -> None:
        port.watch(self._paths.group(group), WatchMode.RECURSIVE, lambda result: None)
        self._read(port, group, self._watched[group])

    def _read(self, port: Port, group: str, watched: WatchedGroup) -> None:
        def read(result: ReadResult) -> None:
            if self._watched.get(group) is not watched:
                return
            if isinstance(result, ReadDone) and not watched.is_stale:
                return self._judge(port, group, result.answers, judged)
            watched.is_read = False
            if isinstance(result, ReadDone):
                return self._read(port, group, watched)
            watched.is_stale = True  # it is read on the next connection
            return None

        def judged(seen: LedSeen | None) -> None:
            if self._watched.get(group) is not watched:
                return None
            watched.is_read = False
            if watched.is_stale:
                return self._read(port, group, watched)
            if seen is None:
                watched.is_stale = True  # it is read when it changes, or somebody asks later
                return None
            return self._seen(group, seen)

        watched.is_stale, watched.is_read = False, True
        port.read(self._reads(group), read)

    def _judge(
        self,
        port: Port,
        group: str,
        answers: Sequence[ReadAnswer],
        then: Callable[[LedSeen | None], None],
    ) -> None:
        """`then` hears what these nodes say; None: they are not believed, or cannot be judged. Once
        for each node, as long as the group is watched.
        """
        nodes = tuple(answer.stat.czxid for answer in answers if isinstance(answer, Node))
        watched = self._watched.get(group)
        if not nodes or (watched is not None and watched.believed == nodes):
            return then(self._decoded(group, answers))

        def answered(doubts: LedDoubts | None) -> None:
            why = doubts.of(group) if doubts is not None else ""
            if why:
                self._strange(Malformed("client-led group", group, f"not believed: {why}"))
            elif doubts is not None and watched is not None:
                watched.believed = nodes
            believed = doubts is not None and not why
            then(self._decoded(group, answers) if believed else None)

        return ask_who_wrote(port, self._roles, self._paths, [group], answered)

    def _reads(self, group: str) -> list[Read]:
        paths = self._paths
        return [GetData(paths.state(group)), GetData(paths.round(group))]

    def _decoded(self, group: str, answers: Sequence[ReadAnswer]) -> LedSeen:
        found = seen_of(group, *answers)
        if isinstance(found, LedSeen):
            return found
        self._strange(found)
        return LedSeen(ClassicView(None), NOBODY)

    def _strange(self, bad: Malformed) -> None:
        if bad.name not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(bad.name)
            log.warning("what is said of group %s cannot be read: %s", shown(bad.name), bad)

    # others

    def look(self, group: str, then: Callable[[LedSeen | None], None]) -> None:
        """Read a group once; None: that cannot be done now, or it is not believed."""
        port = self._port
        if port is None or self._looks >= LOOKS_MAX:
            return then(None)

        def read(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                self._judge(port, group, result.answers, judged)
            else:
                judged(None)

        def judged(seen: LedSeen | None) -> None:
            self._looks -= 1
            then(seen)

        self._looks += 1
        return port.read(self._reads(group), read)

    def look_now(self, group: str, then: Callable[[LedSeen | None], None]) -> None:
        """The same, but what is read is no older than this call."""
        if self._port is None:
            return then(None)

        def synced(result: ReadResult) -> None:
            if isinstance(result, ReadDone) and not result.answers:
                self.look(group, then)  # a server that has seen less takes this session no more
            else:
                then(None)

        return self._port.sync(synced)

    # what clients have brought

    def blobs(
        self,
        group: str,
        refs: Sequence[BlobRef],
        then: Callable[[dict[str, bytes] | None], None],
    ) -> None:
        """Read these; None: one of them is gone, or cannot be read now."""
        self._blobs(group, list(parts_of(refs)), {}, then)

    def _blobs(
        self,
        group: str,
        parts: list[list[BlobRef]],
        found: dict[str, bytes],
        then: Callable[[dict[str, bytes] | None], None],
    ) -> None:
        if not parts:
            return then(found)
        if self._port is None:
            return then(None)

        def read(result: ReadResult) -> None:
            answers = result.answers if isinstance(result, ReadDone) else ()
            for ref, node in zip(parts[0], answers, strict=False):
                if not isinstance(node, Node):
                    continue
                if len(node.data) == ref.size and blob_digest(node.data) == ref.digest:
                    found[ref.digest] = node.data
                else:
                    path = self._paths.blob(group, ref.digest)
                    why = f"{path} is not what a client has brought: delete that node"
                    self._strange(Malformed("blob of a group", group, why))
            if all(ref.digest in found for ref in parts[0]):
                self._blobs(group, parts[1:], found, then)
            else:
                then(None)

        reads = [GetData(self._paths.blob(group, ref.digest)) for ref in parts[0]]
        return self._port.read(reads, read)
