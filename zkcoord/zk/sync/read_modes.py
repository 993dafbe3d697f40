"""The modes of groups as tools show them: what coordinators do not believe says nothing here
either, and is named as they name it (`zkcoord.zk.mirror.group_acls`).
"""

from __future__ import annotations

from collections.abc import Mapping

from zkcoord.core.model import Malformed, Mode
from zkcoord.zk.port import Node, ReadAnswer
from zkcoord.zk.sync.beliefs import doubts
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.codec import decode_mode
from zkcoord.znodes.paths import Layout


def believed_modes(
    reader: SyncClient, layout: Layout, answers: Mapping[str, ReadAnswer]
) -> dict[str, Mode | Malformed]:
    """What was said of groups whose mode nodes have these answers, where anything was.
    `Malformed`: it cannot be read, or is not believed. Asks ZooKeeper once, and only of those that
    have a mode. Raises `UnavailableError`.
    """
    said = {
        group: decode_mode(answer.data)
        for group, answer in answers.items()
        if isinstance(answer, Node)
    }
    own = {group: (layout.group(group), layout.mode(group)) for group in said}
    why = doubts(reader, layout, (), own)
    return {
        group: Malformed("mode", group, why[group]) if group in why else mode
        for group, mode in said.items()
    }
