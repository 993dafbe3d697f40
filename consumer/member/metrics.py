"""What a member can say of itself and of its last rebalance: for `metrics()["zkcoord"]` and
`group_metadata()`.

Written on the member's thread, read on the application's: single values, each of which is whole. A
rebalance of a member begins with the first command of a generation and ends (so far) when
partitions last came or went because of it; why the group was rebalanced is in the group's node,
which is read once per generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafka.structs import ConsumerGroupMetadata, MemberState, TopicPartition

from consumer.core.messages import Notice, NoticeKind
from consumer.core.phases import Phase
from consumer.observer import AssignmentObserver
from zkcoord.core.model import GroupMetadata, Option
from zkcoord.zk.port import Node, ReadDone, ReadResult
from zkcoord.znodes import codec

MOVING = (Option.START.value, Option.STOP.value)


class MemberMetrics(NamedTuple):
    """A member now. `generation` is that of the last command carried out (0: none yet), `proof_ms`
    (`boot_ms`) when it last proved its membership, `busy`: a command is being carried out.
    """

    phase: Phase
    name: str
    generation: int
    epoch: int
    proof_ms: int | None
    busy: bool

    def described(self, group: str, instance: str | None) -> ConsumerGroupMetadata:
        """kafka-python's form. Stable: a member that has carried out all it was told."""
        if self.phase is not Phase.MEMBER:
            return ConsumerGroupMetadata(
                group,
                -1,
                "",
                instance,
                (
                    MemberState.UNJOINED
                    if self.phase in (Phase.IDLE, Phase.CLOSED, Phase.FAILED)
                    else MemberState.REBALANCING
                ),
            )
        stable = self.generation > 0 and not self.busy
        return ConsumerGroupMetadata(
            group,
            self.generation or -1,
            self.name,
            instance,
            MemberState.STABLE if stable else MemberState.REBALANCING,
        )

    def figures(self, now_ms: int) -> dict[str, str | int]:
        """As metrics; a time of -1: never."""
        return {
            "state": self.phase.value,
            "generation": self.generation,
            "epoch": self.epoch,
            "last-contact-ms-ago": -1 if self.proof_ms is None else max(0, now_ms - self.proof_ms),
        }


class RebalanceMetrics:
    """An `AssignmentObserver` of one member that passes everything on. `ask` starts a read of the
    group's node, whose answer goes to `answered`; it must return at once.
    """

    def __init__(self, inner: AssignmentObserver, group: str, ask: Callable[[], None]) -> None:
        self._inner = inner
        self._group = group
        self._ask = ask
        self._generation = -1
        self._began_ns = 0
        self.duration_ms = -1
        self.cause = self.trigger = ""

    def answered(self, result: ReadResult) -> None:
        """What the group's node says."""
        answer = result.answers[0] if isinstance(result, ReadDone) else None
        said = codec.decode_metadata(self._group, answer.data) if isinstance(answer, Node) else None
        if isinstance(said, GroupMetadata):
            self.cause, self.trigger = said.cause.reason, said.cause.trigger

    def figures(self) -> dict[str, str | int]:
        """As metrics; a duration of -1: none yet."""
        return {
            "last-rebalance-cause": self.cause,
            "last-rebalance-trigger": self.trigger,
            "last-rebalance-ms": self.duration_ms,
        }

    def _moved(self, now_ns: int) -> None:
        if self._began_ns:
            self.duration_ms = max(0, now_ns - self._began_ns) // 1_000_000

    def on_assigned(self, offsets: Mapping[TopicPartition, int], now_ns: int) -> None:
        """The rebalance lasted until now."""
        self._moved(now_ns)
        self._inner.on_assigned(offsets, now_ns)

    def on_revoke(self, partitions: Iterable[TopicPartition], now_ns: int) -> None:
        """Passed on."""
        self._inner.on_revoke(partitions, now_ns)

    def on_revoked(self, positions: Mapping[TopicPartition, int], now_ns: int) -> None:
        """The rebalance lasted until now."""
        self._moved(now_ns)
        self._inner.on_revoked(positions, now_ns)

    def on_lost(self, partitions: Iterable[TopicPartition], reason: str, now_ns: int) -> None:
        """Passed on."""
        self._inner.on_lost(partitions, reason, now_ns)

    def on_first_fetch(self, partition: TopicPartition, now_ns: int) -> None:
        """Passed on."""
        self._inner.on_first_fetch(partition, now_ns)

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        """A command of another generation begins another rebalance."""
        if (
            notice.kind is NoticeKind.COMMAND
            and notice.detail["option"] in MOVING
            and notice.detail["generation"] != self._generation
        ):
            self._generation, self._began_ns = int(notice.detail["generation"]), now_ns
            self._ask()
        self._inner.on_notice(notice, now_ns)
