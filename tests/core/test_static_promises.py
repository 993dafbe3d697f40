"""What is promised to static members, as the group's metadata tells it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkcoord.core.group.static_members import StaticMembers
from zkcoord.core.model import Member, Subscription, Thread, TopicPartition

GRACE_MS = 5_000
T = [TopicPartition("t", n) for n in range(3)]
A = Member("a-1", 1, 1, Subscription({"t": 1}), instance="a", grace_ms=GRACE_MS)
B = Member("b-1", 2, 2, Subscription({"t": 1}), instance="b", grace_ms=GRACE_MS)
TOPICS = {"t": 1}


def topics_of(member: Member) -> dict[str, int]:
    return TOPICS


@pytest.fixture
def static() -> StaticMembers:
    """Two, one of which has two partitions."""
    found = StaticMembers(60_000)
    target = {T[0]: Thread("a-1", 0), T[1]: Thread("a-1", 1), T[2]: Thread("b-1", 0)}
    found.promise(target, {"a-1": A, "b-1": B}, {}, topics_of)
    return found


def test_what_did_not_change_is_told_by_the_same_values(static: StaticMembers) -> None:
    """Of a thousand they are compared at each decision."""
    before = static.departed()
    assert [(d.instance, d.partitions, d.since_ms) for d in before] == [
        ("a", (T[0], T[1]), 0),
        ("b", (T[2],), 0),
    ]
    assert all(a is b for a, b in zip(before, static.departed(), strict=True))
    assert static.left(70, A, False, {"b-1": B})
    after = static.departed()
    assert (after[0].since_ms, after[0].numbers) == (70, {T[1]: 1}) and after[1] is before[1]


def test_each_change_is_told(static: StaticMembers) -> None:
    """Who is back, with another grace; and another target."""
    static.departed()
    static.left(70, A, False, {"b-1": B})
    static.departed()
    back = replace(A, name="a-2", grace_ms=7_000)
    static.joined(back, topics_of)
    assert (static.departed()[0].since_ms, static.departed()[0].grace_ms) == (0, 7_000)
    members = {"a-2": back, "b-1": B}
    static.promise({T[0]: Thread("b-1", 0)}, members, {}, lambda member: {"t": 2})
    assert [(d.partitions, d.topics) for d in static.departed()] == [
        ((), {"t": 2}),
        ((T[0],), {"t": 2}),
    ]
