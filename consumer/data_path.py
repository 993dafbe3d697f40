"""kafka-python's consumer without its group, and the operations on its assignment that a membership needs.

Partitions are added and removed one by one, straight in the subscription's table: kafka-python's `assign` replaces the whole assignment and withdraws holds on what stays. A partition that
stays keeps its state, its buffers and its place in the fetch that is out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import kafka
from kafka.consumer.subscription_state import TopicPartitionState
from kafka.errors import KafkaTimeoutError
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.errors import BrokersUnreachableError
from consumer.fetching import FirstFetch, HandoverFetcher, Partitions

log = logging.getLogger(__name__)

IDLE_RETRY_MS = 100
REBOOTSTRAP_MS = 5_000


class DataPath:
    """kafka-python's consumer without its group: `kafka` is the consumer, `fetcher` ours in it. Everything that reads or changes assignments is done under `lock`."""

    def __init__(self, configs: Mapping[str, Any], on_first_fetch: FirstFetch | None = None) -> None:
        create_topics = bool(configs["allow_auto_create_topics"])
        try:
            self.kafka = kafka.KafkaConsumer(**{**configs, "group_id": None, "group_instance_id": None, "enable_auto_commit": False})
        except KafkaTimeoutError:
            raise BrokersUnreachableError(f"no Kafka broker answers at {_shown(configs['bootstrap_servers'])} within {configs['bootstrap_timeout_ms']} ms: start it, or correct bootstrap_servers "
                                          "(where it is left out, the brokers are those registered in ZooKeeper)") from None
        inner = self.kafka
        inner._cluster.config["allow_auto_create_topics"] = create_topics
        self.subscription = inner._subscription
        self.fetcher = HandoverFetcher(inner._client, inner._subscription, on_first_fetch, **inner.config)
        self.fetcher._sensors = inner._fetcher._sensors
        inner._fetcher = self.fetcher
        self.lock = self.fetcher.lock
        self.bell = self.fetcher.bell
        self._reset_policy = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}.get(inner.config["auto_offset_reset"])
        self._timeout_ms = inner.config["request_timeout_ms"]

    def prepare(self, topics: Collection[str]) -> None:
        """Learn where these topics are, in the background, before anything of them is assigned."""
        if topics:
            self.fetcher._manager.call_soon(self.fetcher.ask_metadata_async, set(topics)).add_errback(lambda e: log.debug("asking for metadata failed: %s", e))

    # assignment (under `lock`)

    def assigned(self) -> set[TopicPartition]:
        """What is assigned now."""
        return self.subscription.assigned_partitions()

    def add(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Fetch these partitions from now on. Those that are there already are sought to the given offset."""
        with self.lock:
            self.subscription.assign_from_user([])  # sets the mode once; changes no assignment afterwards, because the states below are made here
            for tp, offset in offsets.items():
                state = self.subscription.assignment.setdefault(tp, TopicPartitionState())
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
            gone = {tp for tp in partitions if self.subscription.assignment.pop(tp, None) is not None}
            self.fetcher.forget(gone)
            topics = {tp.topic for tp in self.subscription.assignment}
            self.kafka._cluster._topics.difference_update({tp.topic for tp in gone} - topics)

    def position(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """The next offset to hand out; None while it is being looked up or the partition is not assigned."""
        with self.lock:
            state = self.subscription.assignment.get(tp)
            return None if state is None else state.position

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

    # fetching (application's thread, not under `lock`)

    def housekeeping(self, manual: bool) -> None:
        """What kafka-python does on every poll besides fetching. Raises errors that an earlier offset look-up left (no valid offset and no reset policy ...)."""
        if manual:
            self.subscription.reset_missing_positions()
        for task in (self.fetcher.reset_offsets_if_needed(), self._validate()):
            if task is not None:
                task.add_both(lambda _: self.bell.set())

    def _validate(self) -> Any:
        self.fetcher.maybe_validate_positions()
        return self.fetcher.validate_offsets_if_needed()

    def wait_ms(self) -> int | None:
        """How long a wait for the bell may be; None = until it rings."""
        with self.lock:
            if self.fetcher.has_lost_place:
                return 0
            if self.fetcher.waiting_for_broker or not self.subscription.fetchable_partitions():
                return None
        return IDLE_RETRY_MS

    def resolve(self, partitions: Partitions, done: Callable[[dict[TopicPartition, int]], None]) -> bool:
        """Look up where `auto_offset_reset` begins; `done` gets what was found (nothing on errors), on the IO thread. False: there is no policy."""
        if self._reset_policy is None:
            return False
        future = self.fetcher._manager.call_soon(self.fetcher.look_up_async, list(partitions), self._reset_policy, self._timeout_ms)
        future.add_callback(done)
        future.add_errback(lambda e: (log.warning("looking up the offsets of %d partitions failed: %s; it is tried again", len(partitions), e), done({})))
        return True

    def rebootstrap(self, servers: list[str]) -> None:
        """Other brokers are registered than those that cannot be reached: begin again with them, in the background. Any thread."""
        cluster, manager = self.kafka._cluster, self.kafka._manager
        known = {f"{b.host}:{b.port}" for b in cluster.brokers()}
        if not servers or known.issuperset(servers) or manager.closed:
            return
        log.warning("none of the brokers %s can be reached: going on with %s", sorted(known), servers)
        cluster.config["bootstrap_servers"] = servers
        cluster._bootstrap_brokers = cluster._generate_bootstrap_brokers()
        manager.bootstrap_async(REBOOTSTRAP_MS, True)

    def close(self) -> None:
        """Close connections and the IO thread."""
        self.kafka.close(autocommit=False)


def _shown(servers: Any) -> str:
    return servers if isinstance(servers, str) else ", ".join(map(str, servers))
