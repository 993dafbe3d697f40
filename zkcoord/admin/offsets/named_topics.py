"""The topics that a command names, as ZooKeeper has them.

Where Kafka keeps none there a coordinator writes them down (`zkcoord.topics`), soon after they are
made: what is not there yet may be new, and is waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from zkcoord.admin.common import Progress
from zkcoord.core.model import Topic
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import GetData, Missing, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.codec import decode_topic
from zkcoord.znodes.paths import Layout

NEW_MS, LOOK_MS = 5_000, 100
Topics = Mapping[str, Topic]


def named_topics(
    client: SyncClient,
    layout: Layout,
    names: Sequence[str],
    is_whole: Callable[[Topics], bool],
    progress: Progress,
) -> Topics:
    """Those of them that there are, once they are whole or that has been waited for. Raises
    `UnavailableError`, `RefusedError`.
    """
    until_ms = boot_ms() + NEW_MS
    topics = _read(client, layout, names)
    while not is_whole(topics) and boot_ms() < until_ms and are_written_down(client):
        progress.update("waiting for the coordinator to hear of what is new in Kafka")
        threading.Event().wait(LOOK_MS / 1000)
        topics = _read(client, layout, names)
    progress.end()
    return topics


def are_written_down(client: SyncClient) -> bool:
    """Whether topics are those that a coordinator has written down. Raises as `named_topics`."""
    (answer,) = client.see([GetData(CLUSTER_TREE.source)])
    return not isinstance(answer, Missing)


def _read(client: SyncClient, layout: Layout, names: Sequence[str]) -> Topics:
    topics: dict[str, Topic] = {}
    answers = client.see([GetData(layout.topic(name)) for name in names])
    for name, answer in zip(names, answers, strict=True):
        # the node exists before the broker writes its partitions
        if isinstance(answer, Node) and answer.data:
            topic = decode_topic(name, answer.data, answer.stat)
            if isinstance(topic, Topic):
                topics[name] = topic
    return topics
