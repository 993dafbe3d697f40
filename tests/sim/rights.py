"""ACLs in the model: who a host is to ZooKeeper, and what it may do.

A world with roles gives each node the ACL that its maker chose, as the real server does; processes
of ours choose that of the node's place (as the port does), and so do operators. Hosts whose names
begin with `m` are members of another application, who choose what they like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zkcoord.zk.acl.table import ALL, Principal, Roles, bits
from zkcoord.zk.port import PERMISSIONS, AclEntry, Create, Op

COORDINATOR, MEMBER = Principal("sim", "coordinator"), Principal("sim", "member")
ROLES = Roles((COORDINATOR,), (MEMBER,))
OPEN = AclEntry(bits(ALL), "world", "anyone")
OTHERS = "mallory"


class Rights:
    """Whether hosts may do what they ask for."""

    def principal(self, host: str) -> Principal:
        """Who a host is: operators and coordinators are one."""
        return COORDINATOR if host[:1] in ("k", "o", "") else MEMBER

    def allows(self, host: str, acl: Sequence[AclEntry], letter: str) -> bool:
        """Whether this host may do this with a node; one without an ACL was there before all."""
        who = self.principal(host)
        return not acl or any(
            entry.perms & PERMISSIONS[letter]
            and (entry.scheme == "world" or (entry.scheme, entry.id) == (who.scheme, who.id))
            for entry in acl
        )

    def applied(self, host: str, ops: Sequence[Op]) -> list[Op]:
        """The operations as they reach the server: others choose the ACLs of what they make."""
        return list(ops) if host == OTHERS else ROLES.applied(ops)


def acl_of(members: str) -> tuple[AclEntry, ...]:
    """Coordinators everything, members these letters."""
    return (
        AclEntry(bits(ALL), COORDINATOR.scheme, COORDINATOR.id),
        AclEntry(bits(members), MEMBER.scheme, MEMBER.id),
    )


def made_by_others(path: str, data: bytes, acl: Sequence[AclEntry]) -> Create:
    """A node that another application makes."""
    return replace(Create(path, data), acl=tuple(acl))
