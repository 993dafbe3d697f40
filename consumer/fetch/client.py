"""kafka-python's consumer without its group, and the operations on its assignment that a membership
needs.

Partitions are added and removed one by one, straight in the subscription's table: kafka-python's
`assign` replaces the whole assignment and withdraws holds on what stays. A partition that stays
keeps its state, its buffers and its place in the fetch that is out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import kafka
from kafka.consumer.subscription_state import TopicPartitionState
from kafka.errors import (
    InvalidTopicError,
    KafkaError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.errors import UnknownPartitionError
from consumer.fetch.fetcher import FirstFetch, PartitionFetcher, Partitions
from consumer.fetch.group_offsets import GroupOffsets
from consumer.fetch.quiet import connected
from consumer.fetch.record_source import RecordSource
from consumer.options import MAX_BUFFERED_BYTES

log = logging.getLogger(__name__)

IDLE_RETRY_MS = 100
REBOOTSTRAP_MS = 5_000
KAFKA_PYTHON = "kafka-python"
# What brokers say of a topic that does not pass by waiting.
PERMANENT = (InvalidTopicError, TopicAuthorizationFailedError)


class FetchClient:
    """kafka-python's consumer (`kafka`) without its group, and our fetcher in it
    (`partition_fetcher`). Records come from `fetcher`: that one too, or what `other_source` makes
    of it. Everything that reads or changes assignments is done under `lock`.
    """

    fetcher: RecordSource

    def __init__(
        self,
        configs: Mapping[str, Any],
        on_first_fetch: FirstFetch | None = None,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
        other_source: Callable[[PartitionFetcher], RecordSource] | None = None,
    ) -> None:
        create_topics = bool(configs["allow_auto_create_topics"])
        self.kafka = connected(configs)
        inner = self.kafka
        inner._cluster.config["allow_auto_create_topics"] = create_topics
        self.subscription = inner._subscription
        own = self.partition_fetcher = PartitionFetcher(
            inner._client,
            inner._subscription,
            on_first_fetch,
            max_buffered_bytes,
            fetches_all=other_source is None,
            **inner.config,
        )
        own._sensors = inner._fetcher._sensors
        inner._fetcher = own
        inner._manager.call_soon(inner._cluster.add_listener, self._heard_of)
        self.lock = own.lock
        self.wakeup = own.wakeup
        self.fetcher = own if other_source is None else other_source(own)
        self._reset_policy = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}.get(
            inner.config["auto_offset_reset"]
        )
        self._timeout_ms = inner.config["request_timeout_ms"]

    def group_offsets(self, group: str) -> GroupOffsets:
        """What Kafka itself keeps of a group, asked over this consumer's connections."""
        return GroupOffsets(
            self.kafka._client,
            self.kafka._manager,
            self.partition_fetcher._net.sleep,
            group,
            self.kafka.config,
        )

    def prepare(self, topics: Collection[str]) -> None:
        """Learn where these topics are, in the background, before anything of them is assigned."""
        if topics:
            self.partition_fetcher._manager.call_soon(
                self.partition_fetcher.metadata.request_async, set(topics)
            ).add_errback(lambda e: log.debug("asking for metadata failed: %s", e))

    def topics(self) -> set[str]:
        """All topics that this client may see; asks the brokers, within `request_timeout_ms`.
        Raises `KafkaError`.
        """
        return {topic.name for topic in self._ask_for_all_topics() if not topic.is_internal}

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Numbers of a topic's partitions; asks the brokers where it is not known. As `topics`."""
        known = self.kafka._cluster.partitions_for_topic(topic)
        if known is not None:
            return set(known)
        return {
            partition.partition_index
            for found in self._ask_for_all_topics()
            if found.name == topic
            for partition in found.partitions
        }

    def _ask_for_all_topics(self) -> list[Any]:
        """Metadata of all topics that exist, from an answer to this very question: kafka-python
        takes any answer that comes meanwhile for it, also one to a question about some topics only.
        """
        manager = self.kafka._manager
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            asked = manager.call_soon(self.partition_fetcher.metadata.request_async, None)
            try:
                response = manager.run(
                    manager.wait_for, asked, max(0.0, deadline - time.monotonic()) * 1000
                )
                if response.brokers:  # else it has just started
                    return [
                        topic
                        for topic in response.topics
                        if kafka.errors.for_code(topic.error_code) is kafka.errors.NoError
                    ]
            except KafkaError as e:
                if not e.retriable or time.monotonic() >= deadline:
                    raise
            # the broker that was asked is down: the next one may be another
            threading.Event().wait(IDLE_RETRY_MS / 1000)

    def log_offsets(
        self,
        ask: Callable[[float], Mapping[TopicPartition, Any]],
        partitions: Collection[TopicPartition],
        timeout_ms: float | None,
    ) -> dict[TopicPartition, Any]:
        """What `ask(timeout in ms)` finds in the logs of these partitions, all within `timeout_ms`
        (default `request_timeout_ms`). Raises `UnknownTopicOrPartitionError` and the like as soon
        as brokers say so, which kafka-python takes for something that passes; `KafkaError`.
        """
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000

        def left_ms() -> float:
            return max(0.0, deadline - time.monotonic()) * 1000

        # the second look: a broker may not have heard yet of what was made a moment ago
        for pause_ms in (IDLE_RETRY_MS, None):
            refused = self._refused(partitions, left_ms())
            if refused is None:
                break
            if pause_ms is None:
                raise refused
            threading.Event().wait(min(pause_ms, left_ms()) / 1000)
        return dict(ask(left_ms()))

    def _refused(
        self, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> KafkaError | None:
        """Why one of these has no offsets, and will have none by waiting; None: for all that
        brokers say they have.
        """
        manager = self.kafka._manager
        names = {tp.topic for tp in partitions}
        asked = manager.call_soon(self.partition_fetcher.metadata.request_async, names)
        try:
            response = manager.run(manager.wait_for, asked, timeout_ms)
        except KafkaError as e:
            log.debug("asking for metadata failed: %s", e)
            return None
        found = {topic.name: topic for topic in response.topics}
        for tp in sorted(partitions):
            topic = found.get(tp.topic)
            error = NoError if topic is None else kafka.errors.for_code(topic.error_code)
            if error is UnknownTopicOrPartitionError:
                return UnknownPartitionError(tp.topic)
            if error in PERMANENT:
                return error(tp.topic)
            if error is NoError and topic is not None:
                numbers = {partition.partition_index for partition in topic.partitions}
                if tp.partition not in numbers:
                    return UnknownPartitionError(
                        f"{tp.topic}-{tp.partition} (the topic has {len(numbers)} partitions)"
                    )
        return None

    def choose(self, topics: list[str], pattern: str | None, wants: Callable[[str], bool]) -> None:
        """Consume these topics, or all that a pattern covers, without a group. Nothing of others is
        handed out any more (`wants`: whether a topic is covered), also while kafka-python has not
        assigned anew. Raises what kafka-python's `subscribe` raises.
        """
        self.kafka.subscribe(topics, pattern)
        with self.lock:
            self.hold([tp for tp in self.assigned() if not wants(tp.topic)])
        self.partition_fetcher._manager.call_soon(self._refresh_async).add_errback(
            lambda e: log.debug("asking for metadata failed: %s", e)
        )

    async def _refresh_async(self) -> None:
        """A refresh that is out was asked before the choice; kafka-python takes its answer for all
        it waits for, and asks again only after `metadata_max_age_ms`. An answer that came while the
        choice was being made may pass for known although nothing of it was assigned; and the same
        topics again must be assigned again.
        """
        cluster = self.kafka._cluster
        self.kafka._coordinator._metadata_snapshot = {}
        try:
            await cluster.refresh_metadata()
        finally:
            cluster.request_update()

    def _heard_of(self, _cluster: Any) -> None:
        """Metadata came; where topics were chosen without a group, kafka-python assigns what is new
        in them when all have been told.
        """
        if self.subscription.subscription:
            self.partition_fetcher._manager.call_soon(self.wakeup.set)

    def choose_nothing(self) -> None:
        """Forget topics and partitions that were chosen without a group."""
        self.kafka.unsubscribe()

    # assignment (under `lock`)

    def assigned(self) -> set[TopicPartition]:
        """What is assigned now."""
        assigned: set[TopicPartition] = self.subscription.assigned_partitions()
        return assigned

    def add(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Fetch these partitions from now on, those without an offset once they are sought. Those
        that are there already are sought to the given offset.
        """
        with self.lock:
            # sets the mode once; changes no assignment afterwards, because the states below are
            # made here
            self.subscription.assign_from_user([])
            for tp, offset in offsets.items():
                state = self.subscription.assignment.setdefault(tp, TopicPartitionState())
                if offset is not None:
                    state.seek(offset)
                state.mark_pending_revocation(False)
            self.fetcher.newcomers(offsets)

    def hold(self, partitions: Iterable[TopicPartition], held: bool = True) -> None:
        """Hand out nothing more of these, and fetch nothing more; with `held` False go on."""
        with self.lock:
            for tp in partitions:
                state = self.subscription.assignment.get(tp)
                if state is not None:
                    state.mark_pending_revocation(held)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions and what is buffered of them."""
        with self.lock:
            gone = {
                tp for tp in partitions if self.subscription.assignment.pop(tp, None) is not None
            }
            self.fetcher.forget(gone)
            topics = {tp.topic for tp in self.subscription.assignment}
            cluster = self.kafka._cluster
            # another set: the IO thread may be walking through this one
            cluster._topics = cluster._topics - ({tp.topic for tp in gone} - topics)

    def without_place(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those of these that are assigned, have no position, and none is being looked up."""
        with self.lock:
            states = {tp: self.subscription.assignment.get(tp) for tp in partitions}
            return {tp for tp, s in states.items() if s is not None and s.is_missing_position()}

    def reset(self, partitions: Iterable[TopicPartition]) -> bool:
        """Look up where `auto_offset_reset` begins; False: there is no policy."""
        if self._reset_policy is None:
            return False
        with self.lock:
            for tp in partitions:
                self.subscription.request_offset_reset(tp)
        return True

    def position(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """The next offset to hand out; None while it is being looked up or the partition is not
        assigned.
        """
        with self.lock:
            state = self.subscription.assignment.get(tp)
            return None if state is None else state.position

    def highwater(self, tp: TopicPartition) -> int | None:
        """Offset of the next record that will be written, as of the last fetch. Raises `TypeError`,
        `IllegalStateError` for a partition that is not assigned.
        """
        with self.lock:
            if tp in self.subscription.assignment:
                self.fetcher.update_highwater(tp)
        found = self.kafka.highwater(tp)
        return None if found is None else int(found)

    def put_back(self, tp: TopicPartition, offset: int) -> None:
        """Hand out this partition from `offset` again."""
        with self.lock:
            state = self.subscription.assignment.get(tp)
            if state is not None and state.has_valid_position:
                state.position = OffsetAndMetadata(offset, "", -1)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue at `offset`."""
        with self.lock:
            if tp in self.subscription.assignment:
                self.subscription.seek(tp, offset)
                self.partition_fetcher.validate_soon()

    # fetching (application's thread, not under `lock`)

    def housekeeping(self, manual: bool) -> None:
        """What kafka-python does on every poll besides fetching. Raises errors that an earlier
        offset look-up left (no valid offset and no reset policy ...).
        """
        self.fetcher.report_leaderless()
        self._keep_refreshing()
        if manual:
            self.subscription.reset_missing_positions()
        for task in (self.partition_fetcher.reset_offsets_if_needed(), self._validate()):
            if task is not None:
                task.add_both(lambda _: self.wakeup.set())

    def _keep_refreshing(self) -> None:
        """kafka-python refreshes metadata in a loop, which ends for good on an error that it does
        not expect: of a refresh that somebody else had asked for, or of what it assigns, without a
        group, when topics change.
        """
        loop = self.kafka._cluster._refresh_loop_future
        if loop is not None and loop.failed():
            log.debug(
                "kafka-python's refresh of metadata ended: %r; it begins again", loop.exception
            )
            self.partition_fetcher._manager.call_soon(self._refresh_again_async, loop)

    async def _refresh_again_async(self, ended: Any) -> None:
        cluster = self.kafka._cluster
        if cluster._refresh_loop_future is ended and not cluster.closed:
            cluster._refresh_loop_future = self.partition_fetcher._manager.call_soon(
                cluster._refresh_loop
            )
            cluster.request_update()

    def _validate(self) -> Any:
        self.partition_fetcher.maybe_validate_positions()
        return self.partition_fetcher.validate_offsets_if_needed()

    def wait_ms(self) -> int | None:
        """How long a wait for `wakeup` may be, in ms; None = until it is set."""
        with self.lock:
            if self.partition_fetcher.has_lost_place:
                return 0
            if self.fetcher.waiting_for_broker or not (
                self.subscription.fetchable_partitions() or self.subscription.subscription
            ):
                # topics without a group are assigned by kafka-python, when it knows them
                return None
        return IDLE_RETRY_MS

    def resolve(
        self,
        partitions: Partitions,
        done: Callable[[dict[TopicPartition, int]], None],
        earliest: Collection[TopicPartition] = (),
    ) -> bool:
        """Look up where `auto_offset_reset` begins, and for those in `earliest` the first record;
        `done` gets what was found (nothing on errors), on the IO thread. False: a policy is needed,
        and there is none.
        """
        policy = self._reset_policy
        if policy is None:
            if any(tp not in earliest for tp in partitions):
                return False
            policy = OffsetSpec.EARLIEST
        self.look_up(
            {tp: OffsetSpec.EARLIEST if tp in earliest else policy for tp in partitions},
            done,
            afresh=bool(earliest),
        )
        return True

    def look_up(
        self,
        specs: Mapping[TopicPartition, int],
        done: Callable[[dict[TopicPartition, int]], None],
        afresh: bool = False,
    ) -> None:
        """Ask where logs begin (-2) and end (-1), as `specs` says; `done` gets what was found
        (nothing on errors), on the IO thread. `afresh`: what is known of them may be of a topic
        before.
        """
        try:
            future = self.partition_fetcher._manager.call_soon(
                self.partition_fetcher.look_up_async, specs, self._timeout_ms, afresh
            )
        except RuntimeError as e:  # closed under whoever asks
            self._not_found(len(specs), e)
            return done({})
        future.add_callback(done)

        def failed(error: BaseException) -> None:
            self._not_found(len(specs), error)
            done({})

        future.add_errback(failed)

    def _not_found(self, count: int, error: BaseException) -> None:
        # connections that close under whoever asks are nothing to speak of
        level = logging.DEBUG if self.partition_fetcher._manager.closed else logging.WARNING
        log.log(
            level,
            "looking up the offsets of %d partitions failed: %s; it is tried again",
            count,
            error,
        )

    @property
    def cluster_id(self) -> str:
        """Of which cluster the brokers are; "": they have not said, or have no id."""
        return self.kafka._cluster.cluster_id or ""

    def rebootstrap(self, servers: list[str]) -> bool:
        """Other brokers are registered than those that cannot be reached: begin again with them, in
        the background; False where they are the same. Any thread.
        """
        cluster, manager = self.kafka._cluster, self.kafka._manager
        known = {f"{b.host}:{b.port}" for b in cluster.brokers()}
        if not servers or known.issuperset(servers) or manager.closed:
            return False
        log.warning(
            "none of the brokers %s can be reached: going on with %s", sorted(known), servers
        )
        cluster.config["bootstrap_servers"] = servers
        cluster._bootstrap_brokers = cluster._generate_bootstrap_brokers()
        manager.bootstrap_async(REBOOTSTRAP_MS, True)
        self.fetcher.use_brokers(servers)
        return True

    def close(self) -> None:
        """Close connections and threads."""
        self.fetcher.close_connections()
        self.kafka.close(autocommit=False)
