"""A whole tree of znodes as values: two of them are equal when nothing was written between,
whatever it was.
"""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

Tree = dict[str, tuple[int, int, int, int]]


def tree_of(client: KazooClient, root: str = "/", leave_out: tuple[str, ...] = ()) -> Tree:
    """Path -> (mzxid, cversion, pzxid, version): every write of data moves the first, every child
    made or deleted the second and third. Nodes below `leave_out` belong to somebody who lives.
    """
    found: Tree = {}
    waiting = [root]
    while waiting:
        path = waiting.pop()
        if path in leave_out:
            continue
        try:
            children, stat = client.get_children(path, include_data=True)
        except NoNodeError:
            continue
        found[path] = (stat.mzxid, stat.cversion, stat.pzxid, stat.version)
        waiting += [f"{path.rstrip('/')}/{name}" for name in children]
    return found
