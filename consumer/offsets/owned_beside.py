"""What others own beside the clients that lead a group. Old consumers help themselves, in either
layout, and store without a look at what is stored: what one of them owns a client does not store.
"""

from __future__ import annotations

from collections.abc import Sequence

from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node, Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import LAYOUTS


def topics_of(part: Sequence[TopicPartition]) -> list[str]:
    """Each once, in order."""
    return sorted({tp.topic for tp in part})


def owner_reads(group: str, part: Sequence[TopicPartition]) -> list[Read]:
    """Where it is looked for who owns some of these, for each layout and topic in order."""
    topics = topics_of(part)
    return [GetChildren(lay.owner_topic(group, t)) for lay in LAYOUTS.values() for t in topics]


def owned_beside(
    client: SyncClient, group: str, part: Sequence[TopicPartition], answers: Sequence[ReadAnswer]
) -> dict[TopicPartition, str]:
    """Which of these somebody owns as long as its session lives, or may own, since that is hidden,
    by the answers to `owner_reads`; and why.
    """
    looks = owner_reads(group, part)
    topics = topics_of(part) * len(LAYOUTS)
    layouts = [lay for lay in LAYOUTS.values() for _ in topics_of(part)]
    found: dict[TopicPartition, str] = {}
    there: dict[str, TopicPartition] = {}
    for lay, topic, look, answer in zip(layouts, topics, looks, answers, strict=True):
        of_topic = [tp for tp in part if tp.topic == topic]
        if isinstance(answer, Denied):
            found |= dict.fromkeys(of_topic, _hidden(look.path, "who owns its partitions"))
        elif isinstance(answer, Children) and answer.names:
            there |= {lay.owner(group, tp): tp for tp in of_topic}
    owners = client.read([GetData(path) for path in there]) if there else []
    for (path, tp), owner in zip(there.items(), owners, strict=True):
        if isinstance(owner, Denied):
            found.setdefault(tp, _hidden(path, "whose partition it is"))
        elif isinstance(owner, Node) and owner.stat.ephemeral_owner:
            name = shown(owner.data.decode(errors="replace"))
            found.setdefault(tp, f"an old consumer owns partition {tp.partition} ({name}): stop it")
    return found


def _hidden(path: str, what: str) -> str:
    return (
        f"ZooKeeper does not let the gateway read {shown(path)} (NoAuth), so it cannot be told"
        f" {what}: give it credentials that may, or mend the node with zkcoord acl apply"
    )
