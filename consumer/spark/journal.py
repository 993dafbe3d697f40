"""What a query did, one JSON object per line in one file for each query, for the audit
(`consumer.spark.audit`): the lines of `consumer.verifiable`, where the records that were handed out
are planned ranges, and committed is what ZooKeeper has of them.

A plan is written down before Spark gets it, so whatever came out of a query is in its journal, also
where its process was killed the moment after. `orders` are the versions of the offsets, which order
the ownerships of a partition.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Collection

from consumer.observer import AssignmentObserver, Observer
from consumer.spark.plan import Plan
from consumer.spark.query_assignment import QueryAssignment
from consumer.verifiable import EventLines, Reporter, named
from zkcoord.core.model import TopicPartition


class QueryJournal:
    """The journal of one query, a new file in `folder`; none where that is "". Called on Spark's
    thread. Raises `OSError`.
    """

    def __init__(self, folder: str) -> None:
        # For the member, which calls it on its thread.
        self.observer: AssignmentObserver = Observer()
        # The file, safe for both threads; None: no journal is kept.
        self._journal: EventLines | None = None
        # Incarnation and number of the plan that was noted as stored last.
        self._stored: tuple[int, int] | None = None
        if folder:
            os.makedirs(folder, exist_ok=True)
            stream = open(  # noqa: SIM115  open until this process ends
                os.path.join(folder, f"spark-{os.getpid()}-{os.urandom(4).hex()}.jsonl"),
                "a",
                encoding="utf-8",
            )
            self._journal = EventLines(stream)
            self.observer = Reporter(self._journal)
            self._journal.write("start", host=platform.node(), pid=os.getpid())

    def planned(self, plan: Plan) -> None:
        """Spark gets this plan now: from here on its records may come out."""
        if self._journal is not None and plan.ranges:
            ranges = {named(r.tp): [[r.start, r.end - 1, r.rows, 0]] for r in plan.ranges if r.rows}
            self._journal.write(
                "records",
                batch=plan.number,
                count=plan.rows,
                ranges=ranges,
                orders={named(r.tp): r.version for r in plan.ranges},
            )

    def stored(self, plan: Plan, assignment: QueryAssignment) -> None:
        """The plan is written and stored, as far as this query still owns it. Once for each
        plan.
        """
        key = (plan.incarnation, plan.number)
        if self._journal is None or key == self._stored:
            return
        self._stored = key
        with assignment.lock:
            offsets = {
                named(r.tp): r.end
                for r in plan.ranges
                if (owned := assignment.owned.get(r.tp)) is not None and owned.position == r.end
            }
        if offsets:
            self._journal.write("committed", batch=plan.number, offsets=offsets)

    def closing(self, lost: Collection[TopicPartition]) -> None:
        """The query leaves the group: nothing is planned any more. `lost`: what it had, where its
        lease has run out: somebody else may have begun since, so this end says nothing of when it
        gave that up.
        """
        if self._journal is not None:
            if lost:
                self.observer.on_lost(lost, "its lease has run out", time.time_ns())
            self._journal.write("closing")
