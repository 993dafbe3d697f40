"""Storing other offsets for a group: what `zkcoord offsets reset` writes, and how it stays honest
while others write too.

Each write is conditional on the version that was read together with the owner node. A start ack
re-writes the offset of what it takes, so a partition that had no owner when it was read, and whose
version has not moved, has none: the multi proves that no member of ours began to fetch it.
Registrations are read before and after each batch as well, because no transaction can prove their
absence; a member that comes in between starts from what is stored then, old value or new, and is
reported.

With `live` the owners stay. They hold the version that was read, so the commit on its way fails;
the owner reads again, finds a value at a version that none of its writes made, and seeks there. It
looks when it has something to write, so it is also told to look: its channel node is set. A commit
that lands first moves the version and the reset is refused, which is no failure here: the partition
is read and written again, in ever smaller batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from zkcoord.admin.common import Progress, argument, members_now, some, write_refused
from zkcoord.admin.offsets.reset_plan import Aim, Log, ResetKind, Target, target_of
from zkcoord.admin.offsets.stored import StoredOffset, read_stored
from zkcoord.admin.offsets.untold import AboutToBeWritten
from zkcoord.core.model import Topic, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.port import (
    Committed,
    Create,
    GetData,
    Missing,
    Op,
    Rejected,
    SetData,
    Unanswered,
    ZkError,
)
from zkcoord.zk.sync.client import SyncClient, fitting
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation, encode_offset
from zkcoord.znodes.paths import Layout, parents
from zkcoord.znodes.stat import Stat

BATCH_MAX = 200
CONFLICTS_IN_A_ROW_MAX = 100
UNKNOWN_IN_A_ROW_MAX = 5
CONFLICTS = (ZkError.BAD_VERSION, ZkError.NO_NODE, ZkError.NODE_EXISTS)


@value
class ResetRow:
    """One partition of a reset. `old` is what is stored, `new` what will be (None: it is left
    alone), `end` its log's end, `owner` the member that owns it; `written` says that it is stored,
    at `version`, where it was not `there` already.
    """

    tp: TopicPartition
    old: int | None
    new: int | None
    end: int
    owner: str
    warning: str = ""
    written: bool = False
    version: int = -1
    there: bool = False

    @property
    def lag(self) -> int | None:
        """What is left to consume after the reset."""
        return None if self.new is None else self.end - self.new


@dataclass(frozen=True)
class ResetResult:
    """`rows` as they stand; `refusal` is one sentence where it ended early: what is not `written`
    was not done.
    """

    rows: tuple[ResetRow, ...]
    refusal: str = ""


class Reset:
    """One reset of one group's partitions. `logs` and `topics` must know each of them."""

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        aim: Aim,
        logs: Mapping[TopicPartition, Log],
        topics: Mapping[str, Topic],
        live: bool,
        acl: AclOf,
        progress: Progress,
        about_to: Callable[[Sequence[AboutToBeWritten]], None] = lambda rows: None,
    ) -> None:
        """`about_to` is told of each transaction before it is sent."""
        self.client = client
        self.layout = layout
        self.group = group
        self.aim = aim
        self.logs = logs
        self.topics = topics
        self.live = live
        self.acl = acl
        self.progress = progress
        self.about_to = about_to
        self.rows: dict[TopicPartition, ResetRow] = {}
        self.conflicts = 0
        self.unknown = 0

    def plan(self) -> ResetResult:
        """What would be written now. Writes nothing."""
        self.client.sync()
        stored = read_stored(self.client, self.layout, self.group, self.logs)
        return ResetResult(tuple(self._row(tp, stored[tp]) for tp in sorted(self.logs)))

    def execute(self) -> ResetResult:
        """Write it. What was written stays in `rows` also when this raises (`KeyboardInterrupt`,
        `UnavailableError`).
        """
        planned = {row.tp: row for row in self.plan().rows}
        self.rows = planned
        pending = sorted(self.logs)
        size = BATCH_MAX
        self._make_parents()
        while pending:
            refusal = self.somebody_there()
            if refusal:
                return self._result(refusal)
            tried = self._batch(pending[:size])
            if isinstance(tried, str):
                return self._result(tried)
            if not tried and self.conflicts > CONFLICTS_IN_A_ROW_MAX:
                return self._result(
                    "somebody writes these offsets all the time: stop that first, then repeat the"
                    " reset"
                )
            size = min(size * 2, BATCH_MAX) if tried else max(1, size // 2)
            pending = pending[tried:]
            self.progress.say(
                f"{len(self.logs) - len(pending)} of {len(self.logs)} partitions done"
            )
        return self._result(self.somebody_there(after=True))

    def _result(self, refusal: str) -> ResetResult:
        return ResetResult(tuple(self.rows[tp] for tp in sorted(self.rows)), refusal)

    def somebody_there(self, after: bool = False) -> str:
        """What stands against going on, after a sync."""
        try:
            members = members_now(self.client, self.layout, self.group)
        except RefusedError as error:
            return str(error)
        if self.live or not members:
            return ""
        if after:
            return (
                f"{some(members)} joined the group {self.group} while its offsets were written: see"
                f" zkcoord offsets show {argument(self.group)} for where it began"
            )
        return (
            f"the group {self.group} has members ({some(members)}): stop them, or add --live, which"
            " makes their consumers seek"
        )

    def _row(self, tp: TopicPartition, stored: StoredOffset) -> ResetRow:
        log = self.logs[tp]
        counts = stored.counts(self.topics[tp.topic])
        target: Target = target_of(self.aim, tp, stored.offset if counts else None, log)
        owner = "(unknown)" if stored.owned else ""
        if stored.owner is not None:
            owner = stored.owner.thread.member
        return ResetRow(tp, stored.offset, target.offset, log.end, owner, target.warning)

    def _batch(self, tps: Sequence[TopicPartition]) -> int | str:
        """Write the first of these in one multi: how many are done, 0 where somebody else wrote
        first; a sentence where it cannot go on.
        """
        stored = read_stored(self.client, self.layout, self.group, tps)
        owned = [tp for tp in tps if stored[tp].owned]
        if owned and not self.live:
            return (
                f"{some(owned)} of the group {self.group} still has an owner node, though nobody is"
                " registered: wait until that session ends, or add --live"
            )
        rows = {tp: self._row(tp, stored[tp]) for tp in tps}
        pieces = [self._ops(rows[tp], stored[tp]) for tp in tps]
        count = self._fitting(tps, pieces, stored)
        head = self._heads(tps[:count], pieces[:count], stored)
        ops: list[Op] = [*head, *(op for piece in pieces[:count] for op in piece)]
        if ops:
            self.about_to(
                [
                    AboutToBeWritten(tp, rows[tp].old, rows[tp].new or 0, stored[tp].version)
                    for tp, piece in zip(tps[:count], pieces, strict=False)
                    if piece
                ]
            )
        result = self.client.multi(ops) if ops else Committed(())
        if isinstance(result, Committed):
            self.conflicts = self.unknown = 0
            outcomes = iter(result.results[len(head) :])
            for tp, piece in zip(tps[:count], pieces, strict=False):
                outcome = next(outcomes) if piece else None
                self._done(
                    rows[tp], bool(piece), outcome.version if isinstance(outcome, Stat) else 0
                )
            return count
        if isinstance(result, Rejected):
            if result.error not in CONFLICTS:
                return write_refused(self.client, ops[result.index], result.error)
            self.conflicts += 1
            return 0
        return self._unanswered(tps[:count], pieces, rows, stored)

    def _done(self, row: ResetRow, changed: bool, version: int) -> None:
        if changed:
            row = replace(row, written=True, version=version)
        elif row.new is not None:
            row = replace(row, written=True, there=True)
        self.rows[row.tp] = row

    def _ops(self, row: ResetRow, stored: StoredOffset) -> tuple[Op, ...]:
        same = row.new == row.old and stored.counts(self.topics[row.tp.topic])
        # an owner goes back there: the version tells it, not the value
        if row.new is None or (same and not row.owner):
            return ()
        path, data = self.layout.offset(self.group, row.tp), encode_offset(row.new)
        return (
            (
                Create(path, data, acl=self.acl(path))
                if stored.version is None
                else SetData(path, data, stored.version)
            ),
        )

    def _fitting(
        self,
        tps: Sequence[TopicPartition],
        pieces: Sequence[tuple[Op, ...]],
        stored: Mapping[TopicPartition, StoredOffset],
    ) -> int:
        """How many of them one multi holds, each counted with its topic's node."""
        return fitting(
            [
                (*self._heads([tp], [piece], stored), *piece)
                for tp, piece in zip(tps, pieces, strict=False)
            ]
        )

    def _heads(
        self,
        tps: Sequence[TopicPartition],
        pieces: Sequence[tuple[Op, ...]],
        stored: Mapping[TopicPartition, StoredOffset],
    ) -> list[Op]:
        """Where what is stored beside belongs to an earlier topic of this name: only what is
        written from now on counts, so that the partitions left out do not come back to life.
        """
        ops: list[Op] = []
        for topic in sorted({tp.topic for tp, piece in zip(tps, pieces, strict=False) if piece}):
            beside = next(stored[tp].beside for tp in tps if tp.topic == topic)
            now = OffsetsOf(self.topics[topic].incarnation, newer_only=True)
            probe = StoredOffset(0, 0, beside.written, None, False, beside)
            if beside.version is not None and not probe.counts(self.topics[topic]):
                ops.append(
                    SetData(
                        self.layout.offset_topic(self.group, topic),
                        encode_incarnation(now),
                        beside.version,
                    )
                )
        return ops

    def _unanswered(
        self,
        tps: Sequence[TopicPartition],
        pieces: Sequence[tuple[Op, ...]],
        rows: Mapping[TopicPartition, ResetRow],
        before: Mapping[TopicPartition, StoredOffset],
    ) -> int | str:
        """The outcome is not known: look whether it happened. A shift is not repeated unless it
        certainly did not.
        """
        self.unknown += 1
        self.client.sync()
        now = read_stored(self.client, self.layout, self.group, tps)
        changed = [tp for tp, piece in zip(tps, pieces, strict=False) if piece]
        if all(now[tp].version == before[tp].version for tp in changed):
            return (
                0
                if self.unknown <= UNKNOWN_IN_A_ROW_MAX
                else (
                    "ZooKeeper did not answer again and again: look at its servers, then repeat the"
                    " reset"
                )
            )
        if all(
            now[tp].version == _next(before[tp].version) and now[tp].offset == rows[tp].new
            for tp in changed
        ):
            for tp, piece in zip(tps, pieces, strict=False):
                self._done(rows[tp], bool(piece), now[tp].version or 0)
            return len(tps)
        if self.aim.kind in (ResetKind.SHIFT, ResetKind.CURRENT):
            return (
                f"it is not known whether {some(changed)} were written, because the connection was"
                f" lost and others wrote as well: see zkcoord offsets show"
                f" {argument(self.group)}"
            )
        return 0

    def _make_parents(self) -> None:
        """Make what is missing above the offsets; a topic's node says which topic its offsets are
        of.
        """
        data: dict[str, bytes] = {}
        for topic in sorted({tp.topic for tp in self.logs}):
            path = self.layout.offset_topic(self.group, topic)
            data.update(dict.fromkeys(parents(path), b""))
            data[path] = encode_incarnation(OffsetsOf(self.topics[topic].incarnation))
        make_missing(self.client, data, self.acl)


def make_missing(client: SyncClient, nodes: Mapping[str, bytes], acl: AclOf) -> None:
    """Make those of these that are not there, in this order. Raises `RefusedError`."""
    answers = client.read([GetData(path) for path in nodes])
    for path, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, Missing):
            make(client, Create(path, nodes[path], acl=acl(path)))


def make(client: SyncClient, node: Create) -> None:
    """Make a node unless it is there. Raises `RefusedError`."""
    result = client.multi([node])
    if isinstance(result, Rejected) and result.error is not ZkError.NODE_EXISTS:
        raise RefusedError(write_refused(client, node, result.error))
    if isinstance(result, Unanswered):
        again = client.multi([node])
        if isinstance(again, Unanswered):
            raise RefusedError("ZooKeeper did not answer: look at its servers, then try again")


def _next(version: int | None) -> int:
    return 0 if version is None else version + 1
