"""What pages ask of ZooKeeper about one group, one at a time, by a session of their own: many pages
that show the same group cost one reading of it, and none waits for a look at all groups.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from zkcoord.admin.group_problems import judged
from zkcoord.errors import UnavailableError, ZkcoordError
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.group_snapshot import GroupSnapshot
from zkcoord.zk.sync.led_groups import describe_any_group
from zkcoord.znodes.paths import Layout

T = TypeVar("T")

FRESH_MS = 400
GROUPS_KEPT = 64
WAIT_S = 3.0
READ_DEADLINE_MS = 2_500
CONNECT_TIMEOUT_MS = 1_000
"""A first connection has this and the deadline of a read."""

AWAY_MS = 2_000
"""How long after a failure nobody tries again."""

CLOSE_WAIT_S = 0.5

BUSY = "others are being answered: ask again"


class GroupAsker:
    """See the module. Any thread."""

    def __init__(self, options: ZkOptions, layout: Layout) -> None:
        self._options = replace(options, connect_timeout_ms=CONNECT_TIMEOUT_MS)
        self._away_until_ms = 0
        self._away: UnavailableError | None = None
        self.layout = layout
        self._lock = threading.Lock()
        self._reader: SyncClient | None = None
        self._known: OrderedDict[str, tuple[int, GroupSnapshot]] = OrderedDict()

    def group(self, name: str) -> GroupSnapshot:
        """The group, as it is now or was `FRESH_MS` ago. Raises `UnknownGroupError`,
        `InvalidGroupError`, `UnavailableError`.
        """

        def read(reader: SyncClient) -> GroupSnapshot:
            at_ms, found = self._known.get(name, (0, None))
            if found is not None and boot_ms() - at_ms < FRESH_MS:
                return found
            found = judged(reader, describe_any_group(reader, self.layout, name))
            self._known[name] = (boot_ms(), found)
            self._known.move_to_end(name)
            while len(self._known) > GROUPS_KEPT:
                self._known.popitem(last=False)
            return found

        return self.ask(read)

    def ask(self, question: Callable[[SyncClient], T]) -> T:
        """One question, when it is its turn. Raises `UnavailableError` after `WAIT_S`, and what the
        question raises.
        """
        away = self._away
        # where the last one failed, one tries again, and nobody waits for it
        if not self._lock.acquire(timeout=0 if away is not None else WAIT_S):
            raise UnavailableError(str(away) if away is not None else BUSY)
        try:
            if self._away is not None and boot_ms() < self._away_until_ms:
                raise UnavailableError(str(self._away))
            return self._asked(question)
        finally:
            self._lock.release()

    def _asked(self, question: Callable[[SyncClient], T]) -> T:
        try:
            if self._reader is None:
                self._reader = SyncClient(self._options, READ_DEADLINE_MS).__enter__()
            found = question(self._reader)
        except UnavailableError as error:
            self._forget()
            self._away, self._away_until_ms = error, boot_ms() + AWAY_MS
            raise
        self._away = None
        return found

    def close(self) -> None:
        """End the session; where that takes long, the process's end does it."""
        if self._lock.acquire(timeout=CLOSE_WAIT_S):
            try:
                ending = self._forget()
            finally:
                self._lock.release()
            if ending is not None:
                ending.join(CLOSE_WAIT_S)

    def _forget(self) -> threading.Thread | None:
        """Close the session; nobody waits for a server that may be away."""
        reader, self._reader = self._reader, None
        self._known.clear()
        if reader is None:
            return None
        ending = threading.Thread(target=_closed, args=(reader,), name="zkcoord-bye", daemon=True)
        ending.start()
        return ending


def _closed(reader: SyncClient) -> None:
    try:
        reader.close()
    except ZkcoordError:
        return  # it cannot be told that it is over, and will see it
