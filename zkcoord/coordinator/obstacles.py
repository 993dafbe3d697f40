"""What keeps a coordinator from leading, and what lies in a leader's place: told once."""

from __future__ import annotations

from collections.abc import Iterable

from zkcoord.core.events import Record
from zkcoord.core.model import Malformed
from zkcoord.zk.term.election import Verdict, Waiting


class Obstacles:
    """Of one coordinator. `waiting` is a sentence, "" where nothing is in the way."""

    def __init__(self) -> None:
        self.waiting = ""
        self._told: set[tuple[str, str]] = set()

    def news(self, verdict: Verdict, strange: Iterable[Malformed]) -> list[Record]:
        """What a look at the seat says that has not been said."""
        self.waiting = verdict.reason if isinstance(verdict, Waiting) else ""
        found = {(bad.name, bad.reason): Record("malformed", "", bad.shown()) for bad in strange}
        if self.waiting:
            found["", self.waiting] = Record("waiting", "", {"reason": self.waiting})
        new = [record for key, record in found.items() if key not in self._told]
        self._told = set(found)
        return new
