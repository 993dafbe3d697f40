"""What ZooKeeper says of a node beside its data."""

from __future__ import annotations

from typing import NamedTuple


class Stat(NamedTuple):
    """The part of a znode's stat that zkcoord uses. `ephemeral_owner` is a session id, 0 for a
    persistent node. `read_since`: the transaction since which it is read for another node, where
    that was after it was made; else 0 (see `zkcoord.zk.overlay`).
    """

    czxid: int
    mzxid: int
    version: int
    cversion: int
    ephemeral_owner: int
    num_children: int
    read_since: int = 0
