"""What ZooKeeper shows of a group in the old layout (`/consumers/[group]`): the truth to which
assignments are compared. Every function takes a started kazoo client.
"""

from __future__ import annotations

from collections.abc import Mapping

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from zkcoord.core.model import Thread, TopicPartition


def _children(client: KazooClient, path: str) -> list[str]:
    try:
        return sorted(client.get_children(path))
    except NoNodeError:
        return []


def _leaves(client: KazooClient, group: str, kind: str) -> dict[TopicPartition, tuple[str, int]]:
    found: dict[TopicPartition, tuple[str, int]] = {}
    for topic in _children(client, f"/consumers/{group}/{kind}"):
        for number in _children(client, f"/consumers/{group}/{kind}/{topic}"):
            try:
                data, stat = client.get(f"/consumers/{group}/{kind}/{topic}/{number}")
            except NoNodeError:
                continue
            found[TopicPartition(topic, int(number))] = data.decode(), stat.czxid
    return found


def owners(client: KazooClient, group: str) -> dict[TopicPartition, str]:
    """Partition -> the text of its owner node (a thread id). Not one moment: each node is read by
    itself.
    """
    return {partition: text for partition, (text, _) in _leaves(client, group, "owners").items()}


def owners_since_last_join(client: KazooClient, group: str) -> dict[TopicPartition, str]:
    """Those owner nodes that are younger than every registration: made by members that had seen
    them all.
    """
    ids = f"/consumers/{group}/ids"
    joins = [
        stat.czxid
        for member in _children(client, ids)
        if (stat := client.exists(f"{ids}/{member}")) is not None
    ]
    return {
        partition: text
        for partition, (text, made) in _leaves(client, group, "owners").items()
        if made > max(joins, default=0)
    }


def stored_offsets(client: KazooClient, group: str) -> dict[TopicPartition, int]:
    """Partition -> the stored offset, that of the next record."""
    return {
        partition: int(text) for partition, (text, _) in _leaves(client, group, "offsets").items()
    }


def registered(client: KazooClient, group: str) -> dict[str, bytes]:
    """Member -> its registration as it is stored."""
    found: dict[str, bytes] = {}
    for member in _children(client, f"/consumers/{group}/ids"):
        try:
            found[member], _ = client.get(f"/consumers/{group}/ids/{member}")
        except NoNodeError:
            continue
    return found


def as_text(targets: Mapping[TopicPartition, Thread]) -> dict[TopicPartition, str]:
    """A computed assignment in the form of `owners`."""
    return {partition: str(thread) for partition, thread in targets.items()}
