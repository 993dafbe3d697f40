"""What a member holds: exactly the owner nodes of its session, each with the offset and the version
that its next write must name.

After an outcome that is not known nothing is concluded; owner and offset nodes are read again
(after a sync) and judged here. Since a member has one write under way at most, and each write moves
the version by one, two readings are its own doing: what it held (the write did not happen), or the
value sent at the next version (it did). So is a value that it foresaw (`Foresee`) at the next
version: its sink stored it. Any other pair of value and version is an operator's reset, also one to
the very value that was stored before.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from zkcoord.core.model import Thread

from .events import PartitionReading, Whose

NOT_TOLD = 1 << 62
"""Later than every era."""


class OwnedStep(enum.Enum):
    """Where a held partition stands: fetched; being given up by the application; given up, its ack
    not yet written.
    """

    ACTIVE = "active"
    RELEASING = "releasing"
    RELEASED = "released"


@dataclass(slots=True)
class OwnedPartition:
    """One partition of ours. `committed` is what is stored, as far as we know, at `version`; `sent`
    is the value of a write whose outcome is not known (yet); `value` is what the stop ack shall
    store; `reset` says that an operator overruled it; `foreseen` is what the member's sink may
    store at the next version. `era`: when the fetching side was told to fetch it (`NOT_TOLD`: not
    yet, so it cannot speak of it); `reset_era`: when it was told of an operator's reset.
    """

    thread: Thread
    committed: int
    version: int
    sent: int | None = None
    foreseen: int | None = None
    step: OwnedStep = OwnedStep.ACTIVE
    value: int = 0
    reset: bool = False
    era: int = NOT_TOLD
    reset_era: int = 0

    def overrules(self, era: int) -> bool:
        """Was an operator's reset found that the application had not heard of when it spoke in
        `era`? While the partition is given up it is not told at all.
        """
        return self.reset or era < self.reset_era

    def stored(self, value: int, version: int) -> None:
        """Our write happened. What was foreseen was so for the version before."""
        if version != self.version:
            self.foreseen = None
        self.committed, self.version, self.sent = value, version, None


class OwnershipReading(enum.Enum):
    """What a fresh read says of a partition that we thought we hold."""

    KEPT = "kept"
    RESET = "an operator reset its offset"
    LOST = "it is somebody else's"
    OFFSET_GONE = "its offset node was deleted"


def judge_owner(read: PartitionReading) -> OwnershipReading:
    """The same where offsets are kept elsewhere: only the owner node counts."""
    return OwnershipReading.KEPT if read.whose is Whose.MINE else OwnershipReading.LOST


def judge(held: OwnedPartition, read: PartitionReading) -> OwnershipReading:
    """Compare with what was read, and take over version and value where the partition is still
    ours.
    """
    if read.whose is not Whose.MINE:
        return OwnershipReading.LOST
    if read.version is None:
        return OwnershipReading.OFFSET_GONE
    if not isinstance(read.offset, int):
        # it cannot be read: the next commit overwrites it
        held.stored(held.committed, read.version)
        return OwnershipReading.KEPT
    own = (
        (held.committed, held.version),
        (held.sent, held.version + 1),
        (held.foreseen, held.version + 1),
    )
    known = (read.offset, read.version) in own
    held.stored(read.offset, read.version)
    held.reset = held.reset or not known
    return OwnershipReading.KEPT if known else OwnershipReading.RESET
