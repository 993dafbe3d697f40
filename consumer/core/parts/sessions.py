"""A member's life: sessions, registration, what the application wants, and every way to leave."""

from __future__ import annotations

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.in_progress import CommitIntent, DueWrite, InFlightKind, RequestInFlight
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.phases import Happening, Phase
from consumer.core.state import MemberState
from zkcoord.core.error_codes import FENCED_INSTANCE_ID, EndKind, MembershipEnd
from zkcoord.core.model import Command

from .announcements import Announcements
from .commits import Commits
from .lease_proofs import LeaseProofs

TAKING_PART = (Phase.OPENING, Phase.JOINING, Phase.MEMBER)
"""The phases of a member that is registered, or about to be."""


class Sessions:
    """The phase of a member, and the session and registration that go with it."""

    def __init__(
        self,
        options: MemberOptions,
        state: MemberState,
        outbox: Outbox,
        proofs: LeaseProofs,
        announcements: Announcements,
        commits: Commits,
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.proofs = proofs
        self.announcements = announcements
        self.commits = commits

    # the session

    def opened(self, e: ev.SessionOpened) -> None:
        """A new session is connected: register under its name."""
        state = self.state
        if state.phase is not Phase.OPENING:
            return
        state.move(Happening.OPENED)
        state.begin_session(e.name)
        state.session.connected, state.session.timeout_ms = True, e.timeout_ms
        state.requested = state.wanted
        self._join()

    def suspended(self) -> None:
        """The connection is gone, and what was under way has an unknown outcome."""
        session = self.state.session
        session.connected = False
        if session.in_flight is not None and session.in_flight.intent is not None:
            # it is due again after the doubt is settled
            session.intents.appendleft(session.in_flight.intent)
        session.in_flight = None
        session.doubt = True
        self.commits.fail(msg.CommitOutcome.UNAVAILABLE)
        if session.leaving:
            self.close("closed while ZooKeeper was away")

    def resumed(self) -> None:
        """The same session is connected again."""
        session = self.state.session
        session.connected = True
        if self.state.phase is Phase.JOINING:
            # the first attempt may have happened: what the registration says must not depend on
            # which did
            self._join()
        elif self.state.is_member:
            session.doubt = session.channel_read_due = True
            session.group_read_due = session.shared

    def over(self) -> None:
        """The session is gone for certain, and with it all that was held."""
        state, session, was = self.state, self.state.session, self.state.phase
        if was is Phase.MEMBER:
            self.outbox.notice(msg.NoticeKind.SESSION_LOST, name=session.name)
            state.ended = MembershipEnd(EndKind.SESSION, session.stood_still_ms)
        self.drop_all("the ZooKeeper session is over")
        if was is Phase.MEMBER and session.leaving:
            state.move(Happening.LEAVE)
        state.begin_session("")
        if was in (Phase.IDLE, Phase.PARKED):
            return
        state.move(Happening.OVER)
        if state.phase is Phase.OPENING:
            self.outbox.request(ev.OpenSession(state.rejoin_after_ms))
            state.rejoin_after_ms = 0

    # the registration

    def _join(self) -> None:
        requested = self.state.requested
        self.outbox.request(
            ev.Join(
                self.state.session.name,
                requested.subscription,
                requested.user_data,
                not self.state.registered_before,
                "" if self.state.ended is None else str(self.state.ended),
            )
        )

    def registered(self, e: ev.Registered) -> None:
        """The registration exists, which proves membership for the first time."""
        state, session = self.state, self.state.session
        if state.phase is not Phase.JOINING:
            return
        state.move(Happening.REGISTERED)
        state.registered_before = True
        state.ended = None
        session.incarnation = e.incarnation
        if self.options.idle_look_ms:
            session.idle_look_at_ms = e.now_ms + self.options.idle_look_ms
        self.proofs.begin(e.sent_ms, e.lease_max_ms)
        session.known_epoch = session.seen_epoch = e.epoch
        session.channel_read_due = True
        state.registered = state.requested
        self.resubscribe()
        # what was said of the group was said to an earlier registration
        self.announcements.rebalance_possible()
        self.outbox.notice(msg.NoticeKind.REGISTERED, name=session.name, incarnation=e.incarnation)

    def touched(self) -> None:
        """Somebody did something to the registration's node: it may be gone."""
        if self.state.is_member:
            self.state.session.doubt = True

    def subscribe(self, wanted: msg.Subscribe) -> None:
        """The application's new subscription."""
        state = self.state
        state.wanted = wanted
        if state.phase in (Phase.IDLE, Phase.PARKED, Phase.PARKING):
            self._want_session()
        elif state.is_member:
            self.resubscribe()

    def polled(self) -> None:
        """The application is alive: a member that left because it was not, or may not be, comes
        back.
        """
        if self.state.phase in (Phase.PARKED, Phase.PARKING):
            self._want_session()

    def _want_session(self) -> None:
        self.state.move(Happening.WANTED)
        if self.state.phase is Phase.OPENING:
            self.outbox.request(ev.OpenSession())

    def resubscribe(self) -> None:
        """Write the registration anew where it does not say what the application wants. Due once is
        enough, and no more than that is kept: what is registered by then is the latest wish.
        """
        state, intents = self.state, self.state.session.intents
        if state.wanted != state.registered and DueWrite.RESUBSCRIBE not in intents:
            intents.append(DueWrite.RESUBSCRIBE)

    def write_registration(self) -> None:
        """Write the registration anew, and delete the commands that were for the present one: a
        deadline of theirs must not evict the new one.
        """
        state, session = self.state, self.state.session
        state.requested = state.wanted
        token = self.outbox.token()
        session.in_flight = RequestInFlight(InFlightKind.RESUBSCRIBE, token, DueWrite.RESUBSCRIBE)
        begun = {session.current.command.node} if session.current is not None else set()
        self.outbox.request(
            ev.Resubscribe(
                token,
                session.name,
                state.requested.subscription,
                tuple(sorted(session.pending.keys() | begun)),
                state.requested.user_data,
            )
        )

    # leaving

    def poll_deadline_ms(self) -> int | None:
        """When the application must have polled; None: it need not."""
        limit = self.options.max_poll_interval_ms
        if not limit or self.state.session.leaving or self.state.phase not in TAKING_PART:
            return None
        return self.state.polled_ms + limit + self.options.poll_slack_ms

    def leave_unpolled(self, now_ms: int) -> None:
        """Leave when the application has not polled for too long."""
        deadline_ms = self.poll_deadline_ms()
        if deadline_ms is None or now_ms < deadline_ms:
            return
        self.state.move(Happening.UNPOLLED)
        self.state.ended = MembershipEnd(EndKind.POLL, now_ms - self.state.polled_ms)
        self.drop_all(
            f"the application did not poll for {self.options.max_poll_interval_ms} ms"
            " (max_poll_interval_ms): poll more often, or take fewer records at a time"
            " (max_poll_records)"
        )
        self.outbox.request(ev.CloseSession("the application does not poll"))

    def rejected(self, command: Command) -> None:
        """The coordinator does not admit this member: for good, or for a while that doubles from
        one time to the next.
        """
        if command.fatal:
            code = (
                msg.FailureCode.FENCED_INSTANCE_ID
                if command.code == FENCED_INSTANCE_ID
                else msg.FailureCode.REJECTED
            )
            return self.fail(code, f"{command.code}: {command.message}", command.code)
        state, options = self.state, self.options
        state.move(Happening.SENT_AWAY)
        state.rejoin_after_ms = min(
            options.rejected_backoff_ms << min(state.rejections, 30),
            options.rejected_backoff_max_ms,
        )
        state.rejections += 1
        self.outbox.notice(
            msg.NoticeKind.SENT_AWAY,
            code=command.code,
            message=command.message,
            back_in_ms=state.rejoin_after_ms,
        )
        self.drop_all(command.message)
        self.outbox.request(ev.CloseSession(command.message))

    def fail(self, code: msg.FailureCode, message: str, rejection: str = "") -> None:
        """This member cannot go on. `rejection`: the coordinator's code."""
        if self.state.phase in TAKING_PART:
            self.state.move(Happening.BROKEN)
            self.drop_all(message)
            self.outbox.send(msg.Failed(code, message, rejection))
            self.outbox.request(ev.CloseSession(message))

    def evicted(self, reason: str) -> None:
        """The registration is gone while the session lives: drop everything, close the session (its
        owner nodes vanish with it), come back under a new name, at once or with the next poll.
        """
        if self.state.session.leaving:
            return self.close(reason)
        self.state.move(
            Happening.EVICTED_UNPOLLED if self.options.returns_with_poll else Happening.EVICTED
        )
        self.state.ended = MembershipEnd(EndKind.EVICTED)
        self.outbox.notice(msg.NoticeKind.EVICTED, name=self.state.session.name)
        self.drop_all(reason)
        self.outbox.request(ev.CloseSession(reason))

    def drop_all(self, reason: str) -> None:
        """Everything that is held is lost, and so is the lease."""
        session = self.state.session
        if session.held:
            self.announcements.report_lost(tuple(sorted(session.held)), reason)
        session.held.clear()
        self.proofs.end()
        if session.in_flight is not None and isinstance(session.in_flight.intent, CommitIntent):
            session.intents.appendleft(session.in_flight.intent)
        session.current = session.in_flight = session.release_by_ms = None
        self.commits.fail(msg.CommitOutcome.NO_LONGER_MEMBER)

    def leave(self, close: msg.Close) -> None:
        """The application closes: store its positions, then close the session."""
        session = self.state.session
        if self.state.is_member and session.connected and not session.leaving:
            session.leaving = True
            self.commits.store_positions(close)
        elif not session.leaving:
            self.close("closed by the application")

    def close(self, reason: str) -> None:
        """Leave for good. Owner nodes and registration go with the session."""
        session = self.state.session
        session.leaving = False
        self.state.move(Happening.LEAVE)
        self.commits.fail(msg.CommitOutcome.NO_LONGER_MEMBER)
        session.held.clear()
        self.proofs.end()
        if self.state.phase is Phase.CLOSING:
            self.outbox.request(ev.CloseSession(reason))
