"""What an operator's node gets where nobody has said who is what: the ACL of the node above. Where
that is closed, a command that was given no roles would else leave a node that everybody may change.
Only for places whose row of the table gives nobody more than the row above.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from zkcoord.zk.kazoo_port.session import KazooPort
from zkcoord.zk.kazoo_port.wire_requests import get_acl_request
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import OPEN_ACL, Acl, AclAnswer, AclEntry, Unanswered
from zkcoord.zk.sync.client import SyncClient

HIDDEN = ":x"
"""So ends a digest that ZooKeeper does not show: who may not change the ACL may not copy it."""


def acl_below(client: SyncClient, above: str, options: ZkOptions) -> tuple[AclEntry, ...]:
    """For a node below `above`. What was given counts, if anything was."""
    if options.roles is not None or options.acl != OPEN_ACL:
        return options.acl
    answers: list[AclAnswer | Unanswered] = client.ask_all([partial(_ask, above)])
    found = answers[0] if answers else None
    if not isinstance(found, Acl) or any(
        one.scheme == "digest" and one.id.endswith(HIDDEN) for one in found.entries
    ):
        return options.acl
    return found.entries


def _ask(path: str, port: KazooPort, done: Callable[[AclAnswer | Unanswered], None]) -> None:
    port.ask(get_acl_request(port.chroot, path), done)
