"""Whether a coordinator leads, as far as this member sees: a warning when nobody does for long.
And whether it has balanced the group without anything for this member, which no command says.
"""

from __future__ import annotations

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.in_progress import InFlightKind, RequestInFlight
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.state import MemberState
from zkcoord.core.model import GroupState

from .announcements import Announcements
from .lease_proofs import LeaseProofs


class CoordinatorWatch:
    """Since when nobody leads, and whether that was reported; whether there is nothing to wait
    for.
    """

    def __init__(
        self,
        options: MemberOptions,
        state: MemberState,
        outbox: Outbox,
        proofs: LeaseProofs,
        announcements: Announcements,
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.proofs = proofs
        self.announcements = announcements

    def seen(self, e: ev.LeaderSeen) -> None:
        """The leader's node came or went, or was read."""
        session = self.state.session
        if session.is_in_flight(InFlightKind.LEADER):
            session.in_flight = None
            if not e.alive and self.warning_due_ms() is not None:
                session.leader_warned = True
                self.outbox.notice(msg.NoticeKind.NO_COORDINATOR, group_state=e.group_state)
            self._looked(e)
        if e.alive:
            if session.leader_warned:
                self.outbox.notice(msg.NoticeKind.COORDINATOR_BACK)
            session.leader_gone_ms, session.leader_warned = None, False
        elif session.leader_gone_ms is None:
            session.leader_gone_ms = e.now_ms

    def warning_due_ms(self) -> int | None:
        """When to read whether somebody leads by now; None: never."""
        session = self.state.session
        if session.leader_gone_ms is None or session.leader_warned:
            return None
        return session.leader_gone_ms + self.options.coordinator_warning_ms

    def idle_look_due_ms(self) -> int | None:
        """When to look whether the group is balanced without this member; None: never, or not
        before somebody leads.
        """
        session = self.state.session
        return None if session.leader_gone_ms is not None else session.idle_look_at_ms

    def _looked(self, e: ev.LeaderSeen) -> None:
        """The group as its coordinator reports it. A report may be older than the registration: who
        gets something after all is told so when it comes.
        """
        session, options = self.state.session, self.options
        busy = session.pending or session.leaving
        if session.idle_look_at_ms is None or busy:
            return
        if e.alive and e.group_state == GroupState.STABLE.value and self.proofs.holds(e.now_ms):
            session.idle_look_at_ms = None
            self.announcements.announce_nothing()
            return
        session.idle_looks += 1
        wait_ms = options.idle_look_ms << min(session.idle_looks, 20)
        session.idle_look_at_ms = e.now_ms + min(wait_ms, options.idle_look_max_ms)

    def read_leader(self) -> None:
        """Read whether somebody leads by now."""
        token = self.outbox.token()
        self.state.session.in_flight = RequestInFlight(InFlightKind.LEADER, token)
        self.outbox.request(ev.ReadLeader())
