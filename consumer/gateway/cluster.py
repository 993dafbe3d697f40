"""What the gateway itself asks of brokers: which there are, what groups have committed in Kafka and
who lives there, and where partitions begin. Everything here blocks, on a thread of the gateway's
pool, one question at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consumer.gateway.address import Address
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.config.kafka_security import OPEN
from zkcoord.core.model import TopicPartition
from zkcoord.errors import UnavailableError
from zkcoord.kafka_client.clients import kafka_client

log = logging.getLogger(__name__)

REQUEST_MS = 5_000
EARLIEST = -2


@dataclass(frozen=True)
class ClusterSeen:
    """The brokers by id, as they announce themselves."""

    brokers: Mapping[int, Address]


class Cluster:
    """Asks brokers: those of `servers`, and all that were seen last, since those may be gone. Every
    method raises `UnavailableError` where they cannot be asked.
    """

    def __init__(self, servers: Collection[Address], security: Mapping[str, Any] = OPEN) -> None:
        self._servers = [str(address) for address in servers]
        self._security = security
        self._lock = threading.Lock()
        self._client: Any = None
        self._groups = KafkaGroups(self._servers, REQUEST_MS / 1000, security)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._groups.close()
            if self._client is not None:
                self._client.close()
                self._client = None

    def look(self) -> ClusterSeen:
        """Which brokers there are."""
        found = self._ask(lambda client: client.describe_cluster())
        seen = ClusterSeen(
            {
                broker["broker_id"]: Address(broker["host"], broker["port"])
                for broker in found["brokers"]
            }
        )
        with self._lock:
            known = (*self._servers, *map(str, seen.brokers.values()))
            self._groups.servers = tuple(dict.fromkeys(known))
        return seen

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """What a group has committed in Kafka: next offsets."""
        with self._lock:
            return self._groups.committed([group]).get(group, {})

    def live_members(self, group: str) -> tuple[str, ...]:
        """Live members of Kafka's own protocol that hold a group."""
        return self.live_members_of([group]).get(group, ())

    def live_members_of(self, groups: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """The same of several groups, by group."""
        with self._lock:
            return self._groups.live_members(groups)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets of partitions, as far as they can be found out now."""
        from kafka import TopicPartition as Theirs

        if not partitions:
            return {}
        asked = {Theirs(*tp): EARLIEST for tp in partitions}
        found = self._ask(lambda client: client.list_partition_offsets(asked))
        return {TopicPartition(*tp): one.offset for tp, one in found.items() if one.offset >= 0}

    def _ask(self, question: Any) -> Any:
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        with self._lock:
            try:
                if self._client is None:
                    config = {
                        "bootstrap_servers": list(self._groups.servers),
                        "client_id": "zkcoord-gateway",
                        "request_timeout_ms": REQUEST_MS,
                        "bootstrap_timeout_ms": REQUEST_MS,
                        **self._security,
                    }
                    self._client = kafka_client(KafkaAdminClient, config)
                return question(self._client)
            except KafkaError as error:
                if self._client is not None:
                    self._client.close()
                    self._client = None
                raise UnavailableError(
                    f"no broker of {', '.join(self._groups.servers)} answers ({error}): start one,"
                    " or correct --brokers, or what --kafka-config says of security"
                ) from error
