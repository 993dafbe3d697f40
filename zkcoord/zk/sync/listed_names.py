"""Which children of a root are no groups, though they stand where groups do: no coordinator serves
them, and no list of groups has them.
"""

from __future__ import annotations

from collections.abc import Iterable

from zkcoord.errors import InvalidGroupError
from zkcoord.zk.port import Children, GetChildren
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import names
from zkcoord.znodes.paths import CONSUMERS, Layout

COORDINATOR = "coordinator"
PARTS = {CONSUMERS: frozenset({COORDINATOR, "groups"})}


def unusable_names(children: Iterable[str], root: str) -> list[str]:
    """Those that no group can have, sorted; parts of the layout are none of them."""
    parts = PARTS.get(root, frozenset({COORDINATOR}))
    return sorted(name for name in children if not names.is_group(name) and name not in parts)


def why_unusable(name: str) -> str:
    """Why no group can have this name."""
    try:
        names.validate_group(name)
    except InvalidGroupError as error:
        return str(error).rpartition(": ")[0]
    return ""


def unusable_groups(reader: SyncClient, layout: Layout) -> list[str]:
    """What stands among the groups of a layout under a name that no group can have, sorted. Raises
    `UnavailableError`, `RefusedError`.
    """
    (answer,) = reader.see([GetChildren(layout.groups_root)])
    listed = answer.names if isinstance(answer, Children) else ()
    return unusable_names(listed, layout.groups_root)
