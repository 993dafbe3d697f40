"""Where a group's offsets are stored: what stands between the member, which writes to ZooKeeper,
and the fetching side. `offsets_storage` chooses.

| offsets_storage | class | |
|---|---|---|
| zookeeper | `ZooKeeperOffsetStore` | the member stores them, behind its fence |
| dual | `dual_store.DualOffsetStore` | as before, and what is stored is mirrored to Kafka |
| kafka | `kafka_store.KafkaOffsetStore` | Kafka stores what the member allows |

Kafka knows no members of such a group, and forgets each of its offsets some time (7 days; before
Kafka 2.0 one day) after that was stored last. So what is owned is stored there again every
`REFRESH_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.assignment.state import AssignmentState, Send
from consumer.core import messages as msg
from consumer.fetch.group_offsets import GroupOffsets
from zkcoord.core.model import TopicPartition as ModelPartition

REFRESH_S = 3_600.0


def public_offsets(
    offsets: Mapping[ModelPartition, int], metadata: Mapping[ModelPartition, str]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets of a member's message, with the metadata beside them, in kafka-python's form."""
    return {
        TopicPartition(*tp): OffsetAndMetadata(offset, metadata.get(tp, ""), -1)
        for tp, offset in offsets.items()
    }


@dataclass(frozen=True)
class OffsetStoreLinks:
    """The neighbours of an offset store, for one membership."""

    # The group in Kafka.
    offsets: GroupOffsets
    state: AssignmentState
    # Whether offsets stored by this member may be written elsewhere now; any thread.
    lease_holds: Callable[[], bool]
    # Sends a message to the member's thread; any thread.
    send: Send
    # Passes a message of the member on to the fetching side.
    deliver: Callable[[msg.ToFetcher], None]


class OffsetStore(Protocol):
    """Where one membership's offsets are stored."""

    def begin(self) -> None:
        """The member's thread was started."""
        ...

    def receive(self, message: msg.ToFetcher) -> None:
        """Take a message of the member, on its thread."""
        ...

    def send(self, message: msg.FromFetcher) -> None:
        """Take a message of the fetching side for the member; any thread."""
        ...

    def leave(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Before the member leaves: nothing is handed out any more, and this is to be stored."""
        ...

    def close(self, timeout_s: float) -> None:
        """After the member has left."""
        ...

    def figures(self) -> dict[str, Any]:
        """As metrics."""
        ...


class ZooKeeperOffsetStore:
    """The member stores offsets itself: all messages pass."""

    def __init__(self, links: OffsetStoreLinks) -> None:
        self._links = links

    def begin(self) -> None:
        """Nothing."""

    def receive(self, message: msg.ToFetcher) -> None:
        """Passed on."""
        self._links.deliver(message)

    def send(self, message: msg.FromFetcher) -> None:
        """Passed on."""
        self._links.send(message)

    def leave(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Nothing: the member stores the last positions when it leaves."""

    def close(self, timeout_s: float) -> None:
        """Nothing."""

    def figures(self) -> dict[str, Any]:
        """None."""
        return {}
