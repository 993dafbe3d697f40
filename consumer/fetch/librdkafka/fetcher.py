"""The fetching side with librdkafka: it brings the records; kafka-python keeps everything else
(metadata, positions, resets, the first fetch of newcomers).

* A **stream** per assigned partition (`partition_queue.py`). It is handed out from only while
  kafka-python's table says that the partition is assigned, fetchable and stands at a position that
  the stream holds. So a revoked, paused, sought or reset partition is right without a word to
  librdkafka; what librdkafka has to know (`_reconcile`) can follow later.
* **First fetch.** librdkafka too has one fetch in flight per broker, which stays out for
  `fetch_max_wait_ms`, and it cannot be interrupted. So newcomers, and partitions that were sought,
  are fetched by kafka-python, as in `consumer.fetch.fetcher`, until librdkafka has brought
  something of them, or said that there is nothing. What comes twice is skipped by its offset.
* **Fairness.** What is queued in librdkafka has one order, so fairness reaches as far as what was
  taken from it (`AHEAD_RECORDS`, `AHEAD_BYTES`): of that each poll takes from the partitions in
  turn. More is not kept here, because messages that live long cost more than they bring: Python's
  collector walks through everything again whenever a quarter as much has grown old (with 10,000
  messages ahead, in a quarter of the consumer's time).
* Partitions that are paused are stopped in librdkafka once as much is kept of them here; else they
  would fill the queue of all.
* An event that librdkafka puts in place of a message (an error; the end of the log) acts when
  everything before it is handed out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

import kafka.errors
from confluent_kafka import KafkaError, KafkaException, Message
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.fetch.fetcher import PartitionFetcher
from consumer.fetch.librdkafka.consumer import Caught, QueueConsumer
from consumer.fetch.librdkafka.partition_queue import PartitionQueue
from consumer.fetch.librdkafka.records import Decoded, records_of

log = logging.getLogger(__name__)

AHEAD_RECORDS = 2_000
AHEAD_BYTES = 16 * 1024 * 1024
DRAIN_MESSAGES = 500
RECONCILE_EVERY_S = 0.05
METRICS_EVERY_S = 0.1
PROBE_EVERY_S = 1.0
OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
CORRUPT = frozenset({KafkaError._BAD_MSG, KafkaError.INVALID_MSG})


class LibrdkafkaFetcher:
    """Records by way of librdkafka. `beside` is kafka-python's fetcher, which fetches newcomers
    only; `settings` is librdkafka's configuration.
    """

    def __init__(
        self,
        beside: PartitionFetcher,
        settings: Mapping[str, Any],
        new_client: Callable[..., QueueConsumer] = QueueConsumer,
    ) -> None:
        self.beside = beside
        self.lock = beside.lock
        self.wakeup = beside.wakeup
        self._subscriptions = beside._subscriptions
        self._manager = beside._manager
        self._ahead_bytes = min(AHEAD_BYTES, beside.max_buffered_bytes)
        self._settings = dict(settings)
        self._new_client = new_client
        # Brokers that do not answer, and since when (`time.monotonic`).
        self._silent: dict[int, float] = {}
        self._client_side: QueueConsumer = self._open_client()
        self._streams: dict[TopicPartition, PartitionQueue] = {}
        self.given: dict[TopicPartition, list[Any]] = {}
        # What librdkafka has refused to start.
        self._unstarted: set[TopicPartition] = set()
        # When (`time.monotonic`) something is due again.
        self._reconcile_at = 0.0
        self._probe_at = 0.0
        self._count_at = 0.0
        # Records and bytes that were handed out and are not in the metrics yet.
        self._counted: dict[TopicPartition, tuple[int, int]] = {}
        self._decoders = (beside.config["key_deserializer"], beside.config["value_deserializer"])

    def _open_client(self) -> QueueConsumer:
        return self._new_client(self._settings, self.lock, self.wakeup.set, self._broker_failed)

    # the main fetch is librdkafka's

    def send_fetches(self) -> list[Any]:
        """Tell librdkafka what is wanted, and have it ring when something comes. Does not wait."""
        with self.lock:
            self._reconcile()
            self._client_side.watch()
        return []

    def fetch_soon(self) -> None:
        """librdkafka fetches ahead by itself."""

    @property
    def waiting_for_broker(self) -> bool:
        """Will it ring? Not for certain while no broker can be reached."""
        client = self._client_side
        if client.unreachable:
            self._look_around()
        return bool(client.running) and not client.unreachable and not self._unstarted

    def report_leaderless(self) -> None:
        """As kafka-python's side does, which would not look by itself: it fetches nothing."""
        if self._silent:
            self._look_around()
        self.beside.report_leaderless()

    def _look_around(self) -> None:
        """Ask kafka-python's brokers who leads what, from time to time."""
        if time.monotonic() >= self._probe_at:
            self._probe_at = time.monotonic() + PROBE_EVERY_S
            asked = self._manager.call_soon(self.beside.metadata.request_async, set())
            asked.add_both(self._looked)

    def _looked(self, answer: Any) -> None:
        if not isinstance(answer, BaseException):
            self._client_side.unreachable = False

    def _broker_failed(self, broker: int, address: str, why: str) -> None:
        self._silent.setdefault(broker, time.monotonic())
        self.beside._reports.failed(broker, address, why)

    def _answered(self, tp: TopicPartition) -> None:
        """Something of this partition came from its leader; just after a failure that may have been
        queued before it.
        """
        self._client_side.unreachable = False
        leader = self._manager.cluster.leader_for_partition(tp) if self._silent else None
        if leader in self._silent and time.monotonic() - self._silent[leader] > PROBE_EVERY_S:
            del self._silent[leader]
            self.beside._reports.answered(leader)

    @property
    def has_lost_place(self) -> bool:
        """As kafka-python's side: resets and validations are done there."""
        return self.beside.has_lost_place

    # partitions

    def newcomers(self, partitions: Iterable[TopicPartition]) -> None:
        """These were just assigned: begin to fetch them, and look at once what is there already.
        Call under `lock`.
        """
        self._begin(list(partitions))

    def _begin(self, partitions: list[TopicPartition]) -> None:
        """Begin where each stands, or go on there with what is kept of it."""
        begun: dict[TopicPartition, int] = {}
        for tp in partitions:
            position = self._subscriptions.assignment[tp].position
            if position is not None:
                stream = self._streams.get(tp)
                if stream is None or stream.fault is not None or not stream.move(position.offset):
                    stream = self._streams[tp] = PartitionQueue(position.offset)
                    self._client_side.stop([tp])
                if tp not in self._client_side.running:
                    begun[tp] = stream.end
        self._start(begun)
        self.beside.newcomers(partitions)

    def _start(self, offsets: dict[TopicPartition, int]) -> None:
        try:
            self._client_side.start(offsets)
            self._unstarted.difference_update(offsets)
        except KafkaException as e:
            self._unstarted.update(offsets)
            log.warning(
                "librdkafka does not start %d partitions: %s; it is tried again",
                len(offsets),
                e.args[0],
            )

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not fetched any more: drop what is buffered of them. Call under `lock`."""
        gone = set(partitions)
        self.beside.forget(gone)
        self._client_side.stop(gone)
        self._unstarted -= gone
        for tp in gone:
            self._streams.pop(tp, None)

    def _reconcile(self) -> None:
        """Bring librdkafka up to what kafka-python's table says. Call under `lock`."""
        self._reconcile_at = time.monotonic() + RECONCILE_EVERY_S
        assignment, client = self._subscriptions.assignment, self._client_side
        gone = [tp for tp in self._streams if tp not in assignment]
        if gone:
            self.forget(gone)
        resting, begun = [], []
        for tp, state in assignment.items():
            stream, running = self._streams.get(tp), tp in client.running
            if not state.is_fetchable():
                resting += [(tp, stream)] if running and stream is not None else []
            elif (
                stream is None
                or not running
                or not stream.begin <= state.position.offset <= stream.end
            ) and (stream is None or stream.fault is None or stream.end != state.position.offset):
                begun.append(tp)
        if (
            sum(stream.ready for _, stream in resting) >= AHEAD_RECORDS
            or sum(stream.size for _, stream in resting) >= self._ahead_bytes
        ):
            client.stop(tp for tp, stream in resting if stream.ready)
        if begun:
            self._begin(begun)

    def update_highwater(self, tp: TopicPartition) -> None:
        """Learn the high water mark of this partition as of librdkafka's last fetch. Call under
        `lock`.
        """
        found = self._client_side.highwater(tp)
        if found is not None:
            self._subscriptions.assignment[tp].highwater = found

    def use_brokers(self, servers: list[str]) -> None:
        """Go on with other brokers."""
        with self.lock:
            old, self._settings["bootstrap.servers"] = self._client_side, ",".join(servers)
            self._client_side = self._open_client()
            self._silent.clear()
            self._reconcile()
        threading.Thread(target=old.close, name="zkcoord-librdkafka-close", daemon=True).start()

    def close_connections(self) -> None:
        """Close librdkafka's connections."""
        self._client_side.close()

    # records

    def take(self, max_records: int) -> tuple[dict[TopicPartition, list[Any]], bool]:
        """Up to `max_records` buffered records by partition, and whether there were any. Raises
        what `PartitionFetcher.take` raises. Call under `lock`.
        """
        records: dict[TopicPartition, list[Any]] = {}
        self.given = records
        try:
            self.beside.take_buffered(max_records, records)
        except kafka.errors.UnsupportedCodecError as e:
            log.debug("%s; librdkafka, which has its own, brings them", e)
        overtaken = [
            tp
            for tp in records
            if tp in self._streams
            and not self._streams[tp].jump(self._subscriptions.assignment[tp].position.offset)
        ]
        if overtaken:
            self._begin(overtaken)
        left = max_records - sum(map(len, records.values()))
        if time.monotonic() >= self._reconcile_at:
            self._reconcile()
        self._fill(left)
        self._take_in_turn(records, left)
        self._measure(not records)
        return records, bool(records)

    def _take_in_turn(self, records: dict[TopicPartition, list[Any]], left: int) -> None:
        """Add up to `left` records: the same number of each stream that has some; what one cannot
        use goes to the others.
        """
        before = left + 1
        while 0 < left < before:
            before = left
            ready = sum(not stream.exhausted for stream in self._streams.values())
            share = max(1, left // max(1, ready))
            for tp in list(self._streams):
                left -= self._take_from(tp, min(share, left), records)
                if left <= 0:
                    break

    def _take_from(
        self, tp: TopicPartition, count: int, given: dict[TopicPartition, list[Any]]
    ) -> int:
        """Add records of one partition to what is given already, where there is some its error can
        wait for the next take; how many.
        """
        others = bool(given)
        stream, state = self._streams[tp], self._subscriptions.assignment.get(tp)
        if state is None or not state.is_fetchable() or not stream.move(state.position.offset):
            return 0
        if stream.exhausted:
            if stream.fault is not None:
                if not others:
                    self._fault(tp, state, stream)
            elif stream.end > state.position.offset:
                state.position = OffsetAndMetadata(stream.end, "", state.position.leader_epoch)
            return 0
        messages = stream.take(count)
        records = records_of(tp.topic, tp.partition, messages)
        if self._decoders != (None, None):
            records = self._decoded(records, others)
        if records:
            last = records[-1]
            # before the position moves: see `given`
            given[tp] = [*given[tp], *records] if tp in given else records
            state.position = OffsetAndMetadata(last.offset + 1, "", last.leader_epoch)
            size = sum(map(len, messages))
            stream.trim(stream.size - size)
            taken, read = self._counted.get(tp, (0, 0))
            self._counted[tp] = (taken + len(records), read + size)
            self._streams[tp] = self._streams.pop(tp)  # behind the others
        return len(records)

    def _decoded(self, records: list[Any], others: bool) -> list[Any]:
        with Decoded(*self._decoders, alone=not others) as decoded:
            decoded.all(records)
        return decoded.records

    # from librdkafka's queue into the streams

    def _fill(self, wanted: int) -> None:
        """Take from librdkafka until enough is here to choose from, or nothing more is queued."""
        try:
            self._fill_streams(wanted)
        except BaseException:
            # a signal handler's: what was taken from librdkafka is nowhere, so nothing that follows
            # it may be handed out
            self._start_over()
            raise

    def _start_over(self) -> None:
        """Begin every partition anew, where it stands."""
        self._streams.clear()
        self._client_side.stop(list(self._client_side.running))
        self._reconcile_at = 0.0

    def _fill_streams(self, wanted: int) -> None:
        client = self._client_side
        caught = client.caught()
        if caught is not None and self._is_current(caught):
            self._sort([caught.message])
        for _ in range(AHEAD_RECORDS // DRAIN_MESSAGES):
            ready, size = self._kept()
            if ready >= max(AHEAD_RECORDS, wanted) or (
                size >= self._ahead_bytes and ready >= wanted
            ):
                return
            messages = client.drain(DRAIN_MESSAGES)
            if messages:
                self._sort(messages)
            if len(messages) < DRAIN_MESSAGES:
                return

    def _kept(self) -> tuple[int, int]:
        """Records that are here, and their bytes, of partitions that may be handed out."""
        assignment = self._subscriptions.assignment
        kept = [
            stream
            for tp, stream in self._streams.items()
            if stream.messages
            and (state := assignment.get(tp)) is not None
            and state.is_fetchable()
        ]
        return sum(stream.ready for stream in kept), sum(stream.size for stream in kept)

    def _is_current(self, caught: Caught) -> bool:
        """Is the watcher's message of the assignment that holds? It may be older than a change that
        another thread made meanwhile.
        """
        client, message = self._client_side, caught.message
        tp = TopicPartition(message.topic(), message.partition())
        stream = self._streams.get(tp)
        if (
            stream is None
            or client.started_at.get(tp, 0) <= caught.changes
            or client.stopped_at.get(tp, 0) <= caught.changes
        ):
            return True  # it was begun before, or not running before
        if message.error() is None and message.offset() == stream.end:
            return True  # whichever assignment brought it, it is the next record
        client.stop([tp])
        self._start({tp: stream.end})
        return False

    def _sort(self, messages: list[Message]) -> None:
        """Into the streams of their partitions."""
        begun = 0
        for at, failed in (
            enumerate(map(Message.error, messages)) if any(map(Message.error, messages)) else ()
        ):
            if failed is not None:
                self._sort_runs(messages[begun:at])
                self._event(messages[at], failed)
                begun = at + 1
        self._sort_runs(messages[begun:])

    def _sort_runs(self, messages: list[Message]) -> None:
        at = 0
        for (topic, number), run in groupby(
            zip(map(Message.topic, messages), map(Message.partition, messages), strict=False)
        ):
            count = len(list(run))
            self._received(TopicPartition(topic, number), messages[at : at + count])
            at += count

    def _received(self, tp: TopicPartition, messages: list[Message]) -> None:
        self._answered(tp)
        stream = self._streams.get(tp)
        if stream is None or stream.fault is not None:
            return
        self._adopted(tp)
        if messages[0].offset() < stream.end:
            messages = [m for m in messages if m.offset() >= stream.end]
        if messages:
            stream.add(messages, sum(map(len, messages)))

    def _event(self, message: Message, error: KafkaError) -> None:
        tp = TopicPartition(message.topic(), message.partition())
        stream = self._streams.get(tp)
        if stream is None:
            log.debug("librdkafka: %s", error)
        elif error.code() == KafkaError._PARTITION_EOF:
            self._answered(tp)
            self._adopted(tp)
            stream.ends(message.offset())
        elif _is_passing(error):
            log.debug("librdkafka: %s-%d: %s", tp.topic, tp.partition, error)
            self._manager.cluster.request_update()
        elif stream.fault is None:
            stream.fault = error

    def _adopted(self, tp: TopicPartition) -> None:
        """librdkafka fetches this one: it needs no fetch of its own any more."""
        if tp in self.beside._newcomers:
            self.beside._newcomers.discard(tp)
            self.beside._seen([tp])

    def _fault(self, tp: TopicPartition, state: Any, stream: PartitionQueue) -> None:
        """Act on what librdkafka said in place of the next message, as kafka-python does on the
        same answer of a broker. Raises its errors.
        """
        error: KafkaError = stream.fault
        code = error.code()
        if code in OUT_OF_RANGE:
            if not self._subscriptions.has_default_offset_reset_policy():
                raise kafka.errors.OffsetOutOfRangeError({tp: state.position.offset})
            log.info(
                "Fetch offset %s is out of range for topic-partition %s", state.position.offset, tp
            )
            self._subscriptions.request_offset_reset(tp)
        elif code == KafkaError._LOG_TRUNCATION:
            self._subscriptions.request_position_validation(tp)
            self._manager.cluster.request_update()
        elif code in CORRUPT:
            raise kafka.errors.CorruptRecordError(
                f"{tp.topic}-{tp.partition} at offset {state.position.offset}: {error.str()}"
            )
        self.forget([tp])
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise kafka.errors.TopicAuthorizationFailedError({tp.topic})
        if code not in OUT_OF_RANGE and code != KafkaError._LOG_TRUNCATION:
            raise (kafka.errors.for_code(code) if code > 0 else kafka.errors.KafkaError)(
                f"{tp.topic}-{tp.partition}: {error.str()}"
            )

    # metrics

    def _measure(self, idle: bool) -> None:
        """kafka-python's figures of what was handed out, a few times a second."""
        now = time.monotonic()
        if self.beside._sensors is None or not self._counted or (now < self._count_at and not idle):
            return
        self._count_at = now + METRICS_EVERY_S
        counted, self._counted = self._counted, {}
        topics: dict[str, tuple[int, int]] = {}
        for tp, (count, size) in counted.items():
            before = topics.get(tp.topic, (0, 0))
            topics[tp.topic] = (before[0] + count, before[1] + size)
            state, end = self._subscriptions.assignment.get(tp), self._client_side.highwater(tp)
            if state is not None and end is not None and state.position is not None:
                self.beside._sensors.records_fetch_lag.record(end - state.position.offset)
        self.beside._sensors.records_fetched.record(sum(count for count, _ in topics.values()))
        self.beside._sensors.bytes_fetched.record(sum(size for _, size in topics.values()))
        for topic, (count, size) in topics.items():
            self.beside._sensors.record_topic_fetch_metrics(topic, size, count)


def _is_passing(error: KafkaError) -> bool:
    """Is this one that librdkafka gets over by itself?"""
    if error.code() < 0:
        return error.code() in (
            KafkaError._UNKNOWN_PARTITION,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._TRANSPORT,
            KafkaError._TIMED_OUT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
        )
    return (
        bool(issubclass(kafka.errors.for_code(error.code()), kafka.errors.RetriableError))
        and error.code() not in CORRUPT
    )
