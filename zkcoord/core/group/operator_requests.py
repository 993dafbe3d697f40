"""What operators say of one group: requests, and its mode.

Requests: each is taken up once, and deleted with what follows from it.

An eviction goes with the registration in one write (`deadlines.Removals`); one whose member is not
there any more, or is an old consumer, to whom nobody can tell anything, is deleted and nothing
follows. "As if nobody owned anything" (`fresh`) holds until there is such a target: a custom
assignor that fails is asked the same again, also after a quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping

from zkcoord.core.events import DeleteRequest, Record
from zkcoord.core.model import Cause, GroupMode, Malformed, Mode, Request, RequestKind

REQUESTS_PER_WRITE_MAX = 25
OPERATOR = "operator asked for it"
PAUSED, RESUMED = "operator paused the group", "operator resumed the group"


class OperatorRequests:
    """What was taken up, by the names of the nodes. `fresh` are those that wait for a target as if
    nobody owned anything.
    """

    def __init__(self) -> None:
        self.taken_up: set[str] = set()
        self.fresh: frozenset[str] = frozenset()

    def take_up(self, seen: Mapping[str, Request | Malformed]) -> list[Request]:
        """Those for a rebalance, of all that are there, which were not seen before."""
        if not seen and not self.taken_up:
            return []
        new = {
            node: request
            for node, request in sorted(seen.items())
            if node not in self.taken_up and isinstance(request, Request)
        }
        self.taken_up = set(seen)
        self.fresh |= {node for node, request in new.items() if request.fresh}
        return [request for request in new.values() if request.kind is RequestKind.REBALANCE]

    def assigned(self, fresh: frozenset[str]) -> None:
        """The target that these wanted is there."""
        self.fresh -= fresh

    def deletions(
        self, seen: Mapping[str, Request | Malformed], settled: bool
    ) -> tuple[DeleteRequest, ...]:
        """Those that led to a target (`settled`: it is there), and evictions of whom nobody can
        evict any more.
        """
        return (
            tuple(
                [
                    DeleteRequest(node)
                    for node, request in sorted(seen.items())
                    if isinstance(request, Request)
                    and (settled or request.kind is RequestKind.EVICT)
                ][:REQUESTS_PER_WRITE_MAX]
            )
            if seen
            else ()
        )


class ModeSaid:
    """The mode of one group, and whether it is paused. `told` is for the journal; `unusable` says
    why what is written counts for nothing.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.mode: Mode | None = None
        self.before: Mode | None = None
        self.unusable = ""
        self.told: list[Record] = []

    def said(self) -> str:
        """The mode, for the group's report."""
        return "" if self.mode is None else self.mode.kind.value

    @property
    def paused(self) -> bool:
        """Whether nothing is handed out to anybody."""
        return self.mode is not None and self.mode.paused

    @property
    def paused_by(self) -> str:
        """Who said so, for the group's report; "": nobody."""
        return "" if self.mode is None else self.mode.paused_by

    def inherit(self, read: Mapping[str, Mode | Malformed | None], reported: str) -> None:
        """A group that was `reported` to be paused stays so where nobody can read its mode now."""
        if reported and isinstance(read.get("mode"), Malformed):
            self.mode = Mode(GroupMode.COORDINATED, by=reported, paused=True)

    def take(self, read: Mapping[str, Mode | Malformed | None], full: bool) -> bool:
        """The mode node was read, perhaps. True: it says something else than before. One that
        cannot be used changes nothing, and is named.
        """
        found = read.get("mode", None if full else self.mode)
        if isinstance(found, Malformed):
            if found.reason != self.unusable:
                self.told.append(Record("malformed", self.group, found.shown()))
            self.unusable = found.reason
            return False
        if full or "mode" in read:
            self.unusable = ""
        if found == self.mode:
            return False
        self.before, self.mode = self.mode, found
        return True

    def news(self, reported: str) -> tuple[list[Record], Cause]:
        """What another mode is, for the journal, and the cause that it is. `reported`: who paused
        the group, by its report, which counts where this is the first mode that is read.
        """
        before, mode = self.before, self.mode
        strategy, by = (mode.strategy, mode.by) if mode is not None else ("", "")
        was_paused = bool(reported) if before is None else before.paused
        detail: dict[str, object] = {"mode": self.said(), "strategy": strategy, "by": by}
        named = Record("mode", self.group, detail)
        if was_paused is self.paused:
            return [named], Cause(OPERATOR, f"mode {self.said()}")
        what, cause = ("paused", PAUSED) if self.paused else ("resumed", RESUMED)
        kept = before is not None and (before.kind.value, before.strategy) == (
            self.said(),
            strategy,
        )
        paused = Record(what, self.group, {"by": by})
        return ([paused] if kept else [named, paused]), Cause(cause, by)
