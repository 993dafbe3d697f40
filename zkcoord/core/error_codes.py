"""Why a member cannot be in a group, or what it is told: one table of codes, named as Kafka's
errors where Kafka has one; and the numbers of those of Kafka that its clients are answered with.

`fatal`: trying again as it is cannot help, so the member raises; otherwise it comes back after a
backoff, or stays where the code only tells it something.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from zkcoord.core.value_type import value

NONE = "NONE"
INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
REBALANCE_FAILED = "REBALANCE_FAILED"
GROUP_MODE_LEGACY = "GROUP_MODE_LEGACY"


@value
class Code:
    """What a code means; `fatal` as above."""

    fatal: bool
    meaning: str


CODES: Mapping[str, Code] = {
    NONE: Code(False, "nothing is wrong (any more)"),
    INCONSISTENT_GROUP_PROTOCOL: Code(
        True, "no assignor, or no form of rebalance, in common with the older members"
    ),
    GROUP_MAX_SIZE_REACHED: Code(
        False, "the group is full (members_per_group_max); a place may become free"
    ),
    FENCED_INSTANCE_ID: Code(True, "another process runs this group_instance_id"),
    REBALANCE_FAILED: Code(
        False,
        "the group is quarantined: it keeps what it has, and the coordinator tries again by itself",
    ),
    GROUP_MODE_LEGACY: Code(True, "the group belongs to its old consumers"),
}


@value
class Rejection:
    """Why a member is sent away."""

    code: str
    fatal: bool
    message: str


def rejection(code: str, message: str) -> Rejection:
    """A rejection with a code of the table."""
    return Rejection(code, CODES[code].fatal, message)


class EndKind(enum.Enum):
    """What ended a membership that its consumer did not end itself."""

    POLL = "poll-interval"
    SESSION = "session"
    EVICTED = "evicted"


ENDS_BY_VALUE = {kind.value: kind for kind in EndKind}
END_DIGITS_MAX = 12


@value
class MembershipEnd:
    """How a consumer's membership before this one ended, as it says itself when it comes back.
    `ms`: of POLL how long it had not polled; of SESSION how long its own thread stood still (0: it
    did not, so it was cut off); else 0.
    """

    kind: EndKind
    ms: int = 0

    def __str__(self) -> str:
        """As a registration has it."""
        return f"{self.kind.value} {self.ms}"


def parse_end(text: str) -> MembershipEnd | None:
    """The end that a registration tells of; None: none that is known here."""
    word, _, ms = text.partition(" ")
    known = ENDS_BY_VALUE.get(word)
    if known is None or not (ms.isascii() and ms.isdigit() and len(ms) <= END_DIGITS_MAX):
        return None
    return MembershipEnd(known, int(ms))


class WireCode(enum.IntEnum):
    """Error codes of Kafka's protocol that a group's coordinator uses. Numbers:
    org.apache.kafka.common.protocol.Errors.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
