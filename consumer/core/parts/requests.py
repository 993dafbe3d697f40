"""What a member requests next: one thing at a time, in this order.

Settle a doubt by a synced read; look back at the topics of what was started; read the group where
it is shared; finish when the application closes; prove the membership again where the lease is
over, or where something was started and not announced; learn a new epoch's lease; read the channel;
begin the next command; write what is due in the order in which it became due (the application's
commits, acks); warn when nobody leads; renew the lease.
"""

from __future__ import annotations

from consumer.core import events as ev
from consumer.core.in_progress import (
    CommitIntent,
    DropIntent,
    DueWrite,
    InFlightKind,
    Intent,
    RequestInFlight,
)
from consumer.core.outbox import Outbox
from consumer.core.state import MemberState
from zkcoord.core.value_type import assert_never

from .command_channel import CommandChannel
from .commands import Commands
from .commits import Commits
from .coordinator_watch import CoordinatorWatch
from .doubts import Doubts
from .lease_proofs import LeaseProofs
from .legacy_group import LegacyGroupRules
from .sessions import Sessions
from .starts import Starts


class Requests:
    """The next request, if none is under way and one is due."""

    def __init__(
        self,
        state: MemberState,
        outbox: Outbox,
        proofs: LeaseProofs,
        watch: CoordinatorWatch,
        commits: Commits,
        commands: Commands,
        starts: Starts,
        sessions: Sessions,
        legacy: LegacyGroupRules,
        doubts: Doubts,
        channel: CommandChannel,
    ) -> None:
        self.state = state
        self.outbox = outbox
        self.proofs = proofs
        self.watch = watch
        self.commits = commits
        self.commands = commands
        self.starts = starts
        self.sessions = sessions
        self.legacy = legacy
        self.doubts = doubts
        self.channel = channel

    def advance(self, now_ms: int) -> None:
        """Request what is due."""
        session = self.state.session
        if not self.state.is_member or not session.connected or session.in_flight is not None:
            return
        if session.doubt:
            self.doubts.read_partitions()
        elif session.unproved:
            self.starts.read_topics()
        elif session.group_read_due:
            self.legacy.read_group()
        elif session.leaving:
            self._finish()
        elif session.lapsed:
            # a command may be one to a session that is over, and what was started was not announced
            self._prove_membership()
        elif session.seen_epoch > session.known_epoch:
            session.in_flight = RequestInFlight(InFlightKind.EPOCH, self.outbox.token())
            self.outbox.request(ev.ReadEpoch())
        elif session.channel_read_due:
            self.channel.read()
        else:
            self.channel.begin_next()
            if self.state.is_member:
                self._write_due()
                self._keep_up(now_ms)

    def _finish(self) -> None:
        """The application closes: write its commits, then close the session."""
        session = self.state.session
        while session.in_flight is None:
            commit = self.commits.next_due()
            if commit is None:
                return self.sessions.close("closed by the application")
            session.intents.remove(commit)
            self.commits.write(commit)

    def _write_due(self) -> None:
        session = self.state.session
        while session.intents and session.in_flight is None:
            self._write(session.intents.popleft())

    def _write(self, intent: Intent) -> None:
        match intent:
            case CommitIntent():
                self.commits.write(intent)
            case DropIntent():
                token = self.outbox.token()
                self.state.session.in_flight = RequestInFlight(InFlightKind.DROP, token, intent)
                self.outbox.request(ev.DropOwners(token, (intent.partition,)))
            case DueWrite.ACK:
                self.commands.write_ack()
            case DueWrite.RESUBSCRIBE:
                self.sessions.write_registration()
            case _:
                assert_never(intent)

    def _keep_up(self, now_ms: int) -> None:
        """What an idle member does: see whether somebody leads, and whether there is anything to
        wait for, and renew the lease.
        """
        if self.state.session.in_flight is not None:
            return
        renewal_ms = self.proofs.renewal_due_ms()
        assert renewal_ms is not None
        looks = (self.watch.warning_due_ms(), self.watch.idle_look_due_ms())
        if any(due_ms is not None and now_ms >= due_ms for due_ms in looks):
            self.watch.read_leader()
        elif now_ms >= renewal_ms:
            self._prove_membership()

    def _prove_membership(self) -> None:
        token = self.outbox.token()
        self.state.session.in_flight = RequestInFlight(InFlightKind.RENEW, token)
        self.outbox.request(ev.Store(token, {}))
