"""A znode tree: what one server holds, and what a transaction does to it.

The leader's tree executes multis (all or nothing, one zxid for all of it, later operations see
earlier ones) and yields a `Txn`: resolved changes and the watch events that they cause, in the
server's order. A follower's tree applies the same changes later. Records are immutable, so trees
share them. As in the real server, a node's reported `cversion` counts creates and deletes of
children, while the suffix of a sequential child counts creates only (and starts again when the
parent is re-created).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.rights import Rights
from zkcoord.zk.port import (
    OPEN_ACL,
    Acl,
    AclAnswer,
    AclEntry,
    Change,
    Check,
    Children,
    Create,
    Created,
    Delete,
    Denied,
    Done,
    GetChildren,
    GetData,
    Missing,
    Node,
    Op,
    OpResult,
    Read,
    ReadAnswer,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.znodes.stat import Stat


class Rec(NamedTuple):
    """A node: its data and what its stat is made from. `creates` counts children ever created;
    `acl` is empty where rights do not matter.
    """

    data: bytes
    czxid: int
    mzxid: int
    version: int
    creates: int
    owner: int
    acl: tuple[AclEntry, ...] = ()


@dataclass(slots=True)
class Txn:
    """One transaction of the log: who did what, what it changed (with the record before), and the
    watch events that it causes.
    """

    zxid: int
    time_ms: int
    session: int
    host: str
    kind: str
    ops: tuple[Op, ...] = ()
    # path, before, after
    changes: list[tuple[str, Rec | None, Rec | None]] = field(default_factory=list)
    events: list[tuple[Change, str]] = field(default_factory=list)


def parent_of(path: str) -> str:
    """The path above ("/" for the top)."""
    return path[: path.rfind("/")] or "/"


class Tree:
    """All nodes of one server. With `rights` hosts may do only what the nodes' ACLs say."""

    def __init__(self, rights: Rights | None = None) -> None:
        self.rights = rights
        self.nodes: dict[str, Rec] = {"/": Rec(b"", 0, 0, 0, 0, 0)}
        self.children: dict[str, dict[str, None]] = {"/": {}}

    def stat(self, path: str) -> Stat:
        """The stat of a node that exists."""
        rec, count = self.nodes[path], len(self.children[path])
        return Stat(rec.czxid, rec.mzxid, rec.version, 2 * rec.creates - count, rec.owner, count)

    def allows(self, host: str, rec: Rec, letter: str) -> bool:
        """Whether a host may do this with a node."""
        return self.rights is None or self.rights.allows(host, rec.acl, letter)

    def acl(self, path: str, host: str) -> AclAnswer:
        """Answer who may do what with a node."""
        rec = self.nodes.get(path)
        if rec is None:
            return Missing()
        if not self.allows(host, rec, "r") and not self.allows(host, rec, "a"):
            return Denied(ZkError.NO_AUTH)
        return Acl(rec.acl or OPEN_ACL, len(self.children[path]))

    def answer(self, read: Read, host: str = "") -> ReadAnswer:
        """Answer one read from what this server holds."""
        if read.path not in self.nodes:
            return Missing()
        if not self.allows(host, self.nodes[read.path], "r"):
            return Denied(ZkError.NO_AUTH)
        if isinstance(read, GetData):
            return Node(self.nodes[read.path].data, self.stat(read.path))
        assert isinstance(read, GetChildren)
        return Children(tuple(sorted(self.children[read.path])))

    def apply(self, changes: Sequence[tuple[str, Rec | None, Rec | None]]) -> None:
        """Make a transaction's changes."""
        for path, before, after in changes:
            if after is None:
                del self.nodes[path]
                del self.children[path]
                self.children[parent_of(path)].pop(path[path.rfind("/") + 1 :])
            else:
                if before is None:
                    self.children[path] = {}
                    self.children[parent_of(path)][path[path.rfind("/") + 1 :]] = None
                self.nodes[path] = after

    def execute(self, ops: Sequence[Op], session: int, txn: Txn) -> tuple[OpResult, ...] | Rejected:
        """Run a multi here, filling in `txn`; nothing is changed when it is rejected."""
        view = _View(self, session, txn)
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            result = view.run(op)
            if isinstance(result, ZkError):
                txn.changes.clear()
                txn.events.clear()
                return Rejected(index, result)
            results.append(result)
        self.apply(txn.changes)
        return tuple(results)

    def close_session(self, session: int, owned: Sequence[str], txn: Txn) -> None:
        """Delete every ephemeral node of a session in one transaction."""
        view = _View(self, session, txn)
        for path in owned:
            view.run(Delete(path))
        self.apply(txn.changes)


