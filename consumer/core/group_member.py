"""A member of a group, pure: events in, actions out. This is the entry of the consumer's core.

A member's rights are: its registration (proved by every multi that checks it: the lease), and the
owner nodes of its session (what it holds). It has at most one request under way; which one comes
next is `parts/requests.py`'s to decide, and a doubt comes before all else (`parts/doubts.py`).

The parts, each above those that it calls:

* `requests` what is requested next; `answers` what follows from an answer
* `channel` commands in their order; `doubts` the synced read that settles a doubt
* `sessions` session, registration, leaving; `starts` the start of partitions; `legacy` groups
  shared with old consumers; `watch` whether a coordinator leads
* `commands` the command in progress; `commits` what the application stores
* `announcements` what the fetching side hears of its partitions
* `proofs` the lease; `outbox` the actions of the step
"""

from __future__ import annotations

from zkcoord.core.value_type import assert_never

from . import events as ev
from . import messages as msg
from .lease import NO_LEASE, Lease
from .options import MemberOptions
from .outbox import Outbox
from .parts.announcements import Announcements
from .parts.answers import Answers
from .parts.command_channel import CommandChannel
from .parts.commands import Commands
from .parts.commits import Commits
from .parts.coordinator_watch import CoordinatorWatch
from .parts.doubts import Doubts
from .parts.lease_proofs import LeaseProofs
from .parts.legacy_group import LegacyGroupRules
from .parts.requests import Requests
from .parts.sessions import Sessions
from .parts.starts import Starts
from .state import MemberSnapshot, MemberState, SessionState


