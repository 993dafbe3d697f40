"""Where a group's offsets are stored: what stands between the agent, which speaks with ZooKeeper,
and the fetching side. `offsets_storage` chooses.

| offsets_storage | class | |
|---|---|---|
| zookeeper | `ZooKeeperOffsetStore` | the member stores them, behind its fence |
| dual | `dual_store.DualOffsetStore` | the same, and what is stored is mirrored to Kafka |
| kafka | `kafka_store.KafkaOffsetStore` | Kafka stores what the member allows |

Kafka knows no members of such a group, and forgets each of its offsets some time (7 days; before
Kafka 2.0 one day) after that was stored last. So what is owned is stored there again every
`REFRESH_S`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.structs import TopicPartition

from consumer.assignment.state import AssignmentState
from consumer.core import messages as msg
from consumer.fetch.group_offsets import GroupOffsets

REFRESH_S = 3_600.0


class ZooKeeperOffsetStore:
    """Of one membership. `offsets` is the group in Kafka; `lease_holds` says whether this member
    may speak for its partitions now (any thread); `to_agent` is set before the agent is started.
    """

    def __init__(
        self, offsets: GroupOffsets, member: AssignmentState, lease_holds: Callable[[], bool]
    ) -> None:
        self.offsets = offsets
        self.member = member
        self.lease_holds = lease_holds
        self.to_agent: Callable[[msg.FromFetcher], None] = lambda message: None

    def begin(self) -> None:
        """The agent was started."""

    def receive(self, message: msg.ToFetcher) -> None:
        """What the agent says, on its thread."""
        self.member.receive(message)

    def tell(self, message: msg.FromFetcher) -> None:
        """What the fetching side says, on any thread."""
        self.to_agent(message)

    def leave(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Before the agent says goodbye: nothing is handed out any more, and this is to be
        stored.
        """

    def close(self, timeout_s: float) -> None:
        """After the agent has gone."""

    def figures(self) -> dict[str, Any]:
        """As metrics."""
        return {}
