"""What a member holds: exactly the owner nodes of its session, each with the offset and the version
that its next write must name.

After an outcome that is not known nothing is concluded; owner and offset nodes are read again
(after a sync) and judged here. Since a member has one write under way at most, and each write moves
the version by one, two readings are its own doing: what it held (the write did not happen), or the
value sent at the next version (it did). So is a value that it foresaw (`ExpectCommit`) at the next
version: its sink stored it. Any other pair of value and version is an operator's reset, also one to
the very value that was stored before.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkcoord.core.model import Malformed, Thread, TopicPartition

from .events import PartitionReading, Whose
from .topic_incarnations import ExpectedNote

NOT_ANNOUNCED = 1 << 62
"""Later than every assignment epoch."""


class OwnedStep(enum.Enum):
    """Where a held partition stands: fetched; being given up by the application; given up, its ack
    not yet written.
    """

    ACTIVE = "active"
    RELEASING = "releasing"
    RELEASED = "released"


@dataclass(slots=True)
class OwnedPartition:
    """One partition of ours. Offsets are next offsets."""

    thread: Thread
    """The stream of this member that owns it, as the owner node says."""

    committed: int | None
    """The offset that is stored, as far as we know; None: there is none, and nothing says where
    this partition begins.
    """

    version: int | None
    """The version of the offset node with `committed`, which the next write must name; None: there
    is no node, and the next write makes it.
    """

    sent: int | None = None
    """The offset of a write whose outcome is not known (yet)."""

    foreseen: int | None = None
    """The offset that the member's sink may store at the next version."""

    metadata: str = ""
    """What is stored beside `committed`; "": nothing."""

    noted: bool = False
    """Whether there is a node of metadata, for this offset or another."""

    note: ExpectedNote | None = None
    """What its first offset must find said of its topic's offsets; None: not known."""

    step: OwnedStep = OwnedStep.ACTIVE
    """Whether it is fetched or being given up."""

    value: int | None = None
    """The offset that the stop ack stores, once it is `RELEASED`; None: none."""

    reset: bool = False
    """An operator's reset was found that the fetching side has not heard of."""

    assignment_epoch: int = NOT_ANNOUNCED
    """When it was announced to the fetching side; `NOT_ANNOUNCED`: not yet, so that no message of
    it speaks of this partition.
    """

    reset_epoch: int = 0
    """The assignment epoch of the latest `Seek`."""

    def overrules(self, assignment_epoch: int) -> bool:
        """Whether an operator's reset was found that the application had not heard of in
        `assignment_epoch`. While the partition is given up it does not hear of it at all.
        """
        return self.reset or assignment_epoch < self.reset_epoch

    def stored(
        self, value: int | None, version: int, metadata: str = "", noted: bool = False
    ) -> None:
        """This is stored now. What was foreseen was so for the version before."""
        if version != self.version:
            self.foreseen = None
        self.committed, self.version, self.sent = value, version, None
        self.metadata, self.noted = metadata, noted


class OwnershipReading(enum.Enum):
    """What a fresh read says of a partition that we thought we hold."""

    KEPT = "kept"
    RESET = "an operator reset its offset"
    LOST = "it is somebody else's"
    OFFSET_GONE = "its offset node was deleted"
    OFFSET_HIDDEN = "its offset node may not be read: nobody knows what a write must name"


def judge_owner(read: PartitionReading) -> OwnershipReading:
    """As `judge` where offsets are kept elsewhere: only the owner node counts."""
    return OwnershipReading.KEPT if read.whose is Whose.MINE else OwnershipReading.LOST


def judge(held: OwnedPartition, read: PartitionReading) -> OwnershipReading:
    """Compare with what was read, and take over version and value where the partition is still
    ours.
    """
    if read.whose is not Whose.MINE:
        return OwnershipReading.LOST
    if read.version is None and isinstance(read.offset, Malformed):
        return OwnershipReading.OFFSET_HIDDEN
    if read.version is None:
        if held.version is not None:
            return OwnershipReading.OFFSET_GONE
        # nothing has ever been stored of it
        held.sent, held.noted = None, read.noted
        return OwnershipReading.KEPT
    if not isinstance(read.offset, int):
        # it cannot be read: the next commit overwrites it
        held.stored(held.committed, read.version, "", read.noted)
        return OwnershipReading.KEPT
    after = 0 if held.version is None else held.version + 1
    own = ((held.committed, held.version), (held.sent, after), (held.foreseen, after))
    known = (read.offset, read.version) in own
    held.stored(read.offset, read.version, read.metadata, read.noted)
    held.reset = held.reset or not known
    return OwnershipReading.KEPT if known else OwnershipReading.RESET


def first_offset_notes(
    held: Mapping[TopicPartition, OwnedPartition], partitions: Iterable[TopicPartition]
) -> dict[str, int]:
    """By topic at which version its note must be found by a write that stores the first offset of
    one of these partitions.
    """
    return {
        tp.topic: note.version
        for tp in partitions
        if held[tp].version is None and (note := held[tp].note) is not None
    }
