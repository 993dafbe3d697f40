"""What is known of a root of asks that nobody serves: roles were used once and given up, or an
older coordinator leads. Each group that is new would cost its first member the whole wait.
"""

from __future__ import annotations

import logging

from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

UNSERVED_MS = 60_000


class UnservedAsks:
    """Of one ensemble, for all consumers of this process: any thread. Each of its numbers is read
    and replaced as a whole, and one that is a moment old costs one wait.
    """

    def __init__(self) -> None:
        self._until_ms = 0
        self._said = False

    def known(self, now_ms: int) -> bool:
        """Whether asking was of no use lately."""
        return now_ms < self._until_ms

    def found(self, now_ms: int, root: str, group: str, waited_ms: int) -> None:
        """Nobody answered in time, and what was asked for could be made without."""
        self._until_ms = now_ms + UNSERVED_MS
        if not self._said:
            self._said = True
            log.warning(
                "group %s: no coordinator made its nodes in ZooKeeper within %d ms, although there"
                " is %s, where consumers ask for them, so this consumer made them itself, and each"
                " new group may wait as long: start the coordinator with its roles"
                " (--acl-coordinators, --acl-members), or delete that node where they were given"
                " up",
                group,
                waited_ms,
                root,
            )

    def forget(self) -> None:
        """Somebody serves them, or it takes somebody who does."""
        self._until_ms = 0


_KNOWN: dict[tuple[object, ...], UnservedAsks] = {}


def unserved_asks(zk: ZkOptions, layout: Layout) -> UnservedAsks:
    """What this process knows of that ensemble."""
    return _KNOWN.setdefault((zk.servers, zk.chroot, layout.name), UnservedAsks())
