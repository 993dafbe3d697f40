"""What stands in ZooKeeper beside what `zkcoord.zk.acl.table` says: who may do more with a node
than its place allows, and who less.

Everything under zkcoord's roots is looked at from the top down, up to a limit, so that what holds
the most is looked at first. Nodes come and go meanwhile; what is gone when it is asked for is
nobody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from zkcoord.zk.port import (
    Acl,
    AclAnswer,
    AclEntry,
    Children,
    Denied,
    GetChildren,
    GetData,
    Missing,
    Node,
)
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import CONSUMERS, LAYOUTS, parents

from .client import AclClient
from .table import Roles, letters

ROOTS = tuple(sorted({CONSUMERS, *(parents(layout.leader)[0] for layout in LAYOUTS.values())}))
CHILDREN_LISTED_MAX = 20_000
LOOKED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class AclFinding:
    """A node whose ACL is not that of its place. `more` and `less`: (who, letters) beyond it, and
    missing from it. `closed`: its ACL may not be read with these credentials.
    """

    path: str
    more: tuple[tuple[str, str], ...] = ()
    less: tuple[tuple[str, str], ...] = ()
    closed: bool = False

    @property
    def is_open(self) -> bool:
        """Somebody may do what only others are to do."""
        return bool(self.more)

    def __str__(self) -> str:
        if self.closed:
            return f"{self.path}: its ACL may not be read with these credentials"
        more = [f"{who} may {may}" for who, may in self.more]
        less = [f"{who} lacks {lack}" for who, lack in self.less]
        return f"{self.path}: {', '.join(more + less)}"


@dataclass(frozen=True, slots=True)
class AclAudit:
    """`looked_at` nodes were compared; `left_off`: that there are more than were looked at."""

    findings: tuple[AclFinding, ...]
    looked_at: int
    left_off: bool

    @property
    def open(self) -> tuple[AclFinding, ...]:
        """Those where somebody may do more than allowed."""
        return tuple(finding for finding in self.findings if finding.is_open)


def judge(roles: Roles, path: str, entries: Sequence[AclEntry]) -> AclFinding | None:
    """Compare a node's ACL with what its place says; None where they are equal."""
    twice = roles.doubled(entries)
    of_twice = [entry.perms for entry in entries if entry.id == twice]
    entries = [roles.unmasked(entry) for entry in entries]
    now, wanted = _granted(entries), _granted(roles.acl(path))
    more = tuple(
        (entry.who, letters(perms & ~wanted.get(key, 0)))
        for key, (entry, perms) in _named(entries, now).items()
        if perms & ~wanted.get(key, 0)
    )
    less = tuple(
        (entry.who, letters(perms & ~now.get(key, 0)))
        for key, (entry, perms) in _named(roles.acl(path), wanted).items()
        if perms & ~now.get(key, 0)
    )
    if twice:  # one of the two passwords is somebody else's
        every = reduce(or_, of_twice)
        more = ((f"one of two users digest:{twice}", letters(every)), *more)
    return AclFinding(path, more, less) if more or less else None


def _granted(entries: Sequence[AclEntry]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for entry in entries:
        found[entry.scheme, entry.id] = found.get((entry.scheme, entry.id), 0) | entry.perms
    return found


def _named(
    entries: Sequence[AclEntry], granted: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], tuple[AclEntry, int]]:
    return {(entry.scheme, entry.id): (entry, granted[entry.scheme, entry.id]) for entry in entries}


def audit(client: AclClient, roles: Roles, nodes_max: int) -> AclAudit:
    """Look at `nodes_max` nodes at most. Raises `UnavailableError`."""
    findings: list[AclFinding] = []
    level, looked_at, left_off = list(ROOTS), 0, False
    while level:
        if looked_at + len(level) > nodes_max:
            level, left_off = level[: nodes_max - looked_at], True
        answers = client.acls(level)
        findings += [
            finding
            for path, answer in zip(level, answers, strict=False)
            if (finding := _finding(roles, path, answer)) is not None
        ]
        looked_at += sum(not isinstance(answer, Missing) for answer in answers)
        with_children = [
            path
            for path, answer in zip(level, answers, strict=False)
            if isinstance(answer, Acl) and answer.num_children
        ]
        listed = [
            path
            for path, answer in zip(level, answers, strict=False)
            if isinstance(answer, Acl) and 0 < answer.num_children <= CHILDREN_LISTED_MAX
        ]
        left_off = left_off or len(listed) < len(with_children)
        if looked_at >= nodes_max:
            return AclAudit(tuple(findings), looked_at, left_off or bool(with_children))
        level = _below(client, listed)
    return AclAudit(tuple(findings), looked_at, left_off)


def doubtful(client: AclClient, found: AclAudit) -> tuple[str, ...]:
    """Operators' and coordinators' words that somebody else could have made, because the node above
    lets others create: nothing says who did. Ask before the ACLs are mended. Raises
    `UnavailableError`.
    """
    places: list[str] = []
    for finding in found.findings:
        above, name = parents(f"{finding.path}/x")[-1], finding.path.rpartition("/")[2]
        if not any("c" in may for _, may in finding.more):
            continue
        for layout in LAYOUTS.values():
            if layout.group(name) == above:
                places += [layout.mode(name), layout.requests(name)]
            elif parents(layout.leader)[-1] == above:
                places.append(layout.leader)
            if finding.path == layout.epoch:
                for group in _below(client, [layout.epoch]):
                    name = group.rpartition("/")[2]
                    places += [layout.mode(name), layout.requests(name)]
            if finding.path in (layout.epoch, *ClassicPaths(layout).above_pins()):
                places += _below(client, [ClassicPaths(layout).pins])
    nodes = zip(places, client.nodes.read([GetData(path) for path in places]), strict=True)
    return tuple(
        path
        for path, node in dict(nodes).items()
        if isinstance(node, Denied) or (isinstance(node, Node) and not node.stat.ephemeral_owner)
    )


def _finding(roles: Roles, path: str, answer: AclAnswer) -> AclFinding | None:
    if isinstance(answer, Acl):
        return judge(roles, path, answer.entries)
    return AclFinding(path, closed=True) if isinstance(answer, Denied) else None


def _below(client: AclClient, paths: Sequence[str]) -> list[str]:
    found: list[str] = []
    for at in range(0, len(paths), LOOKED_AT_ONCE):
        part = paths[at : at + LOOKED_AT_ONCE]
        for path, answer in zip(
            part, client.nodes.read([GetChildren(path) for path in part]), strict=False
        ):
            found += (
                [f"{path}/{name}" for name in answer.names] if isinstance(answer, Children) else []
            )
    return found
