"""A member whose group is shared with old consumers: what it does beside the rest.

Old consumers compute the whole group's assignment by themselves whenever the registrations or their
topics change, and take what it gives them; who still holds such a partition some seconds later
makes them give up. So when the registrations change (by name and transaction: a rescue, made and
gone in one, changes nothing), or the partitions of a subscribed topic, this member lets go of all
that it holds, without waiting for anybody: the application is asked, as at a stop, and what it has
not given up after `release_ms` is taken from it, so that nothing of it is handed out any more, and
its owner nodes are deleted. What the group is assigned next is the coordinator's to decide: a start
that it decided from other registrations than those that are there is not carried out.

Old consumers write offsets without any condition, also those who own nothing any more. So in such a
group an offset that somebody else wrote is no operator's reset: ours is written again.
"""

from __future__ import annotations

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.in_progress import (
    CommandInProgress,
    CommandStage,
    DropIntent,
    InFlightKind,
    RequestInFlight,
)
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.owned_partitions import OwnedPartition, OwnedStep
from consumer.core.state import MemberState
from zkcoord.core.model import Command, GroupMode, Malformed, Option, TopicPartition

from .announcements import Announcements
from .commands import Commands
from .commits import Commits


class LegacyGroupRules:
    """Whether the group is shared, and the release of all that is held when old consumers move."""

    def __init__(
        self,
        options: MemberOptions,
        state: MemberState,
        outbox: Outbox,
        announcements: Announcements,
        commits: Commits,
        commands: Commands,
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.announcements = announcements
        self.commits = commits
        self.commands = commands

    def mode_read(self, e: ev.ModeRead) -> None:
        """Whether the group is shared, by its mode node."""
        session = self.state.session
        if not self.state.is_member or isinstance(e.mode, Malformed):
            return
        kind = e.mode.kind if e.mode is not None else GroupMode.COORDINATED
        shared = kind is not GroupMode.COORDINATED
        if shared is not session.shared:
            self.outbox.notice(msg.NoticeKind.GROUP_MODE, mode=kind.value)
        session.shared = session.group_read_due = shared
        if not shared:
            session.group_seen = None

    def touched(self) -> None:
        """A registration or a subscribed topic may have changed."""
        session = self.state.session
        session.group_read_due = session.shared

    def read_group(self) -> None:
        """Read registrations and topics."""
        session = self.state.session
        session.group_read_due = False
        token = self.outbox.token()
        session.in_flight = RequestInFlight(InFlightKind.LEGACY_GROUP, token)
        self.outbox.request(ev.ReadLegacyGroup(token, self.state.requested.subscription))

    def group_read(self, e: ev.LegacyGroupRead) -> None:
        """Registrations and topics as they are: release everything where they changed."""
        session = self.state.session
        if session.in_flight is None or session.in_flight.token != e.token:
            return
        session.in_flight = None
        if not session.shared:
            return  # it was until a moment ago
        before, session.group_seen = session.group_seen, (e.seen, e.topics)
        if before is not None and before != session.group_seen:
            self._release_all(e.now_ms)

    def _release_all(self, now_ms: int) -> None:
        """The old consumers move: everything is to be given up, and nothing more is started."""
        session = self.state.session
        current = session.current
        if current is not None and current.command.option is Option.START:
            self.commands.void(current)
        if session.held and session.release_by_ms is None:
            session.release_by_ms = now_ms + self.options.release_ms
            self.outbox.notice(msg.NoticeKind.RELEASING, partitions=len(session.held))

    def needs_group_read(self, command: Command) -> bool:
        """Whether the registrations must be read before this start is begun: those that it was
        decided from must be those that are there. True once for each start.
        """
        session = self.state.session
        if not session.shared or session.start_checked == command.node:
            return False
        session.start_checked = command.node
        return True

    def is_outdated(self, start: Command) -> bool:
        """Whether a start was decided from other registrations than those that are there (they were
        just read). One that is refused again and again is believed: a reader may differ.
        """
        session = self.state.session
        seen = session.group_seen  # none where the group is not shared
        if not start.seen or seen is None or start.seen == seen[0]:
            session.starts_refused = 0
            return False
        session.starts_refused += 1
        return session.starts_refused <= self.options.refused_starts_max

    def begin_release(self) -> bool:
        """Begin to stop what is held, which nobody commanded; False where nothing is left."""
        state, session = self.state, self.state.session
        if session.release_by_ms is None:
            return False
        mine = tuple(sorted(session.held))[: self.options.release_partitions_max]
        if not mine:
            session.release_by_ms = None
            return False
        session.current = CommandInProgress(
            Command(
                session.name, session.incarnation, Option.STOP, 0, 0, state.generation, stop=mine
            ),
            CommandStage.REVOKING,
        )
        self.commands.revoke(mine, in_part=False)
        return True

    def release_deadline_ms(self) -> int | None:
        """When everything is taken from the application; None: it is not to be. A release whose
        write is under way is as good as done.
        """
        session = self.state.session
        return None if session.is_in_flight(InFlightKind.ACK) else session.release_by_ms

    def release_overdue(self, now_ms: int) -> None:
        """The application did not let go in time: its partitions are lost."""
        session = self.state.session
        deadline_ms = self.release_deadline_ms()
        if deadline_ms is None or now_ms < deadline_ms:
            return
        session.release_by_ms = None
        lost = tuple(sorted(session.held))
        current = session.current
        if lost:
            self.announcements.report_lost(
                lost,
                "old consumers wait for these partitions, and they were not given up within"
                f" {self.options.release_ms} ms: process fewer records at a time"
                " (max_poll_records)",
            )
        session.held.clear()
        session.intents.extend(DropIntent(tp) for tp in lost)
        if current is not None and not current.command.node:
            self.commands.drop()
        elif current is not None:
            self.commands.ready(current)

    def overwrite_foreign(
        self, tp: TopicPartition, held: OwnedPartition, ours: int, metadata: str
    ) -> None:
        """Somebody else wrote the offset of a partition of ours: an old consumer that owned it
        before. Ours counts.
        """
        held.reset = False
        assert held.committed is not None
        self.outbox.notice(
            msg.NoticeKind.FOREIGN_OFFSET, partition=str(tp), found=held.committed, ours=ours
        )
        if held.step is OwnedStep.ACTIVE:
            self.commits.store_again(tp, ours, metadata)
