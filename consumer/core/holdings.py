"""What a member holds: exactly the owner nodes of its session, each with the offset and the version that its next write must name.

After an outcome that is not known nothing is concluded; owner and offset nodes are read again (after a sync) and judged here. A version that moved is explained by a value that
this member itself sent since the version it held; any other value is an operator's reset.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from zkcoord.core.model import Malformed, Thread

from .events import Holding, Whose


class Step(enum.Enum):
    """Where a held partition stands: fetched; being given up by the application; given up, its ack not yet written."""

    ACTIVE = "active"
    RELEASING = "releasing"
    RELEASED = "released"


@dataclass(slots=True)
class Held:
    """One partition of ours. `committed` is what is stored, as far as we know, at `version`; `sent` are the values whose writes are not known to have failed; `value` is what the
    stop ack shall store; `reset` says that an operator overruled it. `era`: when the fetching side was told to fetch it; `reset_era`: when it was told of an operator's reset."""

    thread: Thread
    committed: int
    version: int
    sent: set[int] = field(default_factory=set)
    step: Step = Step.ACTIVE
    value: int = 0
    reset: bool = False
    era: int = 0
    reset_era: int = 0

    def stored(self, value: int, version: int) -> None:
        """Our write happened."""
        self.committed, self.version = value, version
        self.sent.clear()


class Judgement(enum.Enum):
    """What a fresh read says of a partition that we thought we hold."""

    KEPT = "kept"
    RESET = "an operator reset its offset"
    LOST = "it is somebody else's"
    OFFSET_GONE = "its offset node was deleted"


def judge(held: Held, read: Holding) -> Judgement:
    """Compare with what was read, and take over version and value where the partition is still ours."""
    if read.whose is not Whose.MINE:
        return Judgement.LOST
    if read.version is None:
        return Judgement.OFFSET_GONE
    if read.version == held.version:
        held.sent.clear()
        return Judgement.KEPT
    known = read.offset == held.committed or read.offset in held.sent
    offset = held.committed if isinstance(read.offset, Malformed) or read.offset is None else read.offset
    held.stored(offset, read.version)
    if known or isinstance(read.offset, Malformed):
        return Judgement.KEPT
    held.reset = True
    return Judgement.RESET