class GroupMember:
    """One member, for as long as its application lives; sessions and names come and go.

    Everything but `lease` and `snapshot` belongs to the thread that calls `step`. These two are
    immutable values, each assigned once at the end of a step, and another thread may read them at
    any time. That the step's end is early enough: whatever gives a right up (an ack, the close of a
    session, a `Lost`) is an action of the step, and actions are taken after it has returned. So the
    lease that does not allow it any more is seen before anybody else can have it.
    """

    lease: Lease
    """Until when this member may hand out. Any thread."""

    snapshot: MemberSnapshot
    """The member as of the latest step. Any thread."""

    def __init__(self, options: MemberOptions) -> None:
        self.options = options
        self.state = state = MemberState()
        state.begin_session("")
        self.outbox = outbox = Outbox()
        self.proofs = proofs = LeaseProofs(options, state, outbox)
        self.announcements = announcements = Announcements(options, state, outbox, proofs)
        self.watch = CoordinatorWatch(options, state, outbox, proofs, announcements)
        self.commits = commits = Commits(options, state, outbox, proofs, announcements)
        self.commands = commands = Commands(options, state, outbox, announcements)
        self.starts = starts = Starts(options, state, outbox, announcements, commands)
        self.sessions = sessions = Sessions(options, state, outbox, proofs, announcements, commits)
        self.legacy = legacy = LegacyGroupRules(
            options, state, outbox, announcements, commits, commands
        )
        self.doubts = doubts = Doubts(
            options, state, outbox, announcements, commits, commands, sessions, legacy
        )
        self.channel = channel = CommandChannel(
            state, outbox, announcements, commands, starts, sessions, legacy
        )
        self.answers = Answers(state, proofs, commits, commands, starts, sessions, doubts)
        self.requests = Requests(
            state,
            outbox,
            proofs,
            self.watch,
            commits,
            commands,
            starts,
            sessions,
            legacy,
            doubts,
            channel,
        )
        self.lease = NO_LEASE
        self.snapshot = MemberSnapshot.of(state)

    @property
    def session(self) -> SessionState:
        """The present session. Only for the thread that calls `step`."""
        return self.state.session

    def step(self, event: ev.MemberEvent) -> list[ev.MemberAction]:
        """One event in, actions out, to be taken in order."""
        actions = self.outbox.begin_step()
        self._was_due(event.now_ms)
        self._handle(event)
        self.announcements.announce_started(event.now_ms)
        self.proofs.report_lapse(event.now_ms)
        self.legacy.release_overdue(event.now_ms)
        self.requests.advance(event.now_ms)
        self.lease = self.proofs.published()
        self.snapshot = MemberSnapshot.of(self.state)
        return actions

    def _was_due(self, now_ms: int) -> None:
        """A step that comes later than it was due says how long this thread stood still; of no
        interest any more once membership was proved by what was sent after that.
        """
        session, due_ms = self.session, self.next_wake_ms()
        if session.proof_ms is not None and session.proof_ms >= session.stood_until_ms:
            session.stood_still_ms = 0
        if due_ms is not None and now_ms - due_ms > session.stood_still_ms:
            session.stood_still_ms, session.stood_until_ms = now_ms - due_ms, now_ms

    def next_wake_ms(self) -> int | None:
        """When a `MemberTick` may have something to do; None = only after an event."""
        session = self.session
        times = [self.sessions.poll_deadline_ms()]
        if session.proof_ms is not None:
            if session.connected and session.in_flight is None:
                times += [
                    self.proofs.renewal_due_ms(),
                    self.watch.warning_due_ms(),
                    self.watch.idle_look_due_ms(),
                ]
            times.append(self.legacy.release_deadline_ms())
            if not session.lapsed:
                times.append(self.proofs.until_ms)
            if session.current is not None:
                times.append(session.current.resolve_again_ms)
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _handle(self, event: ev.MemberEvent) -> None:
        match event:
            case ev.FromApplication():
                self._hear(event.now_ms, event.message)
            case ev.MemberTick():
                self.starts.resolve_overdue(event.now_ms)
                self.sessions.leave_unpolled(event.now_ms)
            case (
                ev.SessionOpened()
                | ev.SessionSuspended()
                | ev.SessionResumed()
                | ev.SessionOver()
                | ev.JoinFailed()
                | ev.Registered()
                | ev.NobodyServes()
            ):
                self._meet(event)
            case _:
                self._read(event)

    def _meet(self, event: ev.SessionEvent) -> None:
        """What became of the session or the registration."""
        match event:
            case ev.SessionOpened():
                self.sessions.opened(event)
            case ev.SessionSuspended():
                self.sessions.suspended()
            case ev.SessionResumed():
                self.sessions.resumed()
            case ev.SessionOver():
                self.sessions.over()
            case ev.JoinFailed():
                self.sessions.fail(event.code, event.message)
            case ev.Registered():
                self.sessions.registered(event)
            case ev.NobodyServes():
                self.proofs.nobody_serves(event)
            case _:
                assert_never(event)

    def _read(self, event: ev.NodeEvent) -> None:
        """What was read, how a write ended, and hints that something may have changed."""
        match event:
            case ev.EpochRead():
                self.answers.epoch_read(event)
            case ev.PartitionsRead():
                self.answers.partitions_read(event)
            case ev.Wrote():
                self.answers.wrote(event)
            case ev.CommandsRead():
                self.channel.commands_read(event)
            case ev.CommandVanished():
                self.channel.command_vanished(event)
            case ev.RegistrationTouched():
                self.sessions.touched()
            case ev.LeaderSeen():
                self.watch.seen(event)
            case ev.ModeRead():
                self.legacy.mode_read(event)
            case ev.LegacyGroupTouched():
                self.legacy.touched()
            case ev.LegacyGroupRead():
                self.legacy.group_read(event)
            case _:
                assert_never(event)

    def _hear(self, now_ms: int, message: msg.FromFetcher) -> None:
        """What the application said."""
        match message:
            case msg.Commit():
                self.commits.request(now_ms, message)
            case msg.Revoked():
                self.commands.revoked(message)
            case msg.Resolved():
                self.starts.resolved(now_ms, message)
            case msg.GiveUp():
                self.sessions.fail(message.code, message.message)
            case msg.Close():
                self.sessions.leave(message)
            case msg.ExpectCommit():
                self.commits.expect(message)
            case msg.Subscribe():
                self.state.polled_ms = now_ms
                self.sessions.subscribe(message)
            case msg.Polled():
                self.state.polled_ms = now_ms
                self.sessions.polled()
            case _:
                assert_never(message)
