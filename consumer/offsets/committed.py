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
from kafka.structs import TopicPartition

from consumer.core.topic_incarnations import counts, fate
from consumer.errors import CommitUnavailableError
from consumer.fetch.group_offsets import GroupOffsets
from consumer.member.one_query import ask
from consumer.member.partition_reader import beside_of
from consumer.member.thread import MemberThread
from zkcoord.core.model import Malformed, Topic
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.zk.bell import Bell
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Denied, GetData, Node, Port, Read, ReadDone, ReadResult
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout

RETRY_MS = 50


def stored_offset(
    thread: MemberThread | None,
    zk: ZkOptions,
    layout: Layout,
    group: str,
    tp: TopicPartition,
    timeout_s: float,
) -> int | None:
    """The next offset of a partition, None where none is stored. Raises `CommitUnavailableError`
    without an answer within `timeout_s`, `SessionRefusedError`.
    """
    reads = [
        GetData(layout.offset(group, ModelPartition(*tp))),
        GetData(layout.offset_topic(group, tp.topic)),
        GetData(layout.topic(tp.topic)),
    ]

    def read(port: Port, answer: Callable[[ReadResult], None]) -> None:
        port.read(reads, answer)

    result = ask(zk, read, timeout_s) if thread is None else _through(thread, reads, timeout_s)
    if not isinstance(result, ReadDone) or isinstance(result.answers[0], Denied):
        raise CommitUnavailableError(
            f"the stored offset of {tp.topic}-{tp.partition} could not be read from ZooKeeper"
            f" within {timeout_s:.1f} s: try it again"
        )
    answer, said, now = result.answers
    if not isinstance(answer, Node):
        return None
    topic = codec.decode_topic(tp.topic, now.data, now.stat) if isinstance(now, Node) else None
    beside = beside_of(tp.topic, said) if isinstance(said, Node) else None
    if isinstance(topic, Topic) and not counts(
        fate(topic.incarnation, beside), answer.stat.mzxid, beside
    ):
        return None
    offset = codec.decode_offset(f"{tp.topic}-{tp.partition}", answer.data)
    return None if isinstance(offset, Malformed) else offset


def committed_in_kafka(offsets: GroupOffsets, tp: TopicPartition, timeout_s: float) -> int | None:
    """The same of a group that keeps its offsets in Kafka. Raises `CommitUnavailableError`, and
    what kafka-python raises for a group that may not be read.
    """
    answered = Bell()
    future = offsets.start(offsets.committed_async, [tp])
    future.add_both(lambda answer: answered.set())
    if not answered.wait(timeout_s) or (
        future.failed() and isinstance(future.exception, RetriableError)
    ):
        raise CommitUnavailableError(
            f"the committed offset of {tp.topic}-{tp.partition} could not be read from Kafka within"
            f" {timeout_s:.1f} s: try it again"
        )
    if future.failed():
        raise future.exception
    found: dict[TopicPartition, int] = future.value
    return found.get(tp)


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
