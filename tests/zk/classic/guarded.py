"""A coordinator with roles whose port is slow, may not read or may not write some nodes; and the
client-led groups that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.core.classic.scenario import OPTIONS
from tests.sim.rights import ROLES
from tests.zk.classic.served_side import GROUP, PATHS, ServedSide
from zkcoord.core.classic.requests import ClassicDelete, ClassicRequest
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Malformed
from zkcoord.zk.classic.served_group import Found
from zkcoord.zk.port import (
    AclEntry,
    AclsResult,
    Create,
    Denied,
    MultiResult,
    Op,
    Read,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.znodes.classic.documents import (
    ClassicAsk,
    decode_answer,
    decode_state,
    encode_ask,
    encode_state,
)
from zkcoord.znodes.classic.paths import request_name

MINUTE_MS = 60_000
EMPTY = encode_state(ClassicState(ClassicPhase.EMPTY, 1))
CLIENT = ClassicMember("m", None, "c", "h", 30_000, 30_000, (("own", b""),))
LED = ClassicState(ClassicPhase.STABLE, 7, "connect", "own", "m", (CLIENT,))


class SlowPort:
    """A port that takes `delay_ms` to tell ACLs, `write_ms` to write, and counts what is asked. The
    nodes that are `fixed` are not written, those that are `hidden` not read.
    """

    def __init__(self, port: Any) -> None:
        self.port = port
        self.delay_ms = self.reads = self.under_way = self.most = self.write_ms = 0
        self.fixed: set[str] = set()
        self.hidden: set[str] = set()
        self.tried: list[str] = []
        self.reads_wait = False
        self._waiting: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.reads += len(reads)

        def answered(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                pairs = zip(reads, result.answers, strict=True)
                denied = Denied(ZkError.NO_AUTH)
                result = ReadDone(tuple(denied if r.path in self.hidden else a for r, a in pairs))
            done(result)

        if self.reads_wait:
            self._waiting.append(lambda: self.port.read(reads, answered))
        else:
            self.port.read(reads, answered)

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        written = [op.path for op in ops if isinstance(op, SetData)]
        self.tried += written
        if self.fixed.intersection(written):
            self.port.host.after(1, lambda: done(Rejected(1, ZkError.NO_AUTH)))
        elif self.write_ms:
            self.port.host.after(self.write_ms, lambda: self.port.multi(ops, done))
        else:
            self.port.multi(ops, done)

    def go_on(self) -> None:
        """What waits is read."""
        self.reads_wait, waiting, self._waiting = False, self._waiting, []
        for one in waiting:
            one()

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """See `Port`."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)

        def answered(result: AclsResult) -> None:
            self.under_way -= 1
            done(result)

        self.port.host.after(self.delay_ms, lambda: self.port.acls(paths, answered))


class Guarded(ServedSide):
    """See the module. `groups` begin with `lead`."""

    def __init__(self) -> None:
        super().__init__(OPTIONS)
        self.freed: list[str] = []
        self.taken: list[str] = []

    def make(self, *names: str) -> None:
        """Groups that clients have led."""
        for name in names:
            self.write([Create(path, b"") for path in PATHS.parts(name)])
            self.write([Create(PATHS.state(name), EMPTY)])

    def close(self, *paths: str) -> None:
        """Each node has the ACL of its place, or each of these."""
        for path in paths or tuple(self.zk.tree.nodes):
            self.may(path, ROLES.acl(path))

    def may(self, path: str, acl: tuple[AclEntry, ...]) -> None:
        """Say who may do what with a node."""
        for server in self.zk.servers:
            for tree in {id(t): t for t in (server.tree, self.zk.tree)}.values():
                tree.nodes[path] = tree.nodes[path]._replace(acl=acl)

    def lead(self, delay_ms: int = 0) -> None:
        """A term begins; with a delay, nothing has been answered yet."""
        if self.groups is not None:
            self.groups.lost()
        self.port = SlowPort(self.coordinator)
        self.port.delay_ms = delay_ms
        self.groups = self.made(self.port, roles=ROLES, freed=self.freed.append)  # type: ignore[arg-type]
        found = self.groups._written._found

        def take(group: str, what: Found, lacking: list[str]) -> None:
            self.taken.append(group)
            found(group, what, lacking)

        self.groups._written._found = take
        self.groups.begin()
        if not delay_ms:
            self.settle()

    def lead_fixed(self, *paths: str) -> None:
        """The same, while the coordinator may not write these nodes."""
        self.lead(20)
        self.port.fixed.update(paths)
        self.wait(200)
        self.port.delay_ms = 0

    def asks(self, request: ClassicRequest) -> str:
        """A gateway asks: the path of the request."""
        path = PATHS.request(request_name(GROUP))
        self.write([Create(path, encode_ask(ClassicAsk(GROUP, request))[0], ephemeral=True)])
        return path

    def told(self, path: str) -> WireCode | None:
        """What it is answered so far."""
        answer = decode_answer(path, self.data(path) or b"")
        assert not isinstance(answer, Malformed)
        return None if answer is None else answer.code

    def answered(self, request: ClassicDelete, *ops: Op, later: bool = False) -> WireCode:
        """What a gateway hears that has asked together with these (`later`: others have written
        the proof before it is looked at).
        """
        path = PATHS.request(request_name(GROUP))
        ask = encode_ask(ClassicAsk(GROUP, request))[0]
        self.port.reads_wait = later
        self.write([*ops, Create(path, ask, ephemeral=True)])
        if later:
            self.set(PATHS.proof(GROUP), b"")
            self.port.go_on()
        self.settle()
        found = decode_answer(path, self.data(path) or b"")
        assert found is not None and not isinstance(found, Malformed)
        return found.code

    @property
    def members(self) -> tuple[ClassicMember, ...]:
        """Whom the group's state names."""
        said = decode_state(GROUP, self.data(PATHS.state(GROUP)) or b"")
        assert isinstance(said, ClassicState)
        return said.members

    def passes(self, ms: int) -> None:
        """Time passes; the loop looks at its timer often."""
        for _ in range(ms // 50):
            self.wait(50)
