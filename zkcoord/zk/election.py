"""Who leads, and under which epoch.

Winning is ONE multi: create the ephemeral leader node and raise the epoch (set the epoch node's
data at the version that was read). The epoch node's new version is the fence that every later write
checks. A leader node cannot be that fence: it is version 0 each time it is created.

Coordinators may differ in the lease that they let members have, and a member counts on the longer
one until a command of a later term makes it read the epoch node. So the longest that any earlier
coordinator published goes on from epoch to epoch in that node, until an operator empties it.

If the multi's answer is lost, the nodes are read back after a sync, and it is a win only if the
leader node is this session's AND the epoch node holds the epoch that was written. A missing or
empty epoch node is filled by a coordinator only, with the wall clock's ms as epoch, so that epochs
go on rising. An epoch lower than one that this process has seen means that ZooKeeper was restored
from an older state: it refuses to lead there, and whoever starts it again accepts what was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zkcoord.core.model import Malformed
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData, LeaderData, Vacant
from zkcoord.znodes.paths import Layout, parents
from zkcoord.znodes.stat import Stat

from .port import (
    AclEntry,
    Committed,
    Create,
    Denied,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    Unanswered,
    WatchMode,
    ZkError,
)

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a candidate writes into the leader node, and the lease that it publishes."""

    host: str
    port: int
    broker_id: int | None
    lease_max_ms: int


@dataclass(frozen=True, slots=True)
class Won:
    """This session leads. `fence` is the epoch node's version; `older_lease_ms` the longest lease
    that an earlier coordinator let members have, where that is longer than this one's (else 0).
    """

    epoch: int
    fence: int
    older_lease_ms: int = 0


@dataclass(frozen=True, slots=True)
class Standby:
    """Another session leads; call `Election.stand` again when the leader node changes."""


