"""Metadata without noise. Topics are tracked only once they exist; an unknown one is asked for
directly, without kafka-python's 100 ms between refreshes and without its error per try. What is
assigned is tracked, or the next refresh would forget its leader; after many tries also where it is
still unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container
from typing import Any

import kafka.errors
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.structs import TopicPartition

log = logging.getLogger(__name__)

METADATA_RETRY_MS = 20


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
