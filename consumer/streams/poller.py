"""The consumer under message streams: the parts of a `KafkaConsumer`, a thread that polls, and
queues for others to drain.

The polling thread is what the application's thread is to a `KafkaConsumer`: it runs callbacks,
automatic commits and all that waits, and it never works on records, so a slow stream delays neither
the others nor the membership. A revocation is answered at once unless a record of its partitions is
in hand; then it waits until that is processed, `in_hand_ms` at most: after that the partition is
given up before the record, which is then delivered again elsewhere. Meanwhile the other streams go
on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import kafka.errors
from kafka.structs import TopicPartition

from consumer.api.duties import Duties
from consumer.api.group_session import GroupSession
from consumer.api.lifetime import CloseArguments, Lifetime, open_consumers
from consumer.api.setup import set_up
from consumer.api.subscriptions import Subscriptions
from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.errors import (
    AgentFailedError,
    CommitUnavailableError,
    ListenerError,
    MembershipError,
    NotOwnedError,
)
from consumer.interruptions import says_interruptions
from consumer.streams.queues import Line, StreamQueues
from zkcoord.core.model import Subscription
from zkcoord.zk.bell import Bell

log = logging.getLogger(__name__)

ERROR_PAUSE_S = 0.2
CLOSE_MARGIN_S = 1.0


class StreamsConsumer:
    """A consumer with a thread that polls. `limit`: records that a stream's queue may hold before
    its partitions are paused (one turn more, at most). `in_hand_ms`: for how long a record in hand
    may delay a revocation (`GroupSession`). Options and errors are those of `KafkaConsumer`.
    """

    def __init__(self, limit: int, in_hand_ms: int, **configs: Any) -> None:
        setup = set_up(configs)
        # All options by name.
        self.config = setup.config
        self._data = setup.data
        self.queues = StreamQueues(setup.data, limit, self._lease_holds)
        self._listener = RebalanceListenerInvoker()
        self._session = GroupSession(setup, self.queues, self._listener, in_hand_ms)
        self._lifetime = self._session.lifetime
        self._duties = Duties(setup, self._session, self._listener)
        self._subscriptions = Subscriptions(setup, self._session, self._listener, self.queues)
        # The thread that polls; None until `begin`.
        self._thread: threading.Thread | None = None
        # Set when the thread that polls is to end.
        self._stopping = Bell()
        # Of whoever closes: whether the last positions are committed, and its thread, which is not
        # waited for. Set before `_stopping`.
        self._autocommit = True
        self._closer: threading.Thread | None = None
        # Whether what the closer has in hand is processed.
        self._processed = False
        # Of the application's calls, which are many threads'.
        self.lifetime = Lifetime(self._end, self.queues.close, self._limit_s(None) * 1000, True)
        open_consumers.add(self)

    @property
    def closing(self) -> bool:
        """Have the streams ended?"""
        return self._lifetime.closed or self.queues.closed

    @property
    def over(self) -> bool:
        """Whether there is nothing (more) to close."""
        return self._lifetime.over

    @property
    def closed(self) -> bool:
        """Has it left the group?"""
        return self._lifetime.closed

    @property
    def member_name(self) -> str:
        """The consumer id of the present session; "" before the first."""
        return self._session.member_name

    def _lease_holds(self) -> bool:
        return self._session.lease_holds()

    def begin(
        self, wanted: Subscription, streams: Mapping[str, int], listener: Any
    ) -> dict[str, list[Line]]:
        """Join the group, and start to poll. Raises what `KafkaConsumer.subscribe` raises."""
        self._lifetime.check()
        lines = self.queues.open(streams)
        self._subscriptions.choose(wanted, listener)
        self._thread = threading.Thread(
            target=self._run, name=f"streams-{self.config['group_id']}", daemon=True
        )
        self._thread.start()
        return lines

    def owned(self) -> dict[TopicPartition, int]:
        """Number of the stream of each partition that this consumer owns and has seen."""
        with self._data.lock:
            return {tp: self.queues.route[tp].number for tp in self._session.state.announced()}

    def store(self, offsets: Mapping[TopicPartition, Any] | None, retry: bool) -> None:
        """Store what is processed, or these; any thread. Raises what `KafkaConsumer.commit`
        raises.
        """
        stale = self.queues.stale(threading.current_thread()) & set(offsets or ())
        if stale:
            raise NotOwnedError(
                stale,
                "they were given up or lost while this thread was processing a record of them,"
                " which is delivered again, here or elsewhere",
            )
        if retry:
            self._session.committer.wait(offsets, None)
            return
        answered = Bell()
        future = self._session.committer.start(offsets, None)
        future.add_both(lambda _: answered.set())
        if not answered.wait(self.config["commit_timeout_ms"] / 1000):
            raise CommitUnavailableError(
                "ZooKeeper did not answer in time: the commit may not have happened, try it again"
            )
        if future.exception is not None:
            raise future.exception

    # the thread that polls

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            while not self._stopping.is_set():
                self._turn()
        except MembershipError as error:
            failure = error
        except Exception as error:  # thread main
            log.exception(
                "the thread that polls for the streams of group %s ended", self.config["group_id"]
            )
            failure = AgentFailedError(
                f"the thread that polls ended: {error!r}; the log has the details, restart the"
                " consumer"
            )
        self.queues.close(failure)
        in_hand_s = self._session.in_hand_ms / 1000
        self.queues.settle(in_hand_s if failure is None else 0, self._closer)
        self._session.state.release(all_of_them=True)
        self._session.close(self._autocommit)

    def _turn(self) -> None:
        data, state = self._data, self._session.state
        data.wakeup.clear()
        state.processed()
        with data.lock:
            self.queues.awaited = state.release()
        try:
            self._duties.run()
            data.housekeeping(False)
            filled, enough = self._fill()
        except ListenerError:
            return  # logged with its cause; the hand-over happened
        except MembershipError:
            raise
        except kafka.errors.KafkaError as error:
            self.queues.report(error)
            self._stopping.wait(ERROR_PAUSE_S)
            return
        if filled:
            if not enough:
                data.fetcher.fetch_soon()
            return
        if not enough and not state.due_callbacks:
            data.fetcher.send_fetches()
        self._duties.wait(state.callbacks.deadline())

    def _fill(self) -> tuple[bool, bool]:
        """Give the streams what has come; whether anything has, and whether nothing more should be
        fetched now.
        """
        state, data, queues = self._session.state, self._data, self.queues
        with data.lock:
            if (
                not queues.have_room()
                or state.due_callbacks
                or self._stopping.is_set()
                or not self._session.lease_holds()
            ):
                return False, True
            state.seen_assignment_epoch = state.assignment_epoch
            records, enough = data.fetcher.take(self.config["max_poll_records"])
            queues.fill(records)
            return bool(records), enough

    # the end

    @says_interruptions
    def close(
        self, autocommit: bool = True, timeout_ms: float | None = None, processed: bool = False
    ) -> None:
        """End the streams, wait for what other threads have in hand, leave the group; on the
        thread that polls (in a callback) this happens after the callback. With `processed` what the
        calling thread has in hand counts as processed. Closing twice is closing once; see
        `Lifetime` for when.
        """
        if self._lifetime.over:
            return
        self._processed = processed
        if self.lifetime.closed:  # in a callback
            self._join(timeout_ms)
        else:
            self.lifetime.close(autocommit, timeout_ms)

    def _end(self, arguments: CloseArguments) -> None:
        if self._processed:
            self.queues.processed_by(threading.current_thread())
        if self._thread is None:
            self._session.close(*arguments)
            return
        self._autocommit = arguments.autocommit
        self._closer = threading.current_thread()
        self._stopping.set()
        self._data.wakeup.set()
        self._join(arguments.timeout_ms)

    def _join(self, timeout_ms: float | None) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(self._limit_s(timeout_ms))
            if thread.is_alive():
                log.warning(
                    "the streams of group %s did not end in time: a rebalance listener has not"
                    " returned",
                    self.config["group_id"],
                )

    def _limit_s(self, timeout_ms: float | None) -> float:
        limit_ms = self.config["commit_timeout_ms"] if timeout_ms is None else timeout_ms
        return float(limit_ms / 1000 + self._session.in_hand_ms / 1000 + CLOSE_MARGIN_S)
