"""Stored offsets of partitions that this member does not own, read from ZooKeeper through its
session, or through one of its own where it has not subscribed. Those of a topic that was deleted
and made again since count as absent. Where the group keeps its offsets in Kafka they are read
there, of its own partitions, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from kafka.errors import RetriableError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.core.topic_incarnations import Fate, counts, fate
from consumer.errors import CommitUnavailableError, UnreadableOffsetError, ZooKeeperDeniedError
from consumer.fetch.group_offsets import GroupOffsets
from consumer.member.one_query import ask
from consumer.member.partition_reader import beside_of, metadata_of
from consumer.member.thread import MemberThread
from zkcoord.core.model import Malformed, Topic
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.zk.bell import Bell
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    Denied,
    GetData,
    Node,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    reads_that_fit,
)
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout

RETRY_MS = 50


def stored_offsets(
    thread: MemberThread | None,
    zk: ZkOptions,
    layout: Layout,
    group: str,
    partitions: Sequence[TopicPartition],
    timeout_s: float,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The next offsets of these partitions, and what was committed beside each; those without one
    are left out. Raises `CommitUnavailableError` without an answer within `timeout_s`,
    `SessionRefusedError`, `ZooKeeperDeniedError`, `UnreadableOffsetError` where what counts is no
    offset.
    """
    reads = stored_reads(layout, group, partitions)
    deadline = time.monotonic() + timeout_s
    answers: list[ReadAnswer] = []
    while len(answers) < len(reads):
        at = len(answers)
        count = reads_that_fit(reads[at : at + READS_PER_REQUEST_MAX], READS_PER_REQUEST_MAX)
        answers += _answers(
            thread, zk, reads[at : at + count], max(0.0, deadline - time.monotonic())
        )
    secret = hidden(reads, answers)
    if secret:
        raise ZooKeeperDeniedError(secret)
    stored, unreadable = stored_of(partitions, answers)
    for tp, bad in unreadable.items():
        node = layout.offset(group, ModelPartition(*tp))
        raise UnreadableOffsetError((tp.topic, tp.partition), node, bad.reason)
    return stored


def stored_reads(layout: Layout, group: str, partitions: Sequence[TopicPartition]) -> list[Read]:
    """What must be read to know what is stored of these: for each topic in order what is said of
    its offsets, and the topic; for each partition its offset, and what is beside it.
    """
    topics = sorted({tp.topic for tp in partitions})
    listed = [ModelPartition(*tp) for tp in partitions]
    of_topics = (
        GetData(path) for t in topics for path in (layout.offset_topic(group, t), layout.topic(t))
    )
    of_partitions = (
        GetData(path)
        for tp in listed
        for path in (layout.offset(group, tp), layout.commit_metadata(group, tp))
    )
    return [*of_topics, *of_partitions]


def hidden(reads: Sequence[Read], answers: Sequence[ReadAnswer]) -> str:
    """The path of a node that may not be read; "" where there is none. What is hidden is not
    absent.
    """
    for read, answer in zip(reads, answers, strict=True):
        if isinstance(answer, Denied):
            return read.path
    return ""


def stored_of(
    partitions: Sequence[TopicPartition], answers: Sequence[ReadAnswer]
) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, Malformed]]:
    """What is stored, by the answers to `stored_reads`, and what would count but is no offset."""
    found = iter(answers)
    said = {t: (next(found), next(found)) for t in sorted({tp.topic for tp in partitions})}
    stored: dict[TopicPartition, OffsetAndMetadata] = {}
    unreadable: dict[TopicPartition, Malformed] = {}
    for tp in partitions:
        known = _stored(tp, next(found), next(found), *said[tp.topic])
        if isinstance(known, Malformed):
            unreadable[tp] = known
        elif known is not None:
            stored[tp] = known
    return stored, unreadable


def _stored(
    tp: TopicPartition, offset: ReadAnswer, metadata: ReadAnswer, said: ReadAnswer, now: ReadAnswer
) -> OffsetAndMetadata | Malformed | None:
    """What counts of one partition, by what is said of its topic's offsets, and by the topic as it
    is now.
    """
    if not isinstance(offset, Node):
        return None
    topic = codec.decode_topic(tp.topic, now.data, now.stat) if isinstance(now, Node) else None
    beside = beside_of(tp.topic, said) if isinstance(said, Node) else None
    found = fate(topic.incarnation, beside) if isinstance(topic, Topic) else Fate.COUNT
    value = codec.decode_offset(f"{tp.topic}-{tp.partition}", offset.data)
    if not counts(found, offset.stat.mzxid, beside):
        return None
    if isinstance(value, Malformed):
        return value
    text = metadata_of(ModelPartition(*tp), value, metadata)
    if isinstance(metadata, Node) and not counts(found, metadata.stat.mzxid, beside):
        text = ""
    return OffsetAndMetadata(value, text, -1)


def _answers(
    thread: MemberThread | None, zk: ZkOptions, reads: Sequence[Read], timeout_s: float
) -> tuple[ReadAnswer, ...]:
    def read(port: Port, answer: Callable[[ReadResult], None]) -> None:
        port.read(reads, answer)

    result = ask(zk, read, timeout_s) if thread is None else _through(thread, reads, timeout_s)
    if not isinstance(result, ReadDone):
        raise _unread(timeout_s)
    return result.answers


def _unread(timeout_s: float) -> CommitUnavailableError:
    return CommitUnavailableError(
        f"stored offsets could not be read from ZooKeeper within {timeout_s:.1f} s: try it again"
    )


def committed_in_kafka(
    offsets: GroupOffsets, partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The same of a group that keeps its offsets in Kafka. Raises `CommitUnavailableError`, and
    what kafka-python raises for a group that may not be read.
    """
    answered = Bell()
    future = offsets.start(offsets.committed_with_metadata_async, partitions)
    future.add_both(lambda answer: answered.set())
    if not answered.wait(timeout_s) or (
        future.failed() and isinstance(future.exception, RetriableError)
    ):
        raise CommitUnavailableError(
            f"committed offsets could not be read from Kafka within {timeout_s:.1f} s: try it again"
        )
    if future.failed():
        raise future.exception
    found: dict[TopicPartition, OffsetAndMetadata] = future.value
    return found


def _through(thread: MemberThread, reads: Sequence[Read], timeout_s: float) -> ReadResult | None:
    """Again until there is an answer or no time: a member that has just subscribed has no session
    yet.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = thread.read(reads, max(0.0, deadline - time.monotonic()))
        left = deadline - time.monotonic()
        if isinstance(result, ReadDone) or left <= 0:
            return result
        threading.Event().wait(min(RETRY_MS / 1000, left))
