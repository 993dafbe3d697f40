"""A coordinator's look at ACLs before it begins: which nodes are open, and `secure`."""

from __future__ import annotations

import logging

from zkcoord.admin.common import some
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.audit import audit
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.options import ZkOptions

log = logging.getLogger(__name__)

NODES_LOOKED_AT_MAX = 10_000
FINDINGS_LOGGED_MAX = 20


def look_at_acls(zk: ZkOptions, secure: bool) -> None:
    """Say in the log what is not as it should be; nothing where no roles are given. Raises
    `RefusedError` where `secure` and somebody may do more than it may, `UnavailableError` where
    ZooKeeper does not answer.
    """
    if zk.roles is None:
        return
    with AclClient(zk) as client:
        found = audit(client, zk.roles, NODES_LOOKED_AT_MAX)
    for finding in found.findings[:FINDINGS_LOGGED_MAX]:
        log.warning(
            "a node's ACL is not that of its place", extra={"fields": {"node": str(finding)}}
        )
    log.info(
        "looked at ACLs",
        extra={
            "fields": {
                "nodes": found.looked_at,
                "open": len(found.open),
                "others": len(found.findings) - len(found.open),
                "there_are_more": found.left_off,
            }
        },
    )
    if secure and found.open:
        raise RefusedError(
            f"{len(found.open)} nodes may be used by others than allowed ({some(found.open, 3)}):"
            " look with zkcoord acl audit, mend it with zkcoord acl apply, then start again"
        )
