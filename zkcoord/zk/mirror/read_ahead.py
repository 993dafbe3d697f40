"""What a coordinator that stands by has read already of the groups, so that it has less to read
when it leads.

It watches what it will watch then, reads all groups slowly, and forgets a group as soon as it hears
of a change in it; a while later it reads that group again. What is left when it leads is as if it
were read then: ZooKeeper sends a session its events and answers in one order, so once a sync is
answered that began afterwards, every change from before has been heard of. Who may write a node,
what is in the other layout, and what clients lead are asked again in any case (`FullRead`): of
those no change is heard. Nor is it of nodes that are made so that it may not read them: each group
is looked at again now and then (`LOOK_AGAIN_MS`).

It decides nothing, and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, takewhile

from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    Change,
    Children,
    Fired,
    GetChildren,
    Port,
    ReadDone,
    ReadResult,
    WatchMode,
)
from zkcoord.znodes import names, places
from zkcoord.znodes.paths import Layout

from .full_read import FullRead
from .group_draft import GroupDraft
from .pending_reads import SizeLimits

SLICE_PAUSE_MS = 100
READ_AGAIN_MS = 5_000
LOOK_AGAIN_MS = 300_000

OF_A_GROUP = (
    places.GroupAt,
    places.ModeAt,
    places.IdsAt,
    places.RegistrationAt,
    places.ChannelsAt,
    places.ChannelAt,
    places.CommandAt,
    places.RequestAt,
    places.OwnersAt,
    places.OwnerTopicAt,
    places.OwnerAt,
)


class ReadAhead:
    """Of one connection that leads nothing yet; `fired` hears of what changes. `groups_per_slice`
    are read together, `reads_max` reads asked for at once, and a group again once nothing was heard
    of it for `read_again_ms`. `lost()` must be called when the session is suspended.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        clock: Callable[[], int],
        limits: SizeLimits,
        groups_per_slice: int,
        reads_max: int = READS_PER_REQUEST_MAX,
        read_again_ms: int = READ_AGAIN_MS,
    ) -> None:
        self._watched: set[str] = set()
        self._port = port
        self._layout = layout
        self._clock = clock
        self._limits = limits
        self._groups_per_slice = groups_per_slice
        self._reads_max = reads_max
        self._read_again_ms = read_again_ms
        self._drafts: dict[str, GroupDraft] = {}
        # Both in the order of their times: of groups that are to be read, and that have been.
        self._due_ms: dict[str, int] = {}
        self._look_ms: dict[str, int] = {}
        self._reading: FullRead | None = None
        self._changed: set[str] = set()
        self._next_ms = clock()
        self._over = False

    def __len__(self) -> int:
        """How many groups have been read, and have not changed since."""
        return len(self._drafts)

    def begin(self) -> None:
        """Watch, and read what groups there are."""
        for path in self._layout.watch_roots():
            self._port.watch(path, WatchMode.RECURSIVE, heard_elsewhere)
        self._port.read([GetChildren(self._layout.groups_root)], self._listed)

    def lost(self) -> None:
        """The connection is gone: nothing is heard any more of what changes."""
        self.stop()
        self._drafts.clear()

    def stop(self) -> None:
        """Read no more; what was read counts until `lost`."""
        self._over = True
        if self._reading is not None:
            self._reading.cancel()

    def _listed(self, result: ReadResult) -> None:
        if isinstance(result, ReadDone) and not self._over:
            (answer,) = result.answers
            found = answer.names if isinstance(answer, Children) else ()
            for group in sorted(filter(names.is_group, found)):
                self._due_ms.setdefault(group, self._clock())

    def fired(self, event: Fired) -> None:
        """A watch saw something."""
        where = self._layout.locate(event.path)
        if not isinstance(where, OF_A_GROUP):
            return
        group = where.group
        self._drafts.pop(group, None)
        self._look_ms.pop(group, None)
        self._changed.add(group)
        if isinstance(where, places.GroupAt) and event.change is Change.DELETED:
            self._due_ms.pop(group, None)
            self._unwatch(group)
        elif not self._over:
            # at the end: those that are due first are first
            self._due_ms.pop(group, None)
            self._due_ms[group] = self._clock() + self._read_again_ms

    def _unwatch(self, group: str) -> None:
        if group in self._watched:
            self._watched.remove(group)
            unwatch_group(self._port, self._layout, group)

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        firsts = [next(iter(of.values())) for of in (self._due_ms, self._look_ms) if of]
        if self._over or self._reading is not None or not firsts:
            return None
        return max(self._next_ms, min(firsts))

    def tick(self) -> None:
        """Read some of those that are due."""
        at_ms = self.next_wake_ms()
        if at_ms is None or self._clock() < at_ms:
            return
        now_ms = self._clock()
        due = (
            group
            for of in (self._due_ms, self._look_ms)
            for group, _ in takewhile(lambda one: one[1] <= now_ms, of.items())
        )
        self._read([*islice(due, self._groups_per_slice)])

    def _read(self, groups: Sequence[str]) -> None:
        for group in groups:
            self._due_ms.pop(group, None)
            self._look_ms.pop(group, None)
            if group not in self._watched:
                self._watched.add(group)
                watch_group(self._port, self._layout, group)
        self._changed.clear()
        self._reading = read = FullRead(
            self._port,
            self._layout,
            groups,
            self._limits,
            self._reads_max,
            lambda found: self._have_read(read),
        )
        read.begin()

    def _have_read(self, read: FullRead) -> None:
        self._reading = None
        self._next_ms = self._clock() + SLICE_PAUSE_MS
        for group, draft in read.drafts.items():
            if group not in self._changed and draft.can_wait:
                self._drafts[group] = draft
                self._look_ms[group] = self._clock() + LOOK_AGAIN_MS
            else:
                self._drafts.pop(group, None)

    def take(self, groups: Sequence[str]) -> Mapping[str, GroupDraft]:
        """Those of these groups that were read and have not changed since, once: only after the
        answer to a sync that began when it led.
        """
        return {group: self._drafts.pop(group) for group in groups if group in self._drafts}

    def has_watched(self, group: str) -> bool:
        """Whether what is to be watched of a group beside the roots is: the caller's from now on,
        who will hear of it.
        """
        found = group in self._watched
        self._watched.discard(group)
        return found


def watch_group(port: Port, layout: Layout, group: str) -> None:
    """Set what is watched of a group beside the roots."""
    for path in layout.group_watch_roots(group):
        port.watch(path, WatchMode.RECURSIVE, heard_elsewhere)


def unwatch_group(port: Port, layout: Layout, group: str) -> None:
    """It is gone."""
    for path in layout.group_watch_roots(group):
        port.unwatch(path, heard_elsewhere)


def heard_elsewhere(_result: ReadResult) -> None:
    """A watch that was not set means that the connection is gone, which is heard elsewhere."""
