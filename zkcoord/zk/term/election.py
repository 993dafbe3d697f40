"""Who leads, and under which epoch.

Winning is ONE multi: create the ephemeral leader node and raise the epoch (set the epoch node's
data at the version that was read). The epoch node's new version is the fence that every later write
checks. A leader node cannot be that fence: it is version 0 each time it is created.

Coordinators may differ in the lease that they let members have, and a member counts on the longer
one until a command of a later term makes it read the epoch node. So the longest that any earlier
coordinator published goes on from epoch to epoch in that node, until an operator empties it.

If the multi's answer is lost, the nodes are read back after a sync, and it is a win only if the
leader node is this session's AND the epoch node holds the epoch that was written; where only the
first is so, the session is closed, since nobody else can win as long as it lives. A missing or
empty epoch node is filled by a coordinator only, with the wall clock's ms as epoch, so that epochs
go on rising. An epoch lower than one that this process has seen means that ZooKeeper was restored
from an older state: it refuses to lead there, and whoever starts it again accepts what was lost.

What lies where a leader's node is to be leads only if it is ephemeral: no coordinator makes
another. In the own seat a persistent node is deleted in the multi that wins; one that cannot be (it
has children, it may not be read) is waited for, and so is one of somebody's session that cannot be
read. With roles, one that was not made by the multi that wrote the epoch, which only coordinators
may write, leads nobody: a coordinator's fence would be of an older version. It is deleted in the
multi that wins. A leader of the other layout counts only where its node can be read, too, and, with
roles, where nobody but coordinators could have made it, and it came with that layout's epoch.
Whatever keeps a coordinator from leading and can be taken away is waited for and named: the process
does not end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.zk.acl.belief import judge_other_leader
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    AclEntry,
    Committed,
    Create,
    Delete,
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
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EPOCH_MAX, EpochData, LeaderData, Vacant
from zkcoord.znodes.paths import Layout, parents
from zkcoord.znodes.stat import Stat

PROTOCOL_VERSION = 1
OF_NO_EPOCH = (
    "it was not made together with the epoch, as a coordinator's is, so it does not count: see with"
    " zkcoord acl audit who may make nodes there"
)
NO_LEADER = "it is no coordinator's node (they are ephemeral and can be read), so it does not count"
SOMEBODY_ELSE_MOVED = (
    ZkError.NODE_EXISTS,
    ZkError.BAD_VERSION,
    ZkError.NO_NODE,
    ZkError.NOT_EMPTY,
)


@value
class Candidate:
    """What a candidate writes into the leader node, and the lease that it publishes."""

    host: str
    port: int
    broker_id: int | None
    lease_max_ms: int


@value
class Won:
    """This session leads. `fence` is the epoch node's version; `older_lease_ms` the longest lease
    that an earlier coordinator let members have, where that is longer than this one's (else 0).
    """

    epoch: int
    fence: int
    older_lease_ms: int = 0


@value
class Standby:
    """Another session leads; call `Election.stand` again when the leader node changes."""


@value
class Overruled:
    """The leader node is this session's, and does not lead: it won, and somebody wrote to that node
    or to the epoch's before it heard so. Only the session's end gives the seat to anybody.
    """


@value
class Free:
    """Nobody leads, and this session was only to look."""


@value
class Waiting:
    """Something stands in the way that somebody may take away: one sentence for the user. Call
    `Election.stand` again after a while.
    """

    reason: str


@value
class Unfit:
    """This coordinator must not lead here: one sentence for the user."""

    reason: str


@value
class Adrift:
    """The connection failed in between; a new attempt follows the next `Connected`."""


Verdict = Won | Standby | Overruled | Free | Waiting | Unfit | Adrift


class Election:
    """One session's attempts to lead. One attempt at a time; `decided` gets the verdict of each.
    `epoch_seen` is the highest epoch that this process knows of. With `roles` it matters who could
    have made the other layout's leader node. `strange` are nodes that lie where a leader's is to be
    and were not believed at the last attempt.
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
        roles: Roles | None = None,
    ) -> None:
        self.port = port
        self.session_id = session_id
        self.layout = layout
        self.candidate = candidate
        self.acl = acl
        self.wall_clock = wall_clock
        self.decided = decided
        self.epoch_seen = epoch_seen
        self.roles = roles
        self.strange: tuple[Malformed, ...] = ()
        self.busy = False
        self.only_look = False

    def stand(self, only_look: bool = False) -> None:
        """Watch the leader node, look, and try where the seat is free (not with `only_look`: then
        the verdict is `Free`).
        """
        if self.busy:
            return
        self.busy, self.only_look, self.strange = True, only_look, ()
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
            # first: a server before 3.6 reads one after the other, and an epoch that is newer than
            # the seat would make the leader before it one of no epoch
            GetData(self.layout.epoch),
            GetData(self.layout.leader),
            GetData(other.leader),
            *(GetData(p) for p in parents(self.layout.leader)),
        ]
        self.port.read(reads, self._looked)

    def _looked(self, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return self._end(Adrift())
        epoch, leader, other, *above = result.answers
        denied = next((a for a in (epoch, *above) if isinstance(a, Denied)), None)
        if denied is not None:
            return self._end(
                Unfit(
                    f"ZooKeeper does not let this coordinator read {self.layout.epoch} or what is"
                    f" above it ({denied.error.value}): give it credentials that may"
                )
            )
        verdict = self._seat_taken(leader, epoch) if _leads(leader) else None
        if isinstance(verdict, Won):
            return self._end(verdict)

        def seen(elsewhere: Waiting | None) -> None:
            if elsewhere is not None or verdict is not None:
                return self._end(elsewhere or verdict or Adrift())
            self._nobody_leads(leader, epoch, above)

        self._other_layout(other, seen)

    def _other_layout(self, other: ReadAnswer, seen: Callable[[Waiting | None], None]) -> None:
        """Whether a coordinator of the other layout leads."""
        lay = self.layout.other_profile()
        if isinstance(other, Missing):
            return seen(None)
        if not leads(other):
            self._name(lay.leader, NO_LEADER)
            return seen(None)
        waiting = Waiting(
            f"a coordinator with --layout {lay.name} leads on this ensemble ({lay.leader}): start"
            " this one with the same layout, or stop that one"
        )
        if self.roles is None:
            return seen(waiting)

        def judged(why: str | None) -> None:
            if why is None:
                return self._end(Adrift())
            if why:
                self._name(lay.leader, f"a leader of the layout {lay.name} is not believed: {why}")
            seen(None if why else waiting)

        judge_other_leader(self.port, self.roles, self.layout, judged, by_coordinator=True)

    def _name(self, path: str, reason: str) -> None:
        bad = Malformed("leader", path, reason)
        self.strange = (*(known for known in self.strange if known != bad), bad)

    def _nobody_leads(
        self, leader: ReadAnswer, epoch: ReadAnswer, above: Sequence[ReadAnswer]
    ) -> None:
        """Nobody does, though something may lie in the seat."""
        path = self.layout.leader
        if isinstance(leader, Denied):
            return self._end(
                Waiting(
                    f"ZooKeeper does not let this coordinator read {path} ({leader.error.value}),"
                    " which no coordinator made: delete it, or give this one credentials that may"
                )
            )
        if isinstance(leader, Node):
            if leader.stat.num_children:
                return self._end(
                    Waiting(
                        f"{path} is a persistent node with children, where the leader's ephemeral"
                        " one is to be: delete it with all that is below it"
                    )
                )
            self._name(path, OF_NO_EPOCH if leader.stat.ephemeral_owner else NO_LEADER)
        if self.only_look:
            return self._end(Free())
        self._seat_free(leader, epoch, above)

    def _is_of_no_epoch(self, leader: Node, epoch: ReadAnswer) -> bool:
        of_epoch = isinstance(epoch, Node) and leader.stat.czxid == epoch.stat.mzxid
        return self.roles is not None and not of_epoch

    def _seat_taken(self, leader: ReadAnswer, epoch: ReadAnswer) -> Verdict | None:
        """Somebody leads; it is this session where an answer was lost, or after a reconnect. None:
        nobody leads there.
        """
        assert isinstance(leader, Node)
        now = codec.decode_epoch(epoch.data) if isinstance(epoch, Node) else None
        is_own = leader.stat.ephemeral_owner == self.session_id
        if isinstance(epoch, Node) and isinstance(now, EpochData):
            self.epoch_seen = max(self.epoch_seen, now.epoch)
            mine = codec.decode_leader(leader.data)
            of_epoch = not self._is_of_no_epoch(leader, epoch)
            if is_own and of_epoch and isinstance(mine, LeaderData) and mine.epoch == now.epoch:
                return Won(now.epoch, epoch.stat.version, now.older_lease_ms)
        if is_own:
            return Overruled()
        if self._is_of_no_epoch(leader, epoch):
            return None
        if leads(leader):
            return Standby()
        path = self.layout.leader
        self._name(path, NO_LEADER)
        return Waiting(
            f"{path} is an ephemeral node that no coordinator made, of the session"
            f" 0x{leader.stat.ephemeral_owner:x}: end the client that has this session, or delete"
            " the node (zkcoord coordinator step-down)"
        )

    def _seat_free(
        self, leader: ReadAnswer, epoch: ReadAnswer, above: Sequence[ReadAnswer]
    ) -> None:
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
        if isinstance(value, Malformed) or value.epoch == EPOCH_MAX:
            reason = value.reason if isinstance(value, Malformed) else "it has no successor"
            return self._end(
                Waiting(
                    f"the epoch in {self.layout.epoch} cannot be used ({reason}): set the node's"
                    " data to nothing, and a coordinator fills it"
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
        self._run(leader, value, epoch.stat.version)

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

    def _run(self, there: ReadAnswer, seen: EpochData, version: int) -> None:
        epoch, older_ms = seen.epoch + 1, seen.older_than(self.candidate.lease_max_ms)
        c = self.candidate
        leader = LeaderData(
            str(c.broker_id) if c.broker_id is not None else "",
            c.host,
            c.port,
            epoch,
            self.wall_clock(),
        )
        # at any version: the epoch's says whether somebody else came to lead meanwhile
        away = [Delete(self.layout.leader)] if isinstance(there, Node) else []
        ops: list[Op] = [
            *away,
            Create(self.layout.leader, codec.encode_leader(leader), ephemeral=True, acl=self.acl),
            SetData(self.layout.epoch, self._epoch_data(epoch, older_ms), version),
        ]
        self.port.multi(ops, lambda result: self._ran(epoch, older_ms, result))

    def _ran(self, epoch: int, older_lease_ms: int, result: MultiResult) -> None:
        if isinstance(result, Committed):
            stat = result.results[-1]
            assert isinstance(stat, Stat)
            self.epoch_seen = epoch
            return self._end(Won(epoch, stat.version, older_lease_ms))
        if isinstance(result, Unanswered):
            return self._end(Adrift())
        if result.error in SOMEBODY_ELSE_MOVED:
            return self._synced(ReadDone(()))
        self._end(
            Unfit(f"ZooKeeper refused the leader node {self.layout.leader}: {result.error.value}")
        )


def leads(answer: ReadAnswer) -> bool:
    """Whether this is the node of a coordinator of any layout: ephemeral, and it can be read."""
    return (
        isinstance(answer, Node)
        and answer.stat.ephemeral_owner != 0
        and isinstance(codec.decode_leader(answer.data), LeaderData)
    )


def _leads(answer: ReadAnswer) -> bool:
    """In the own seat what is ephemeral ends by itself: it is left alone."""
    return isinstance(answer, Node) and answer.stat.ephemeral_owner != 0
