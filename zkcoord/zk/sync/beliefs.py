"""Whether nobody but coordinators can have written what a tool reads: asked as coordinators do
(`zkcoord.zk.acl.belief`), over a tool's own client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.client import acls_of
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

UNTOLD = Roles((), (), ())
"""Where nothing was said of roles, who may write the groups' root is believed, and nobody else."""


def doubts(
    reader: SyncClient, layout: Layout, above: Sequence[str], own: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Why some of these are not believed, by name: others than coordinators may write one of its
    `own` nodes, or one of those `above` all of them (below the groups' root). A node that is not
    there says nothing. Raises `UnavailableError`.
    """
    if not own:
        return {}
    above = (layout.epoch, *above)
    answers = acls_of(reader, [*above, *(path for paths in own.values() for path in paths)])
    belief, found = Belief(reader.roles or UNTOLD, answers[0], True), iter(answers)
    wrong = next(filter(None, [belief.closed(path, next(found)) for path in above]), "")
    each = {
        name: next(filter(None, [belief.closed(path, next(found)) for path in paths]), "")
        for name, paths in own.items()
    }
    return {
        name: f"not only coordinators can have made it, so it counts for nothing: {wrong or why}"
        for name, why in each.items()
        if wrong or why
    }
