"""What stands in ZooKeeper beside what `zkcoord.zk.acl.table` says: who may do more with a node
than its place allows, and who less.

Everything under zkcoord's roots is looked at from the top down, up to a limit, so that what holds
the most is looked at first. Nodes come and go meanwhile; what is gone when it is asked for is
nobody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from zkcoord.core.value_type import value
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
from zkcoord.znodes.paths import CONSUMERS, LAYOUTS, Layout, parents

from .client import AclClient
from .table import Roles, letters

ROOTS = tuple(sorted({CONSUMERS, *(parents(layout.leader)[0] for layout in LAYOUTS.values())}))
CHILDREN_LISTED_MAX = 20_000
LOOKED_AT_ONCE = 1_000
MAKING, CHANGING = frozenset("ca"), frozenset("wa")
TORN_LOOKS = 2
"""A server before 3.6 answers reads of one request one after the other: somebody can have come to
lead between two of them, and has not at the next look.
"""


@value
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


@value
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
    """Operators' and coordinators' words that somebody else could have made or changed, by what
    others may do with the node, or with one above: nothing says who did. Ask before the ACLs are
    mended: from then on they are believed. Raises `UnavailableError`.
    """
    making: list[str] = []
    places: list[str] = []
    for finding in found.findings:
        rights = set("".join(may for _, may in finding.more))
        making += [finding.path] if rights & MAKING else []
        for layout in LAYOUTS.values():
            if _is_word(layout, finding.path, rights):
                places.append(finding.path)
    for layout in LAYOUTS.values():
        places += _words_below(client, layout, making)
    for layout in LAYOUTS.values():
        if layout.leader in places and _is_of_epoch(client, layout):
            places = [path for path in places if path != layout.leader]
    # whatever was looked at is, or is above, two of them at most
    places = list(dict.fromkeys(places))[: 2 * found.looked_at]
    answers = client.nodes.read([GetData(path) for path in places])
    return tuple(
        path
        for path, answer in zip(places, answers, strict=True)
        if isinstance(answer, (Node, Denied))
    )


def _is_word(layout: Layout, path: str, rights: set[str]) -> bool:
    """Whether it is a word that somebody with these rights could have written."""
    group, name = path.split("/")[-2:]
    classic = ClassicPaths(layout)
    if path == layout.requests(group):
        return bool(rights & MAKING)
    words = (layout.leader, layout.mode(group), classic.pin(name), classic.state(group))
    return path in words and bool(rights & CHANGING)


def _words_below(client: AclClient, layout: Layout, making: Sequence[str]) -> list[str]:
    """What others could have made who may make nodes below these."""
    classic, there = ClassicPaths(layout), set(making)
    found = [layout.leader] if parents(layout.leader)[-1] in there else []
    if there & {layout.epoch, *classic.above_pins()}:
        found += _listed(client, classic.pins)
    groups, led = [], []
    for path in making:
        name = path.rpartition("/")[2]
        groups += [name] if path == layout.group(name) else []
        led += [name] if path == classic.group(name) else []
    if layout.epoch in there:
        groups = [path.rpartition("/")[2] for path in _listed(client, layout.epoch)]
    if there & {layout.epoch, *classic.above_groups()}:
        led = [path.rpartition("/")[2] for path in _listed(client, classic.groups)]
    for name in groups:
        found += [layout.mode(name), layout.requests(name)]
    return found + [classic.state(name) for name in led]


def _is_of_epoch(client: AclClient, layout: Layout) -> bool:
    """Whether the leader's node was made in the multi that wrote the epoch, as a coordinator's is:
    others may not write that.
    """
    for _ in range(TORN_LOOKS):
        epoch, leader = client.nodes.read([GetData(layout.epoch), GetData(layout.leader)])
        if (
            isinstance(epoch, Node)
            and isinstance(leader, Node)
            and leader.stat.ephemeral_owner
            and leader.stat.czxid == epoch.stat.mzxid
        ):
            return True
    return False


def _listed(client: AclClient, path: str) -> list[str]:
    """What is below a node, as far as the audit looks there."""
    (head,) = client.nodes.read([GetData(path)])
    count = head.stat.num_children if isinstance(head, Node) else 0
    return _below(client, [path]) if 0 < count <= CHILDREN_LISTED_MAX else []


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
