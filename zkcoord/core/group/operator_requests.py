"""Operators' requests of one group: each is taken up once, and deleted with what follows from it.

"As if nobody owned anything" (`fresh`) holds until there is such a target: a custom assignor that
fails is asked the same again, also after a quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping

from zkcoord.core.events import DeleteRequest
from zkcoord.core.model import Malformed, Request

REQUESTS_PER_WRITE_MAX = 25
OPERATOR = "operator asked for it"


class OperatorRequests:
    """What was taken up, by the names of the nodes. `fresh` are those that wait for a target as if
    nobody owned anything.
    """

    def __init__(self) -> None:
        self.taken_up: set[str] = set()
        self.fresh: frozenset[str] = frozenset()

    def take_up(self, seen: Mapping[str, Request | Malformed]) -> list[Request]:
        """Those of all that are there which were not seen before."""
        if not seen and not self.taken_up:
            return []
        new = {
            node: request
            for node, request in sorted(seen.items())
            if node not in self.taken_up and isinstance(request, Request)
        }
        self.taken_up = set(seen)
        self.fresh |= {node for node, request in new.items() if request.fresh}
        return list(new.values())

    def assigned(self, fresh: frozenset[str]) -> None:
        """The target that these wanted is there."""
        self.fresh -= fresh

    def deletions(self, seen: Mapping[str, Request | Malformed]) -> tuple[DeleteRequest, ...]:
        """To be written when they led to a target."""
        return (
            tuple(
                [
                    DeleteRequest(node)
                    for node, request in sorted(seen.items())
                    if isinstance(request, Request)
                ][:REQUESTS_PER_WRITE_MAX]
            )
            if seen
            else ()
        )
