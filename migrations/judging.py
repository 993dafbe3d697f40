"""What the steps judge alike. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from migrations.model import NAMES_SHOWN_MAX, GroupNow
from zkcoord.admin.common import some
from zkcoord.core.model import TopicPartition
from zkcoord.words import counted

Offsets = Mapping[TopicPartition, int]
SUSPICIOUS_PARTITIONS = 3
"""So many partitions that all stand one record before their log's end are no chance."""


def live_in_kafka(now: GroupNow) -> list[str]:
    """Members of Kafka's own protocol."""
    return (
        [
            (
                f"live members of Kafka's own protocol hold the group id ({some(now.theirs)}): stop"
                " them first (one that was killed stays for its session timeout)"
            )
        ]
        if now.theirs
        else []
    )


def live_in_zookeeper(now: GroupNow) -> list[str]:
    """Members in ZooKeeper, also those that one of them leads, and owner nodes of sessions that
    have not ended yet.
    """
    found = [
        f"{kind} are registered in ZooKeeper ({some(members)}): stop them first"
        for kind, members in (("old consumers", now.old), ("members of zkcoord", now.ours))
        if members
    ]
    if not found and now.owned:
        found = [
            (
                f"{counted(now.owned, 'partition', 'has')} an owner node in ZooKeeper still,"
                " though nobody is registered: wait until those sessions end"
            )
        ]
    return [*found, now.led] if now.led else found


def unreadable(now: GroupNow) -> list[str]:
    """What is stored and is no offset; what may not be read."""
    bad = [tp for tp, stored in sorted(now.stored.items()) if stored.offset is None]
    found = (
        [
            (
                f"what ZooKeeper holds for {some(bad)} is no offset: reset it (zkcoord offsets"
                " reset), or delete the node"
            )
        ]
        if bad
        else []
    )
    if now.unreadable:
        found.append(
            f"ZooKeeper does not let this client read {some(now.unreadable)}: give credentials that"
            " may (--zookeeper-user)"
        )
    return found


def both_layouts(now: GroupNow) -> list[str]:
    """Two kinds of members that do not know of each other."""
    return (
        ["members are registered in both of zkcoord's layouts: stop those of one of them"]
        if now.both_layouts
        else []
    )


def strays(now: GroupNow) -> list[str]:
    """Offset nodes of nothing that exists."""
    return (
        [
            (
                "offsets of topics or partitions that do not exist stay where they are"
                f" ({some(now.stray)})"
            )
        ]
        if now.stray
        else []
    )


def one_behind(behind: Offsets, ahead: Offsets) -> bool:
    """Whether the first store has, everywhere where both have something, exactly one less: it was
    filled by a tool that stores the last processed offset (a widespread tool for Go does), not the
    next one. One partition alone proves nothing.
    """
    common = behind.keys() & ahead.keys()
    return len(common) > 1 and all(behind[tp] == ahead[tp] - 1 for tp in common)


def all_one_before_the_end(now: GroupNow, offsets: Offsets) -> bool:
    """Whether every partition lacks exactly its last record."""
    known = [tp for tp in offsets if tp in now.logs and now.logs[tp].end > now.logs[tp].start]
    return (
        len(known) >= SUSPICIOUS_PARTITIONS
        and len(known) == len(offsets)
        and all(offsets[tp] == now.logs[tp].end - 1 for tp in known)
    )


def ahead_of(first: Offsets, second: Offsets) -> list[TopicPartition]:
    """Where the first store is further than the second; what the second does not have counts."""
    return sorted(tp for tp, offset in first.items() if tp not in second or offset > second[tp])


def outside(now: GroupNow, offsets: Offsets) -> list[str]:
    """Offsets that their logs do not hold: a consumer begins where its reset policy says."""
    bad = [
        f"{tp} ({offset}, the log holds {now.logs[tp].start} to {now.logs[tp].end})"
        for tp, offset in sorted(offsets.items())
        if tp in now.logs and not now.logs[tp].start <= offset <= now.logs[tp].end
    ]
    return (
        [f"outside of the log, so that consumers begin where their reset policy says: {some(bad)}"]
        if bad
        else []
    )


def far(tps: Collection[TopicPartition], first: Offsets, second: Offsets) -> str:
    """How far one store is ahead of the other there, for a sentence."""
    records = sum(first[tp] - second[tp] for tp in tps if tp in second)
    return f"{some(sorted(tps), NAMES_SHOWN_MAX)}" + (
        f", {records} records together" if records else ""
    )


def earlier(now: GroupNow) -> list[TopicPartition]:
    """Partitions whose offset in ZooKeeper is of an earlier topic."""
    return [tp for tp in sorted(now.stored) if now.earlier(tp)]


def without_log(now: GroupNow, tps: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those whose log's start nobody told."""
    return [tp for tp in tps if tp not in now.logs]
