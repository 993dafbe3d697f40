"""`KafkaConsumer`: kafka-python's consumer, with its group coordinated over ZooKeeper.

Three threads meet here. The application's thread runs every public method and all callbacks. The
agent's thread (`consumer.member.thread`) keeps the membership; what it has to say takes effect at
once in `consumer.assignment.state`. kafka-python's IO thread (`consumer.fetch.fetcher`) fetches.
The application's thread waits for one thing only, the fetching side's bell, and never without a
limit.

One turn of poll: the records handed out before are processed; errors, callbacks and answers that
wait for this thread; a commit that is due; then, under the lock and only while the lease holds,
records; then the next fetch. Iteration is the same with a cursor over what one turn gave: per
record it costs a lock, a clock and a step through a list.
"""

from __future__ import annotations

import atexit
import logging
import math
import time
import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from kafka.errors import IllegalStateError
from kafka.structs import TopicPartition

from consumer.api.offsets import BrokerMethods, OffsetMethods
from consumer.api.subscriptions import SubscriptionMethods
from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.assignment.state import AssignmentState, model_offsets
from consumer.assignment.subscription import subscription_of
from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.core.phases import Phase
from consumer.errors import (
    AgentFailedError,
    ConsumerOptionError,
    ForkedConsumerError,
    MembershipError,
)
from consumer.fetch.choose_client import choose_client
from consumer.fetch.record_iterator import RecordIterator
from consumer.member.broker_discovery import BrokerDiscovery, BrokerReader, find_brokers
from consumer.member.log import MemberLog
from consumer.member.metrics import RebalanceMetrics
from consumer.member.thread import MemberThread, agent_options, zk_options
from consumer.observer import AssignmentObserver, Observer
from consumer.offsets.committer import Committer
from consumer.offsets.dual_store import DualOffsetStore
from consumer.offsets.initial_offsets import InitialOffsets
from consumer.offsets.kafka_store import KafkaOffsetStore
from consumer.offsets.store import ZooKeeperOffsetStore
from consumer.options import DEFAULT_CONFIG, POLLED_EVERY_MS, ConsumerOptions, check
from zkcoord.core.model import Subscription
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.fork_guard import CurrentProcess
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import GetData
from zkcoord.znodes.paths import layout_named

STORAGES: dict[str, type[ZooKeeperOffsetStore]] = {
    "zookeeper": ZooKeeperOffsetStore,
    "dual": DualOffsetStore,
    "kafka": KafkaOffsetStore,
}
log = logging.getLogger(__name__)

EXIT_TIMEOUT_MS = 2_000


