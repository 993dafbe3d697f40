"""Fetch requests, as kafka-python's options have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import FetchRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

FETCH_VERSION_MAX = 12


class FetchRequests:
    """Makes them. `config` is kafka-python's."""

    def __init__(self, config: Mapping[str, Any], isolation_level: Any, manager: Any) -> None:
        self._config = config
        self._isolation_level = isolation_level
        self._manager = manager

    def partition(self, tp: TopicPartition, at: OffsetAndMetadata, size: int) -> Any:
        """What is asked of one partition: up to `size` bytes from a position on."""
        epoch = self._manager.cluster.leader_epoch_for_partition(tp)
        return FetchRequest.FetchTopic.FetchPartition(
            partition=tp.partition,
            current_leader_epoch=-1 if epoch is None else epoch,
            fetch_offset=at.offset,
            last_fetched_epoch=at.leader_epoch,
            partition_max_bytes=size,
        )

    def build(self, session: Any, wait_ms: int) -> Any:
        """One request for the partitions of a fetch session; the broker may wait `wait_ms` for
        records.
        """
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=self._config["fetch_min_bytes"],
            max_bytes=self._config["fetch_max_bytes"],
            isolation_level=self._isolation_level,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=session.to_send,
            forgotten_topics_data=session.to_forget,
            rack_id=self._config["client_rack"],
            min_version=FetchRequest.min_version_for_isolation_level(self._isolation_level),
            max_version=FETCH_VERSION_MAX,
        )
