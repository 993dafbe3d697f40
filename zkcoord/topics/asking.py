"""Asks brokers which topics there are: one broker at a time, another one each time. Blocks."""

from __future__ import annotations

import logging
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkcoord.errors import UnavailableError
from zkcoord.kafka_client import kafka_client
from zkcoord.topics.judging import ClusterAnswer, SaidTopic
from zkcoord.znodes.names import is_topic

log = logging.getLogger(__name__)

REQUEST_MS = 5_000
NO_ERROR, UNKNOWN_TOPIC = 0, 3
CLIENT_ID = "zkcoord-coordinator"


@dataclass(frozen=True, slots=True)
class SaidBroker:
    """A broker, as clients of the listener that is asked reach it."""

    broker_id: int
    host: str
    port: int
    rack: str = ""


@dataclass(frozen=True, slots=True)
class SaidCluster:
    """What a broker has answered: `cluster_id` ("": it knows none), its brokers by id, and what it
    says of topics.
    """

    cluster_id: str
    brokers: Mapping[int, SaidBroker]
    answer: ClusterAnswer = field(default_factory=lambda: ClusterAnswer(-1, 0))


class ClusterAsker:
    """See the module. `servers` are `host:port`; those that were seen last are asked as well, since
    the first ones may be gone; `security`: options of a client, with which it connects.
    """

    def __init__(self, servers: Sequence[str], security: Mapping[str, Any]) -> None:
        self._servers = tuple(servers)
        self._security = security
        self._seen: tuple[str, ...] = ()
        self._client: Any = None
        self._asked = 0

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, names: Collection[str] | None) -> SaidCluster:
        """What the next broker says of these topics; None: of all that it may tell. Raises
        `UnavailableError` where none answers.
        """
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        try:
            if self._client is None:
                servers = list(dict.fromkeys((*self._servers, *self._seen)))
                config = {
                    "bootstrap_servers": servers,
                    "client_id": CLIENT_ID,
                    "request_timeout_ms": REQUEST_MS,
                    "bootstrap_timeout_ms": REQUEST_MS,
                    **self._security,
                }
                self._client = kafka_client(KafkaAdminClient, config)
            return self._one(names)
        except KafkaError as error:
            self.close()
            raise UnavailableError(
                f"no broker of {', '.join(self._servers)} answers ({error})"
            ) from error

    def _one(self, names: Collection[str] | None) -> SaidCluster:
        from kafka.protocol.metadata import MetadataRequest

        manager = self._client._manager
        ids = sorted(broker.node_id for broker in manager.cluster.brokers())
        self._asked += 1
        asked = ids[self._asked % len(ids)] if ids else None
        topic = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            topics=None if names is None else [topic(name=name) for name in sorted(names)],
            allow_auto_topic_creation=False,
        )

        async def send() -> Any:
            return await manager.send(request, node_id=asked)

        response = manager.run(send)
        said = _said(response, -1 if asked is None else asked)
        self._seen = tuple(f"{one.host}:{one.port}" for one in said.brokers.values())
        return said


def _said(response: Any, asked: int) -> SaidCluster:
    brokers = {
        one.node_id: SaidBroker(one.node_id, one.host, one.port, one.rack or "")
        for one in response.brokers
    }
    topics: dict[str, SaidTopic] = {}
    missing: set[str] = set()
    for one in response.topics:
        if one.name is None or not is_topic(one.name):
            continue
        if one.error_code == UNKNOWN_TOPIC:
            missing.add(one.name)
        elif one.error_code == NO_ERROR and one.partitions:
            topics[one.name] = SaidTopic(_topic_id(one.topic_id), len(one.partitions))
    answer = ClusterAnswer(asked, len(brokers), topics, frozenset(missing))
    return SaidCluster(response.cluster_id or "", brokers, answer)


def _topic_id(found: uuid.UUID | None) -> str:
    """As Kafka writes it (and as it stands in /brokers/topics)."""
    if found is None or not found.int:
        return ""
    return urlsafe_b64encode(found.bytes).rstrip(b"=").decode()
