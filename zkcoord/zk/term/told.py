"""What is strange is told once of each name, and of many names only of some: whoever writes
nonsense fills no journal.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.core.events import Record
from zkcoord.core.model import Malformed

TOLD_MAX = 100


class ToldOnce:
    """To `record`."""

    def __init__(self, record: Callable[[Record], None]) -> None:
        self._record = record
        self._told: set[str] = set()

    def tell(self, bad: Malformed) -> None:
        """Unless it was told, or too many were."""
        if bad.name not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(bad.name)
            self._record(Record("malformed", "", bad.shown()))
