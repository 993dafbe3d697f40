"""What is wrong below /brokers: topics, leaders, brokers. It is only of interest to somebody:
whoever calls says whether there are old consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from zkcoord.check.rules import CheckFinding
from zkcoord.core.model import Malformed, Topic
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import names
from zkcoord.znodes.codec import (
    PartitionState,
    decode_broker,
    decode_partition_state,
    decode_topic,
)
from zkcoord.znodes.kafka import NO_LEADER
from zkcoord.znodes.paths import BROKERS, TOPICS

DELETIONS = "/admin/delete_topics"
TOPICS_AT_ONCE = 1_000
PARTITIONS_SHOWN_MAX = 8
OLD_FORMAT = 2
"""The newest format of a broker's node that 0.9.0.0 reads."""

TopicFound = Topic | Malformed | None
Hide = Callable[[str, Denied], None]
"""Is told of each node that could not be read, and why."""


def read_topics(reader: SyncClient, hide: Hide) -> dict[str, TopicFound] | None:
    """All topics by name; None: its node has no data yet, or may not be read. None instead of them
    where they may not be listed. Raises `UnavailableError`.
    """
    (answer,) = reader.read([GetChildren(TOPICS)])
    if isinstance(answer, Denied):
        hide(TOPICS, answer)
        return None
    wanted = (
        [name for name in answer.names if names.is_topic(name)]
        if isinstance(answer, Children)
        else []
    )
    found: dict[str, TopicFound] = {}
    for start in range(0, len(wanted), TOPICS_AT_ONCE):
        some = wanted[start : start + TOPICS_AT_ONCE]
        for name, node in zip(
            some, reader.read([GetData(f"{TOPICS}/{name}") for name in some]), strict=False
        ):
            if isinstance(node, Node):
                found[name] = decode_topic(name, node.data, node.stat) if node.data else None
            elif isinstance(node, Denied):
                hide(f"{TOPICS}/{name}", node)
                found[name] = None
    return found


def deletions(reader: SyncClient, hide: Hide) -> Iterator[CheckFinding]:
    """Topics that are marked for deletion."""
    (answer,) = reader.read([GetChildren(DELETIONS)])
    if isinstance(answer, Denied):
        hide(DELETIONS, answer)
    for name in answer.names if isinstance(answer, Children) else ():
        yield CheckFinding("topic-being-deleted", "", f"{DELETIONS}/{name}", names.shown(name))


def leaderless(
    reader: SyncClient, topics: Mapping[str, TopicFound], hide: Hide
) -> Iterator[CheckFinding]:
    """Partitions without a leader, a finding per topic."""
    every = [
        (topic.name, number)
        for topic in topics.values()
        if isinstance(topic, Topic)
        for number in topic.partitions
    ]
    without: dict[str, list[int]] = {}
    for start in range(0, len(every), TOPICS_AT_ONCE):
        some = every[start : start + TOPICS_AT_ONCE]
        for (name, number), node in zip(
            some,
            reader.read(
                [GetData(f"{TOPICS}/{name}/partitions/{number}/state") for name, number in some]
            ),
            strict=False,
        ):
            if isinstance(node, Denied):
                hide(f"{TOPICS}/{name}/partitions/{number}/state", node)
                continue
            state = (
                decode_partition_state(f"{name}-{number}", node.data)
                if isinstance(node, Node)
                else None
            )
            if not isinstance(state, PartitionState) or state.leader == NO_LEADER:
                without.setdefault(name, []).append(number)
    for name, numbers in sorted(without.items()):
        more = len(numbers) - PARTITIONS_SHOWN_MAX
        named = ", ".join(map(str, numbers[:PARTITIONS_SHOWN_MAX])) + (
            f" and {more} more" if more > 0 else ""
        )
        yield CheckFinding(
            "partition-without-leader",
            "",
            f"{TOPICS}/{name}",
            f"partition{'s' if len(numbers) > 1 else ''} {named}",
        )


def brokers(reader: SyncClient, old_consumers: bool, hide: Hide) -> Iterator[CheckFinding]:
    """Live brokers that some consumer cannot use."""
    (answer,) = reader.read([GetChildren(BROKERS)])
    if isinstance(answer, Denied):
        hide(BROKERS, answer)
    ids = answer.names if isinstance(answer, Children) else ()
    for name, node in zip(
        ids, reader.read([GetData(f"{BROKERS}/{name}") for name in ids]), strict=False
    ):
        path = f"{BROKERS}/{name}"
        if isinstance(node, Denied):
            hide(path, node)
        if not isinstance(node, Node):
            continue
        broker = decode_broker(name, node.data)
        if isinstance(broker, Malformed):
            yield CheckFinding("broker-unreadable", "", path, broker.reason)
            continue
        if old_consumers:
            if not (broker.host and broker.port >= 0) and not any(
                broker.protocols.get(listener, listener) == "PLAINTEXT"
                for listener in broker.endpoints
            ):
                yield CheckFinding(
                    "broker-no-plaintext",
                    "",
                    path,
                    f"its listeners are {', '.join(sorted(broker.endpoints))}",
                )
            if broker.version > OLD_FORMAT:
                yield CheckFinding("broker-format", "", path, f"its format is {broker.version}")
