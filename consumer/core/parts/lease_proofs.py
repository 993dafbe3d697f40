"""The lease as the member's own thread knows it: every multi that happened proves membership, from
the moment it was sent.
"""

from __future__ import annotations

from consumer.core import messages as msg
from consumer.core.events import NobodyServes
from consumer.core.lease import Lease
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.state import MemberState


class LeaseProofs:
    """Proofs of membership, and the lease that follows from the latest one."""

    def __init__(self, options: MemberOptions, state: MemberState, outbox: Outbox) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox

    @property
    def lease_ms(self) -> int:
        """How long a proof of membership is good for."""
        session = self.state.session
        limit_ms = session.lease_max_ms or self.options.lease_default_ms
        return min(session.timeout_ms * 2 // 3, limit_ms)

    @property
    def until_ms(self) -> int:
        """The end of the lease as it is within this step (0: none). Other threads read what was
        published.
        """
        proof_ms = self.state.session.proof_ms
        return 0 if proof_ms is None else proof_ms + self.lease_ms

    def published(self) -> Lease:
        """The lease that other threads may read from now on."""
        return Lease(self.until_ms, self.state.lost_epoch)

    def holds(self, now_ms: int) -> bool:
        """Whether there is a lease now."""
        return now_ms < self.until_ms

    def renewal_due_ms(self) -> int | None:
        """When an idle member has to prove its membership again; None: it has no lease."""
        proof_ms = self.state.session.proof_ms
        return None if proof_ms is None else proof_ms + self.lease_ms // 3

    def begin(self, sent_ms: int, lease_max_ms: int) -> None:
        """The registration proves membership for the first time."""
        self.state.session.proof_ms = sent_ms
        self.limit(lease_max_ms)

    def limit(self, lease_max_ms: int) -> None:
        """The epoch node's limit of a lease, ms; 0: it says none."""
        self.state.session.lease_max_ms = lease_max_ms

    def prove(self, now_ms: int, sent_ms: int) -> None:
        """A multi that was sent at `sent_ms` has happened."""
        session = self.state.session
        assert session.proof_ms is not None
        session.proof_ms = max(session.proof_ms, sent_ms)
        if (session.lapsed or session.failsafe) and self.holds(now_ms):
            session.lapsed = session.failsafe = False
            self.outbox.notice(msg.NoticeKind.LEASE_BACK)

    def end(self) -> None:
        """No right to anything any more."""
        self.state.session.proof_ms = None

    def report_lapse(self, now_ms: int) -> None:
        """Say once that the lease ran out."""
        session = self.state.session
        if session.proof_ms is not None and not session.lapsed and not self.holds(now_ms):
            session.lapsed = True
            self.outbox.notice(msg.NoticeKind.LEASE_LAPSED, held=len(session.held))

    def nobody_serves(self, event: NobodyServes) -> None:
        """As good as a proof of membership while the lease lasts: until then the session cannot
        have ended, and without a quorum nobody's does. A lease that is over comes back with
        ZooKeeper only. Old consumers promise nothing of the kind, so it is none in a shared group.
        """
        session = self.state.session
        if not self._may_prolong(event.now_ms):
            return
        assert session.proof_ms is not None
        session.proof_ms = max(session.proof_ms, event.at_ms)
        if not session.failsafe:
            session.failsafe = True
            self.outbox.notice(msg.NoticeKind.FAILSAFE, held=len(session.held))

    def _may_prolong(self, now_ms: int) -> bool:
        session = self.state.session
        return (
            self.options.failsafe
            and not session.shared
            and not session.connected
            and not session.lapsed
            and self.holds(now_ms)
        )
