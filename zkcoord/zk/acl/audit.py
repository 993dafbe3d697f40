"""What stands in ZooKeeper beside what `zkcoord.zk.acl.table` says: who may do more with a node
than its place allows, and who less.

Everything under zkcoord's roots is looked at from the top down, up to a limit, so that what holds
the most is looked at first. Nodes come and go meanwhile; what is gone when it is asked for is
nobody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    Missing,
)
from zkcoord.znodes.paths import CONSUMERS, LAYOUTS, parents

from .client import AclClient
from .table import Roles, is_masked, letters

ROOTS = tuple(sorted({CONSUMERS, *(parents(layout.leader)[0] for layout in LAYOUTS.values())}))
CHILDREN_LISTED_MAX = 200_000
LOOKED_AT_ONCE = 1_000
HASH_CHARS_SHOWN = 4
WHO_CAN = "so that only who made it, or ZooKeeper's superuser, can delete or mend it"


@value
class AclFinding:
    """A node whose ACL is not that of its place. `more` and `less`: (who, letters) beyond it, and
    missing from it. `closed`: its ACL may not be read with these credentials; `kept`: it may, and
    does not show a coordinator whose hashes it has, so that it may not be changed.
    """

    path: str
    more: tuple[tuple[str, str], ...] = ()
    less: tuple[tuple[str, str], ...] = ()
    closed: bool = False
    kept: bool = False

    @property
    def is_open(self) -> bool:
        """Somebody may do what only others are to do."""
        return bool(self.more)

    def __str__(self) -> str:
        if self.closed:
            return f"{self.path}: its ACL may not be read with these credentials, {WHO_CAN}"
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


def judge(
    roles: Roles, path: str, entries: Sequence[AclEntry], by_coordinator: bool = False
) -> AclFinding | None:
    """Compare a node's ACL with what its place says; None where they are equal. `by_coordinator`:
    who asks is one, and is shown each hash in an ACL that it may change, as it may all.
    """
    kept = by_coordinator and any(map(is_masked, entries))
    twice = "" if kept else roles.doubled(entries)
    of_twice = [entry.perms for entry in entries if entry.id == twice]
    entries = entries if kept else [roles.unmasked(entry) for entry in entries]
    now, wanted = _granted(entries), _granted(roles.acl(path))
    who = told_apart((*entries, *roles.acl(path)))
    more = tuple(
        (who[key], letters(perms & ~wanted.get(key, 0)))
        for key, perms in now.items()
        if perms & ~wanted.get(key, 0)
    )
    less = tuple(
        (who[key], letters(perms & ~now.get(key, 0)))
        for key, perms in wanted.items()
        if perms & ~now.get(key, 0)
    )
    if twice:  # one of the two passwords is somebody else's
        every = reduce(or_, of_twice)
        more = ((f"one of two users digest:{twice}", letters(every)), *more)
    return AclFinding(path, more, less, kept=kept) if more or less else None


def _granted(entries: Sequence[AclEntry]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for entry in entries:
        found[entry.scheme, entry.id] = found.get((entry.scheme, entry.id), 0) | entry.perms
    return found


def told_apart(entries: Iterable[AclEntry]) -> dict[tuple[str, str], str]:
    """What each user is called, by scheme and id: digest users of one name with the beginning of
    their hashes, which is too short to find a password by.
    """
    ids: dict[str, set[str]] = {}
    entries = tuple(entries)
    for entry in entries:
        ids.setdefault(entry.who, set()).add(entry.id)
    return {(one.scheme, one.id): _called(one, len(ids[one.who])) for one in entries}


def _called(entry: AclEntry, of_its_name: int) -> str:
    if is_masked(entry):
        return f"{entry.who}, whose hash is not shown,"
    if of_its_name == 1:
        return entry.who
    return f"{entry.who}:{entry.id.partition(':')[2][:HASH_CHARS_SHOWN]}..."


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
            if (finding := _finding(client, roles, path, answer)) is not None
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
        level = children_of(client, listed)
    return AclAudit(tuple(findings), looked_at, left_off)


def look_at(client: AclClient, roles: Roles, paths: Sequence[str]) -> tuple[AclFinding, ...]:
    """What stands beside the table at these paths. Raises `UnavailableError`."""
    answers = client.acls(paths)
    found = (_finding(client, roles, path, one) for path, one in zip(paths, answers, strict=True))
    return tuple(finding for finding in found if finding is not None)


def _finding(client: AclClient, roles: Roles, path: str, answer: AclAnswer) -> AclFinding | None:
    if isinstance(answer, Acl):
        return judge(roles, path, answer.entries, client.known_as in roles.coordinators)
    return AclFinding(path, closed=True) if isinstance(answer, Denied) else None


def children_of(client: AclClient, paths: Sequence[str]) -> list[str]:
    """The paths of what is below these. Raises `UnavailableError`."""
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
