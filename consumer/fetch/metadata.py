"""Metadata without noise. Topics are tracked only once they exist; an unknown one is asked for
directly, without kafka-python's 100 ms between refreshes and without its error per try. What is
assigned is tracked, or the next refresh would forget its leader; after many tries also where it is
still unknown. And where the logs of partitions begin and end, as their leaders say.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Container, Mapping
from typing import Any

import kafka.errors
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.structs import TopicPartition

log = logging.getLogger(__name__)

METADATA_RETRY_MS = 20
TRIES_MAX = 3
TRY_MS = 1_000

Ask = Callable[[Mapping[TopicPartition, int], int], Awaitable[Mapping[TopicPartition, Any]]]


class MetadataRequests:
    """kafka-python's cluster metadata, asked for directly. `busy`: brokers with a long poll out.
    Methods that end in `_async` run on the IO thread.
    """

    def __init__(self, manager: Any, net: Any, lock: Any, busy: Container[Any]) -> None:
        self._manager = manager
        self._net = net
        self._lock = lock
        self._busy = busy

    def has_leader(self, tp: TopicPartition) -> bool:
        """Whether the leader of this partition is known."""
        return self._manager.cluster.leader_for_partition(tp) not in (None, -1)

    async def learn_async(self, partitions: Collection[TopicPartition]) -> bool:
        """Ask once for the metadata of these partitions, and pause a little if that did not help;
        False when this consumer is closed.
        """
        try:
            await self.request_async({tp.topic for tp in partitions})
        except kafka.errors.KafkaError as e:
            log.debug("asking for metadata failed: %s", e)
        if not all(map(self.has_leader, partitions)):
            await self._net.sleep(METADATA_RETRY_MS / 1000)
        return not self._manager.closed

    async def request_async(self, topics: set[str] | None) -> Any:
        """One metadata request for the tracked topics and these, or for all (None); gives the
        response. Of these those that exist are tracked from now on. Never creates a topic.
        """
        cluster = self._manager.cluster
        asked = (
            MetadataRequest.ALL_TOPICS
            if topics is None
            else [
                MetadataRequest.MetadataRequestTopic(name=n)
                for n in sorted(cluster._topics | topics)
            ]
        )
        request = MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=cluster.config["allow_auto_create_topics"],
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await self._manager.send(
            request, node_id=self.free_lane(self._manager.least_loaded_node())
        )
        cluster.update_metadata(response)
        with self._lock:
            cluster._topics.update(t for t in topics or () if cluster.partitions_for_topic(t))
        return response

    def free_lane(self, node_id: Any) -> Any:
        """A connection to a broker on which no long poll is out: the main one, else the second,
        known to the cluster as a broker of its own.
        """
        if node_id not in self._busy:
            return node_id
        cluster = self._manager.cluster
        broker = cluster.broker_metadata(node_id)
        lane = f"handover-{node_id}"
        if broker is not None:
            cluster._coordinator_brokers[lane] = MetadataResponse.MetadataResponseBroker(
                lane, broker.host, broker.port, broker.rack
            )
        return lane


class OffsetLookUp:
    """Asks as kafka-python does (`ask`, with a time-out in milliseconds), but does not stay with
    the leaders that it knew: kafka-python refreshes those of topics that are assigned, and where
    another broker leads a topic that was deleted and made again, the one before refuses for ever.
    """

    def __init__(self, metadata: MetadataRequests, ask: Ask) -> None:
        self._metadata = metadata
        self._ask = ask

    async def found_async(
        self, specs: Mapping[TopicPartition, int], timeout_ms: int, afresh: bool = False
    ) -> dict[TopicPartition, int]:
        """Beginning (-2) or end (-1) offsets, as `specs` says, of those partitions that exist and
        have a leader. `afresh`: what is known of their leaders may be of a topic before. Raises
        `KafkaTimeoutError`.
        """
        if afresh:
            await self._metadata.learn_async(list(specs))
        for _ in range(TRIES_MAX):
            unknown = [tp for tp in specs if not self._metadata.has_leader(tp)]
            if not unknown or not await self._metadata.learn_async(unknown):
                break
        known = {tp: spec for tp, spec in specs.items() if self._metadata.has_leader(tp)}
        until, try_ms = time.monotonic() + timeout_ms / 1000, TRY_MS
        while True:
            left_ms = int((until - time.monotonic()) * 1000)
            try:
                found = await self._ask(known, max(1, min(left_ms, try_ms)))
            except kafka.errors.KafkaTimeoutError:
                is_last, try_ms = left_ms <= try_ms, 2 * try_ms  # it may just be slow
                if is_last or not await self._metadata.learn_async(list(known)):
                    raise
            else:
                return {tp: answer.offset for tp, answer in found.items()}
