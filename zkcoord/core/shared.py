"""What everybody must know of groups that share their partitions with old consumers: the names of
the old members' strategies, what keeps old members out, and what stands for a set of registrations.
Light: consumers load it, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from .model import Malformed, Member

LEGACY_RANGE, LEGACY_ROUNDROBIN_08, LEGACY_ROUNDROBIN_10 = STRATEGIES = (
    "legacy-range",
    "legacy-roundrobin-0.8",
    "legacy-roundrobin-1.0",
)

# A registration that no old consumer can read: beside it every rebalance of theirs fails, before
# anything is claimed, with this text in their log.
KEEPER = "zkcoord-keeps-old-consumers-out"
KEEPER_TEXT = (
    "this group is coordinated by zkcoord and old consumers get nothing here: stop this one, or say"
    " zkcoord groups mode GROUP mixed"
)

MARK_PRIME = 1_099_511_628_211
MARK_MASK = 2**64 - 1


def mark_of(members: Iterable[Member]) -> str:
    """What stands for a set of registrations, old and ours: equal for equal sets, whoever has read
    them.
    """
    incarnations = sorted(member.incarnation for member in members)
    mark = len(incarnations)
    for incarnation in incarnations:
        mark = (mark ^ incarnation) * MARK_PRIME & MARK_MASK
    return f"{len(incarnations)}-{mark:016x}"


KEEPS_OUT = Malformed("registration", KEEPER, "zkcoord's own: it keeps old consumers out")
"""What it is read as."""
