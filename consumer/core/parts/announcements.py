"""What the fetching side hears of its partitions, and of the group's rebalance.

What changes what may be fetched, or from where, carries a rising assignment epoch: whoever has not
heard of the latest loss has no lease.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.core import messages as msg
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.state import MemberState
from zkcoord.core.model import TopicPartition

from .lease_proofs import LeaseProofs


class Announcements:
    """Messages to the fetching side that follow from what is held."""

    def __init__(
        self, options: MemberOptions, state: MemberState, outbox: Outbox, proofs: LeaseProofs
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.proofs = proofs

    def announce_started(self, now_ms: int) -> None:
        """Report what was started, but not without a lease: an answer that came late may be one of
        a session that is over, and then another owns it by now; nor to an application that closes.
        """
        session = self.state.session
        if not session.unannounced or session.leaving or not self.proofs.holds(now_ms):
            return
        started = {tp: session.held[tp] for tp in sorted(session.unannounced)}
        session.unannounced.clear()
        self.state.assignment_epoch += 1
        for held in started.values():
            held.assignment_epoch = self.state.assignment_epoch
        self.outbox.send(
            msg.Assigned(
                {tp: h.committed for tp, h in started.items() if h.committed is not None},
                self.state.assignment_epoch,
                {tp: held.thread.number for tp, held in started.items() if held.thread.number},
                {tp: held.metadata for tp, held in started.items() if held.metadata},
                tuple(tp for tp, held in started.items() if held.committed is None),
                session.more_to_come,
            )
        )

    def announce_nothing(self) -> None:
        """Report that the group is balanced, and nothing is left for this member."""
        self.state.assignment_epoch += 1
        self.outbox.send(msg.Assigned({}, self.state.assignment_epoch))

    def report_lost(self, partitions: tuple[TopicPartition, ...], reason: str) -> None:
        """From now on nothing may be handed out before this is heard. What was never announced is
        lost in silence.
        """
        session = self.state.session
        announced = tuple(tp for tp in partitions if tp not in session.unannounced)
        session.unannounced.difference_update(partitions)
        if announced:
            self.state.assignment_epoch += 1
            self.state.lost_epoch = self.state.assignment_epoch
            self.outbox.send(msg.Lost(announced, reason, self.state.assignment_epoch))

    def report_stored(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str],
        given: bool = False,
    ) -> None:
        """Offsets that are stored by now, with the metadata beside them, where the fetching side
        wants to hear of them. `given`: the partitions were given up with them.
        """
        if offsets and self.options.tells_stored:
            noted = {tp: metadata[tp] for tp in offsets if metadata.get(tp)}
            self.outbox.send(msg.Stored(offsets, given, noted))

    def seek(self, tp: TopicPartition) -> None:
        """An operator reset the offset of a partition that is held."""
        session = self.state.session
        if tp in session.unannounced:
            return  # it will be announced where it stands now
        self.state.assignment_epoch += 1
        held = session.held[tp]
        held.reset_epoch = self.state.assignment_epoch
        assert held.committed is not None
        self.outbox.send(msg.Seek(tp, held.committed, self.state.assignment_epoch))

    def rebalance_failed(self, message: str) -> None:
        """The coordinator says that the group cannot be rebalanced. Another coordinator, which does
        not know whether that was heard, says it again.
        """
        if not self.state.rebalance_failed:
            self.state.rebalance_failed = True
            self.outbox.notice(msg.NoticeKind.REBALANCE_FAILED, message=message)

    def rebalance_possible(self) -> None:
        """The group is, or will be, rebalanced."""
        if self.state.rebalance_failed:
            self.state.rebalance_failed = False
            self.outbox.notice(msg.NoticeKind.REBALANCE_OVER)
