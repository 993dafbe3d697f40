"""Step 1: offsets of old consumers become those of a coordinated group. They stay where they are:
old consumers, mixed groups and coordinated ones read the same nodes. So it may be applied while
members live.

What is written is whose they are: the node above a topic's offsets says which incarnation of the
topic they belong to, so that a topic that is deleted and made again later is noticed. Offsets that
were stored before their topic was made belong to an earlier one; they are said not to count (a
member begins at the first record of the topic), and the others beside them are written once more,
each with its own value, because only what is written from now on counts then. Old consumers never
look at that node.

The way back takes the notes away, and gives what an old consumer would take for an offset of this
topic, and is not, the log's first offset.
"""

from __future__ import annotations

from collections.abc import Iterable

from migrations import judging
from migrations.model import Change, Choices, GroupNow, MigrationPlan, ZkNote, ZkOffset
from zkcoord.admin.common import some
from zkcoord.core.model import Malformed, TopicPartition, same_incarnation
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation


def forward(now: GroupNow, choices: Choices) -> MigrationPlan:
    """Check, and mark."""
    refusals = [*judging.unreadable(now), *judging.both_layouts(now)]
    live = judging.live_in_kafka(now)
    warnings = [*judging.strays(now), *judging.outside(now, now.zookeeper())]
    counting = now.zookeeper()
    changes: list[Change] = []
    ahead = judging.ahead_of(
        {tp: offset for tp, offset in now.kafka.items() if tp.topic in now.topics}, counting
    )
    if ahead and choices.highest:
        changes += [ZkOffset(tp, _value(now, tp), now.kafka[tp], _version(now, tp)) for tp in ahead]
    elif ahead:
        refusals.append(
            "Kafka has committed offsets that ZooKeeper does not have"
            f" ({judging.far(ahead, now.kafka, counting)}): old consumers with"
            " offsets.storage=kafka, or a move that was not finished? Write --take highest to"
            " store the higher one of both, as old consumers with dual commit do, or take what is"
            " in Kafka away first"
        )
    if judging.one_behind(now.kafka, counting):
        warnings.append(
            "Kafka's offsets are one behind ZooKeeper's everywhere: a tool that stores the last"
            " processed offset wrote them; step 2 puts that right"
        )
    damaged = sorted(
        topic for topic, beside in now.beside.items() if isinstance(beside.value, Malformed)
    )
    if damaged:
        warnings.append(
            f"what says whose offsets they are cannot be read, and is left alone: {some(damaged)}"
        )
    changed = {change.tp for change in changes if isinstance(change, ZkOffset)}
    rewritten: list[ZkOffset] = []
    for topic in sorted({tp.topic for tp in (*now.stored, *changed)}):
        stale = [
            tp for tp in now.stored if tp.topic == topic and now.earlier(tp) and tp not in changed
        ]
        fresh = [tp for tp in counting if tp.topic == topic and tp not in changed]
        note = _note(now, topic, bool(stale))
        if note is None:
            continue
        changes.append(note)
        if stale:
            warnings.append(
                f"{topic} was made after these offsets were stored, so they do not count:"
                f" {some(stale)}"
            )
            rewritten += [
                ZkOffset(tp, counting[tp], counting[tp], now.stored[tp].version) for tp in fresh
            ]
    if rewritten or changed:
        live += judging.live_in_zookeeper(now)
    elif changes and now.led:
        live.append(now.led)
    return MigrationPlan(
        now.name,
        (*changes, *rewritten),
        tuple(refusals),
        tuple(live),
        tuple(warnings),
        len(counting) - len(rewritten),
    )


def _note(now: GroupNow, topic: str, stale: bool) -> ZkNote | None:
    """What the node above the offsets is to say; None where it says so, or where nothing is to be
    said.
    """
    beside, known = now.beside.get(topic), now.topics.get(topic)
    if known is None or (beside is not None and isinstance(beside.value, Malformed)):
        return None
    said = beside.value if beside is not None and beside.version is not None else None
    if (
        isinstance(said, OffsetsOf)
        and same_incarnation(said.incarnation, known.incarnation)
        and (said.newer_only or not stale)
    ):
        return None
    before = encode_incarnation(said).decode() if isinstance(said, OffsetsOf) else ""
    return ZkNote(
        topic,
        before,
        encode_incarnation(OffsetsOf(known.incarnation, newer_only=stale)).decode(),
        None if beside is None else beside.version,
    )


def back(now: GroupNow, choices: Choices) -> MigrationPlan:
    """Take the notes away."""
    refusals = [*judging.unreadable(now), *judging.both_layouts(now)]
    live = judging.live_in_kafka(now)
    if now.ours:
        live.append(
            f"members of zkcoord are registered ({some(now.ours)}), and would write the notes"
            " again: stop them first"
        )
    changes: list[Change] = []
    counting = now.zookeeper()
    ahead = judging.ahead_of(
        {tp: offset for tp, offset in now.kafka.items() if tp.topic in now.topics}, counting
    )
    if ahead and not choices.allow_rewind:
        refusals.append(
            f"Kafka is ahead of ZooKeeper ({judging.far(ahead, now.kafka, counting)}): roll step 2"
            " back first, or write --allow-rewind if ZooKeeper is right"
        )
    misleading = _misleading(now)
    lost = judging.without_log(now, misleading)
    if lost:
        refusals.append(
            f"the logs of {some(lost)}, whose offsets are of an earlier topic, are not known: start"
            " their brokers, or name others with --bootstrap-servers"
        )
    elif misleading:
        changes += [
            ZkOffset(tp, now.stored[tp].offset, now.logs[tp].start, now.stored[tp].version)
            for tp in misleading
        ]
        live += judging.live_in_zookeeper(now)
    for topic, beside in sorted(now.beside.items()):
        if isinstance(beside.value, OffsetsOf) and beside.version is not None:
            changes.append(
                ZkNote(topic, encode_incarnation(beside.value).decode(), "", beside.version)
            )
    if changes and now.led:
        live.append(now.led)
    return MigrationPlan(
        now.name,
        tuple(changes),
        tuple(refusals),
        tuple(dict.fromkeys(live)),
        tuple(judging.strays(now)),
        len(now.zookeeper()),
    )


def _misleading(now: GroupNow) -> list[TopicPartition]:
    """Offsets of an earlier topic."""
    return list(_of_existing(now, judging.earlier(now)))


def _of_existing(now: GroupNow, tps: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
    return (tp for tp in tps if tp.topic in now.topics)


def _value(now: GroupNow, tp: TopicPartition) -> int | None:
    stored = now.stored.get(tp)
    return None if stored is None else stored.offset


def _version(now: GroupNow, tp: TopicPartition) -> int | None:
    stored = now.stored.get(tp)
    return None if stored is None else stored.version
