"""Whether a coordinator leads, as far as this member sees: a warning when nobody does for long."""

from __future__ import annotations

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.in_progress import InFlightKind, RequestInFlight
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.state import MemberState


class CoordinatorWatch:
    """Since when nobody leads, and whether that was reported."""

    def __init__(self, options: MemberOptions, state: MemberState, outbox: Outbox) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox

    def seen(self, e: ev.LeaderSeen) -> None:
        """The leader's node came or went, or was read."""
        session = self.state.session
        if session.is_in_flight(InFlightKind.LEADER):
            session.in_flight = None
            if not e.alive and not session.leader_warned:
                session.leader_warned = True
                self.outbox.notice(msg.NoticeKind.NO_COORDINATOR, group_state=e.group_state)
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

    def read_leader(self) -> None:
        """Read whether somebody leads by now."""
        token = self.outbox.token()
        self.state.session.in_flight = RequestInFlight(InFlightKind.LEADER, token)
        self.outbox.request(ev.ReadLeader())
