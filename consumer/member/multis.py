"""The multis of a member: each begins with a check of its registration, so that whoever was evicted
writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from consumer.core import events as ev
from consumer.core.options import MemberOptions
from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.core.value_type import assert_never
from zkcoord.zk.port import (
    AclEntry,
    Check,
    Committed,
    Create,
    Delete,
    MultiResult,
    Op,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.znodes import codec
from zkcoord.znodes.codec import CommitMetadata, OffsetsOf
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

OWNER_CREATED_VERSION = 0
OWNER_OURS_VERSION = 1


@dataclass(frozen=True)
class MemberMulti:
    """One multi, and at which of its operations which offset is stored."""

    ops: tuple[Op, ...]
    stores: dict[int, TopicPartition]

    def ending(self, now_ms: int, token: int, sent_ms: int, result: MultiResult) -> ev.Wrote:
        """How it ended, as an event. A refusal at the first operation is an eviction."""
        if isinstance(result, Committed):
            versions = {
                tp: r.version if isinstance(r := result.results[i], Stat) else 0
                for i, tp in self.stores.items()
            }
            return ev.Wrote(now_ms, token, ev.Ending.OK, sent_ms, versions)
        if isinstance(result, Rejected):
            gone = result.index == 0 and result.error in (ZkError.NO_NODE, ZkError.BAD_VERSION)
            ending = ev.Ending.EVICTED if gone else ev.Ending.REFUSED
            why = f"{result.error.value} at {self.ops[result.index].path}"
            return ev.Wrote(now_ms, token, ending, sent_ms, why=why)
        return ev.Wrote(now_ms, token, ev.Ending.UNKNOWN, sent_ms)


class MemberMultis:
    """Makes them."""

    def __init__(
        self,
        layout: Layout,
        options: MemberOptions,
        acl: tuple[AclEntry, ...],
        wall_clock: Callable[[], int],
    ) -> None:
        self.layout = layout
        self.options = options
        self.acl = acl
        self.wall_clock = wall_clock
        # What ZooKeeper granted to the session that registers; set by the driver before.
        self.session_timeout_ms = 0
        self.ended = ""

    def of(self, action: ev.MemberWrite, name: str) -> MemberMulti:
        """The multi that does this, for the member that is registered as `name`."""
        group, lay = self.options.group, self.layout
        ops: list[Op] = [Check(lay.registration(group, name), 0)]
        stores: dict[int, TopicPartition] = {}
        match action:
            case ev.Ack():
                self.ack_ops(action, name, ops, stores)
            case ev.Store():
                ops += [
                    Check(lay.owner(group, tp), OWNER_OURS_VERSION)
                    for tp in sorted(action.values)
                    if action.owned
                ]
                ops += self._note_checks(action.notes)
                for tp, (value, version) in sorted(action.values.items()):
                    stores[len(ops)] = tp
                    ops.append(self._offset_op(tp, value, version))
                    if tp in action.metadata:
                        ops += self._metadata_ops(tp, value, *action.metadata[tp])
            case ev.DropOwners():
                ops += [
                    Delete(lay.owner(group, tp), OWNER_OURS_VERSION) for tp in action.partitions
                ]
            case ev.Resubscribe():
                ops += [Delete(lay.command(group, name, node)) for node in action.commands]
                path = lay.registration(group, name)
                text = self.registration(action.subscription, action.user_data)
                ops += [Delete(path), Create(path, text, ephemeral=True, acl=self.acl)]
            case _:
                assert_never(action)
        return MemberMulti(tuple(ops), stores)

    def registration(
        self, subscription: Subscription, user_data: str, ended: str | None = None
    ) -> bytes:
        """What the registration's node says. An instance that wants nothing leaves nothing behind
        that would have to wait for it. `ended` is said until the next one is (None: as before).
        """
        self.ended = self.ended if ended is None else ended
        o = self.options
        wants = bool(subscription.topics) or subscription.pattern is not None
        return codec.encode_registration(
            subscription,
            timestamp_ms=self.wall_clock(),
            assignors=o.assignors,
            protocols=o.protocols,
            instance=o.instance,
            process=o.process,
            grace_ms=o.grace_ms if o.instance is not None and wants else 0,
            rebalance_timeout_ms=o.rebalance_timeout_ms,
            user_data=user_data or o.user_data,
            client=o.client,
            host=o.host,
            library=o.library,
            gateway=o.gateway,
            ended=self.ended,
            session_timeout_ms=self.session_timeout_ms,
        )

    def ack_ops(
        self, ack: ev.Ack, name: str, ops: list[Op], stores: dict[int, TopicPartition]
    ) -> None:
        """Add what an ack does: the command goes, owners and offsets move."""
        group, lay = self.options.group, self.layout
        if ack.command:
            ops.append(Delete(lay.command(group, name, ack.command)))
        ops += self._note_checks(ack.notes)
        for mark in ack.marks:
            ops.append(
                SetData(
                    lay.offset_topic(group, mark.topic),
                    codec.encode_incarnation(OffsetsOf(mark.incarnation, mark.newer_only)),
                    mark.version,
                )
            )
        for start in ack.starts:
            owner, text = lay.owner(group, start.partition), codec.encode_owner(start.thread)
            ops += [
                Create(owner, text, ephemeral=True, acl=self.acl),
                SetData(owner, text, OWNER_CREATED_VERSION),
            ]
            if self.options.stores_offsets and start.offset is not None:
                stores[len(ops)] = start.partition
                ops.append(self._offset_op(start.partition, start.offset, start.version))
        for stop in ack.stops:
            ops.append(Delete(lay.owner(group, stop.partition), OWNER_OURS_VERSION))
            if self.options.stores_offsets and stop.offset is not None:
                ops.append(self._offset_op(stop.partition, stop.offset, stop.version))
                if stop.clears:
                    ops += self._metadata_ops(stop.partition, stop.offset, "", True)

    def _note_checks(self, notes: Mapping[str, int]) -> list[Op]:
        topic_of = self.layout.offset_topic
        return [Check(topic_of(self.options.group, t), v) for t, v in sorted(notes.items())]

    def _offset_op(self, tp: TopicPartition, offset: int, version: int | None) -> Op:
        return offset_op(self.layout, self.options.group, self.acl, tp, offset, version)

    def _metadata_ops(self, tp: TopicPartition, offset: int, text: str, noted: bool) -> list[Op]:
        return metadata_ops(self.layout, self.options.group, self.acl, tp, offset, text, noted)


def offset_op(
    layout: Layout,
    group: str,
    acl: tuple[AclEntry, ...],
    tp: TopicPartition,
    offset: int,
    version: int | None,
) -> Op:
    """Store an offset at a version (None: make its node)."""
    path, data = layout.offset(group, tp), codec.encode_offset(offset)
    return Create(path, data, acl=acl) if version is None else SetData(path, data, version)


def metadata_ops(
    layout: Layout,
    group: str,
    acl: tuple[AclEntry, ...],
    tp: TopicPartition,
    offset: int,
    text: str,
    noted: bool,
) -> list[Op]:
    """What is to stand beside an offset ("": nothing); `noted`: its node exists. The offset's
    version, in the same multi, is the fence of both.
    """
    path = layout.commit_metadata(group, tp)
    if not text:
        return [Delete(path)] if noted else []
    data = codec.encode_commit_metadata(CommitMetadata(offset, text))
    return [SetData(path, data, -1) if noted else Create(path, data, acl=acl)]
