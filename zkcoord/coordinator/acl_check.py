"""A coordinator's look at ACLs before it begins: which nodes are open, and `secure`."""

from __future__ import annotations

import logging

from zkcoord.admin.common import some
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.audit import audit
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

NODES_LOOKED_AT_MAX = 10_000
FINDINGS_LOGGED_MAX = 20


def look_at_acls(zk: ZkOptions, layout: Layout, secure: bool) -> None:
    """Say in the log what is not as it should be; nothing where no roles are given. A group that is
    wrong is left alone when it is read: it keeps no coordinator from serving the others. Raises
    `RefusedError` where `secure` and somebody may do more with a root than it may,
    `UnavailableError` where ZooKeeper does not answer.
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
    above = {*layout.roots(), *CLUSTER_TREE.above(), CLUSTER_TREE.source}
    roots = [finding for finding in found.open if finding.path in above]
    if secure and roots:
        raise RefusedError(
            f"{len(roots)} nodes above all groups, or topics, may be used by others than allowed"
            f" ({some(roots, 3)}): look with zkcoord acl audit, mend it with zkcoord acl apply,"
            " then start again"
        )
