"""Step 2: offsets of a coordinated group are copied to what Kafka keeps of the group, so that plain
consumers of Kafka's own protocol take it over where it stands. All members are stopped for it:
nothing proves to a broker who may commit, so nobody else may be at work.

The way back copies Kafka's offsets into ZooKeeper, for coordinated members or for old consumers.
Both ways refuse to move the other store back (its records would be consumed again), and put right
what a tool left one record behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from migrations import judging
from migrations.model import Change, Choices, GroupNow, KafkaOffset, MigrationPlan, ZkNote, ZkOffset
from zkcoord.admin.common import some
from zkcoord.core.model import TopicPartition, same_incarnation
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation

Offsets = Mapping[TopicPartition, int]
DECIDE = (
    "write --off-by-one correct to add one everywhere, or --off-by-one keep to take them as"
    " they are"
)


def forward(now: GroupNow, choices: Choices) -> MigrationPlan:
    """From ZooKeeper to Kafka."""
    refusals = [*judging.unreadable(now), *judging.both_layouts(now)]
    warnings = judging.strays(now)
    wanted: dict[TopicPartition, int] = dict(now.zookeeper())
    stale = judging.earlier(now)
    lost = judging.without_log(now, stale)
    if lost:
        refusals.append(
            f"the logs of {some(lost)}, whose offsets are of an earlier topic, are not known: start"
            " their brokers, or name others with --bootstrap-servers"
        )
    elif stale:
        wanted.update({tp: now.logs[tp].start for tp in stale})
        warnings.append(
            f"the offsets of {some(stale)} are of an earlier topic: its first record is taken"
        )
    if judging.one_behind(now.kafka, wanted):
        warnings.append(
            "Kafka's offsets are one behind everywhere: a tool that stores the last processed"
            " offset wrote them; they are put right"
        )
    elif judging.all_one_before_the_end(now, wanted) and any(
        now.kafka.get(tp) != offset for tp, offset in wanted.items()
    ):
        if not choices.off_by_one:
            refusals.append(
                "every partition lacks exactly its last record: ZooKeeper may hold last processed"
                f" offsets instead of next ones; {DECIDE}"
            )
        elif choices.off_by_one == "correct":
            wanted = {tp: offset + 1 for tp, offset in wanted.items()}
    ahead = sorted(tp for tp, offset in wanted.items() if now.kafka.get(tp, offset) > offset)
    refusals += _rewind(ahead, now.kafka, wanted, "Kafka", "ZooKeeper", choices)
    left = sorted(now.kafka.keys() - wanted.keys())
    if left:
        warnings.append(f"Kafka has offsets where ZooKeeper has none, which stay: {some(left)}")
    warnings += judging.outside(now, wanted)
    changes = tuple(
        KafkaOffset(tp, now.kafka.get(tp), offset)
        for tp, offset in sorted(wanted.items())
        if now.kafka.get(tp) != offset
    )
    corrected = sorted(wanted.items()) if choices.off_by_one == "correct" else ()
    zookeeper = tuple(
        ZkOffset(tp, now.stored[tp].offset, offset, now.stored[tp].version)
        for tp, offset in corrected
        if now.stored[tp].offset != offset
    )
    return MigrationPlan(
        now.name,
        (*zookeeper, *changes),
        tuple(refusals),
        (*judging.live_in_zookeeper(now), *judging.live_in_kafka(now)),
        tuple(warnings),
        len(wanted) - len(changes),
    )


def back(now: GroupNow, choices: Choices) -> MigrationPlan:
    """From Kafka to ZooKeeper."""
    refusals = [*judging.unreadable(now), *judging.both_layouts(now)]
    warnings = judging.strays(now)
    gone = sorted(
        tp
        for tp in now.kafka
        if tp.topic not in now.topics or tp.partition not in now.topics[tp.topic].partitions
    )
    if gone:
        warnings.append(
            f"Kafka has offsets of partitions that do not exist, which stay: {some(gone)}"
        )
    wanted: dict[TopicPartition, int] = {
        tp: offset for tp, offset in sorted(now.kafka.items()) if tp not in gone
    }
    counting = now.zookeeper()
    kafka: list[Change] = []
    suspicious = judging.one_behind(wanted, counting)
    if suspicious or (
        judging.all_one_before_the_end(now, wanted)
        and any(counting.get(tp) != offset for tp, offset in wanted.items())
    ):
        if not choices.off_by_one:
            why = (
                "Kafka's offsets are one behind ZooKeeper's everywhere"
                if suspicious
                else "every partition lacks exactly its last record"
            )
            refusals.append(
                f"{why}: Kafka may hold last processed offsets instead of next ones; {DECIDE}"
            )
        elif choices.off_by_one == "correct":
            kafka = [KafkaOffset(tp, offset, offset + 1) for tp, offset in wanted.items()]
            wanted = {tp: offset + 1 for tp, offset in wanted.items()}
    ahead = (
        []
        if suspicious
        else sorted(tp for tp, offset in wanted.items() if counting.get(tp, offset) > offset)
    )
    refusals += _rewind(ahead, counting, wanted, "ZooKeeper", "Kafka", choices)
    left = sorted(counting.keys() - wanted.keys())
    if left:
        warnings.append(f"ZooKeeper has offsets where Kafka has none, which stay: {some(left)}")
    warnings += judging.outside(now, wanted)
    offsets = [
        _stored(now, tp, offset) for tp, offset in wanted.items() if counting.get(tp) != offset
    ]
    notes = [note for topic in sorted({tp.topic for tp in wanted}) for note in _notes(now, topic)]
    return MigrationPlan(
        now.name,
        (*kafka, *notes, *offsets),
        tuple(refusals),
        (*judging.live_in_zookeeper(now), *judging.live_in_kafka(now)),
        tuple(warnings),
        len(wanted) - len(offsets),
    )


def _stored(now: GroupNow, tp: TopicPartition, offset: int) -> ZkOffset:
    stored = now.stored.get(tp)
    return (
        ZkOffset(tp, None, offset, None)
        if stored is None
        else ZkOffset(tp, stored.offset, offset, stored.version)
    )


def _notes(now: GroupNow, topic: str) -> list[ZkNote]:
    """Whose the offsets are, where there is no node to say it, or where it names an earlier topic:
    then nothing below counts yet, and what is written together with this does.
    """
    beside, known = now.beside.get(topic), now.topics[topic]
    if beside is None:
        return [ZkNote(topic, "", encode_incarnation(OffsetsOf(known.incarnation)).decode(), None)]
    if not isinstance(beside.value, OffsetsOf) or same_incarnation(
        beside.value.incarnation, known.incarnation
    ):
        return []
    return [
        ZkNote(
            topic,
            encode_incarnation(beside.value).decode(),
            encode_incarnation(OffsetsOf(known.incarnation, newer_only=True)).decode(),
            beside.version,
        )
    ]


def _rewind(
    ahead: list[TopicPartition],
    there: Offsets,
    wanted: Offsets,
    store: str,
    source: str,
    choices: Choices,
) -> list[str]:
    """The refusal to move a store back."""
    if not ahead or choices.allow_rewind:
        return []
    return [
        (
            f"{store} is ahead of {source} ({judging.far(ahead, there, wanted)}): the copy would"
            " move it back, and these records would be consumed again; copy the other way, or write"
            f" --allow-rewind if {source} is right"
        )
    ]
