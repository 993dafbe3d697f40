"""Writing a plan, and going on with one that was interrupted.

In ZooKeeper a topic is a unit: its note and its offsets are one transaction, each conditional on
the version that was read, because an offset counts or not by what the note says. In Kafka nothing
is conditional; that nobody else is at work was looked at before, and is looked at again after.

Going on is by value: what is as it is to be is done, what is as it was is still to be written, and
anything else was written by somebody else meanwhile, which ends it.
"""

from __future__ import annotations

from collections.abc import Sequence

from migrations.model import Change, GroupNow, KafkaOffset, ZkNote, ZkOffset
from migrations.stores import Stores
from zkcoord.admin.common import some, write_refused
from zkcoord.admin.offsets.reset import CONFLICTS, make_missing
from zkcoord.core.model import TopicPartition
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.port import (
    Committed,
    Create,
    Delete,
    Op,
    Rejected,
    SetData,
)
from zkcoord.zk.sync.client import SyncClient, fitting
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation, encode_offset
from zkcoord.znodes.paths import Layout, parents

UNKNOWN_IN_A_ROW_MAX = 5
LAYOUT = Layout.DRAFT
"""Offsets are in the same place in both."""

Unit = tuple[Change, ...]


class OffsetsWriter:
    """For one thread."""

    def __init__(self, client: SyncClient, stores: Stores, acl: AclOf) -> None:
        self.client = client
        self.stores = stores
        self.acl = acl

    def write(self, group: str, changes: Sequence[Change]) -> None:
        """All of it. Raises `RefusedError` where somebody else wrote meanwhile or a store says no,
        `UnavailableError` where one does not answer.
        """
        units = _units(changes)
        self._make_parents(group, [change for unit in units for change in unit])
        unknown = 0
        while units:
            pieces = [[self._op(group, change) for change in unit] for unit in units]
            count = fitting(pieces)
            ops = [op for piece in pieces[:count] for op in piece]
            result = self.client.multi(ops)
            if isinstance(result, Committed):
                units, unknown = units[count:], 0
                continue
            if isinstance(result, Rejected) and result.error not in CONFLICTS:
                raise RefusedError(write_refused(self.client, ops[result.index], result.error))
            if isinstance(result, Rejected):
                raise RefusedError(
                    f"ZooKeeper refused to write offsets of the group {group}"
                    f" ({result.error.value}): somebody else writes them; stop that, then repeat"
                    " the command"
                )
            unknown += 1
            if unknown > UNKNOWN_IN_A_ROW_MAX:
                raise RefusedError(
                    "ZooKeeper did not answer again and again: look at its servers, then repeat the"
                    " command"
                )
            (now,) = self.stores.read([group])
            units = [unit for unit in (_left_of(now, unit) for unit in units) if unit]
        self._write_kafka(group, [change for change in changes if isinstance(change, KafkaOffset)])

    def _write_kafka(self, group: str, changes: Sequence[KafkaOffset]) -> None:
        stored = {change.tp: change.after for change in changes if change.after is not None}
        if stored:
            self.stores.kafka.commit(group, stored)
        gone = [change.tp for change in changes if change.after is None]
        if gone:
            self.stores.kafka.forget(group, gone)

    def _op(self, group: str, change: Change) -> Op:
        if isinstance(change, ZkNote):
            path = LAYOUT.offset_topic(group, change.topic)
            return (
                Create(path, change.after.encode(), acl=self.acl(path))
                if change.version is None
                else SetData(path, change.after.encode(), change.version)
            )
        assert isinstance(change, ZkOffset)
        path = LAYOUT.offset(group, change.tp)
        if change.after is None:
            return Delete(path, change.version if change.version is not None else -1)
        data = encode_offset(change.after)
        return (
            Create(path, data, acl=self.acl(path))
            if change.version is None
            else SetData(path, data, change.version)
        )

    def _make_parents(self, group: str, changes: Sequence[Change]) -> None:
        """What is missing above the nodes that are created, but for nodes that the changes create
        themselves.
        """
        own = {
            LAYOUT.offset_topic(group, change.topic)
            for change in changes
            if isinstance(change, ZkNote) and change.version is None
        }
        wanted: dict[str, None] = {}
        for change in changes:
            if not isinstance(change, KafkaOffset) and change.version is None:
                path = (
                    LAYOUT.offset_topic(group, change.topic)
                    if isinstance(change, ZkNote)
                    else LAYOUT.offset(group, change.tp)
                )
                wanted.update(
                    dict.fromkeys(parent for parent in parents(path) if parent not in own)
                )
        make_missing(self.client, dict.fromkeys(wanted, b""), self.acl)


def _units(changes: Sequence[Change]) -> list[Unit]:
    """ZooKeeper's changes by topic, the note first."""
    by_topic: dict[str, list[Change]] = {}
    for change in sorted(
        (change for change in changes if not isinstance(change, KafkaOffset)),
        key=lambda change: not isinstance(change, ZkNote),
    ):
        by_topic.setdefault(
            change.topic if isinstance(change, ZkNote) else change.tp.topic, []
        ).append(change)
    return [tuple(unit) for unit in by_topic.values()]


def still_to_do(now: GroupNow, changes: Sequence[Change]) -> tuple[Change, ...]:
    """What of an interrupted plan is still to be written, at the versions of now. Raises
    `RefusedError` where somebody else has written.
    """
    left = [change for unit in _units(changes) for change in _left_of(now, unit)]
    for change in changes:
        if isinstance(change, KafkaOffset):
            value = now.kafka.get(change.tp)
            if value not in (change.after, change.before):
                raise _foreign(now, change.tp, "Kafka", value)
            if value != change.after:
                left.append(change)
    return tuple(left)


def _left_of(now: GroupNow, unit: Unit) -> Unit:
    """A unit with the versions of now; nothing where it is done. It happened as a whole or not at
    all.
    """
    if all(_is(now, change, after=True) for change in unit):
        return ()
    for change in unit:
        if not _is(now, change, after=False):
            assert not isinstance(change, KafkaOffset)
            raise _foreign(
                now,
                change.topic if isinstance(change, ZkNote) else change.tp,
                "ZooKeeper",
                None if isinstance(change, ZkNote) else _offset(now, change.tp),
            )
    return tuple(_at_now(now, change) for change in unit)


def _is(now: GroupNow, change: Change, after: bool) -> bool:
    if isinstance(change, ZkNote):
        beside = now.beside.get(change.topic)
        said = (
            encode_incarnation(beside.value).decode()
            if beside is not None and isinstance(beside.value, OffsetsOf)
            else ""
        )
        return said == (change.after if after else change.before)
    assert isinstance(change, ZkOffset)
    return _offset(now, change.tp) == (change.after if after else change.before)


def _at_now(now: GroupNow, change: Change) -> Change:
    if isinstance(change, ZkNote):
        beside = now.beside.get(change.topic)
        return ZkNote(
            change.topic, change.before, change.after, None if beside is None else beside.version
        )
    assert isinstance(change, ZkOffset)
    stored = now.stored.get(change.tp)
    return ZkOffset(
        change.tp, change.before, change.after, None if stored is None else stored.version
    )


def _offset(now: GroupNow, tp: TopicPartition) -> int | None:
    stored = now.stored.get(tp)
    return None if stored is None else stored.offset


def _foreign(now: GroupNow, what: object, store: str, value: int | None) -> RefusedError:
    found = "" if value is None else f" ({value})"
    return RefusedError(
        f"{store} holds something else of the group {now.name} than before and after the migration"
        f" that was interrupted ({some([what])}{found}): somebody consumed meanwhile; begin anew"
        " with --new-run"
    )
