"""Storing the offsets of what a streaming query has durably written.

What counts as this query's doing, when a plan is found to be written and its offsets are not
stored: the stored offset is still the plan's start, and its version is the plan's (owned all the
time) or the next (this member's own start since then, and nobody else's). Any other pair means that
somebody else has owned the partition or reset it: then nothing is stored, and what was written of
it since may come again, one planned batch at most.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
from consumer.spark.decode.errors import DataLossError
from consumer.spark.plan import PlannedRange, ranges_named
from consumer.spark.query_session import QuerySession, QuerySnapshot
from zkcoord.core.model import TopicPartition

log = logging.getLogger(__name__)

COMMIT_TRIES_MAX = 5


class QueryCommits:
    """Commits `QueryAssignment.uncommitted` until nothing of it is this query's to store."""

    def __init__(self, session: QuerySession) -> None:
        self._session = session
        self._assignment = session.assignment

    def store(self) -> bool:
        """Store the offsets of all that is written and owned. False: ZooKeeper does not answer now,
        ask again. Raises `DataLossError`.
        """
        with self._assignment.lock:
            if not any(tp in self._assignment.owned for tp in self._assignment.uncommitted):
                return True
        for _ in range(COMMIT_TRIES_MAX):
            snapshot = self._session.snapshot()
            if snapshot is None:
                return False
            with self._assignment.lock:
                wanted, elsewhere = self._to_commit(snapshot)
                assignment_epoch = self._assignment.assignment_epoch
            self._explain(elsewhere)
            if not wanted:
                return True
            answer = self._session.commit(wanted, assignment_epoch)
            if answer is None or answer.outcome in (
                CommitOutcome.UNAVAILABLE,
                CommitOutcome.NO_LONGER_MEMBER,
            ):
                return False
            with self._assignment.lock:
                self._note_answer(wanted, answer)
        return False

    def _note_answer(self, wanted: dict[TopicPartition, int], answer: msg.CommitDone) -> None:
        """Forget what is stored, or must not be stored any more. Under the lock."""
        assignment = self._assignment
        for tp, offset in wanted.items():
            if answer.outcome is CommitOutcome.NOT_OWNED or tp in answer.partitions:
                continue
            assignment.uncommitted.pop(tp, None)
            if tp in assignment.owned:
                assignment.owned[tp].position = offset
        if answer.outcome is CommitOutcome.OVERRULED:
            for tp in answer.partitions:
                assignment.uncommitted.pop(tp, None)

    def _to_commit(
        self, snapshot: QuerySnapshot
    ) -> tuple[dict[TopicPartition, int], dict[PlannedRange, int]]:
        """(next offsets to be stored, stored offsets of what is not this query's to store any
        more); forgets those, and what has been stored already. Under the lock.
        """
        assignment = self._assignment
        wanted: dict[TopicPartition, int] = {}
        elsewhere: dict[PlannedRange, int] = {}
        for tp, r in list(assignment.uncommitted.items()):
            held = snapshot.held.get(tp)
            if held is None or tp not in assignment.owned:
                continue
            offset, version = held
            if offset == r.start and version in (r.version, r.version + 1):
                wanted[tp] = r.end
                continue
            if offset == r.end:
                assignment.owned[tp].position = r.end
            else:
                elsewhere[r] = offset
            del assignment.uncommitted[tp]
        return wanted, elsewhere

    def _explain(self, elsewhere: Mapping[PlannedRange, int]) -> None:
        """Say why these are not stored. Raises `DataLossError` where the group was deleted and
        begins behind what was written, if failOnDataLoss is set.
        """
        if not elsewhere:
            return
        nodes = self._session.read_offsets([r.tp for r in elsewhere])
        options = self._session.options
        for r, offset in elsewhere.items():
            written = f"offsets {r.start} to {r.end - 1} of {r.tp} were written by this query"
            # a node that is younger than the plan's own claim was made after a deletion
            deleted = r.owner >= 0 and nodes.get(r.tp, (0, 0))[1] > r.owner
            if not deleted:
                log.warning(
                    "%s, and meanwhile somebody else has owned it or set it to %d: it goes on"
                    " there, so some of them may be read again, or were",
                    written,
                    offset,
                )
            elif offset < r.end:
                log.warning(
                    "%s, and the group's offsets were deleted since: it begins anew at %d, as"
                    " startingOffsets says, so what was written from there on is read again",
                    written,
                    offset,
                )
            else:
                said = (
                    f"{written}, and the group's offsets were deleted since: it begins anew at"
                    f" {offset}, as startingOffsets says, so the records from {r.end} to"
                    f" {offset - 1} are read by nobody"
                )
                if options.read.fail_on_data_loss:
                    raise DataLossError(
                        f"{said}. Set the group's offset back with zkcoord offsets reset"
                        f" {options.group}, or set failOnDataLoss to false to leave them out"
                    )
                log.warning("%s", said)

    def warn_of_left_topics(self, left: Collection[PlannedRange]) -> None:
        """The query wrote these before, and does not subscribe to their topics any more: nobody
        stores that for it.
        """
        open_ = []
        nodes = self._session.read_offsets([r.tp for r in left]) if left else {}
        for r in left:
            self._assignment.uncommitted.pop(r.tp, None)
            if r.tp in nodes and nodes[r.tp][0] < r.end:
                open_.append(r)
        if open_:
            log.warning(
                "this query wrote %s in its last batch before topics were taken out of its"
                " subscription, and the group does not know: who reads them next reads them again."
                " Store their ends with zkcoord offsets reset %s, or drain_and_stop the query"
                " before its topics change",
                ranges_named(open_),
                self._session.options.group,
            )
