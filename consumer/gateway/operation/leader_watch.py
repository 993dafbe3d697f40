"""Whether a coordinator leads: without one members get nothing, and a gateway has nothing to say to
them. It reads the leader's node now and then, on its own session, and says in the log what changed
for members that wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from zkcoord.zk.port import GetData, Missing, Port, ReadDone, ReadResult

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
SAID_AFTER_MS = 10_000
"""A coordinator that dies has another one lead sooner."""


class LeaderWatch:
    """See the module. Everything runs on the members' loop; `leads`, which any thread may read, is
    what was seen last.
    """

    def __init__(
        self,
        leader: str,
        port: Callable[[], Port | None],
        clock: Callable[[], int],
        members_here: Callable[[], int],
    ) -> None:
        self.leads = False
        self._leader = leader
        self._port = port
        self._clock = clock
        self._members_here = members_here
        self._missing_since_ms: int | None = None
        self._said = False

    def look(self) -> None:
        """Look, where there is a session."""
        port = self._port()
        if port is not None:
            port.read([GetData(self._leader)], self._seen)

    def _seen(self, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        # one that may not be read is there
        self.leads = not isinstance(result.answers[0], Missing)
        if self.leads:
            if self._said:
                log.warning("a coordinator leads again")
            self._missing_since_ms, self._said = None, False
            return
        now_ms = self._clock()
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        is_late = now_ms - self._missing_since_ms >= SAID_AFTER_MS
        if is_late and not self._said and (members := self._members_here()):
            self._said = True
            log.warning(
                "no coordinator leads (%s is not there): %d members here get no partitions until"
                " one does; start one (zkcoord coordinator)",
                self._leader,
                members,
            )
