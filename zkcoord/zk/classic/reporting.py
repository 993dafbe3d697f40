"""When a group whose leader is a client is reported on, for people (`ClassicReport`): a moment
after something has changed and not more often than once a second, so a rebalance that is soon over
costs one write. Nothing waits for it.
"""

from __future__ import annotations

from zkcoord.core.classic.barrier import Waits
from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import ClassicCause, Moved, Rebalanced
from zkcoord.core.events import Record
from zkcoord.zk.classic.edge import Edge
from zkcoord.zk.port import SetData
from zkcoord.znodes.classic.report import (
    CAUSE_CHARS_MAX,
    PROBLEMS_MAX,
    ClassicReport,
    EndedSaid,
    WaitsSaid,
    Why,
    encode_report,
    named,
)
from zkcoord.znodes.names import printable

SOON_MS = 250
AGAIN_MS = 1_000
NAMES_IN_JOURNAL = 20


class Reporting:
    """Of one group. `is_stale`: what is written is of an earlier coordinator, and may be wrong."""

    def __init__(self, group: str, edge: Edge, is_stale: bool) -> None:
        self._group = group
        self._edge = edge
        self._since_ms = edge.clock()
        self._ended: tuple[int, Rebalanced] | None = None
        self._written = b""
        self._written_ms: int | None = None
        self._problems: tuple[str, ...] = ()
        self.due_ms: int | None = None
        if is_stale:
            self.changed()

    def changed(self) -> None:
        """Something has happened."""
        if self.due_ms is None:
            soon_ms = self._edge.clock() + SOON_MS
            last_ms = self._written_ms
            self.due_ms = soon_ms if last_ms is None else max(soon_ms, last_ms + AGAIN_MS)

    def made(self) -> None:
        """There is a node to write it into, just now."""
        self.due_ms = None
        self.changed()

    def moved(self, moved: Moved, members: int) -> None:
        """It is in another state."""
        if moved.before is not moved.after:
            self._since_ms = self._edge.clock()
        self.changed()
        detail: dict[str, object] = {
            "before": moved.before.value,
            "after": moved.after.value,
            "generation": moved.generation,
            "members": members,
            "reason": printable(moved.reason, CAUSE_CHARS_MAX),
        }
        self._edge.record(Record("client-led group", self._group, detail))

    def ended(self, one: Rebalanced) -> None:
        """A rebalance has ended."""
        self._ended = self._edge.clock(), one
        detail: dict[str, object] = {
            "cause": one.cause.kind.value,
            "trigger": printable(one.cause.trigger, CAUSE_CHARS_MAX),
            "reason": printable(one.cause.words, CAUSE_CHARS_MAX),
            "generation": one.generation,
            "members": one.members,
            "duration_ms": one.duration_ms,
            "joins_ms": one.joins_ms,
            "again": one.again,
            "waited_for": _waited_for(one),
            "out": [printable(name, CAUSE_CHARS_MAX) for name in one.out[:NAMES_IN_JOURNAL]],
        }
        self._edge.record(Record("client-led rebalance", self._group, detail))

    def problem(self, text: str) -> None:
        """What an operator should know of it."""
        if text not in self._problems and len(self._problems) < PROBLEMS_MAX:
            self._problems = (*self._problems, text)
            self.changed()

    def write(self, machine: ClassicGroup) -> None:
        """Write it, where it is due and says something else than what is written."""
        now = self._edge.clock()
        if self.due_ms is None or now < self.due_ms:
            return
        self.due_ms = None
        data = encode_report(self.report(machine))
        if data != self._written:
            self._written, self._written_ms = data, now
            path = self._edge.paths.group(self._group)
            self._edge.write([SetData(path, data, -1)], lambda refused: None)

    def report(self, machine: ClassicGroup) -> ClassicReport:
        """What there is to say just now."""
        waits, ended = machine.waits(), self._ended
        return ClassicReport(
            machine.phase,
            machine.generation,
            self._edge.wall_ms(self._since_ms),
            None if waits is None else self._waits(waits),
            None if ended is None else self._told(*ended),
            self._problems,
        )

    def _waits(self, waits: Waits) -> WaitsSaid:
        return WaitsSaid(
            _why(waits.cause),
            self._edge.wall_ms(waits.since_ms),
            self._edge.wall_ms(waits.until_ms),
            waits.is_initial,
            named(waits.unjoined),
            named(waits.pending),
            named(waits.unsynced),
            waits.leader if waits.leader in waits.unsynced else "",
        )

    def _told(self, at_ms: int, one: Rebalanced) -> EndedSaid:
        return EndedSaid(
            _why(one.cause),
            self._edge.wall_ms(at_ms),
            one.generation,
            one.members,
            one.duration_ms,
            one.joins_ms,
            one.last,
            named(one.out),
            one.again,
        )


def _waited_for(one: Rebalanced) -> list[dict[str, object]]:
    """The last that joined, and the leader until it had assigned; the longest first."""
    waits = [(one.joins_ms, one.last), (one.duration_ms - one.joins_ms, one.leader)]
    return [
        {"member": printable(name, CAUSE_CHARS_MAX), "ms": ms}
        for ms, name in sorted(waits, reverse=True)
        if name
    ]


def _why(cause: ClassicCause) -> Why:
    return Why(cause.kind.value, cause.trigger, printable(cause.words, CAUSE_CHARS_MAX))
