"""What Kafka itself keeps of a group: the offsets that it has committed there, and the live members
of Kafka's own group protocol.

Offsets are read and written as by a consumer without membership (generation -1), through the broker
that coordinates the group in Kafka; kafka-python's coordinator finds that broker, follows it when
it moves, and repeats what may be repeated. What a broker does not answer is an error here, never
"nothing": a position that is taken for absent is lost. So offsets that a transaction is about to
write count as not answered, too. Everything that ends in `_async` runs on kafka-python's IO thread;
`start` runs it there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import kafka.errors
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.future import Future
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

GROUP_APIS_SINCE = (0, 9)
RETRY_MS = 100
ASK_MS = 5_000  # then whoever asks hears of it, and asks again


class GroupOffsets:
    """One group in Kafka. `seen` is what was committed when it was read last. `client` and
    `manager` are those of the consumer that fetches, `config` is that consumer's, `sleep` is its IO
    thread's.
    """

    def __init__(
        self,
        client: Any,
        manager: Any,
        sleep: Callable[[float], Awaitable[None]],
        group: str,
        config: Mapping[str, Any],
    ) -> None:
        self.group = group
        self.sleep = sleep
        self.seen: dict[TopicPartition, OffsetAndMetadata] = {}
        self._manager = manager
        self._timeout_ms = min(config["request_timeout_ms"], ASK_MS)
        self.supported = config["api_version"] >= GROUP_APIS_SINCE
        self._coordinator = ConsumerCoordinator(
            client,
            SubscriptionState(),
            group_id=group,
            enable_auto_commit=False,
            isolation_level="read_committed",
            api_version=config["api_version"],
            request_timeout_ms=config["request_timeout_ms"],
            retry_backoff_ms=config["retry_backoff_ms"],
        )

    def start(self, task: Callable[..., Awaitable[Any]], *arguments: Any) -> Future:
        """Run a coroutine on the IO thread. Any thread; does not wait."""
        return self._manager.call_soon(task, *arguments)

    async def live_members_async(self) -> tuple[str, ...]:
        """Members of Kafka's own protocol that hold the group, as "client on host"; () where there
        are none. Raises `KafkaError`.
        """
        if not self.supported:
            return ()
        await self._ready_async()
        coordinator = self._coordinator
        response = await self._manager.send(
            DescribeGroupsRequest(groups=[self.group], include_authorized_operations=False),
            node_id=coordinator.coordinator_id,
        )
        described = response.groups[0]
        error = kafka.errors.for_code(described.error_code)
        if error is kafka.errors.GroupIdNotFoundError:
            return ()
        if error is kafka.errors.NotCoordinatorError:
            coordinator.coordinator_dead(error())
        if error is not kafka.errors.NoError:
            raise error(self.group)
        return tuple(
            f"{member.client_id} on {member.client_host.lstrip('/')}"
            for member in described.members
        )

    async def committed_async(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Committed next offsets of those partitions that have one. Raises `KafkaError`."""
        found = await self.committed_with_metadata_async(partitions)
        return {tp: known.offset for tp, known in found.items()}

    async def committed_with_metadata_async(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same, with what was committed beside each."""
        if not self.supported:
            return {}
        found: dict[
            TopicPartition, OffsetAndMetadata
        ] = await self._coordinator.fetch_committed_offsets_async(
            list(partitions), self._timeout_ms
        )
        self.seen.update(found)
        return found

    async def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store next offsets; once, without repeating it. Raises `KafkaError`: `CommitFailedError`
        where live members of Kafka's own protocol hold the group, `UnsupportedVersionError` where
        brokers have no groups.
        """
        if not self.supported:
            raise kafka.errors.UnsupportedVersionError("brokers before 0.9 have no groups")
        await self._ready_async()
        await self._coordinator.commit_offsets_async(dict(offsets), _ignore)

    async def _ready_async(self) -> None:
        if not await self._coordinator.ensure_coordinator_ready_async(timeout_ms=self._timeout_ms):
            raise kafka.errors.KafkaTimeoutError(
                f"no broker coordinates group {self.group} at the moment"
            )


def _ignore(_offsets: object, _answer: object) -> None:
    """kafka-python's callback, which is called at the next commit; the future has told by then."""
