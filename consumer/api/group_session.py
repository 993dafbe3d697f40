"""A consumer's membership in its group: joining, leaving, messages both ways, and the lease."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata

from consumer.api.lifetime import CloseArguments, Lifetime, open_consumers
from consumer.api.setup import ConsumerSetup
from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.assignment.state import AssignmentState, model_offsets
from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.core.phases import Phase
from consumer.errors import AgentFailedError
from consumer.fetch.record_iterator import TakenRecords
from consumer.member.broker_discovery import BrokerReader
from consumer.member.log import MemberLog
from consumer.member.metrics import RebalanceMetrics
from consumer.member.thread import MemberThread
from consumer.offsets.by_hand import HandAssignment
from consumer.offsets.committer import Committer
from consumer.offsets.dual_store import DualOffsetStore
from consumer.offsets.initial_offsets import InitialOffsets, unset_because
from consumer.offsets.kafka_store import KafkaOffsetStore
from consumer.offsets.store import OffsetStore, OffsetStoreLinks, ZooKeeperOffsetStore
from consumer.options import POLLED_EVERY_MS
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.listeners import Listeners
from zkcoord.zk.port import GetData

log = logging.getLogger(__name__)

STORES: dict[str, Callable[[OffsetStoreLinks], OffsetStore]] = {
    "zookeeper": ZooKeeperOffsetStore,
    "dual": DualOffsetStore,
    "kafka": KafkaOffsetStore,
}


class JoinedMember:
    """One membership, from when the group is joined until it is left: the member's thread, where
    its offsets are stored, and the way of its messages to the consumer's parts.
    """

    def __init__(
        self,
        setup: ConsumerSetup,
        state: AssignmentState,
        committer: Committer,
        lease_holds: Callable[[], bool],
    ) -> None:
        assert setup.zk is not None and setup.group_offsets is not None
        self._setup = setup
        self._state = state
        self._committer = committer
        # An evicted member comes back when it hears of a poll. Set by the member's thread, cleared
        # by the one that polls.
        self.waits_for_poll = False
        self.store = STORES[setup.config["offsets_storage"]](
            OffsetStoreLinks(
                setup.group_offsets, state, lease_holds, self._send_to_thread, self._deliver
            )
        )
        self._initial_offsets = InitialOffsets(
            state,
            state.data,
            setup.group_offsets,
            str(setup.config["initial_offsets"]),
            setup.config["offsets_storage"] == "kafka",
        )
        self.thread = MemberThread(setup.options, setup.zk, self.store.receive, self._thread_ended)

    def start(self) -> None:
        """Start the member's thread, and what watches the group in Kafka."""
        self.thread.start()
        self.store.begin()
        self._initial_offsets.check_group()

    def _send_to_thread(self, message: msg.FromFetcher) -> None:
        self.thread.send(message)

    def _deliver(self, message: msg.ToFetcher) -> None:
        """A message of the member to the part that it is for. On the member's thread, or on the IO
        thread where Kafka answers a commit.
        """
        state = self._state
        with state.lock:
            if state.closed:
                return
            match message:
                case msg.CommitDone():
                    self._committer.answered(message)
                case msg.Notice(kind=msg.NoticeKind.REGISTERED):
                    self._setup.named_brokers.look(self.thread, state.fail)
                    state.receive(message)
                case msg.Notice(kind=msg.NoticeKind.EVICTED):
                    state.receive(message)
                    self.waits_for_poll = True
                    self._setup.data.wakeup.set()
                case msg.Resolve():
                    self._initial_offsets.resolve(message)
                case msg.Stored() | msg.Starting():
                    pass  # for a store that mirrors, which has taken it; for a gateway
                case _:
                    state.receive(message)

    def _thread_ended(self, broken: BaseException | None) -> None:
        """On the member's thread, when it ends."""
        if broken is not None:
            self._state.fail(
                AgentFailedError(
                    f"the thread that keeps the membership ended: {broken!r}; the log has the"
                    " details, restart the consumer"
                )
            )
        self._committer.abandon()


