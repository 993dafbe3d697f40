"""The fetching side: kafka-python's consumer in manual-assignment mode, made fit for partitions that come and go at any moment.

This module and `consumer.data_path` are the only ones that touch what kafka-python keeps private (tests/consumer/test_pins.py names each attribute that they use, so that a new release
that moves one fails there and not in production). What it adds to kafka-python's `Fetcher`, and why:

* **First fetch.** kafka-python has one fetch in flight per broker, and an idle one stays out for `fetch_max_wait_ms`. A partition assigned meanwhile would wait for its return. So newcomers are
  fetched at once by a request of their own, without a fetch session and without waiting at the broker: on the main connection when no fetch is out there, else on a second connection
  (a broker answers the requests of one connection in order; so metadata and offset look-ups go there too). While the long poll is still out, the newcomers are looked after every `BRIDGE_MS`; the next main fetch adopts them.
  A record that arrives twice this way is dropped where kafka-python drops stale responses: a response counts only if it was asked at the current position.
* **One lock, the subscription's.** Assignments change on the agent's thread, records are drained on the application's, requests are built on kafka-python's IO thread. Each holds `lock` while it does
  so; nobody waits for another thread while holding it.
* **A bell instead of waiting for futures.** Whatever may end a wait (a response, an error, a finished offset look-up, a message from the agent) rings `bell`, a flag; the application's thread clears it, looks
  for records and waits on it. Clearing before looking makes a lost wake-up impossible.
* **Rotation.** A partition that is not drained by one poll goes behind the others, so that a backlog in one does not silence the rest.
* **Metadata without noise.** Topics are tracked only once they exist; an unknown one is asked for directly, without kafka-python's 100 ms between refreshes and without its error per try.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import kafka.errors
from kafka.consumer.fetcher import CompletedFetch, FetchResponseMetricAggregator, Fetcher
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.structs import TopicPartition

log = logging.getLogger(__name__)

BRIDGE_MS = 30
BRIDGE_ROUNDS_MAX = 50
FIRST_FETCH_PARTITION_BYTES_MAX = 256 * 1024
FETCH_VERSION_MAX = 12
METADATA_RETRY_MS = 20
METADATA_TRIES_MAX = 100
LOOK_UP_TRIES_MAX = 3

Partitions = Collection[TopicPartition]
FirstFetch = Callable[[TopicPartition, int], None]


class Parked(NamedTuple):
    """A partition that one poll did not drain, behind the responses that came after its own: stands among them, and is excluded from fetching as they are."""

    topic_partition: TopicPartition
    fetched_offset: int
    records: Any


class HandoverFetcher(Fetcher):
    """kafka-python's fetcher plus what the module's docstring lists. Methods that end in `_async` run on the IO thread; `take` runs on the application's thread, under `lock`."""

    def __init__(self, client: Any, subscriptions: Any, on_first_fetch: FirstFetch | None, **configs: Any) -> None:
        super().__init__(client, subscriptions, **configs)
        self.lock = subscriptions._lock
        self.bell = threading.Event()
        self.on_first_fetch = on_first_fetch
        self._unseen: set[TopicPartition] = set()
        self._newcomers: set[TopicPartition] = set()
        self._asked: set[TopicPartition] = set()
        self._bridging: set[Any] = set()

    # the main fetch

    def _create_fetch_requests(self) -> dict[Any, Any]:
        with self.lock:
            requests = super()._create_fetch_requests()
            for _request, offsets in requests.values():
                self._newcomers.difference_update(offsets)
            return requests

    def _handle_fetch_response(self, node_id: Any, fetch_offsets: Mapping[TopicPartition, int], send_time: float, response: Any) -> None:
        try:
            super()._handle_fetch_response(node_id, fetch_offsets, send_time, response)
        finally:
            self._seen(fetch_offsets)
            self.bell.set()

    def _handle_fetch_error(self, node_id: Any, exception: BaseException) -> None:
        super()._handle_fetch_error(node_id, exception)
        self.bell.set()

    def fetch_soon(self) -> None:
        """Ask the IO thread to send what can be sent; does not wait."""
        self._manager.call_soon(self._send_fetches_async)

    @property
    def waiting_for_broker(self) -> bool:
        """Is a main fetch out?"""
        return bool(self._nodes_with_pending_fetch_requests)

    @property
    def has_lost_place(self) -> bool:
        """Must an offset be looked up or validated (the last records said so), and nobody does it yet? Call under `lock`."""
        resetting, validating = ((task is not None and not task.is_done) for task in (self._reset_task, self._validation_task))
        return bool((not resetting and self._subscriptions.partitions_needing_reset()) or (not validating and self._subscriptions.partitions_needing_validation()))

    # records

    def take(self, max_records: int) -> tuple[dict[TopicPartition, list[Any]], bool]:
        """Up to `max_records` buffered records by partition, and whether enough is buffered that nothing more needs to be fetched yet.

        Raises what kafka-python's `fetched_records` raises. Call under `lock`. What is parked is bounded by `fetch_max_bytes`, as a response is.
        """
        records, _ = self.fetched_records(max_records)
        rest = self._next_partition_records
        if rest and self._completed_fetches:
            self._completed_fetches.append(Parked(rest.topic_partition, rest.next_fetch_offset, rest))
            self._next_partition_records = None
        parked = sum(isinstance(fetch, Parked) for fetch in self._completed_fetches.copy())
        enough = len(self._completed_fetches) > parked or parked * self.config["max_partition_fetch_bytes"] >= self.config["fetch_max_bytes"]
        return records, enough

    def _parse_fetched_data(self, completed_fetch: Any) -> Any:
        return completed_fetch.records if isinstance(completed_fetch, Parked) else super()._parse_fetched_data(completed_fetch)

    def newcomers(self, partitions: Iterable[TopicPartition]) -> None:
        """These were just assigned: fetch them at once. Call under `lock`."""
        new = list(partitions)
        self._unseen.update(new)
        self._newcomers.update(new)
        self._manager.call_soon(self._first_fetch_async, new)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not fetched any more: drop what is buffered of them. Call under `lock`."""
        gone = set(partitions)
        for kept in (self._unseen, self._newcomers):
            kept.difference_update(gone)
        for fetch in [f for f in self._completed_fetches.copy() if isinstance(f, Parked) and f.topic_partition in gone]:
            self._completed_fetches.remove(fetch)
            fetch.records.drain()
        for tp in gone:
            self._paused_completed_fetches.pop(tp, None)
            records = self._paused_partition_records.pop(tp, None)
            if records is not None:
                records.drain()

    # the first fetch of newcomers

    async def _first_fetch_async(self, partitions: list[TopicPartition]) -> None:
        waiting = set(partitions)
        for _ in range(METADATA_TRIES_MAX):
            ready = {tp for tp in waiting if self.has_leader(tp)}
            with self.lock:
                wanted = self._unseen & ready
            for node_id, future in self._send_side_async(wanted):
                if node_id in self._nodes_with_pending_fetch_requests and node_id not in self._bridging:
                    self._bridging.add(node_id)
                    self._manager.call_soon(self._bridge_async, node_id, future)
            waiting -= ready
            if not waiting or not await self.learn_async(waiting):
                return

    def _send_side_async(self, partitions: Iterable[TopicPartition]) -> list[tuple[Any, Any]]:
        """Send one request per leader for those that may be fetched now; (node, future) of each."""
        sent = []
        for node_id, asked in self._by_leader(partitions).items():
            lane = self._free_lane(node_id)
            future = self._manager.send(self._side_request(asked), node_id=lane)
            offsets = {tp: data.fetch_offset for tp, data in asked.items()}
            self._asked.update(offsets)
            future.add_callback(self._side_response, offsets)
            future.add_errback(self._side_error, offsets, lane)
            sent.append((node_id, future))
        return sent

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[Any, dict[TopicPartition, Any]]:
        cluster = self._manager.cluster
        found: dict[Any, dict[TopicPartition, Any]] = {}
        with self.lock:
            wanted = set(partitions) - self._asked
            for tp in [tp for tp in self._fetchable_partitions() if tp in wanted] if wanted else []:
                node_id = cluster.leader_for_partition(tp)
                if node_id is None or node_id == -1:
                    continue
                position = self._subscriptions.assignment[tp].position
                epoch = cluster.leader_epoch_for_partition(tp)
                size = min(self.config["max_partition_fetch_bytes"], FIRST_FETCH_PARTITION_BYTES_MAX)
                found.setdefault(node_id, {})[tp] = FetchRequest.FetchTopic.FetchPartition(
                    partition=tp.partition, current_leader_epoch=-1 if epoch is None else epoch, fetch_offset=position.offset, last_fetched_epoch=position.leader_epoch, partition_max_bytes=size)
        return found

    def _side_request(self, asked: Mapping[TopicPartition, Any]) -> Any:
        topics: dict[str, list[Any]] = {}
        for tp, data in asked.items():
            topics.setdefault(tp.topic, []).append(data)
        return FetchRequest(
            max_wait_ms=0, min_bytes=self.config["fetch_min_bytes"], max_bytes=self.config["fetch_max_bytes"], isolation_level=self._isolation_level, session_id=0, session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=name, partitions=data) for name, data in topics.items()], forgotten_topics_data=[], rack_id=self.config["client_rack"],
            min_version=FetchRequest.min_version_for_isolation_level(self._isolation_level), max_version=FETCH_VERSION_MAX)

    def _free_lane(self, node_id: Any) -> Any:
        """A connection to a broker on which no long poll is out: the main one, else the second, known to the cluster as a broker of its own."""
        if node_id not in self._nodes_with_pending_fetch_requests:
            return node_id
        cluster = self._manager.cluster
        broker = cluster.broker_metadata(node_id)
        lane = f"handover-{node_id}"
        if broker is not None:
            cluster._coordinator_brokers[lane] = MetadataResponse.MetadataResponseBroker(lane, broker.host, broker.port, broker.rack)
        return lane

    def _side_response(self, offsets: Mapping[TopicPartition, int], response: Any) -> None:
        self._asked.difference_update(offsets)
        answers = [(TopicPartition(t.topic, p.partition_index), p) for t in response.responses for p in t.partitions]
        aggregator = FetchResponseMetricAggregator(self._sensors, {tp for tp, _ in answers}) if self._sensors else None
        for tp, data in answers:
            self._completed_fetches.append(CompletedFetch(tp, offsets[tp], response.API_VERSION, data, aggregator))
        self._seen(offsets)
        self.bell.set()

    def _side_error(self, offsets: Mapping[TopicPartition, int], lane: Any, error: BaseException) -> None:
        self._asked.difference_update(offsets)
        log.debug("the first fetch of %d partitions from %s failed: %s; the main fetch takes them", len(offsets), lane, error)
        self.bell.set()

    async def _bridge_async(self, node_id: Any, first: Any) -> None:
        """Look after newcomers while the long poll to their broker is out."""
        future = first
        try:
            for _ in range(BRIDGE_ROUNDS_MAX):
                await _settled(future)
                await self._net.sleep(BRIDGE_MS / 1000)
                if node_id not in self._nodes_with_pending_fetch_requests or not self._newcomers:
                    return
                sent = [f for n, f in self._send_side_async(set(self._newcomers)) if n == node_id]
                future = sent[0] if sent else None
        finally:
            self._bridging.discard(node_id)

    def _seen(self, partitions: Iterable[TopicPartition]) -> None:
        if not self._unseen:
            return
        now_ns = time.time_ns()
        with self.lock:
            fresh = self._unseen.intersection(partitions)
            self._unseen -= fresh
        for tp in fresh if self.on_first_fetch is not None else ():
            self.on_first_fetch(tp, now_ns)

    # metadata

    def has_leader(self, tp: TopicPartition) -> bool:
        """Is the leader of this partition known?"""
        return self._manager.cluster.leader_for_partition(tp) not in (None, -1)

    async def learn_async(self, partitions: Partitions) -> bool:
        """Ask once for the metadata of these partitions, and pause a little if that did not help; False when this consumer is closed."""
        try:
            await self.ask_metadata_async({tp.topic for tp in partitions})
        except kafka.errors.KafkaError as e:
            log.debug("asking for metadata failed: %s", e)
        if not all(map(self.has_leader, partitions)):
            await self._net.sleep(METADATA_RETRY_MS / 1000)
        return not self._manager.closed

    async def ask_metadata_async(self, topics: set[str]) -> None:
        """One metadata request for the tracked topics and these; those that exist are tracked from now on. Never creates a topic."""
        cluster = self._manager.cluster
        names = cluster._topics | topics
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=n) for n in sorted(names)], allow_auto_topic_creation=cluster.config["allow_auto_create_topics"],
                                  include_cluster_authorized_operations=False, include_topic_authorized_operations=False)
        response = await self._manager.send(request, node_id=self._free_lane(self._manager.least_loaded_node()))
        cluster.update_metadata(response)
        cluster._topics.update(t for t in topics if cluster.partitions_for_topic(t))

    async def _send_list_offsets_request(self, node_id: Any, timestamps_and_epochs: Any) -> Any:
        return await super()._send_list_offsets_request(self._free_lane(node_id), timestamps_and_epochs)

    async def look_up_async(self, partitions: Partitions, spec: int, timeout_ms: int) -> dict[TopicPartition, int]:
        """Beginning (-2) or end (-1) offsets of those partitions that exist and have a leader."""
        for _ in range(LOOK_UP_TRIES_MAX):
            unknown = [tp for tp in partitions if not self.has_leader(tp)]
            if not unknown or not await self.learn_async(unknown):
                break
        known = {tp: spec for tp in partitions if self.has_leader(tp)}
        found = await self._fetch_offsets_by_times_async(known, timeout_ms)
        return {tp: answer.offset for tp, answer in found.items()}


async def _settled(future: Any) -> None:
    """Wait for the end of a request, whatever it is."""
    if future is None:
        return
    try:
        await future
    except kafka.errors.KafkaError as e:
        log.debug("a first fetch failed: %s", e)
