"""Malformed nodes in the journal: each by its name, but of a flood only so many a minute; the rest
is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from zkcoord.core.events import Record
from zkcoord.core.model import Malformed

RECORDS_PER_WINDOW_MAX = 100
WINDOW_MS = 60_000


class MalformedLog:
    """Of one group."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.since_ms = 0
        self.shown = self.hidden = 0

    def report(self, now_ms: int, found: Sequence[Malformed]) -> list[Record]:
        """What to write of these, which were found now. What was only counted is told with the
        first of a later minute.
        """
        if not found:
            return []
        records: list[Record] = []
        if now_ms - self.since_ms >= WINDOW_MS:
            if self.hidden:
                records.append(self._more(f"{self.hidden} more nodes were malformed"))
            self.since_ms, self.shown, self.hidden = now_ms, 0, 0
        named = found[: RECORDS_PER_WINDOW_MAX - self.shown]
        records += [Record("malformed", self.group, bad.shown()) for bad in named]
        if len(named) < len(found) and not self.hidden:
            records.append(
                self._more("many nodes are malformed: for a minute the others are only counted")
            )
        self.shown += len(named)
        self.hidden += len(found) - len(named)
        return records

    def _more(self, reason: str) -> Record:
        return Record(
            "malformed", self.group, {"what": "more", "name": self.group, "reason": reason}
        )
