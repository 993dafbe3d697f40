"""Why a member cannot be in a group, or what it is told: one table of codes, named as Kafka's
errors where Kafka has one.

`fatal`: trying again as it is cannot help, so the member raises; otherwise it comes back after a
backoff, or stays where the code only tells it something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NONE = "NONE"
INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
REBALANCE_FAILED = "REBALANCE_FAILED"
GROUP_MODE_LEGACY = "GROUP_MODE_LEGACY"


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a member is sent away."""

    code: str
    fatal: bool
    message: str


def rejection(code: str, message: str) -> Rejection:
    """A rejection with a code of the table."""
    return Rejection(code, CODES[code].fatal, message)
