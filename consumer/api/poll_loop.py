"""How records reach the application: `poll`, and iteration.

One turn: the records handed out before are processed; errors, callbacks and answers that wait for
this thread; a commit that is due; then, under the lock and only while the lease holds, records;
then the next fetch. Iteration steps through what one turn gave: per record it costs a lock, a clock
and a step through a list. The application's thread waits for one thing only, the fetching side's
wakeup, and never without a limit.
"""

from __future__ import annotations

import math
import time
from typing import Any

from kafka.structs import TopicPartition

from consumer.api.duties import Duties
from consumer.api.group_session import GroupSession
from consumer.api.setup import ConsumerSetup
from consumer.fetch.record_iterator import RecordIterator
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.fork_guard import CurrentProcess


class PollLoop:
    """One consumer's, on the application's thread."""

    def __init__(
        self,
        setup: ConsumerSetup,
        session: GroupSession,
        duties: Duties,
        records: RecordIterator,
    ) -> None:
        self._config = setup.config
        self._data = setup.data
        self._alone = setup.alone
        self._session = session
        self._lifetime = session.lifetime
        self._pid = session.lifetime.pid
        self._lock = setup.data.lock
        self._duties = duties
        self._records = records
        # When (`boot_ms`) something is due before another record may be handed out.
        self._duty_ms: float = 0

    def poll(
        self, timeout_ms: float, max_records: int | None, update_offsets: bool
    ) -> dict[TopicPartition, list[Any]]:
        """See `KafkaConsumer.poll`."""
        if not timeout_ms >= 0:  # nor NaN, which is no time at all
            raise ValueError("Timeout must not be negative")
        wanted = self._config["max_poll_records"] if max_records is None else max_records
        if not isinstance(wanted, int):
            raise TypeError("max_records must be an integer")
        if wanted <= 0:
            raise ValueError("max_records must be positive")
        with self._data.lock:
            self._records.put_back()
        records = self._turns(time.monotonic() + timeout_ms / 1000, wanted, False)
        if not update_offsets:
            self._take_back(records)
            session = self._session
            if not session.leased_in(session.state.seen_assignment_epoch):
                records = {}
        if not records:
            self._lifetime.woken = False
        return records

    def take_back(self) -> dict[TopicPartition, list[Any]]:
        """What the last turn took does not get to the application: it comes again, and does not
        count as handed out. Gives what is handed out instead: nothing.
        """
        with self._lock:
            given, self._data.fetcher.given = self._data.fetcher.given, {}
            if given:
                self._records.discard(given.keys())
                self._take_back(given)
                self._session.state.handed_out = ()
        return {}

    def take_back_from(self, before: Any) -> None:
        """As `take_back`, of iteration; `before` is what it gave before."""
        self.take_back()
        with self._lock:
            if self._records.given is not before:
                self._records.take_back()

    def next(self) -> Any:
        """The next record, waiting for it. Raises `StopIteration` after `consumer_timeout_ms` and
        when closed.
        """
        timeout_ms = self._config["consumer_timeout_ms"]
        deadline = math.inf if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
        while True:
            self._turns(deadline, self._config["max_poll_records"], True)
            record = self.step()
            if record is not None:
                return record
            if self._is_over(deadline):
                raise StopIteration

    def _is_over(self, deadline: float) -> bool:
        """Whether nothing is waited for any more."""
        lifetime = self._lifetime
        if lifetime.ending or time.monotonic() >= deadline:
            return True
        woken, lifetime.woken = lifetime.woken, False
        return woken

    def step(self) -> Any:
        """The next record that iteration has taken, if it may be handed out and nothing else is to
        be done first.
        """
        state = self._session.state
        with self._lock:
            if (
                state.due_callbacks
                or state.failure is not None
                or state.unraised is not None
                or self._pid != CurrentProcess.pid
            ):
                return None
            now = boot_ms()
            if now >= self._duty_ms or (
                now >= state.lease_seen_ms and not self._session.lease_holds()
            ):
                return None
            record = self._records.next()
            if record is not None:
                state.handed_out = self._records.owner
            return record

    def _turns(
        self, deadline: float, max_records: int, iterating: bool
    ) -> dict[TopicPartition, list[Any]]:
        data = self._data
        self._session.state.processed()
        while True:
            data.wakeup.clear()
            self._duty_ms = self._duties.run()
            if self._lifetime.ending:
                return {}
            if iterating and self._has_records():
                return {}
            data.housekeeping(self._alone)
            records, enough = self._take(max_records, iterating)
            if records and self._may_be_handed_out(records, enough, iterating):
                return records
            if not enough and not self._session.state.due_callbacks:
                data.fetcher.send_fetches()
            if self._lifetime.woken or time.monotonic() >= deadline:
                return {}
            self._duties.wait(deadline)

    def _has_records(self) -> bool:
        """Whether iteration has records that may be handed out. Under the lock: the end of the
        lease that is noted here must not be older than a loss.
        """
        with self._data.lock:
            return bool(self._records.positions()) and self._session.lease_holds()

    def _take(
        self, max_records: int, iterating: bool
    ) -> tuple[dict[TopicPartition, list[Any]], bool]:
        """Records, under the lock and only while the lease holds; and whether nothing more should
        be fetched now.
        """
        state, data = self._session.state, self._data
        with data.lock:
            if state.due_callbacks or not self._session.lease_holds():
                self._records.put_back()
                return {}, True
            state.seen_assignment_epoch = state.assignment_epoch
            records, enough = data.fetcher.take(max_records)
            if iterating:
                self._records.fill(records)
                data.fetcher.given = {}
            else:
                state.handed_out = records
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
        state, held = self._session.state, iterating
        try:
            if not enough:
                self._data.fetcher.fetch_soon()
            held = iterating or self._session.leased_in(state.seen_assignment_epoch)
        finally:
            if not held:
                self._take_back(records)
                state.handed_out = ()
        return held

    def _take_back(self, records: dict[TopicPartition, list[Any]]) -> None:
        """They come again, but for those of partitions that were lost since they were taken: these
        stand, if they are back, where their last owner got to.
        """
        with self._data.lock:
            for tp in records.keys() - self._session.state.lost_of(records).keys():
                self._data.put_back(tp, records[tp][0].offset)
