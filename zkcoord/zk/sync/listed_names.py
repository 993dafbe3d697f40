"""Which children of a root are no groups, though they stand where groups do (no coordinator serves
them, and no list of groups has them), and what is said of a name that no group has.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from zkcoord.errors import InvalidGroupError, UnavailableError
from zkcoord.zk.port import Children, Denied, GetChildren, Missing
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.znodes import names
from zkcoord.znodes.classic.paths import ClassicPaths
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


def no_such_group(reader: SyncClient, layout: Layout, group: str) -> str:
    """The sentence, with the names that were probably meant."""
    roots = layout.groups_root, ClassicPaths(layout).groups
    found, led, topics = reader.read([*map(GetChildren, roots), GetChildren(layout.topics_root)])
    if isinstance(found, Denied):
        raise UnavailableError(not_allowed(roots[0], found))
    known = {name for one in (found, led) if isinstance(one, Children) for name in one.names}
    near = difflib.get_close_matches(group, sorted(known), n=3)
    here = f"there is no group {group} on this ensemble (layout {layout.name})"
    if near:
        return f"{here}: did you mean {' or '.join(near)}?"
    return (
        f"{here}: see zkcoord groups list"
        if not isinstance(topics, Missing)
        else (
            f"{here}, and no Kafka either ({layout.topics_root}): correct the chroot at the end of"
            " --zookeeper"
        )
    )