class KafkaConsumer(SubscriptionMethods, BrokerMethods, OffsetMethods):
    """A consumer of Kafka topics in a group that zkcoord coordinates. Options: `DEFAULT_CONFIG`; an
    unknown or contradictory one raises `ConsumerOptionError`.

    Use one consumer from one thread. It belongs to the process that made it: in a forked child
    every method raises `ForkedConsumerError`.
    """

    DEFAULT_CONFIG = DEFAULT_CONFIG
    MEMBERSHIP: type[AssignmentState] = AssignmentState

    def __init__(self, *topics: str, **configs: Any) -> None:
        options = check(configs)
        _check_names(options, topics)
        self._pid = CurrentProcess.pid
        self._closed = False
        self._options = options
        self._zk: ZkOptions | None = (
            zk_options(options) if options.config["zookeeper_connect"] is not None else None
        )
        self._layout = layout_named(options.config["zookeeper_layout"])
        self.config: dict[str, Any] = dict(options.config)
        self._observer: AssignmentObserver = options.config["observer"] or Observer()
        if self.config["bootstrap_servers"] is None:
            assert self._zk is not None
            self.config["bootstrap_servers"] = find_brokers(
                self._zk,
                self._layout,
                self.config["security_protocol"],
                (self._zk.connect_timeout_ms + self._zk.session_timeout_ms) / 1000,
            )
        self._data = choose_client(
            self.config["data_client"],
            options.kafka_configs(self.config["bootstrap_servers"]),
            self._observer.on_first_fetch,
        )
        self._data.fetcher.max_buffered_bytes = self.config["max_buffered_bytes"]
        self.config["api_version"] = self._data.kafka.config["api_version"]
        self._listening = RebalanceListenerInvoker()
        self._cursor = self._new_cursor()
        self._follower = BrokerDiscovery(self._look_for_brokers)
        self._group_offsets = (
            None
            if options.config["group_id"] is None
            else self._data.group_offsets(options.config["group_id"])
        )
        if (
            self._group_offsets is not None
            and not self._group_offsets.supported
            and self.config["offsets_storage"] != "zookeeper"
        ):
            self._data.close()
            raise ConsumerOptionError(
                f"offsets_storage is {self.config['offsets_storage']!r}, and brokers before 0.9"
                " keep no offsets of groups: leave it out"
            )
        self._wanted: Subscription | None = None
        self._agent: MemberThread | None = None
        self._storage: ZooKeeperOffsetStore | None = None
        self._member = self._new_member()
        self._polled_ms = 0
        self._duty_ms: float = 0
        _open_consumers.add(self)
        if topics:
            self._subscribe_first(topics)

    def _subscribe_first(self, topics: tuple[str, ...]) -> None:
        try:
            self.subscribe(topics)
        except BaseException:
            self.close()
            raise

    # membership

    def _new_cursor(self) -> RecordIterator:
        return RecordIterator(self._data)

    def _new_member(self) -> AssignmentState:
        self._last_rebalance = RebalanceMetrics(
            self._observer, str(self.config["group_id"]), self._ask_cause
        )
        member = self.MEMBERSHIP(
            self._data,
            self._cursor,
            self._listening,
            self._tell,
            bool(self.config["enable_auto_commit"]),
            MemberLog(self.config, self._layout, self._last_rebalance),
            bool(self.config["raise_on_rebalance_failure"]),
        )
        automatic = self.config["enable_auto_commit"] and self.config["group_id"] is not None
        self._committer = Committer(
            member,
            self.config["default_offset_commit_callback"],
            int(self.config["auto_commit_interval_ms"]) if automatic else None,
            int(self.config["commit_timeout_ms"]),
        )
        return member

    def _make_agent(
        self,
        options: ConsumerOptions,
        zk: ZkOptions,
        to_fetcher: Callable[[msg.ToFetcher], None],
        on_end: Callable[[BaseException | None], None],
    ) -> MemberThread:
        return MemberThread(options, zk, to_fetcher, on_end)

    def _tell(self, message: msg.FromFetcher) -> None:
        if self._agent is not None and self._storage is not None:
            self._storage.tell(message)
        elif isinstance(message, msg.Commit):
            self._member.on_commit_done(
                msg.CommitDone(
                    message.token, CommitOutcome.NO_LONGER_MEMBER, tuple(message.offsets)
                )
            )

    def _join(self) -> None:
        if self._agent is None:
            assert self._zk is not None and self._group_offsets is not None
            self._member = self._new_member()
            self._storage = STORAGES[self.config["offsets_storage"]](
                self._group_offsets, self._member, self._leased
            )
            self._agent = self._make_agent(
                self._options,
                self._zk,
                self._storage.receive,
                partial(_agent_ended, self._member, self._committer),
            )
            self._storage.to_agent = self._agent.tell
            beginning = InitialOffsets(
                self._member,
                self._group_offsets,
                str(self.config["initial_offsets"]),
                self.config["offsets_storage"] == "kafka",
            )
            self._agent.start()
            self._storage.begin()
            beginning.look()
            self._polled_ms = boot_ms()

    def _leave(self, autocommit: bool, timeout_ms: float) -> None:
        """Tell the application, the group and ZooKeeper, in this order."""
        agent = self._agent
        if agent is None or self._storage is None:
            return
        positions, era = self._member.let_go()
        automatic = autocommit and self.config["enable_auto_commit"]
        deadline = time.monotonic() + timeout_ms / 1000
        # the other half is for ZooKeeper
        self._storage.leave(positions if automatic else {}, timeout_ms / 2_000)
        agent.close(
            msg.Close(model_offsets(positions) if automatic else {}, era),
            max(0.0, deadline - time.monotonic()),
        )
        self._storage.close(max(0.0, deadline - time.monotonic()))
        self._agent = None
        self._committer.abandon()
        self._committer.run_callbacks()

    # records

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[Any]]:
        """Up to `max_records` (default `max_poll_records`) records by partition, within
        `timeout_ms`; {} when there are none. With `update_offsets` False positions stay where they
        are.

        Raises `ValueError`, `TypeError`, `IllegalStateError` (closed), `MembershipError` (this
        member cannot go on), `ConsumerRebalanceFailedException` (where `raise_on_rebalance_failure`
        asks for it), `ListenerError`, and what kafka-python raises for records.
        """
        self._check()
        if timeout_ms < 0:
            raise ValueError("Timeout must not be negative")
        wanted = self.config["max_poll_records"] if max_records is None else max_records
        if not isinstance(wanted, int):
            raise TypeError("max_records must be an integer")
        if wanted <= 0:
            raise ValueError("max_records must be positive")
        with self._data.lock:
            self._cursor.put_back()
        records = self._turns(time.monotonic() + timeout_ms / 1000, wanted, False)
        if not update_offsets:
            self._take_back(records)
            return records if self._leased_in(self._member.heard_era) else {}
        return records

    def __iter__(self) -> KafkaConsumer:
        return self

    def __next__(self) -> Any:
        """The next record, waiting for it up to `consumer_timeout_ms`. Raises `StopIteration` after
        that and when closed, else what `poll` raises.
        """
        if self._closed:
            raise StopIteration("KafkaConsumer closed")
        record = self._step()
        if record is not None:
            return record
        self._check()
        timeout_ms = self.config["consumer_timeout_ms"]
        deadline = math.inf if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
        while True:
            self._turns(deadline, self.config["max_poll_records"], True)
            record = self._step()
            if record is not None:
                return record
            if self._closed or time.monotonic() >= deadline:
                raise StopIteration

    def _step(self) -> Any:
        """The next record of the cursor, if it may be handed out and nothing else is to be done
        first.
        """
        member = self._member
        with self._data.lock:
            if (
                member.tasks
                or member.failure is not None
                or member.unraised is not None
                or self._pid != CurrentProcess.pid
            ):
                return None
            now = boot_ms()
            if now >= self._duty_ms or (now >= member.lease_seen_ms and not self._lease_holds()):
                return None
            record = self._cursor.next()
            if record is not None:
                member.handed_out = self._cursor.owner
            return record

    def _turns(
        self, deadline: float, max_records: int, iterating: bool
    ) -> dict[TopicPartition, list[Any]]:
        data = self._data
        self._member.processed()
        while True:
            data.bell.clear()
            self._duties()
            if self._closed:
                return {}
            if iterating and self._cursor.positions() and self._lease_holds():
                return {}
            data.housekeeping(self._alone)
            records, enough = self._take(max_records, iterating)
            if records and self._may_be_handed_out(records, enough, iterating):
                return records
            if not enough and not self._member.tasks:
                data.fetcher.send_fetches()
            if time.monotonic() >= deadline:
                return {}
            self._wait(deadline)

    def _take(
        self, max_records: int, iterating: bool
    ) -> tuple[dict[TopicPartition, list[Any]], bool]:
        """Records, under the lock and only while the lease holds; and whether nothing more should
        be fetched now.
        """
        member, data = self._member, self._data
        with data.lock:
            if member.tasks or not self._lease_holds():
                self._cursor.put_back()
                return {}, True
            member.heard_era = member.era
            records, enough = data.fetcher.take(max_records)
            if iterating:
                self._cursor.fill(records)
            else:
                member.handed_out = records
            return records, enough

    def _may_be_handed_out(
        self, records: dict[TopicPartition, list[Any]], enough: bool, iterating: bool
    ) -> bool:
        """The last thing that a poll does: ask for more, and then look at the lease with nothing
        behind it, no lock and no system call, because wherever this thread waits its process may
        stand still for as long as it takes others to begin. Records that may not be handed out any
        more are put back, and so are all where asking fails. (What is iterated over is looked at
        record by record.)
        """
        member, held = self._member, iterating
        try:
            if not enough:
                self._data.fetcher.fetch_soon()
            held = iterating or self._leased_in(member.heard_era)
        finally:
            if not held:
                self._take_back(records)
                member.handed_out = ()
        return held

    def _take_back(self, records: dict[TopicPartition, list[Any]]) -> None:
        """They come again, but for those of partitions that were lost since they were taken: these
        stand, if they are back, where their last owner got to.
        """
        with self._data.lock:
            for tp in records.keys() - self._member.lost_of(records).keys():
                self._data.put_back(tp, records[tp][0].offset)

    def _lease_holds(self) -> bool:
        """As `_leased_in`, for what is owned now."""
        member = self._member
        if self._alone or boot_ms() < member.lease_seen_ms:
            return True
        member.lease_seen_ms = 0 if self._agent is None else self._agent.lease_until(member.era)
        return boot_ms() < member.lease_seen_ms

    def _leased_in(self, era: int) -> bool:
        """May what was assigned in `era` be handed out? Any thread. The clock is read last: whoever
        stood still before that is told so.
        """
        if self._alone:
            return True
        until = 0 if self._agent is None else self._agent.lease_until(era)
        return boot_ms() < until

    def _leased(self) -> bool:
        """May what this member has stored be said elsewhere? Any thread."""
        return self._leased_in(self._member.era)

    def _duties(self) -> None:
        """What is due on the application's thread before anything is handed out."""
        member = self._member
        member.run_tasks()
        member.raise_error()
        self._listening.raise_error()
        self._committer.run_callbacks()
        now = boot_ms()
        if now - self._polled_ms >= POLLED_EVERY_MS:
            self._warn_if_late(now - self._polled_ms)
            self._polled_ms = now
            self._tell(msg.Polled())
        self._committer.automatic(now)
        due = self._committer.due_ms
        self._duty_ms = min(self._polled_ms + POLLED_EVERY_MS, math.inf if due is None else due)

    def _warn_if_late(self, since_ms: int) -> None:
        limit = self.config["max_poll_interval_ms"]
        if (
            since_ms > limit
            and self._agent is not None
            and self._agent.standing().phase in (Phase.PARKING, Phase.PARKED)
        ):
            log.warning(
                "poll was called %.1f s after the one before, and max_poll_interval_ms is %d: this"
                " member has left group %s meanwhile, and joins again. Poll more often, take fewer"
                " records at a time (max_poll_records), or raise max_poll_interval_ms",
                since_ms / 1000,
                limit,
                self.config["group_id"],
            )

    def _wait(self, deadline: float) -> None:
        limit = self._data.wait_ms()
        self._follower.note(limit is not None)
        waits = [deadline - time.monotonic(), self.config["max_poll_interval_ms"] / 3_000] + (
            [] if limit is None else [limit / 1000]
        )
        if self._committer.due_ms is not None:
            waits.append((self._committer.due_ms - boot_ms()) / 1000)
        shortest = min(waits)
        if shortest > 0:
            self._data.bell.wait(shortest)

    def _look_for_brokers(self) -> None:
        if self._agent is not None:
            protocol = self.config["security_protocol"]
            self._agent.with_port(
                lambda port: BrokerReader(
                    port, self._layout, protocol, self._data.rebootstrap
                ).begin()
            )

    def _ask_cause(self) -> None:
        if self._agent is not None:
            last, path = self._last_rebalance, self._layout.group(self.config["group_id"])
            self._agent.with_port(lambda port: port.read([GetData(path)], last.answered))

    def metrics(self, raw: bool = False) -> Any:
        """kafka-python's metrics by group and name, and zkcoord's under "zkcoord"; `raw` gives
        kafka-python's objects.
        """
        self._check()
        found = self._data.kafka.metrics(raw)
        if not raw and found is not None and self._agent is not None:
            now = boot_ms()
            found["zkcoord"] = {
                "assigned-partitions": len(self._data.assigned()),
                "lease-left-ms": max(0, self._agent.lease_until(self._member.era) - now),
                "rebalance-failure": self._member.rebalance_failure,
                **self._agent.standing().figures(now),
                **self._last_rebalance.figures(),
                **({} if self._storage is None else self._storage.figures()),
            }
        return found

    # the end

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and close all connections, within `timeout_ms` (default
        `commit_timeout_ms`). Closing twice is closing once; in a forked child nothing happens.
        """
        if self._closed or self._pid != CurrentProcess.pid:
            return
        _open_consumers.discard(self)
        try:
            self._leave(
                autocommit, self.config["commit_timeout_ms"] if timeout_ms is None else timeout_ms
            )
        finally:
            self._closed = True
            self._data.close()

    def __enter__(self) -> KafkaConsumer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close(autocommit=exc_type is None)

    def _check(self) -> None:
        if self._pid != CurrentProcess.pid:
            raise ForkedConsumerError(
                "this consumer was made before a fork: make a new one in the child process"
            )
        if self._closed:
            raise IllegalStateError("KafkaConsumer is closed")


def _check_names(options: ConsumerOptions, topics: tuple[str, ...]) -> None:
    """What can be refused is refused before anything is opened."""
    if topics:
        subscription_of(topics, None)
    if options.config["group_id"] is not None:
        agent_options(options)


def _agent_ended(
    member: AssignmentState, committer: Committer, failure: BaseException | None
) -> None:
    """On the agent's thread, when it ends."""
    if failure is not None:
        member.fail(
            AgentFailedError(
                f"the thread that keeps the membership ended: {failure!r}; the log has the details,"
                " restart the consumer"
            )
        )
    committer.abandon()


_open_consumers: weakref.WeakSet[KafkaConsumer] = weakref.WeakSet()


def _close_all() -> None:
    """At the interpreter's exit: leave cleanly, so that nobody waits for a session timeout."""
    for consumer in list(_open_consumers):
        try:
            consumer.close(timeout_ms=EXIT_TIMEOUT_MS)
        except (MembershipError, OSError, RuntimeError) as e:
            log.debug("closing at exit: %s", e)


atexit.register(_close_all)
