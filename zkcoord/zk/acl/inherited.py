"""What an operator's node gets where nobody has said who is what: the ACL of its place, as far as
what is there already tells it. Where that is closed, a command that was given no roles would else
leave a node that everybody may change, or one that members need and may not use.

Coordinators that have roles make the root of asks, whose ACL tells all three kinds apart. Where
there is none that does, the node above counts: open to everybody, or the same rights for all who
have any, or a row of the table that says no less than that of the new node. Anything else is
refused, with what to say.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.errors import RefusedError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import OPEN_ACL, Acl, AclAnswer, AclEntry, Denied
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import LAYOUTS, parents

from .belief import WRITING
from .client import acls_of
from .table import ALL, MASK, READ, Principal, Roles, bits, members_may

AclOf = Callable[[str], tuple[AclEntry, ...]]
"""The ACL of the node that is to be made at a path."""


class AclsThere:
    """An `AclOf`, for one command. What was given counts, if anything was. Asks only when something
    is to be made. Raises `RefusedError` where it cannot be told.
    """

    def __init__(self, client: SyncClient, options: ZkOptions) -> None:
        self._client = client
        self._given = options.acl if options.roles is not None or options.acl != OPEN_ACL else None
        self._known: dict[str, AclAnswer] = {}

    def __call__(self, path: str) -> tuple[AclEntry, ...]:
        """For the node at this path."""
        if self._given is not None:
            return self._given
        for asks in (layout.asks for layout in LAYOUTS.values()):
            found = self._acl(asks)
            entries = found.entries if isinstance(found, Acl) else ()
            roles = _told_apart(asks, entries)
            if roles is not None:
                return roles.acl(path)
            if entries and _is_same_for_all(entries):
                return entries
        for above in ("/", *parents(path))[::-1]:
            found = self._acl(above)
            if isinstance(found, Acl):
                return _below(path, above, found.entries)
            if isinstance(found, Denied):
                break
        raise _untold(path)

    def _acl(self, path: str) -> AclAnswer:
        if path not in self._known:
            (self._known[path],) = acls_of(self._client, [path])
        return self._known[path]


def _told_apart(path: str, entries: tuple[AclEntry, ...]) -> Roles | None:
    """Who is what, by the ACL of a node of ours that has that of its place; None where it has
    another, or digests are hidden.
    """
    by_right: dict[int, list[Principal]] = {
        bits(ALL): [],
        bits(members_may(path)): [],
        bits(READ): [],
    }
    for one in entries:
        if one.perms not in by_right or one.scheme == "world" or _is_hidden(one):
            return None
        by_right[one.perms].append(Principal(one.scheme, one.id))
    coordinators, members, readers = map(tuple, by_right.values())
    return Roles(coordinators, members, readers) if coordinators and members else None


def _below(path: str, above: str, entries: tuple[AclEntry, ...]) -> tuple[AclEntry, ...]:
    if any(one.scheme == "world" and one.perms & WRITING for one in entries):
        return entries
    enough = set(members_may(path)) <= set(members_may(above))
    if _is_same_for_all(entries) or (enough and not any(map(_is_hidden, entries))):
        return entries
    raise _untold(path)


def _is_same_for_all(entries: tuple[AclEntry, ...]) -> bool:
    """Whether who may anything with a node that is not everybody's may all: one ACL for all
    nodes.
    """
    return all(
        one.perms == bits(ALL) and one.scheme != "world" and not _is_hidden(one) for one in entries
    )


def _is_hidden(one: AclEntry) -> bool:
    """ZooKeeper hides digests from who may not change the ACL: copied, they are nobody's."""
    return one.scheme == "digest" and one.id.endswith(f":{MASK}")


def _untold(path: str) -> RefusedError:
    return RefusedError(
        f"{path} is to be made among nodes that are not everybody's, and what ZooKeeper shows to"
        " this client does not tell who is to use it: give a coordinator's credentials"
        " (--zookeeper-user), or say it with --acl-coordinators and --acl-members (or --acl)"
    )
