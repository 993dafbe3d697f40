"""Storing the offsets of what a streaming query has durably written.

What counts as this query's doing, when a plan is found to be written and its offsets are not
stored: the stored offset is still the plan's start, and its version is the plan's (owned all the
time) or the next (this member's own start since then, and nobody else's). Any other pair means that
somebody else has owned the partition or reset it: then nothing is stored, and what was written of
it since may come again, one planned batch at most.
"""

from __future__ import annotations

import logging

from consumer.core import messages as msg
from consumer.core.messages import CommitOutcome
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
        ask again.
        """
        with self._assignment.lock:
            if not any(tp in self._assignment.owned for tp in self._assignment.uncommitted):
                return True
        for _ in range(COMMIT_TRIES_MAX):
            snapshot = self._session.snapshot()
            if snapshot is None:
                return False
            with self._assignment.lock:
                wanted = self._to_commit(snapshot)
                assignment_epoch = self._assignment.assignment_epoch
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

    def _to_commit(self, snapshot: QuerySnapshot) -> dict[TopicPartition, int]:
        """Next offsets to be stored; forgets what has been stored already, or is not this query's
        to store any more. Under the lock.
        """
        assignment = self._assignment
        wanted: dict[TopicPartition, int] = {}
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
                log.warning(
                    "offsets %d to %d of %s were written by this query, and meanwhile somebody else"
                    " has owned it or set it to %d: it goes on there, so some of them may be read"
                    " again",
                    r.start,
                    r.end - 1,
                    tp,
                    offset,
                )
            del assignment.uncommitted[tp]
        return wanted
