"""Stored offsets of partitions that this member does not own, read from ZooKeeper through its session."""

from __future__ import annotations

from kafka.structs import TopicPartition

from consumer.agent_thread import AgentThread
from consumer.errors import CommitUnavailableError
from zkcoord.core.model import Malformed
from zkcoord.core.model import TopicPartition as ModelPartition
from zkcoord.zk.port import Denied, GetData, Node, ReadDone
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout


def stored_offset(agent: AgentThread | None, layout: Layout, group: str, tp: TopicPartition, timeout_s: float) -> int | None:
    """The next offset of a partition, None where none is stored. Raises `CommitUnavailableError` without an answer within `timeout_s`."""
    result = None if agent is None else agent.read([GetData(layout.offset(group, ModelPartition(*tp)))], timeout_s)
    if not isinstance(result, ReadDone) or isinstance(result.answers[0], Denied):
        raise CommitUnavailableError(f"the stored offset of {tp.topic}-{tp.partition} could not be read from ZooKeeper within {timeout_s:.1f} s; subscribe first, or try again")
    answer = result.answers[0]
    if not isinstance(answer, Node):
        return None
    offset = codec.decode_offset(f"{tp.topic}-{tp.partition}", answer.data)
    return None if isinstance(offset, Malformed) else offset