class GroupSession:
    """A consumer in its group, joined or not, until it is closed. `in_hand_ms` is for how long
    records in hand may delay a revocation; it is cut to half of `rebalance_timeout_ms`, after which
    the coordinator would evict this member.
    """

    def __init__(
        self,
        setup: ConsumerSetup,
        records: TakenRecords,
        listener: RebalanceListenerInvoker,
        in_hand_ms: int = 0,
    ) -> None:
        self._setup = setup
        self._records = records
        self._listener = listener
        self.in_hand_ms = min(in_hand_ms, setup.options.rebalance_timeout_ms // 2)
        self.alone = setup.alone
        self.lifetime = Lifetime(
            self._end, setup.data.wakeup.set, setup.config["commit_timeout_ms"]
        )
        # The membership; None while the group is not joined. Changed by the thread that polls, read
        # by any: read it once.
        self.joined: JoinedMember | None = None
        # Partitions that the application has assigned itself in the group's name; None while there
        # are none. As above.
        self.by_hand: HandAssignment | None = None
        # When a poll was last reported to the member (`boot_ms`).
        self._polled_ms = 0
        # Each membership has its own state, committer and metrics; before the first, and after one
        # that was left, they are those of nobody.
        self.rebalances = self._new_metrics()
        self.state = self._new_state()
        self.committer = self._new_committer()

    def _new_metrics(self) -> RebalanceMetrics:
        return RebalanceMetrics(
            self._setup.observer, str(self._setup.config["group_id"]), self._read_cause
        )

    def _new_state(self) -> AssignmentState:
        config = self._setup.config
        return AssignmentState(
            self._setup.data,
            self._records,
            self._listener,
            self.send,
            bool(config["enable_auto_commit"]),
            MemberLog(config, self._setup.layout, self.rebalances),
            bool(config["raise_on_rebalance_failure"]),
            self.in_hand_ms,
            config["rebalance_protocol"] == "eager",
            unset_because(
                str(config["initial_offsets"]), str(config["offsets_storage"]) == "kafka"
            ),
        )

    def _new_committer(self) -> Committer:
        config = self._setup.config
        automatic = config["enable_auto_commit"] and not self.alone
        return Committer(
            self.state,
            config["default_offset_commit_callback"],
            int(config["auto_commit_interval_ms"]) if automatic else None,
            int(config["commit_timeout_ms"]),
        )

    def send(self, message: msg.FromFetcher) -> None:
        """Send to the member; a commit of nobody is answered at once. Any thread."""
        joined, by_hand = self.joined, self.by_hand
        if joined is not None:
            joined.store.send(message)
        elif isinstance(message, msg.Commit) and by_hand is not None:
            by_hand.commit(message)
        elif isinstance(message, msg.Commit):
            self.committer.answered(
                msg.CommitDone(
                    message.token, CommitOutcome.NO_LONGER_MEMBER, tuple(message.offsets)
                )
            )

    def join(self) -> None:
        """Begin a membership, unless there is one."""
        if self.joined is None:
            self.rebalances = self._new_metrics()
            self.state = self._new_state()
            self.committer = self._new_committer()
            joined = JoinedMember(self._setup, self.state, self.committer, self.holds_lease)
            self.joined = joined
            joined.start()
            self._polled_ms = boot_ms()

    def assigned_by_hand(self) -> None:
        """The application has assigned partitions itself, in the group's name: they begin where the
        group stands.
        """
        setup, config = self._setup, self._setup.config
        if self.by_hand is None:
            assert setup.zk is not None and setup.group_offsets is not None
            self.state = self._new_state()
            self.committer = self._new_committer()
            self.by_hand = HandAssignment(
                setup.zk,
                setup.layout,
                setup.group_offsets,
                setup.named_brokers,
                setup.data,
                self.state,
                str(config["offsets_storage"]),
                str(config["initial_offsets"]),
                self.committer.answered,
            )
            self.committer.unanswered = self.by_hand.unanswered
        self.by_hand.place()

    def _leave_by_hand(self, by_hand: HandAssignment, autocommit: bool, timeout_ms: float) -> None:
        """Store the last positions, where commits are automatic, within `timeout_ms`."""
        deadline = time.monotonic() + timeout_ms / 1000
        if autocommit and self._setup.config["enable_auto_commit"]:
            try:
                self.committer.wait(None, timeout_ms)
            except KafkaError as e:
                log.warning("the last positions are not stored: %s", e)
        by_hand.close(max(0.0, deadline - time.monotonic()))
        self.by_hand = None
        self.state.closed = True
        self.committer.abandon()
        self.committer.run_callbacks()

    def leave(self, autocommit: bool, timeout_ms: float) -> None:
        """End the membership, if there is one: report it to the application, to the group and to
        ZooKeeper, in this order, within `timeout_ms`.
        """
        if self.by_hand is not None:
            self._leave_by_hand(self.by_hand, autocommit, timeout_ms)
        joined = self.joined
        if joined is None:
            return
        positions, assignment_epoch = self.state.leave()
        automatic = autocommit and self._setup.config["enable_auto_commit"]
        deadline = time.monotonic() + timeout_ms / 1000
        # the other half is for ZooKeeper
        joined.store.leave(positions if automatic else {}, timeout_ms / 2_000)
        joined.thread.close(
            msg.Close(model_offsets(positions) if automatic else {}, assignment_epoch),
            max(0.0, deadline - time.monotonic()),
        )
        joined.store.close(max(0.0, deadline - time.monotonic()))
        self.joined = None
        self.committer.abandon()
        self.committer.run_callbacks()

    @property
    def over(self) -> bool:
        """Whether there is nothing (more) to close."""
        return self.lifetime.over

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and close all connections, within `timeout_ms` (default
        `commit_timeout_ms`); once, and not in a forked child. See `Lifetime` for when.
        """
        self.lifetime.close(autocommit, timeout_ms)

    def _end(self, arguments: CloseArguments) -> None:
        autocommit, timeout_ms = arguments
        limit_ms = self._setup.config["commit_timeout_ms"] if timeout_ms is None else timeout_ms
        try:
            self.leave(autocommit, limit_ms)
        finally:
            with self.state.lock:
                self._records.put_back()  # a closed consumer yields nothing more
            self._setup.data.close()
            # not before: the interpreter's exit waits for another thread that is at it
            open_consumers.discard(self)

    # the lease

    def lease_holds(self) -> bool:
        """As `leased_in`, for what is owned now. The thread that polls, under the lock."""
        state = self.state
        if self.alone or self.by_hand is not None or boot_ms() < state.lease_seen_ms:
            return True
        joined = self.joined
        state.lease_seen_ms = (
            0 if joined is None else joined.thread.lease_until(state.assignment_epoch)
        )
        return boot_ms() < state.lease_seen_ms

    def leased_in(self, assignment_epoch: int) -> bool:
        """Whether what was assigned in this epoch may be handed out. Any thread. The clock is read
        last: for whoever stood still before that the answer is no.
        """
        if self.alone or self.by_hand is not None:
            return True
        joined = self.joined
        until = 0 if joined is None else joined.thread.lease_until(assignment_epoch)
        return boot_ms() < until

    def holds_lease(self) -> bool:
        """Whether offsets stored by this member may be mirrored. Any thread."""
        return self.leased_in(self.state.assignment_epoch)

    # what is reported and read

    def report_poll(self, now_ms: int) -> int:
        """Report to the member that the application polls, at most every `POLLED_EVERY_MS`, and at
        once where it waits for that. When (`boot_ms`) the next report is due.
        """
        joined = self.joined
        waits = joined is not None and joined.waits_for_poll
        if waits or now_ms - self._polled_ms >= POLLED_EVERY_MS:
            if joined is not None:
                joined.waits_for_poll = False
            self._warn_if_late(now_ms - self._polled_ms)
            self._polled_ms = now_ms
            self.send(msg.Polled())
        return self._polled_ms + POLLED_EVERY_MS

    def _warn_if_late(self, since_ms: int) -> None:
        limit, joined = self._setup.config["max_poll_interval_ms"], self.joined
        if (
            since_ms > limit
            and joined is not None
            and joined.thread.metrics().phase in (Phase.PARKING, Phase.PARKED)
        ):
            log.warning(
                "poll was called %.1f s after the one before, and max_poll_interval_ms is %d: this"
                " member has left group %s meanwhile, and joins again. Poll more often, take fewer"
                " records at a time (max_poll_records), or raise max_poll_interval_ms",
                since_ms / 1000,
                limit,
                self._setup.config["group_id"],
            )

    @property
    def member_name(self) -> str:
        """The consumer id of the present session; "" before the first."""
        joined = self.joined
        return "" if joined is None else joined.thread.member_name

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The member now, in kafka-python's form."""
        config, joined = self._setup.config, self.joined
        group, instance = config["group_id"], config["group_instance_id"]
        if joined is None:
            return ConsumerGroupMetadata(group, group_instance_id=instance)
        return joined.thread.metrics().described(group, instance)

    def read_brokers(self) -> None:
        """Read in ZooKeeper where the brokers are, in the background, and go on with them."""
        joined, setup = self.joined, self._setup

        def go_on(found: Listeners) -> None:
            wanted = setup.config["bootstrap_listener"]
            setup.data.rebootstrap(
                [
                    server
                    for name, servers in found.items()
                    if name == wanted or wanted not in found
                    for server in servers
                ]
            )

        if joined is not None:
            joined.thread.with_port(
                lambda port: BrokerReader(
                    port, setup.layout, setup.config["security_protocol"], go_on
                ).begin()
            )

    def _read_cause(self) -> None:
        """Read in the group's node why it was rebalanced, in the background."""
        joined = self.joined
        if joined is not None:
            rebalances = self.rebalances
            path = self._setup.layout.group(self._setup.config["group_id"])
            joined.thread.with_port(lambda port: port.read([GetData(path)], rebalances.answered))

    def figures(self) -> dict[str, Any] | None:
        """As metrics; None while the group is not joined."""
        joined = self.joined
        if joined is None:
            return None
        now = boot_ms()
        until = joined.thread.lease_until(self.state.assignment_epoch)
        return {
            "assigned-partitions": len(self._setup.data.assigned()),
            "lease-left-ms": max(0, until - now),
            "rebalance-failure": self.state.rebalance_failure,
            **joined.thread.metrics().figures(now),
            **self.rebalances.figures(),
            **joined.store.figures(),
        }
