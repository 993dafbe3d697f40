"""The fence of a batch, pure: what its publication checks and writes in ZooKeeper, and what a later
look says about it.

A batch is committed by ONE multi: check of the registration that planned it, every offset of the
batch from `start` to `end` at the version that was planned with, and the intent that names the
staged files. So it happens at most once, as a whole, and only while that member is registered and
nobody has claimed a partition of it since: a claim moves the version.

Where the answer is lost, the nodes are read after a sync and judged:

* the intent is there: it happened. Only the same registration writes an intent of this name, and
  nobody else finishes it while that lives.
* all offsets at the planned versions, the registration there: nothing happened. The multi may be
  sent again; of two that are under way one fails.
* a batch without files has no intent: where every offset is at its end, one version on, it happened
  (or an operator set the very same; either way there is nothing left to do).
* anything else: fenced. This attempt will not publish it. What a departed member has committed is
  finished by whoever recovers; what it has not is read again by the next owner.

A batch without ranges holds rows that follow from records that counted before (Spark runs it when a
watermark has moved), and are this query's alone. It is bound to its query and its number instead of
a registration.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from consumer.spark.plan import PlannedRange
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.zk.port import (
    OPEN_ACL,
    OPS_PER_MULTI_MAX,
    AclEntry,
    Check,
    Create,
    GetData,
    Node,
    Op,
    Read,
    ReadAnswer,
    SetData,
)
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout

RANGES_PER_BATCH_MAX = OPS_PER_MULTI_MAX - 2
"""Partitions of one batch: each is an operation of its multi, beside the check of the registration
and the intent.
"""

REGISTRATION_VERSION = 0


@dataclass(frozen=True)
class Batch:
    """What a sink has to know of a planned batch."""

    layout: Layout
    group: str
    # The name and the czxid of the registration that planned it.
    member: str
    incarnation: int
    # Spark's batch id in the query `query`.
    number: int
    # Sorted, without empty ones.
    ranges: tuple[PlannedRange, ...]
    # The query's id, a UUID.
    query: str = ""

    def __post_init__(self) -> None:
        assert len({r.tp for r in self.ranges}) == len(self.ranges) <= RANGES_PER_BATCH_MAX, (
            "a partition is in a batch once, and the batch fits one multi"
        )
        assert all(r.start < r.end for r in self.ranges), "a range of a batch is not empty"

    @property
    def node(self) -> str:
        """The intent's name, unique in the group."""
        return f"{self.incarnation if self.ranges else self.query}-{self.number}"

    @property
    def folder(self) -> str:
        """The name of the folder of its writer's staged batches."""
        return str(self.incarnation) if self.ranges else f"query-{self.query}"

    @property
    def registration(self) -> str:
        """The path of the registration that planned it."""
        return self.layout.registration(self.group, self.member)

    @property
    def intent(self) -> str:
        """The path of its intent."""
        return self.layout.publication(self.group, self.node)


@value
class BatchNodes:
    """A batch's nodes as read."""

    # The registration's czxid; 0: there is none.
    incarnation: int
    # Whether the intent is there.
    intent: bool
    # The offsets' values and versions; missing: there is no readable node.
    offsets: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)


class FenceDecision(enum.Enum):
    """Where a batch stands."""

    OPEN = "nothing of it has happened"
    COMMITTED = "it has happened"
    FENCED = "it must not happen any more"


def reads_of(batch: Batch) -> tuple[Read, ...]:
    """What to read, after a sync, for `seen_of`."""
    return (
        GetData(batch.registration),
        GetData(batch.intent),
        *(GetData(batch.layout.offset(batch.group, r.tp)) for r in batch.ranges),
    )


def seen_of(batch: Batch, answers: Sequence[ReadAnswer]) -> BatchNodes:
    """The answers to `reads_of`."""
    registration, intent, *stored = answers
    offsets = {}
    for r, offset in zip(batch.ranges, stored, strict=False):
        value = codec.decode_offset(str(r.tp), offset.data) if isinstance(offset, Node) else None
        if isinstance(offset, Node) and isinstance(value, int):
            offsets[r.tp] = (value, offset.stat.version)
    return BatchNodes(
        registration.stat.czxid if isinstance(registration, Node) else 0,
        isinstance(intent, Node),
        offsets,
    )


def judge(batch: Batch, seen: BatchNodes, has_files: bool) -> FenceDecision:
    """Where the batch stands, by what was read after a sync. `has_files`: it is published with an
    intent.
    """
    if seen.intent:
        return FenceDecision.COMMITTED
    if not batch.ranges:
        return FenceDecision.OPEN
    if seen.incarnation != batch.incarnation:
        return FenceDecision.FENCED
    if not moved(batch, seen):
        return FenceDecision.OPEN
    done = not has_files and all(
        seen.offsets.get(r.tp) == (r.end, r.version + 1) for r in batch.ranges
    )
    return FenceDecision.COMMITTED if done else FenceDecision.FENCED


def moved(batch: Batch, seen: BatchNodes) -> list[TopicPartition]:
    """Partitions whose offset was written since it was planned."""
    return [r.tp for r in batch.ranges if seen.offsets.get(r.tp, (0, -1))[1] != r.version]


def why_fenced(batch: Batch, seen: BatchNodes) -> str:
    """What stands against it, for people."""
    if seen.incarnation != batch.incarnation:
        return f"the member {batch.member} that planned it is not registered any more"
    names = [str(tp) for tp in moved(batch, seen)]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"{shown or 'a partition'} of the group {batch.group} changed hands, or was reset by an"
        " operator, since it was planned"
    )


def proof_ops(batch: Batch) -> list[Op]:
    """A multi that says whether the batch may still happen, and writes nothing. Where it succeeds,
    the claims that the batch was planned under (`PlannedRange.owner`) are the newest: a later one
    would have moved the versions.
    """
    offsets = [Check(batch.layout.offset(batch.group, r.tp), r.version) for r in batch.ranges]
    return [Check(batch.registration, REGISTRATION_VERSION), *offsets]


def commit_ops(
    batch: Batch, intent: bytes | None, acl: tuple[AclEntry, ...] = OPEN_ACL
) -> list[Op]:
    """The multi that publishes: the check of the registration, each offset at its version, and the
    intent (None: the batch has no files).
    """
    proof = [Check(batch.registration, REGISTRATION_VERSION)] if batch.ranges else []
    offsets = [
        SetData(batch.layout.offset(batch.group, r.tp), codec.encode_offset(r.end), r.version)
        for r in batch.ranges
    ]
    return [*proof, *offsets, *([] if intent is None else [Create(batch.intent, intent, acl=acl)])]
