"""Whether a member makes nodes that are open to everybody where others' are not: it has
credentials, and was told nothing of ACLs. Looked at once in a process for each ensemble and layout,
after the first member has registered, so that nobody waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from zkcoord.zk.acl.belief import WRITING
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import OPEN_ACL, Acl, AclsDone, AclsResult, Denied, Port
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

LOOKED_AT_MAX = 1_000
WARNING = (
    "this consumer has ZooKeeper credentials, and yet what it makes (registration, owners, offsets)"
    " is open to everybody, while %s is not: set zookeeper_acl_coordinators and"
    " zookeeper_acl_members as the coordinators have them (docs/security.md), or"
    ' zookeeper_acl="open" to leave it so'
)

_looked_at: set[tuple[str, str]] = set()


class OpenNodes:
    """For one member. `was_said`: its configuration says what ACL nodes get, be it the open one."""

    def __init__(
        self,
        zk: ZkOptions,
        layout: Layout,
        was_said: bool,
        warn: Callable[[str, str], None] = log.warning,
    ) -> None:
        has_credentials = bool(zk.digest or zk.sasl or (zk.tls and zk.tls.cert))
        self._root = layout.epoch
        self._place = (zk.address, layout.name)
        self._is_open = has_credentials and not was_said and zk.roles is None and zk.acl == OPEN_ACL
        self._warn = warn

    def registered(self, port: Port | None) -> None:
        """Look, unless it was done."""
        if self._is_open and port is not None and self._place not in _looked_at:
            if len(_looked_at) >= LOOKED_AT_MAX:
                _looked_at.clear()
            _looked_at.add(self._place)
            port.acls([self._root], self._answered)

    def _answered(self, result: AclsResult) -> None:
        if not isinstance(result, AclsDone):
            _looked_at.discard(self._place)
            return
        (root,) = result.answers
        closed = isinstance(root, Denied) or (
            isinstance(root, Acl)
            and not any(one.scheme == "world" and one.perms & WRITING for one in root.entries)
        )
        if closed:
            self._warn(WARNING, self._root)
