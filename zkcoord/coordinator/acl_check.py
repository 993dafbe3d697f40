"""A coordinator's look at ACLs before it begins: which nodes are open, and `secure`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from zkcoord.admin.common import some
from zkcoord.errors import RefusedError
from zkcoord.words import counted
from zkcoord.zk.acl.audit import AclFinding, audit, look_at
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.acl.table import roots
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

NODES_LOOKED_AT_MAX = 10_000
FINDINGS_LOGGED_MAX = 20


def look_at_acls(zk: ZkOptions, layout: Layout, secure: bool) -> None:
    """Say in the log what is not as it should be; nothing where no roles are given. A group that is
    wrong is left alone when it is read: it keeps no coordinator from serving the others. Raises
    `RefusedError` where `secure` and somebody may do more with a root than its place allows, or one
    is hidden; `UnavailableError` where ZooKeeper does not answer.
    """
    if zk.roles is None:
        return
    with AclClient(zk) as client:
        # first of all: beside many groups the audit does not come to the deeper ones
        above = look_at(client, zk.roles, roots(layout))
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
    if secure:
        _refuse(above)


def _refuse(above: Sequence[AclFinding]) -> None:
    hidden = [finding for finding in above if finding.closed or finding.kept]
    wide = [finding for finding in above if finding.is_open and finding not in hidden]
    said = []
    if wide:
        said.append(
            f"{counted(len(wide), 'node')} above all groups, or topics, may be used by others than"
            f" allowed ({some(wide, 3)}): look with zkcoord acl audit, mend it with zkcoord acl"
            " apply, then start again"
        )
    if hidden:
        said.append(
            f"{counted(len(hidden), 'node')} above all groups, or topics, may not be read or"
            f" mended with these credentials ({some((f.path for f in hidden), 3)}): have who made"
            " it, or ZooKeeper's superuser, delete it, then start again"
        )
    if said:
        raise RefusedError("; ".join(said))
