"""What was read of a group, as the rules of trouble look at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from zkcoord.health.owners import NOBODY
from zkcoord.health.rules import GroupHealth, HealthVerdict, PartitionHealth
from zkcoord.health.trouble.evidence import (
    CommitFacts,
    Evidence,
    GroupFacts,
    MemberFact,
    Record,
    of_last_hour,
)
from zkcoord.health.window import CommitWindow
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.sync.group_snapshot import GroupSnapshot
from zkcoord.znodes.codec import LeaderData

STANDING = (HealthVerdict.STOP, HealthVerdict.STALL)
STANDS_MS = 10_000
STANDS_TIMES = 3
"""A commit stands still once it stood for so long, and so many times as long as between any two
commits before.
"""


def evidence_of(
    group: str,
    records: Iterable[Record],
    snapshot: GroupSnapshot | None = None,
    health: GroupHealth | None = None,
    now_ms: int | None = None,
) -> Evidence:
    """Of what there is. `now_ms` is wall clock (None: now)."""
    now = wall_ms() if now_ms is None else now_ms
    return Evidence(
        group,
        now,
        of_last_hour(records, now),
        facts_of(snapshot) if snapshot is not None else None,
        tuple(commits_of(health, wall_ms() - boot_ms())) if health is not None else (),
    )


def facts_of(snapshot: GroupSnapshot) -> GroupFacts:
    """A group as its nodes say now."""
    metadata = snapshot.metadata
    members = {
        name: MemberFact(
            name,
            one.host,
            one.client,
            one.instance or "",
            bool(snapshot.commands.get(name)),
            snapshot.subscribed.get(name, {}),
        )
        for name, one in snapshot.members.items()
        if not one.legacy
    }
    if snapshot.led is not None and snapshot.is_led:
        members = {
            one.member_id: MemberFact(one.member_id, one.host, one.client_id)
            for one in snapshot.led.members
        }
    wanted = {topic for topics in snapshot.subscribed.values() for topic in topics}
    return GroupFacts(
        snapshot.state.value,
        metadata.since_ms,
        metadata.assignor,
        members,
        {name: known.partitions for name, known in snapshot.topics.items() if name in wanted},
        snapshot.holders,
        [(bad.what, bad.name, bad.reason) for bad in snapshot.malformed],
        snapshot.is_led,
        isinstance(snapshot.coordinator.leader, LeaderData),
        metadata.failure,
        any(one.legacy for one in snapshot.members.values()),
        bool(snapshot.paused),
    )


def commits_of(health: GroupHealth, wall_of_boot: int) -> Iterator[CommitFacts]:
    """How its commits go, of the partitions whose offset and log end are known."""
    for part in health.partitions:
        window = part.window
        if window is None or part.offset is None or part.end is None:
            continue
        first, waiting = window.commits[-1], 0
        for commit in reversed(window.commits):
            if commit.offset != part.offset:
                break
            first = commit
            if commit.end is not None and commit.end > part.offset:
                waiting = commit.at_ms + wall_of_boot
        yield CommitFacts(
            part.tp,
            part.offset,
            part.end,
            part.end if first.end is None else first.end,
            first.at_ms + wall_of_boot,
            part.why if _stands(part, window, first.at_ms) else "",
            "" if part.owner == NOBODY else part.owner,
            waiting,
        )


def _stands(part: PartitionHealth, window: CommitWindow, since_ms: int) -> bool:
    """Whether nothing moves, for longer than is usual here."""
    moved = [c.at_ms for c in window.commits if c.offset != part.offset] + [since_ms]
    usual_ms = max((after - before for before, after in pairwise(moved)), default=0)
    stood_ms = window.seen_ms - since_ms
    return part.verdict in STANDING and stood_ms >= max(STANDS_MS, STANDS_TIMES * usual_ms)