class _View:
    """A tree as the operations of one multi see it, before it is applied."""

    def __init__(self, tree: Tree, session: int, txn: Txn) -> None:
        self._tree = tree
        self._session = session
        self._txn = txn
        self._changed: dict[str, Rec | None] = {}
        self._count: dict[str, int] = {}

    def _get(self, path: str) -> Rec | None:
        return self._changed[path] if path in self._changed else self._tree.nodes.get(path)

    def _put(self, path: str, before: Rec | None, after: Rec | None) -> None:
        self._changed[path] = after
        self._txn.changes.append((path, before, after))

    def _children(self, path: str) -> int:
        return len(self._tree.children.get(path, ())) + self._count.get(path, 0)

    def run(self, op: Op) -> OpResult | ZkError:
        """Run one operation."""
        if isinstance(op, Create):
            return self._create(op)
        rec = self._get(op.path)
        if rec is None:
            return ZkError.NO_NODE
        if not self._allowed(op, rec):
            return ZkError.NO_AUTH
        if op.version not in (-1, rec.version):
            return ZkError.BAD_VERSION
        if isinstance(op, Check):
            return Done()
        if isinstance(op, SetData):
            new = rec._replace(data=op.data, mzxid=self._txn.zxid, version=rec.version + 1)
            self._put(op.path, rec, new)
            self._txn.events.append((Change.DATA, op.path))
            count = self._children(op.path)
            return Stat(
                new.czxid, new.mzxid, new.version, 2 * new.creates - count, new.owner, count
            )
        if self._children(op.path):
            return ZkError.NOT_EMPTY
        self._put(op.path, rec, None)
        parent = parent_of(op.path)
        self._count[parent] = self._count.get(parent, 0) - 1
        self._count.pop(op.path, None)
        self._txn.events += [(Change.DELETED, op.path), (Change.CHILDREN, parent)]
        return Done()

    def _allowed(self, op: Op, rec: Rec) -> bool:
        """Deleting is a right of the node above, checking is reading."""
        above = self._get(parent_of(op.path)) if isinstance(op, Delete) else rec
        letter = {Delete: "d", SetData: "w"}.get(type(op), "r")
        return above is None or self._tree.allows(self._txn.host, above, letter)

    def _create(self, op: Create) -> OpResult | ZkError:
        parent = parent_of(op.path)
        above = self._get(parent)
        if above is None:
            return ZkError.NO_NODE
        if not self._tree.allows(self._txn.host, above, "c"):
            return ZkError.NO_AUTH
        if above.owner:
            return ZkError.NO_CHILDREN_FOR_EPHEMERALS
        path = f"{op.path}{above.creates:010d}" if op.sequential else op.path
        if self._get(path) is not None:
            return ZkError.NODE_EXISTS
        zxid = self._txn.zxid
        self._put(parent, above, above._replace(creates=above.creates + 1))
        acl = op.acl if self._tree.rights is not None else ()
        owner = self._session if op.ephemeral else 0
        self._put(path, None, Rec(op.data, zxid, zxid, 0, 0, owner, acl))
        self._count[parent] = self._count.get(parent, 0) + 1
        self._count[path] = (
            0 if path not in self._tree.children else -len(self._tree.children[path])
        )
        self._txn.events += [(Change.CREATED, path), (Change.CHILDREN, parent)]
        return Created(path)
