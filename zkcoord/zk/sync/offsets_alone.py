"""Groups that have no node among the groups: of which somebody has stored offsets, or old consumers
have registered where the layout leaves them (`Layout.ISOLATED`). `describe_group` knows them.
"""

from __future__ import annotations

from collections.abc import Collection

from zkcoord.core.model import GroupMetadata
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupListed, shown_state
from zkcoord.znodes import names
from zkcoord.znodes.paths import CONSUMERS, Layout


def groups_without_a_node(
    reader: SyncClient, layout: Layout, known: Collection[str]
) -> list[GroupListed]:
    """Those that are not `known`, by what is there since the last sync. A group whose nodes this
    client may not read is left out: it cannot be described either. Raises `UnavailableError`.
    """
    (answer,) = reader.read([GetChildren(CONSUMERS)])
    found = answer.names if isinstance(answer, Children) else ()
    others = [name for name in found if names.is_group(name) and name not in known]
    answers = iter(
        reader.read(
            [
                read
                for name in others
                for read in (GetData(layout.ids(name)), GetData(layout.offsets(name)))
            ]
        )
    )
    groups = []
    for name, ids, offsets in zip(others, answers, answers, strict=True):
        hidden = isinstance(ids, Denied) or isinstance(offsets, Denied)
        if hidden or not (isinstance(ids, Node) or isinstance(offsets, Node)):
            continue
        members = ids.stat.num_children if isinstance(ids, Node) else 0
        state = shown_state(GroupMetadata(), members)
        groups.append(GroupListed(name, state, members, 0, ()))
    return groups
