"""A `Port` that a test looks through: it remembers every call in order, and lets the test step in
at one moment exactly.

`before(when, act)` runs `act` on the loop's thread just before a multi for which `when` is true
goes out; `hold(when)` keeps such multis back, as a network does that delays only them. So an
interleaving that is a matter of luck from outside is a matter of one line here, while the server,
the session and the driver are the real ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import (
    AclsResult,
    Check,
    Committed,
    Create,
    Delete,
    Ensemble,
    MultiResult,
    Op,
    Port,
    PortEvent,
    Read,
    ReadResult,
    SetData,
    Unanswered,
    WatchMode,
)

When = Callable[[Sequence[Op]], bool]
Act = Callable[[], object]


@dataclass(slots=True)
class Sent:
    """A call: `kind` is multi, read, sync, watch or close. `result` is None while there is none."""

    kind: str
    at_ms: int
    ops: tuple[Op, ...] = ()
    reads: tuple[Read, ...] = ()
    result: MultiResult | None = None

    @property
    def happened(self) -> bool:
        """A multi that was committed, as far as the caller heard."""
        return isinstance(self.result, Committed)


class Spy:
    """An ensemble whose ports are looked through. `sent` is in the order of the calls."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.sent: list[Sent] = []
        self.events: list[PortEvent] = []
        self.opened: list[SpyPort] = []
        self._lock = threading.Lock()
        self._before: list[tuple[When, Act]] = []
        self._holds: list[When] = []
        self._held: list[Act] = []

    def open(self, on_event: Callable[[PortEvent], None]) -> Port:
        """See `Ensemble`."""

        def see(event: PortEvent) -> None:
            self.events.append(event)
            on_event(event)

        port = SpyPort(self, self.ensemble.open(see))
        self.opened.append(port)
        return port

    def before(self, when: When, act: Act) -> None:
        """Run `act` once, just before the next multi for which `when` is true."""
        with self._lock:
            self._before.append((when, act))

    def hold(self, when: When) -> None:
        """Keep back every multi for which `when` is true: it is not sent, and not answered before
        `release`.
        """
        with self._lock:
            self._holds.append(when)

    def release(self) -> None:
        """Keep back nothing any more; what was kept back ends `Unanswered`. On the loop's
        thread.
        """
        with self._lock:
            self._holds.clear()
            held, self._held = self._held, []
        for answer in held:
            answer()

    def keep(self, answer: Act) -> None:
        """Remember what to answer at `release`."""
        with self._lock:
            self._held.append(answer)

    def keeps(self) -> int:
        """How many multis are kept back now."""
        with self._lock:
            return len(self._held)

    def stepped(self, ops: Sequence[Op]) -> bool:
        """Let the tests step in; whether the multi goes out."""
        with self._lock:
            due = [pair for pair in self._before if pair[0](ops)]
            self._before = [pair for pair in self._before if pair not in due]
            held = any(when(ops) for when in self._holds)
        for _, act in due:
            act()
        return not held

    def multis(self, when: When = lambda ops: True) -> list[Sent]:
        """The multis sent so far for which `when` is true."""
        return [s for s in list(self.sent) if s.kind == "multi" and when(s.ops)]

    def count(self, kind: str) -> int:
        """How many calls of this kind there were."""
        return sum(s.kind == kind for s in list(self.sent))


class SpyPort:
    """One session looked through."""

    def __init__(self, spy: Spy, port: Port) -> None:
        self.spy = spy
        self.port = port

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        sends = self.spy.stepped(ops)
        sent = Sent("multi", boot_ms(), tuple(ops))
        self.spy.sent.append(sent)

        def answered(result: MultiResult) -> None:
            sent.result = result
            done(result)

        if sends:
            self.port.multi(ops, answered)
        else:
            self.spy.keep(lambda: answered(Unanswered()))

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.spy.sent.append(Sent("read", boot_ms(), reads=tuple(reads)))
        self.port.read(reads, done)

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """See `Port`."""
        self.spy.sent.append(Sent("acls", boot_ms()))
        self.port.acls(paths, done)

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.spy.sent.append(Sent("sync", boot_ms()))
        self.port.sync(done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.spy.sent.append(Sent("watch", boot_ms()))
        self.port.watch(path, mode, done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.spy.sent.append(Sent("unwatch", boot_ms()))
        self.port.unwatch(path, done)

    def ignore(self, paths: Sequence[str]) -> None:
        """See `Port`."""
        self.port.ignore(paths)

    def close(self) -> None:
        """See `Port`."""
        self.spy.sent.append(Sent("close", boot_ms()))
        self.port.close()


# What a multi is


def deletes(part: str) -> When:
    """Deletes a node whose path contains `part`."""
    return lambda ops: any(isinstance(op, Delete) and part in op.path for op in ops)


def creates(part: str) -> When:
    """Creates a node whose path contains `part`."""
    return lambda ops: any(isinstance(op, Create) and part in op.path for op in ops)


def stores(part: str) -> When:
    """A commit: sets data at `part`, and neither creates nor deletes anything."""
    return lambda ops: (
        any(isinstance(op, SetData) and part in op.path for op in ops)
        and not any(isinstance(op, (Create, Delete)) for op in ops)
    )


def starts(ops: Sequence[Op]) -> bool:
    """A start ack: deletes a command and creates owner nodes."""
    return deletes("/channel/")(ops) and creates("/owners/")(ops)


def stops(ops: Sequence[Op]) -> bool:
    """A stop ack: deletes a command and owner nodes."""
    return deletes("/channel/")(ops) and deletes("/owners/")(ops)


def renews(ops: Sequence[Op]) -> bool:
    """The check of one's own registration alone."""
    return len(ops) == 1 and isinstance(ops[0], Check)


def shape(ops: Sequence[Op]) -> list[str]:
    """Operations as `kind last-two-path-components[@version]`, to compare with."""
    shown = []
    for op in ops:
        tail = "/".join(op.path.split("/")[-2:])
        version = f"@{op.version}" if isinstance(op, (Check, SetData, Delete)) else ""
        shown.append(f"{type(op).__name__} {tail}{version}")
    return shown
