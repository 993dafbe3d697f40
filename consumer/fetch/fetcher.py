"""The fetching side: kafka-python's consumer in manual-assignment mode, made fit for partitions
that come and go at any moment.

This module, `client`, `decoder`, `metadata` and `requests` beside it are the only ones that touch
what kafka-python keeps private (tests/consumer/test_pins.py names each attribute that they use: a
new release that moves one fails there). What it adds to kafka-python's `Fetcher`, and why:

* **First fetch.** kafka-python has one fetch in flight per broker, and an idle one stays out for
  `fetch_max_wait_ms`. A partition assigned meanwhile would wait for its return. So newcomers are
  fetched at once by a request of their own, without a fetch session and without waiting at the
  broker: on the main connection when no fetch is out there, else on a second connection (a broker
  answers the requests of one connection in order; so metadata and offset look-ups go there too).
  While the long poll is still out, the newcomers are looked after every `BRIDGE_MS`; the next main
  fetch adopts them. A record that arrives twice this way is dropped where kafka-python drops stale
  responses: a response counts only if it was asked at the current position.
* **One lock, the subscription's.** Assignments change on the member's thread, records are drained
  on the application's, requests are built on kafka-python's IO thread. Each holds `lock` while it
  does so; nobody waits for another thread while holding it.
* **One wakeup instead of waiting for futures.** Whatever may end a wait (a response, an error, a
  finished offset look-up, a message of the member) sets `wakeup`, a flag; the application's thread
  clears it, looks for records and waits on it. Clearing before looking makes a lost wake-up
  impossible.
* **Fairness.** What is buffered is handed out in turns, and fetched again in time
  (`consumer.fetch.buffer`); what a long poll was sent without is fetched as a newcomer is.
* **Metadata without noise** (`consumer.fetch.metadata`).
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import kafka.errors
from kafka.consumer.fetcher import (
    CompletedFetch,
    Fetcher,
    FetchMetadata,
    FetchRequestData,
    FetchResponseMetricAggregator,
    FetchSessionHandler,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.fetch.broker_log import BrokerLog
from consumer.fetch.buffer import FetchBuffer
from consumer.fetch.decoder import RecordsFrom
from consumer.fetch.metadata import MetadataRequests, OffsetLookUp
from consumer.fetch.requests import FetchRequests
from consumer.options import MAX_BUFFERED_BYTES
from zkcoord.zk.bell import Bell

log = logging.getLogger(__name__)

BRIDGE_MS = 30
BRIDGE_ROUNDS_MAX = 50
FIRST_FETCH_PARTITION_BYTES_MAX = 256 * 1024
METADATA_TRIES_MAX = 100
VALIDATE_EVERY_S = 0.1

Partitions = Collection[TopicPartition]
FirstFetch = Callable[[TopicPartition, int], None]


class PartitionFetcher(Fetcher):
    """kafka-python's fetcher plus what the module's docstring lists. Methods that end in `_async`
    run on the IO thread; `take` runs on the application's thread, under `lock`. With `fetches_all`
    False only newcomers are fetched: somebody else brings the rest.
    """

    PartitionRecords = RecordsFrom

    def __init__(
        self,
        client: Any,
        subscriptions: Any,
        on_first_fetch: FirstFetch | None,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        fetches_all: bool = True,
        **configs: Any,
    ) -> None:
        super().__init__(client, subscriptions, **configs)
        self.lock = subscriptions._lock
        self.wakeup = Bell()
        self.on_first_fetch = on_first_fetch
        self.max_buffered_bytes = max_buffered_bytes
        self.metadata = MetadataRequests(
            self._manager, self._net, self.lock, self._nodes_with_pending_fetch_requests
        )
        self._requests = FetchRequests(self.config, self._isolation_level, self._manager)
        self._fetches_all = fetches_all
        self._reports = BrokerLog()
        self.given: dict[TopicPartition, list[Any]] = {}
        # Assigned, and nothing came from the broker yet.
        self._unseen: set[TopicPartition] = set()
        # Assigned, and in no main fetch yet.
        self._newcomers: set[TopicPartition] = set()
        # What side fetches are out for, and from which offset.
        self._asked: dict[TopicPartition, int] = {}
        # By broker, what its main fetch is out for, and from which offset.
        self._main: dict[Any, dict[TopicPartition, int]] = {}
        # Brokers whose newcomers are looked after while their main fetch is out.
        self._bridging: set[Any] = set()
        # Where a side fetch found nothing.
        self._dry: dict[TopicPartition, int] = {}
        # The leaders with which positions were validated last, and when that is due again.
        self._validated_with: Any = None
        self._validate_at = 0.0
        self._buffers = FetchBuffer(subscriptions, self._parse_fetched_data)

    # the main fetch

    async def _send_fetches_async(self) -> list[Any]:
        futures: list[Any] = await super()._send_fetches_async()
        with self.lock:
            late = {
                tp
                for tp, at in self._wanted()[0].items()
                if self._select_read_replica(tp) in self._main and not self._is_asked(tp, at.offset)
            }
            self._newcomers.update(late)
        self._send_and_bridge_async(late)
        return futures

    def _create_fetch_requests(self) -> dict[Any, Any]:
        requests: dict[Any, Any] = {}
        if not self._fetches_all:
            return requests
        with self.lock:
            for node_id, asked in self._by_node(*self._wanted()).items():
                if self._enable_incremental_fetch_sessions:
                    session = self._session_handlers.setdefault(
                        node_id, FetchSessionHandler(node_id)
                    ).build_next(asked)
                else:
                    session = FetchRequestData(asked, None, FetchMetadata.LEGACY)
                self._main[node_id] = offsets = {
                    tp: data.fetch_offset for tp, data in asked.items()
                }
                self._newcomers.difference_update(offsets)
                requests[node_id] = (
                    self._requests.build(session, self.config["fetch_max_wait_ms"]),
                    offsets,
                )
        return requests

    def _wanted(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], int]:
        """What to fetch, and how many bytes of each partition. Call under `lock`."""
        self._take_in()
        return self._buffers.wanted(
            self.config["max_poll_records"],
            self.config["max_partition_fetch_bytes"],
            self.max_buffered_bytes,
        )

    def _take_in(self) -> None:
        """Responses that arrived since the last time."""
        arrived = self._completed_fetches
        while arrived:
            self._buffers.put(arrived.popleft())

    def _is_asked(self, tp: TopicPartition, offset: int) -> bool:
        """Is this partition being fetched from here, or (where there was nothing) looked after
        until the main fetch to its broker returns?
        """
        if self._asked.get(tp) == offset:
            return True
        node_id = self._select_read_replica(tp)
        main = self._main.get(node_id)
        return main is not None and (
            main.get(tp) == offset
            or (self._dry.get(tp) == offset and tp in self._newcomers and node_id in self._bridging)
        )

    def _by_node(
        self, wanted: Mapping[TopicPartition, OffsetAndMetadata], chunk: int
    ) -> dict[Any, dict[TopicPartition, Any]]:
        """What the main fetches ask for: of brokers that are ready and have none out. An unknown
        leader is asked for.
        """
        cluster, manager = self._manager.cluster, self._manager
        ready: dict[Any, bool] = {}
        found: dict[Any, dict[TopicPartition, Any]] = {}
        for tp, at in wanted.items():
            node_id = self._select_read_replica(tp)
            if node_id is None or node_id == -1:
                cluster.request_update()
                continue
            if node_id not in ready:
                ready[node_id] = not (
                    manager.connection_delay(node_id) > 0
                    or self._client.throttle_delay(node_id) > 0
                    or node_id in self._nodes_with_pending_fetch_requests
                )
            if ready[node_id]:
                found.setdefault(node_id, OrderedDict())[tp] = self._requests.partition(
                    tp, at, chunk
                )
        return found

    def _handle_fetch_response(
        self,
        node_id: Any,
        fetch_offsets: Mapping[TopicPartition, int],
        send_time: float,
        response: Any,
    ) -> None:
        try:
            super()._handle_fetch_response(node_id, fetch_offsets, send_time, response)
        finally:
            self._main.pop(node_id, None)
            self._reports.answered(node_id)
            self._seen(fetch_offsets)
            self.wakeup.set()

    def _handle_fetch_error(self, node_id: Any, exception: BaseException) -> None:
        super()._handle_fetch_error(node_id, exception)
        self._main.pop(node_id, None)
        if not isinstance(exception, kafka.errors.Cancelled):
            broker = self._manager.cluster.broker_metadata(node_id)
            self._reports.failed(
                node_id,
                "an unknown address" if broker is None else f"{broker.host}:{broker.port}",
                exception,
            )
        self.wakeup.set()

    def fetch_soon(self) -> None:
        """Ask the IO thread to send what can be sent; does not wait."""
        self._manager.call_soon(self._send_fetches_async)

    def report_leaderless(self) -> None:
        """Say which assigned partitions nobody leads, if that lasts; on the application's
        thread.
        """
        if self._reports.is_due():
            with self.lock:
                self._reports.leaderless(
                    {
                        tp
                        for tp in self._subscriptions.assignment
                        if not self.metadata.has_leader(tp)
                    }
                )

    def update_highwater(self, tp: TopicPartition) -> None:
        """Each answer has written it."""

    def use_brokers(self, servers: list[str]) -> None:
        """See `FetchClient`."""

    def close_connections(self) -> None:
        """None."""

    @property
    def waiting_for_broker(self) -> bool:
        """Is a main fetch out?"""
        return bool(self._nodes_with_pending_fetch_requests)

    @property
    def has_lost_place(self) -> bool:
        """Must an offset be looked up or validated (the last records said so), and nobody does it
        yet? Call under `lock`.
        """
        resetting, validating = (
            (task is not None and not task.is_done)
            for task in (self._reset_task, self._validation_task)
        )
        return bool(
            (not resetting and self._subscriptions.partitions_needing_reset())
            or (not validating and self._subscriptions.partitions_needing_validation())
        )

    def maybe_validate_positions(self) -> None:
        """As kafka-python's, which looks at every partition on every poll: when leaders have
        changed, or positions otherwise than by consumption, and from time to time.
        """
        leaders, now = self._manager.cluster._partitions, time.monotonic()
        if leaders is not self._validated_with or now >= self._validate_at:
            self._validated_with, self._validate_at = leaders, now + VALIDATE_EVERY_S
            super().maybe_validate_positions()

    def validate_soon(self) -> None:
        """Positions were set: look at them with the next poll."""
        self._validated_with = None

    def _maybe_update_current_leader(self, tp: TopicPartition, partition_data: Any) -> None:
        super()._maybe_update_current_leader(tp, partition_data)
        self.validate_soon()

    # records

    def take(self, max_records: int) -> tuple[dict[TopicPartition, list[Any]], bool]:
        """Up to `max_records` buffered records by partition, in turns, and whether all that should
        be fetched is being fetched.

        Raises what decoding raises, and what kafka-python raises for a response:
        `OffsetOutOfRangeError` without a reset policy, `TopicAuthorizationFailedError`,
        `CorruptRecordError` ... Call under `lock`.
        """
        records: dict[TopicPartition, list[Any]] = {}
        self.given = records
        self.take_buffered(max_records, records)
        return records, self._buffers.has_plenty(self.config["max_poll_records"]) or all(
            self._is_asked(tp, at.offset) for tp, at in self._wanted()[0].items()
        )

    def take_buffered(self, max_records: int, given: dict[TopicPartition, list[Any]]) -> None:
        """As `take`, without looking at what should be fetched; what is taken is in `given` before
        its partition's position moves on.
        """
        self._take_in()
        self._buffers.take(max_records, given)
        if self._sensors and self._buffers.lag >= 0:
            self._sensors.records_fetch_lag.record(self._buffers.lag)

    def newcomers(self, partitions: Iterable[TopicPartition]) -> None:
        """These were just assigned: fetch them at once. Call under `lock`."""
        new = list(partitions)
        self._unseen.update(new)
        self._newcomers.update(new)
        self.validate_soon()
        self._manager.call_soon(self._first_fetch_async, new).add_errback(
            lambda e: log.debug(
                "the first fetch of %d partitions ended: %r; the main fetch takes them", len(new), e
            )
        )

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not fetched any more: drop what is buffered of them. Call under `lock`."""
        gone = set(partitions)
        for kept in (self._unseen, self._newcomers):
            kept.difference_update(gone)
        self._take_in()
        for tp in gone:
            self._buffers.drop(tp)
            self._dry.pop(tp, None)

    # the first fetch of newcomers

    async def _first_fetch_async(self, partitions: list[TopicPartition]) -> None:
        waiting = set(partitions)
        for _ in range(METADATA_TRIES_MAX):
            ready = {tp for tp in waiting if self.metadata.has_leader(tp)}
            self._track(ready)
            with self.lock:
                wanted = self._unseen & ready
            self._send_and_bridge_async(wanted)
            waiting -= ready
            if not waiting or not await self.metadata.learn_async(waiting):
                return
        self._track(waiting)

    def _waits_for(self, node_id: Any) -> bool:
        """Does a newcomer wait for a long poll that is out at this broker?"""
        return not self._fetches_all or node_id in self._nodes_with_pending_fetch_requests

    def _track(self, partitions: Partitions) -> None:
        """Metadata of their topics is refreshed from now on, for as long as they are assigned."""
        with self.lock:
            self._manager.cluster._topics.update(
                {tp.topic for tp in partitions if tp in self._subscriptions.assignment}
            )

    def _send_and_bridge_async(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch these beside the main fetches, and look after them for as long as the one to their
        broker is out.
        """
        for node_id, future in self._send_side_async(partitions) if partitions else ():
            if self._waits_for(node_id) and node_id not in self._bridging:
                self._bridging.add(node_id)
                self._manager.call_soon(self._bridge_async, node_id, future)

    def _send_side_async(self, partitions: Iterable[TopicPartition]) -> list[tuple[Any, Any]]:
        """Send one request per leader for those that may be fetched now; (node, future) of each."""
        sent = []
        for node_id, asked in self._by_leader(partitions).items():
            lane = self.metadata.free_lane(node_id)
            future = self._manager.send(
                self._requests.build(FetchRequestData(asked, None, FetchMetadata.LEGACY), 0),
                node_id=lane,
            )
            offsets = {tp: one.fetch_offset for tp, one in asked.items()}
            self._asked.update(offsets)
            future.add_callback(self._side_response, offsets)
            future.add_errback(self._side_error, offsets, lane)
            sent.append((node_id, future))
        return sent

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[Any, dict[TopicPartition, Any]]:
        cluster = self._manager.cluster
        found: dict[Any, dict[TopicPartition, Any]] = {}
        with self.lock:
            allowed, chunk = self._wanted()
            for tp in partitions:
                node_id = cluster.leader_for_partition(tp)
                if (
                    tp in allowed
                    and self._asked.get(tp) != allowed[tp].offset
                    and node_id not in (None, -1)
                ):
                    found.setdefault(node_id, {})[tp] = self._requests.partition(
                        tp, allowed[tp], min(chunk, FIRST_FETCH_PARTITION_BYTES_MAX)
                    )
        return found

    def _side_response(self, offsets: Mapping[TopicPartition, int], response: Any) -> None:
        answers = [
            (TopicPartition(t.topic, p.partition_index), p)
            for t in response.responses
            for p in t.partitions
        ]
        aggregator = (
            FetchResponseMetricAggregator(self._sensors, {tp for tp, _ in answers})
            if self._sensors
            else None
        )
        for tp, data in answers:
            self._completed_fetches.append(
                CompletedFetch(tp, offsets[tp], response.API_VERSION, data, aggregator)
            )
            if not data.records:
                self._dry[tp] = offsets[tp]
        self._settle(offsets)
        self._seen(offsets)
        self.wakeup.set()

    def _settle(self, offsets: Iterable[TopicPartition]) -> None:
        for tp in offsets:
            self._asked.pop(tp, None)

    def _side_error(
        self, offsets: Mapping[TopicPartition, int], lane: Any, error: BaseException
    ) -> None:
        self._settle(offsets)
        log.debug(
            "the first fetch of %d partitions from %s failed: %s; the main fetch takes them",
            len(offsets),
            lane,
            error,
        )
        self.wakeup.set()

    async def _bridge_async(self, node_id: Any, first: Any) -> None:
        """Look after newcomers while the long poll to their broker is out."""
        future = first
        try:
            for _ in range(BRIDGE_ROUNDS_MAX):
                await _settled(future)
                await self._net.sleep(BRIDGE_MS / 1000)
                if not self._waits_for(node_id) or not self._newcomers:
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
        if self.on_first_fetch is not None:
            for tp in fresh:
                self.on_first_fetch(tp, now_ns)

    # offsets

    async def _send_list_offsets_request(self, node_id: Any, timestamps_and_epochs: Any) -> Any:
        return await super()._send_list_offsets_request(
            self.metadata.free_lane(node_id), timestamps_and_epochs
        )

    async def look_up_async(
        self, specs: Mapping[TopicPartition, int], timeout_ms: int, afresh: bool = False
    ) -> dict[TopicPartition, int]:
        """See `OffsetLookUp`."""
        ask = OffsetLookUp(self.metadata, self._fetch_offsets_by_times_async)
        return await ask.found_async(specs, timeout_ms, afresh)


async def _settled(future: Any) -> None:
    """Wait for the end of a request, whatever it is."""
    if future is None:
        return
    try:
        await future
    except kafka.errors.KafkaError as e:
        log.debug("a first fetch failed: %s", e)
