"""What a coordinator reads of ZooKeeper: ahead while it stands by, and then with a mirror of each
connection of its term.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.core.events import Event
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.mirror.mirror import GROUPS_PER_SLICE, Mirror, RelatedPartitions
from zkcoord.zk.mirror.pending_reads import SizeLimits
from zkcoord.zk.mirror.read_ahead import READ_AGAIN_MS, ReadAhead
from zkcoord.zk.port import READS_PER_REQUEST_MAX, Fired, Port, fewer_reads
from zkcoord.zk.term.work_meter import WorkMeter
from zkcoord.znodes.matching import PatternMatches
from zkcoord.znodes.paths import Layout


class WorldReader:
    """Of one session at a time: `forget` when it is over, `suspended` when its connection is lost.
    `mirror` is that of a term, `reads_max` how much is asked for at once, `groups_per_slice` how
    many groups are read together, `read_again_ms` how long a standby waits with a group that
    changes.
    """

    def __init__(
        self,
        layout: Layout,
        clock: Callable[[], int],
        options: CoordinatorOptions,
        roles: Roles | None,
        matches: PatternMatches,
        meter: WorkMeter,
    ) -> None:
        self.mirror: Mirror | None = None
        self.reads_max = READS_PER_REQUEST_MAX
        self.groups_per_slice = GROUPS_PER_SLICE
        self.read_again_ms = READ_AGAIN_MS
        self._layout = layout
        self._clock = clock
        self._limits = SizeLimits(options.registrations_per_group_max, options.nodes_per_group_max)
        self._roles = roles
        self._matches = matches
        self._meter = meter
        self._previous: Mirror | None = None
        self._ahead: ReadAhead | None = None

    @property
    def groups_ahead(self) -> int:
        """How many groups are read already, while it stands by."""
        return len(self._ahead) if self._ahead is not None else 0

    def stands_by(self, port: Port) -> None:
        """Another leads."""
        if self._ahead is None and self.mirror is None:
            self._ahead = ReadAhead(
                port,
                self._layout,
                self._clock,
                self._limits,
                self.groups_per_slice,
                self.reads_max,
                self.read_again_ms,
            )
            self._ahead.begin()

    def leads(
        self,
        port: Port,
        epoch: int,
        emit: Callable[[Event], None],
        related: RelatedPartitions,
    ) -> Mirror:
        """A term, or another connection of it: the mirror, which begins."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
        self.mirror = Mirror(
            port,
            self._layout,
            epoch,
            self._clock,
            emit,
            related,
            self._previous,
            self._limits,
            self.reads_max,
            self.groups_per_slice,
            self._roles,
            self._matches,
            self._meter,
            ahead,
        )
        self.mirror.begin()
        return self.mirror

    def fired(self, event: Fired) -> None:
        """A watch saw something."""
        if self.mirror is not None:
            self.mirror.fired(event)
        elif self._ahead is not None:
            self._ahead.fired(event)

    def suspended(self, answer_too_large: bool) -> None:
        """The connection is lost, perhaps since too much was asked for at once."""
        if answer_too_large:
            self.reads_max = fewer_reads(self.reads_max)
        self._lost()
        if self.mirror is None:
            return
        if self.mirror.begun or self._previous is None:
            self._previous = self.mirror
        else:
            # the core was told of them, though of no group yet
            self._previous.topics.update(self.mirror.topics)
        self.mirror = None

    def _lost(self) -> None:
        if self._ahead is not None:
            self._ahead.lost()
            self._ahead = None
        if self.mirror is not None:
            self.mirror.lost()

    def ends(self) -> None:
        """The term is over, or the session is to be."""
        self._lost()
        self.mirror = self._previous = None

    def forget(self) -> None:
        """The session is over."""
        self.ends()
        self.reads_max = READS_PER_REQUEST_MAX

    def tick(self) -> None:
        """Ask for what is marked, or read on."""
        if self.mirror is not None:
            self.mirror.flush()
        elif self._ahead is not None:
            self._ahead.tick()

    def next_wake_ms(self, rested_at_ms: int) -> int | None:
        """When `tick` has something to do; groups rest until then."""
        if self.mirror is None:
            return self._ahead.next_wake_ms() if self._ahead is not None else None
        if self.mirror.due:
            return self._clock()
        waits = rested_at_ms > self._clock() and self.mirror.waits
        return rested_at_ms if waits else None
