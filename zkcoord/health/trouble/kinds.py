"""The kinds of trouble, and what is said of one that was found."""

from __future__ import annotations

import enum

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value

DOCUMENT = "docs/operations.md"


class TroubleKind(enum.Enum):
    """Each has a section in docs/operations.md, whose anchor is `trouble-` and this value."""

    POISON_RECORD = "poison-record"
    COMMIT_STANDS_STILL = "commit-stands-still"
    UNOWNED_PARTITIONS = "unowned-partitions"
    MALFORMED_REGISTRATION = "malformed-registration"
    REBALANCE_STORM = "rebalance-storm"
    FLAPPING_MEMBER = "flapping-member"
    POLL_INTERVAL = "poll-interval"
    SESSION_EXPIRY = "session-expiry"
    SLOW_HANDLER = "slow-handler"
    UNEVEN_ASSIGNMENT = "uneven-assignment"
    IDLE_MEMBERS = "idle-members"

    @property
    def anchor(self) -> str:
        """Of its section."""
        return f"trouble-{self.value}"

    @property
    def rank(self) -> int:
        """The lower, the worse: what loses time first, then what wastes it."""
        return _RANKS[self]


_RANKS = {kind: rank for rank, kind in enumerate(TroubleKind)}


@value
class Trouble:
    """One finding. It is about a member ("": none), or a partition (None: none); `since_ms` is wall
    clock. `evidence` and `remedy` are sentences, without their ends.
    `identity`: what stays the same where the member or partition that is named changes.
    """

    kind: TroubleKind
    group: str
    evidence: str
    remedy: str
    since_ms: int
    member: str = ""
    partition: TopicPartition | None = None
    identity: str = ""

    @property
    def subject(self) -> str:
        """Whom it is about; "": the group."""
        return self.member or (str(self.partition) if self.partition is not None else "")

    @property
    def link(self) -> str:
        """Where to read on."""
        return f"{DOCUMENT}#{self.kind.anchor}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same trouble at the next look."""
        return self.group, self.kind.value, self.identity or self.subject
