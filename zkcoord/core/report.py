"""A group's report: what its node says for people and tools, and when that is news."""

from __future__ import annotations

from .mixed import Sharing
from .model import Cause, Departed, GroupMetadata, GroupState
from .target import Targets
from .trouble import Trouble


def report(before: GroupMetadata, generation: int, state: GroupState, result: Targets, members: int, departed: tuple[Departed, ...], cause: Cause, trouble: Trouble, sharing: Sharing) -> GroupMetadata:
    """What there is to say now; what the group has used `before` holds while there is no target."""
    made = bool(result.assignor)
    return GroupMetadata(
        generation=generation, state=state, assignor=result.assignor or before.assignor, protocol=result.protocol if made else before.protocol, topics=result.topics if made else before.topics, members=members,
        configuration=before.configuration, departed=departed, cause=cause, since_ms=before.since_ms, failure=trouble.reason if trouble.quarantined else "", mode=sharing.said(), problems=sharing.reported)


def same_report(a: GroupMetadata, b: GroupMetadata) -> bool:
    """Whether a report says nothing new. A takeover of a balanced group must not write, so the cause alone is not news, nor is when a coordinator saw an instance leave."""
    promises_a, promises_b = ([(d.instance, d.partitions, d.grace_ms, d.since_ms > 0, d.numbers, d.topics) for d in m.departed] for m in (a, b))
    said_a, said_b = ((m.generation, m.state, m.assignor, m.topics, m.members, m.failure, m.mode, m.problems) for m in (a, b))
    return (said_a, promises_a) == (said_b, promises_b)
