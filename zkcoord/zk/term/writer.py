"""From the core's writes to fenced multis, and from their outcomes to named events.

Every multi begins with a check of the epoch node's version: a coordinator that was replaced cannot
write, however late its request arrives. Nothing is ever retried here: a write that was refused or
whose outcome is unknown leads to a fresh read and a fresh decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zkcoord.core.events import (
    DeleteChannel,
    DeleteCommand,
    DeleteOwner,
    DeleteRegistration,
    DeleteRequest,
    KeepOut,
    Outcome,
    PutMetadata,
    Rescue,
    Send,
    Write,
    WriteOp,
    Written,
)
from zkcoord.core.model import GroupMetadata
from zkcoord.core.shared import KEEPER, KEEPER_TEXT
from zkcoord.core.value_type import assert_never
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    OPEN_ACL,
    OPS_PER_MULTI_MAX,
    AclEntry,
    Check,
    Committed,
    Create,
    Created,
    Delete,
    MultiResult,
    Op,
    Port,
    Rejected,
    SetData,
    ZkError,
    encoded_bytes,
)
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout


class TermWriter:
    """Writes of one term: `fence` is the epoch node's version that the election got."""

    def __init__(
        self,
        port: Port,
        layout: Layout,
        fence: int,
        acl: tuple[AclEntry, ...],
        clock: Callable[[], int],
        wall_clock: Callable[[], int],
        emit: Callable[[Written], None],
    ) -> None:
        self.port = port
        self.layout = layout
        self.fence = fence
        self.acl = acl
        self.clock = clock
        self.wall_clock = wall_clock
        self.emit = emit

    def write(self, write: Write) -> None:
        """Send one write; `Written` follows through `emit`."""
        ops: list[Op] = [Check(self.layout.epoch, self.fence)]
        for op in write.ops:
            ops += (
                self._rescue(write.group) if isinstance(op, Rescue) else [self._op(write.group, op)]
            )
        assert len(ops) <= OPS_PER_MULTI_MAX, len(ops)
        assert sum(encoded_bytes(op) for op in ops) <= MULTI_BYTES_MAX
        self.port.multi(ops, lambda result: self.emit(self._outcome(write, ops, result)))

    def _op(self, group: str, op: WriteOp) -> Op:
        lay = self.layout
        match op:
            case Send():
                c = op.command
                return Create(
                    lay.command_prefix(group, c.member, c.epoch, c.seq),
                    codec.encode_command(c),
                    sequential=True,
                    acl=self.acl,
                )
            case DeleteCommand():
                return Delete(lay.command(group, op.member, op.node))
            case DeleteRegistration():
                return Delete(lay.registration(group, op.member))
            case DeleteOwner():
                return Delete(lay.owner(group, op.partition), op.version)
            case DeleteChannel():
                return Delete(lay.channel(group, op.member))
            case DeleteRequest():
                return Delete(lay.request(group, op.node))
            case PutMetadata():
                report = codec.encode_metadata(self._dated(op.metadata))
                return SetData(lay.group(group), report, -1)
            case KeepOut():
                # open, as every registration of an old consumer is
                path = lay.registration(group, KEEPER)
                data = KEEPER_TEXT.encode()
                return (
                    Create(path, data, ephemeral=True, acl=OPEN_ACL) if op.there else Delete(path)
                )
            case Rescue():
                raise AssertionError("a rescue is two operations: see _rescue")
            case _:
                assert_never(op)

    def _rescue(self, group: str) -> list[Op]:
        path = self.layout.rescue(group)
        # open, as every registration of an old consumer is
        return [Create(path, b"", acl=OPEN_ACL), Delete(path)]

    def _dated(self, metadata: GroupMetadata) -> GroupMetadata:
        """The core knows only its own clock; people read the wall's."""
        now, ahead = self.wall_clock(), self.wall_clock() - self.clock()
        departed = tuple(
            replace(d, since_ms=max(1, d.since_ms + ahead)) if d.since_ms else d
            for d in metadata.departed
        )
        return replace(metadata, since_ms=now, departed=departed)

    def _outcome(self, write: Write, ops: list[Op], result: MultiResult) -> Written:
        now = self.clock()
        if isinstance(result, Committed):
            nodes = tuple(
                r.path.rsplit("/", 1)[1]
                for r in result.results
                if isinstance(r, Created)
                and r.path != self.layout.rescue(write.group)
                and r.path != self.layout.registration(write.group, KEEPER)
            )
            return Written(now, write.group, write.token, Outcome.OK, nodes)
        if isinstance(result, Rejected):
            fenced = result.index == 0 and result.error in (ZkError.BAD_VERSION, ZkError.NO_NODE)
            outcome = Outcome.FENCED if fenced else Outcome.REFUSED
            return Written(
                now,
                write.group,
                write.token,
                outcome,
                why=f"{result.error.value} at {ops[result.index].path}",
            )
        return Written(now, write.group, write.token, Outcome.UNKNOWN)
