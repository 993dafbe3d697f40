"""The plans of a streaming query: which offsets the next batch has, with the fence of now.

A plan is only made while the lease holds. A process that was stopped plans nothing before it has
proved its membership again; what it had planned is then judged like the plan of a process that is
gone (`consumer.spark.plan_recovery`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping

from consumer.core import messages as msg
from consumer.spark.decode.errors import DataLossError
from consumer.spark.end_offsets import EndOffsets
from consumer.spark.plan import PARTITIONS_PER_PLAN_MAX, Plan, PlannedRange, plan
from consumer.spark.query_commits import QueryCommits
from consumer.spark.query_session import QuerySession, QuerySnapshot
from zkcoord.core.model import TopicPartition

log = logging.getLogger(__name__)


class QueryPlanner:
    """Makes plans of what is owned and has records. Called on Spark's thread only, which alone
    touches its fields.
    """

    def __init__(self, session: QuerySession, ends: EndOffsets, commits: QueryCommits) -> None:
        self._session = session
        self._options = session.options
        self._assignment = session.assignment
        self._ends = ends
        self._commits = commits
        # The plan that Spark has, or may have, with the fence that this member gave it.
        self.running: Plan | None = None
        # Incarnation and number of that plan in Spark's log; another's after a crash.
        self.running_key: tuple[int, int] | None = None
        # The offsets that `Trigger.AvailableNow` reads up to; None: it is another trigger.
        self.targets: Mapping[TopicPartition, int] | None = None
        # Since when records may wait for more of them (`time.monotonic`, s).
        self._waiting_since = time.monotonic()

    def confirmed(self, logged: Plan) -> Plan | None:
        """The plan that Spark's log has as `logged`, if this process made it, and still owns all
        that is in it; else None.
        """
        if (
            self.running is None
            or self.running_key != (logged.incarnation, logged.number)
            or not self._session.leased()
        ):
            return None
        with self._assignment.lock:
            whole = all(
                (owned := self._assignment.owned.get(r.tp)) is not None and owned.in_flight == r
                for r in self.running.ranges
            )
        return self.running if whole else None

    def note_written(self, done: Plan) -> None:
        """What was in flight is durably written. What an operator reset meanwhile is owned, and in
        flight no more: it is left out. Under the assignment's lock.
        """
        # the same plan, with the fence that this member gave it
        running = self.running if (done.incarnation, done.number) == self.running_key else None
        for r in (running or done).ranges:
            owned = self._assignment.owned.get(r.tp)
            if (
                running is None
                or owned is None
                or owned.planned != running.number
                or owned.in_flight is not None
            ):
                self._assignment.uncommitted[r.tp] = r
        self._assignment.clear_in_flight()
        self.running = self.running_key = None

    def next_plan(self, number: int, max_rows: int | None) -> Plan | None:
        """The next batch, of what is owned and has records; None when there is nothing to read, or
        this member may not. Raises `DataLossError`.
        """
        if not self._session.leased():
            return None
        with self._assignment.lock:
            outside = self._outside_logs()
        if outside:
            self._skip(outside)
        with self._assignment.lock:
            spans = self._readable(max_rows)
            for tp, (start, end) in spans.items():
                self._assignment.owned[tp].in_flight = PlannedRange(*tp, start, end)
        return (
            self.fence_plan(number, {tp: PlannedRange(*tp, *span) for tp, span in spans.items()})
            if spans
            else None
        )

    def fence_plan(
        self,
        number: int,
        ranges: Mapping[TopicPartition, PlannedRange],
        key: tuple[int, int] | None = None,
    ) -> Plan | None:
        """Make these ranges, which are in flight, a plan with the fence of now: only what is owned
        and stands where its range begins. `key`: of the plan in Spark's log, where it is another.
        """
        self._session.thread.send(msg.ExpectCommit({tp: r.end for tp, r in ranges.items()}))
        snapshot = self._session.snapshot()
        owners = self._owners(ranges, snapshot.session if snapshot is not None else 0)
        with self._assignment.lock:
            fenced = self._fence(number, ranges, snapshot, owners)
            if snapshot is None or not self._session.leased() or not (fenced or key is not None):
                self._assignment.clear_in_flight()
                return None
            self.running = Plan(
                number,
                self._options.group,
                self._options.zookeeper,
                self._session.layout.name,
                snapshot.name,
                snapshot.incarnation,
                snapshot.generation,
                snapshot.epoch,
                tuple(sorted(fenced)),
            )
            self.running_key = (snapshot.incarnation, number) if key is None else key
            self._waiting_since = time.monotonic()
            return self.running

    def _fence(
        self,
        number: int,
        ranges: Mapping[TopicPartition, PlannedRange],
        snapshot: QuerySnapshot | None,
        owners: Mapping[TopicPartition, int],
    ) -> list[PlannedRange]:
        """These ranges with version and owner; what does not stand where its range begins is in
        flight no more. Under the assignment's lock.
        """
        fenced = []
        for tp, r in ranges.items():
            owned = self._assignment.owned.get(tp)
            held = snapshot.held.get(tp) if snapshot is not None else None
            if owned is None:
                continue
            if held is None or held[0] != r.start or owned.position != r.start or tp not in owners:
                owned.in_flight = None
                # ZooKeeper's is the truth
                owned.position = held[0] if held is not None else owned.position
                continue
            owned.in_flight = PlannedRange(*tp, r.start, r.end, held[1], owners[tp])
            owned.planned = number
            fenced.append(owned.in_flight)
        return fenced

    def _owners(
        self, partitions: Collection[TopicPartition], session: int
    ) -> dict[TopicPartition, int]:
        """{partition: czxid of its owner node} of those that are owned here; read once for each
        time that a partition comes.
        """
        with self._assignment.lock:
            known = {
                tp: owned.owner
                for tp in partitions
                if (owned := self._assignment.owned.get(tp)) is not None
            }
        unknown = sorted(tp for tp, owner in known.items() if owner < 0)
        known.update(
            {
                tp: owner.created
                for tp, owner in self._session.read_owners(unknown).items()
                if owner.session == session
            }
        )
        with self._assignment.lock:
            for tp in unknown:
                if tp in self._assignment.owned:
                    self._assignment.owned[tp].owner = known[tp]
        return {tp: owner for tp, owner in known.items() if owner >= 0}

    def _readable(self, max_rows: int | None) -> dict[TopicPartition, tuple[int, int]]:
        """{partition: (start, end)} to read next. Under the assignment's lock."""
        now = time.monotonic()
        known = self._ends.known()
        ready: dict[TopicPartition, tuple[int, int]] = {}
        for tp, owned in self._assignment.owned.items():
            if (
                tp in known
                and not owned.revoking
                and owned.in_flight is None
                and tp not in self._assignment.uncommitted
                and now >= owned.rests_until
            ):
                start, end = owned.position, known[tp][1]
                if self.targets is not None:
                    end = min(end, self.targets.get(tp, 0))
                if end > start:
                    ready[tp] = (start, end)
        if (
            self._options.min_rows is not None
            and self.targets is None
            and now - self._waiting_since < self._options.max_delay_ms / 1000
            and sum(end - start for start, end in ready.values()) < self._options.min_rows
        ):
            return {}
        longest = sorted(ready, key=lambda tp: (self._assignment.owned[tp].planned, tp))[
            :PARTITIONS_PER_PLAN_MAX
        ]
        return plan({tp: ready[tp] for tp in longest}, max_rows)

    def _outside_logs(self) -> dict[TopicPartition, tuple[int, int]]:
        """{partition: (position, where its log goes on)} of those whose position is not in their
        log. Under the assignment's lock. Raises `DataLossError` where failOnDataLoss is set.
        """
        known = self._ends.known()
        found: dict[TopicPartition, tuple[int, int]] = {}
        for tp, owned in self._assignment.owned.items():
            if (
                tp not in known
                or owned.in_flight is not None
                or tp in self._assignment.uncommitted
                or known[tp][0] <= owned.position <= known[tp][1]
            ):
                continue
            (begin, end), at = known[tp], owned.position
            what = (
                f"{tp} stands at offset {at}, and its log has the offsets from {begin} to {end - 1}"
            )
            if self._options.read.fail_on_data_loss:
                raise DataLossError(
                    f"{what}: records are lost for group {self._options.group}. Set failOnDataLoss"
                    " to false to go on with what is there, or set the group's offsets with"
                    " zkcoord offsets reset"
                )
            found[tp] = (at, begin if at < begin else end)
            log.warning("%s: going on at %d, since failOnDataLoss is false", what, found[tp][1])
        return found

    def _skip(self, outside: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Store where it goes on, as if what is gone had been written."""
        snapshot = self._session.snapshot()
        with self._assignment.lock:
            for tp, (start, to) in outside.items():
                if snapshot is not None and tp in snapshot.held:
                    self._assignment.uncommitted[tp] = PlannedRange(
                        *tp, start, to, snapshot.held[tp][1]
                    )
        self._commits.store()
