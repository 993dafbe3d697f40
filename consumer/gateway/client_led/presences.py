"""That this gateway serves members of client-led groups: a node for each, that ends with the
gateway's session. A member is served by one gateway: the one to which its client came last makes
the node its own, which the other hears. Everything here runs on the members' loop.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    AclEntry,
    Change,
    Committed,
    Create,
    Delete,
    Fired,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Port,
    ReadDone,
    ReadResult,
    Rejected,
    ZkError,
)
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.presence import ServedBy, encode_presence

TRIES_MAX = 5


class PresenceStep(enum.Enum):
    """How far a node is."""

    WANTED = "it is to be made, whoever has it now"
    MADE = "it is this gateway's"
    DROPPED = "it is to go as soon as it is made"
    GOING = "it is to go, and may still be there"


@dataclass(slots=True, eq=False)
class HeldMember:
    """A member that is served here. `is_asked`: its node is being made just now; `data`: what it
    says for people.
    """

    group: str
    member_id: str
    data: bytes = b""
    step: PresenceStep = PresenceStep.WANTED
    is_asked: bool = False


class Presences:
    """See the module. `lost(group, member)` is told of members that another gateway serves now;
    `gateway` is where clients find this one.
    """

    def __init__(
        self,
        paths: ClassicPaths,
        acl: tuple[AclEntry, ...],
        lost: Callable[[str, str], None],
        gateway: str = "",
    ) -> None:
        self._paths = paths
        self._acl = acl
        self._lost = lost
        self._gateway = gateway
        self._port: Port | None = None
        self._session_id = 0
        self._held: dict[str, HeldMember] = {}  # by path

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, group: str, member_id: str) -> bool:
        """Whether this gateway serves a member, as far as is known."""
        return self._paths.presence(group, member_id) in self._held

    def hold(self, group: str, member_id: str, library: str = "") -> None:
        """This gateway serves a member from now on; `library`: what its client is."""
        path = self._paths.presence(group, member_id)
        held = self._held.get(path)
        if held is None:
            data = encode_presence(ServedBy(library, self._gateway))
            held = self._held[path] = HeldMember(group, member_id, data)
            self._make(path, held)
        elif held.step is PresenceStep.DROPPED:
            held.step = PresenceStep.WANTED
        elif held.step is PresenceStep.GOING:
            held.step = PresenceStep.WANTED
            self._make(path, held)

    def unless_elsewhere(self, group: str, member_id: str, then: Callable[[], None]) -> None:
        """Do this, but not where another gateway serves a member by now, nor where that cannot be
        found out: whom nobody serves the coordinator puts out by itself, later.
        """
        port, session_id = self._port, self._session_id

        def read(result: ReadResult) -> None:
            node = result.answers[0] if isinstance(result, ReadDone) else None
            is_own = isinstance(node, Node) and node.stat.ephemeral_owner == session_id
            if is_own or isinstance(node, Missing):
                then()

        def synced(result: ReadResult) -> None:
            if port is not None and isinstance(result, ReadDone):
                port.read([GetData(self._paths.presence(group, member_id))], read)

        if port is not None:
            port.sync(synced)

    def release(self, group: str, member_id: str) -> None:
        """No longer. What cannot be deleted now is deleted later: as long as it is there the member
        is believed to live.
        """
        path = self._paths.presence(group, member_id)
        held = self._held.get(path)
        if held is None:
            return
        if held.is_asked:
            held.step = PresenceStep.DROPPED
            return
        if held.step is PresenceStep.MADE:
            held.step = PresenceStep.GOING
            self._delete(path, held)
        elif held.step is not PresenceStep.GOING:
            del self._held[path]

    def _delete(self, path: str, held: HeldMember) -> None:
        def deleted(result: MultiResult) -> None:
            known = isinstance(result, (Committed, Rejected))
            if known and self._held.get(path) is held and held.step is PresenceStep.GOING:
                del self._held[path]

        if self._port is not None:
            self._port.multi([Delete(path)], deleted)

    def connected(self, port: Port, session_id: int, new: bool) -> None:
        """See `UsesSession`. What another gateway has by now is its own."""
        self._port, self._session_id = port, session_id
        made = []
        for path, held in tuple(self._held.items()):
            held.is_asked = False
            if held.step is PresenceStep.DROPPED:
                held.step = PresenceStep.GOING
            if new and held.step is PresenceStep.GOING:
                del self._held[path]
            elif held.step is PresenceStep.WANTED:
                self._make(path, held)
            else:
                made.append((path, held))
        for at in range(0, len(made), READS_PER_REQUEST_MAX):
            self._look(port, made[at : at + READS_PER_REQUEST_MAX])

    def _look(self, port: Port, made: list[tuple[str, HeldMember]]) -> None:
        def read(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return
            for (path, held), node in zip(made, result.answers, strict=True):
                if self._held.get(path) is not held:
                    continue
                is_own = isinstance(node, Node) and node.stat.ephemeral_owner == self._session_id
                if held.step is PresenceStep.GOING:
                    if is_own:
                        self._delete(path, held)
                    else:
                        del self._held[path]
                elif held.step is PresenceStep.MADE and not is_own:
                    if isinstance(node, Node):
                        self._give_up(path, held)
                    else:
                        self._make(path, held)

        port.read([GetData(path) for path, _ in made], read)

    def fired(self, event: Fired) -> None:
        """See `UsesSession`: what is deleted while it is this gateway's is another's now."""
        held = self._held.get(event.path)
        if held is None or event.change is not Change.DELETED or held.is_asked:
            return
        if held.step is PresenceStep.MADE:
            self._give_up(event.path, held)
        elif held.step is PresenceStep.GOING:
            del self._held[event.path]

    def _give_up(self, path: str, held: HeldMember) -> None:
        del self._held[path]
        self._lost(held.group, held.member_id)

    def _make(
        self, path: str, held: HeldMember, there: bool = False, tries: int = TRIES_MAX
    ) -> None:
        """`there`: it is there, another gateway's, or one that this one has left behind."""
        port = self._port
        if port is None:
            return

        def made(result: MultiResult) -> None:
            if self._held.get(path) is not held or port is not self._port or not held.is_asked:
                return
            if isinstance(result, Committed):
                self._made(path, held)
            elif isinstance(result, Rejected):
                error = result.error
                if tries > 1 and error is (ZkError.NO_NODE if there else ZkError.NODE_EXISTS):
                    self._make(path, held, not there, tries - 1)
                else:
                    held.is_asked = False  # its group is gone, or it may not be made
                    self._give_up(path, held)
            else:
                held.is_asked = False  # it is made on the next connection

        held.is_asked = True
        create = Create(path, held.data, ephemeral=True, acl=self._acl)
        ops: list[Op] = [Delete(path), create] if there else [create]
        port.multi(ops, made)

    def _made(self, path: str, held: HeldMember) -> None:
        held.is_asked = False
        if held.step is PresenceStep.DROPPED:
            held.step = PresenceStep.MADE
            self.release(held.group, held.member_id)
        else:
            held.step = PresenceStep.MADE