@dataclass(frozen=True, slots=True)
class Free:
    """Nobody leads, and this session was only to look."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """This coordinator must not lead here: one sentence for the user."""

    reason: str


@dataclass(frozen=True, slots=True)
class Adrift:
    """The connection failed in between; a new attempt follows the next `Connected`."""


Verdict = Won | Standby | Free | Unfit | Adrift


class Election:
    """One session's attempts to lead. One attempt at a time; `decided` gets the verdict of each.
    `epoch_seen` is the highest epoch that this process knows of.
    """

    def __init__(
        self,
        port: Port,
        session_id: int,
        layout: Layout,
        candidate: Candidate,
        acl: tuple[AclEntry, ...],
        wall_clock: Callable[[], int],
        decided: Callable[[Verdict], None],
        epoch_seen: int = 0,
    ) -> None:
        self.port = port
        self.session_id = session_id
        self.layout = layout
        self.candidate = candidate
        self.acl = acl
        self.wall_clock = wall_clock
        self.decided = decided
        self.epoch_seen = epoch_seen
        self.busy = False
        self.only_look = False

    def stand(self, only_look: bool = False) -> None:
        """Watch the leader node, look, and try where the seat is free (not with `only_look`: then
        the verdict is `Free`).
        """
        if self.busy:
            return
        self.busy, self.only_look = True, only_look
        self.port.watch(self.layout.leader, WatchMode.PERSISTENT, lambda r: None)
        self.port.sync(self._synced)

    def _end(self, verdict: Verdict) -> None:
        self.busy = False
        self.decided(verdict)

    def _synced(self, result: ReadResult) -> None:
        if isinstance(result, Unanswered):
            return self._end(Adrift())
        other = self.layout.other_profile()
        reads = [
            GetData(self.layout.leader),
            GetData(self.layout.epoch),
            GetData(other.leader),
            *(GetData(p) for p in parents(self.layout.leader)),
        ]
        self.port.read(reads, self._looked)

    def _looked(self, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return self._end(Adrift())
        leader, epoch, other, *above = result.answers
        denied = next((a for a in result.answers if isinstance(a, Denied)), None)
        if denied is not None:
            return self._end(
                Unfit(
                    f"ZooKeeper does not let this coordinator read {self.layout.leader} or"
                    f" {self.layout.epoch} ({denied.error.value}): give it credentials that may"
                )
            )
        if isinstance(other, Node):
            return self._end(
                Unfit(
                    f"a coordinator with --layout {self.layout.other_profile().name} leads on this"
                    f" ensemble ({self.layout.other_profile().leader}): start this one with the"
                    " same layout"
                )
            )
        if isinstance(leader, Node):
            return self._end(self._seat_taken(leader, epoch))
        if self.only_look:
            return self._end(Free())
        self._seat_free(epoch, above)

    def _seat_taken(self, leader: Node, epoch: ReadAnswer) -> Verdict:
        """Somebody leads; it is this session where an answer was lost, or after a reconnect."""
        now = codec.decode_epoch(epoch.data) if isinstance(epoch, Node) else None
        if isinstance(epoch, Node) and isinstance(now, EpochData):
            self.epoch_seen = max(self.epoch_seen, now.epoch)
            mine = codec.decode_leader(leader.data)
            if (
                leader.stat.ephemeral_owner == self.session_id
                and isinstance(mine, LeaderData)
                and mine.epoch == now.epoch
            ):
                return Won(now.epoch, epoch.stat.version, now.older_lease_ms)
        return Standby()

    def _seat_free(self, epoch: ReadAnswer, above: list[ReadAnswer]) -> None:
        missing = [
            p
            for p, a in zip(parents(self.layout.leader), above, strict=False)
            if not isinstance(a, Node)
        ]
        if missing:
            return self._prepare([Create(missing[0], b"", acl=self.acl)])
        if isinstance(epoch, Missing):
            return self._prepare(
                [
                    Create(
                        self.layout.epoch,
                        self._epoch_data(max(self.wall_clock(), self.epoch_seen)),
                        acl=self.acl,
                    )
                ]
            )
        assert isinstance(epoch, Node)
        value = codec.decode_epoch(epoch.data)
        if isinstance(value, Vacant):
            return self._prepare(
                [
                    SetData(
                        self.layout.epoch,
                        self._epoch_data(max(self.wall_clock(), self.epoch_seen)),
                        epoch.stat.version,
                    )
                ]
            )
        if isinstance(value, Malformed):
            return self._end(
                Unfit(
                    f"the epoch in {self.layout.epoch} cannot be read ({value.reason}): set the"
                    " node's data to nothing, and a coordinator fills it"
                )
            )
        if value.protocol > PROTOCOL_VERSION:
            return self._end(
                Unfit(
                    f"this ensemble is used with protocol version {value.protocol}, newer than this"
                    f" coordinator's {PROTOCOL_VERSION}: upgrade it"
                )
            )
        if value.epoch < self.epoch_seen:
            return self._end(
                Unfit(
                    f"ZooKeeper was restored from an older state: {self.layout.epoch} holds epoch"
                    f" {value.epoch}, this coordinator has seen {self.epoch_seen}, so stored"
                    " offsets may have gone back too: look at them, and start the coordinator"
                    " again to accept that"
                )
            )
        self._run(value, epoch.stat.version)

    def _epoch_data(self, epoch: int, older_lease_ms: int = 0) -> bytes:
        return codec.encode_epoch(
            EpochData(epoch, PROTOCOL_VERSION, self.candidate.lease_max_ms, older_lease_ms)
        )

    def _prepare(self, ops: list[Op]) -> None:
        """Make a node that is missing, then look again: whoever made it, it is there."""
        self.port.multi(ops, self._prepared)

    def _prepared(self, result: MultiResult) -> None:
        if isinstance(result, Unanswered):
            return self._end(Adrift())
        if isinstance(result, Rejected) and result.error not in (
            ZkError.NODE_EXISTS,
            ZkError.BAD_VERSION,
            ZkError.NO_NODE,
        ):
            return self._end(
                Unfit(
                    "ZooKeeper does not let this coordinator create its nodes under"
                    f" {self.layout.groups_root} ({result.error.value})"
                )
            )
        self._synced(ReadDone(()))

    def _run(self, seen: EpochData, version: int) -> None:
        epoch, older_ms = seen.epoch + 1, seen.older_than(self.candidate.lease_max_ms)
        c = self.candidate
        leader = LeaderData(
            str(c.broker_id) if c.broker_id is not None else "",
            c.host,
            c.port,
            epoch,
            self.wall_clock(),
        )
        ops: list[Op] = [
            Create(self.layout.leader, codec.encode_leader(leader), ephemeral=True, acl=self.acl),
            SetData(self.layout.epoch, self._epoch_data(epoch, older_ms), version),
        ]
        self.port.multi(ops, lambda result: self._ran(epoch, older_ms, result))

    def _ran(self, epoch: int, older_lease_ms: int, result: MultiResult) -> None:
        if isinstance(result, Committed):
            stat = result.results[1]
            assert isinstance(stat, Stat)
            self.epoch_seen = epoch
            return self._end(Won(epoch, stat.version, older_lease_ms))
        if isinstance(result, Unanswered):
            return self._end(Adrift())
        if result.error in (ZkError.NODE_EXISTS, ZkError.BAD_VERSION):
            return self._synced(ReadDone(()))
        self._end(
            Unfit(f"ZooKeeper refused the leader node {self.layout.leader}: {result.error.value}")
        )
