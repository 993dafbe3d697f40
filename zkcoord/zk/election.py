"""Who leads, and under which epoch.

Winning is ONE multi: create the ephemeral leader node and raise the epoch (set the epoch node's data at the version that was read). The epoch node's new version is the fence that
every later write checks. A leader node cannot be that fence: it is version 0 each time it is created.

If the multi's answer is lost, the nodes are read back after a sync, and it is a win only if the leader node is this session's AND the epoch node holds the epoch that was written.
A missing or empty epoch node is filled by a coordinator only, with the wall clock's ms as epoch, so that epochs go on rising.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from zkcoord.core.model import Malformed
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData, LeaderData, Vacant
from zkcoord.znodes.paths import Layout, parents

from .port import AclEntry, Children, Committed, Create, Denied, GetChildren, GetData, Missing, MultiResult, Node, Op, Port, ReadAnswer, ReadDone, ReadResult, Rejected, SetData, Stat, Unanswered, WatchMode, ZkError

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
    """This session leads. `fence` is the epoch node's version."""

    epoch: int
    fence: int


@dataclass(frozen=True, slots=True)
class Standby:
    """Another session leads; call `Election.stand` again when the leader node changes."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """This coordinator must not lead here: one sentence for the user."""

    reason: str


@dataclass(frozen=True, slots=True)
class Adrift:
    """The connection failed in between; a new attempt follows the next `Connected`."""


Verdict = Union[Won, Standby, Unfit, Adrift]


class Election:
    """One session's attempts to lead. One attempt at a time; `decided` gets the verdict of each."""

    def __init__(self, port: Port, session_id: int, layout: Layout, candidate: Candidate, acl: tuple[AclEntry, ...], wall_clock: Callable[[], int], decided: Callable[[Verdict], None]) -> None:
        self.port = port
        self.session_id = session_id
        self.layout = layout
        self.candidate = candidate
        self.acl = acl
        self.wall_clock = wall_clock
        self.decided = decided
        self.busy = False

    def stand(self) -> None:
        """Watch the leader node, look, and try where the seat is free."""
        if self.busy:
            return
        self.busy = True
        self.port.watch(self.layout.leader, WatchMode.PERSISTENT, lambda r: None)
        self.port.sync(self._synced)

    def _end(self, verdict: Verdict) -> None:
        self.busy = False
        self.decided(verdict)

    def _synced(self, result: ReadResult) -> None:
        if isinstance(result, Unanswered):
            return self._end(Adrift())
        other = self.layout.other_profile()
        reads = [GetData(self.layout.leader), GetData(self.layout.epoch), GetData(other.leader), *(GetChildren(p) for p in parents(self.layout.leader))]
        self.port.read(reads, self._looked)

    def _looked(self, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return self._end(Adrift())
        leader, epoch, other, *above = result.answers
        denied = next((a for a in result.answers if isinstance(a, Denied)), None)
        if denied is not None:
            return self._end(Unfit(f"ZooKeeper does not let this coordinator read {self.layout.leader} or {self.layout.epoch} ({denied.error.value}): give it credentials that may"))
        if isinstance(other, Node):
            return self._end(Unfit(f"a coordinator with --layout {self.layout.other_profile().name} leads on this ensemble ({self.layout.other_profile().leader}): start this one with the same layout"))
        if isinstance(leader, Node):
            return self._end(self._seat_taken(leader, epoch))
        self._seat_free(epoch, above)

    def _seat_taken(self, leader: Node, epoch: ReadAnswer) -> Verdict:
        """Somebody leads; it is this session where an answer was lost, or after a reconnect."""
        if leader.stat.ephemeral_owner == self.session_id and isinstance(epoch, Node):
            mine, now = codec.decode_leader(leader.data), codec.decode_epoch(epoch.data)
            if isinstance(mine, LeaderData) and isinstance(now, EpochData) and mine.epoch == now.epoch:
                return Won(now.epoch, epoch.stat.version)
        return Standby()

    def _seat_free(self, epoch: ReadAnswer, above: list[ReadAnswer]) -> None:
        missing = [p for p, a in zip(parents(self.layout.leader), above) if not isinstance(a, Children)]
        if missing:
            return self._prepare([Create(missing[0], b"", acl=self.acl)])
        if isinstance(epoch, Missing):
            return self._prepare([Create(self.layout.epoch, self._epoch_data(self.wall_clock()), acl=self.acl)])
        assert isinstance(epoch, Node)
        value = codec.decode_epoch(epoch.data)
        if isinstance(value, Vacant):
            return self._prepare([SetData(self.layout.epoch, self._epoch_data(self.wall_clock()), epoch.stat.version)])
        if isinstance(value, Malformed):
            return self._end(Unfit(f"the epoch in {self.layout.epoch} cannot be read ({value.reason}): set the node's data to nothing, and a coordinator fills it"))
        if value.protocol > PROTOCOL_VERSION:
            return self._end(Unfit(f"this ensemble is used with protocol version {value.protocol}, newer than this coordinator's {PROTOCOL_VERSION}: upgrade it"))
        self._run(value, epoch.stat.version)

    def _epoch_data(self, epoch: int) -> bytes:
        return codec.encode_epoch(EpochData(epoch, PROTOCOL_VERSION, self.candidate.lease_max_ms))

    def _prepare(self, ops: list[Op]) -> None:
        """Make a node that is missing, then look again: whoever made it, it is there."""
        self.port.multi(ops, self._prepared)

    def _prepared(self, result: MultiResult) -> None:
        if isinstance(result, Unanswered):
            return self._end(Adrift())
        if isinstance(result, Rejected) and result.error not in (ZkError.NODE_EXISTS, ZkError.BAD_VERSION, ZkError.NO_NODE):
            return self._end(Unfit(f"ZooKeeper does not let this coordinator create its nodes under {self.layout.groups_root} ({result.error.value})"))
        self._synced(ReadDone(()))

    def _run(self, seen: EpochData, version: int) -> None:
        epoch = seen.epoch + 1
        c = self.candidate
        leader = LeaderData(str(c.broker_id) if c.broker_id is not None else "", c.host, c.port, epoch, self.wall_clock())
        ops = [Create(self.layout.leader, codec.encode_leader(leader), ephemeral=True, acl=self.acl), SetData(self.layout.epoch, self._epoch_data(epoch), version)]
        self.port.multi(ops, lambda result: self._ran(epoch, result))

    def _ran(self, epoch: int, result: MultiResult) -> None:
        if isinstance(result, Committed):
            stat = result.results[1]
            assert isinstance(stat, Stat)
            return self._end(Won(epoch, stat.version))
        if isinstance(result, Unanswered):
            return self._end(Adrift())
        if result.error in (ZkError.NODE_EXISTS, ZkError.BAD_VERSION):
            return self._synced(ReadDone(()))
        self._end(Unfit(f"ZooKeeper refused the leader node {self.layout.leader}: {result.error.value}"))

