"""A doubt, and the synced read that settles it.

Doubt is raised by every outcome that is not OK and by a command that vanished. Nothing is concluded
from a command's absence: a stop whose command is gone while the owner node is still ours is
withdrawn (`Resumed`), a start whose owner node turns out to be ours has happened (`Assigned`).
"""

from __future__ import annotations

from consumer.core import events as ev
from consumer.core.in_progress import DropIntent, DueWrite, InFlightKind, RequestInFlight
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.owned_partitions import (
    OwnedPartition,
    OwnedStep,
    OwnershipReading,
    judge,
    judge_owner,
)
from consumer.core.state import MemberState
from consumer.core.topic_incarnations import TopicNote, found_again
from zkcoord.core.model import Option, TopicPartition

from .announcements import Announcements
from .commands import Commands
from .commits import Commits
from .legacy_group import LegacyGroupRules
from .sessions import Sessions


class Doubts:
    """What a synced read says of all that is held."""

    def __init__(
        self,
        options: MemberOptions,
        state: MemberState,
        outbox: Outbox,
        announcements: Announcements,
        commits: Commits,
        commands: Commands,
        sessions: Sessions,
        legacy: LegacyGroupRules,
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.announcements = announcements
        self.commits = commits
        self.commands = commands
        self.sessions = sessions
        self.legacy = legacy

    def read_partitions(self) -> None:
        """Read, after a sync, what the current command and everything that is held look like."""
        session = self.state.session
        current = session.current
        wanted = set(session.held) | {
            i.partition for i in session.intents if isinstance(i, DropIntent)
        }
        node = ""
        topics = {
            tp.topic: owned.note.incarnation
            for tp, owned in session.held.items()
            if owned.version is None and owned.note is not None
        }
        if current is not None:
            wanted.update(current.command.partitions)
            node = current.command.node
            topics |= current.command.incarnations
        token = self.outbox.token()
        session.in_flight = RequestInFlight(InFlightKind.DOUBT, token)
        self.outbox.request(
            ev.ReadPartitions(
                token, tuple(sorted(wanted)), node, True, dict(sorted(topics.items()))
            )
        )

    def settle(self, e: ev.PartitionsRead) -> None:
        """Keep what is ours, drop what is not, and withdraw what was withdrawn."""
        session = self.state.session
        session.doubt = False
        self._settle_held(e)
        for drop in [
            i
            for i in session.intents
            if isinstance(i, DropIntent) and e.holdings[i.partition].whose is not ev.Whose.MINE
        ]:
            # it happened, and the node is another session's by now (version 1 says that a node is
            # one of ours, not whose)
            session.intents.remove(drop)
        assert e.incarnation is not None
        if e.incarnation != session.incarnation:
            self._registered_anew(e.incarnation)
        current = session.current
        if current is None or current.command.option is Option.START:
            return
        if current.command.node and not e.command_there:
            self.commands.withdraw(current)

    def _settle_held(self, e: ev.PartitionsRead) -> None:
        held = self.state.session.held
        known = {tp: owned.committed for tp, owned in held.items()}
        for tp in sorted(held):
            if tp in e.holdings:
                self._settle_one(tp, held[tp], e.holdings[tp])
            if tp in held:
                self._settle_note(tp, held[tp], e)
        self.announcements.report_stored(
            {
                tp: owned.committed
                for tp, owned in sorted(held.items())
                if known[tp] != owned.committed and owned.committed is not None
            },
            metadata={tp: owned.metadata for tp, owned in held.items()},
        )

    def _settle_note(self, tp: TopicPartition, owned: OwnedPartition, e: ev.PartitionsRead) -> None:
        """Nothing is stored of it, and somebody deleted all that was of its topic, or the offsets
        are another topic's by now: it is started anew, like one whose offset was deleted.
        """
        if owned.version is not None or owned.note is None:
            return
        beside = e.beside.get(tp.topic)
        if not isinstance(beside, TopicNote):
            owned.note = None  # it cannot be read: as at a start, that throws nothing away
            return
        owned.note = found_again(owned.note, beside)
        if owned.note is None:
            self._give_back(tp, "the stored offsets of its topic were deleted")

    def _give_back(self, tp: TopicPartition, reason: str) -> None:
        session = self.state.session
        del session.held[tp]
        session.intents.append(DropIntent(tp))
        self.announcements.report_lost((tp,), reason)

    def _registered_anew(self, incarnation: int) -> None:
        """The subscription was changed: commands to the registration before are void."""
        state, session = self.state, self.state.session
        session.incarnation = incarnation
        state.registered = state.requested
        session.channel_read_due = True
        session.discard(DueWrite.RESUBSCRIBE)
        self.sessions.resubscribe()
        if session.current is not None:
            self.commands.withdraw(session.current)

    def _settle_one(
        self, tp: TopicPartition, owned: OwnedPartition, read: ev.PartitionReading
    ) -> None:
        session, ours, metadata = self.state.session, owned.committed, owned.metadata
        reading = judge(owned, read) if self.options.stores_offsets else judge_owner(read)
        if reading is OwnershipReading.RESET and session.shared and ours is not None:
            self.legacy.overwrite_foreign(tp, owned, ours, metadata)
        elif reading is OwnershipReading.RESET:
            owned.value = owned.committed
            self.commits.overrule(tp)
            if owned.step is OwnedStep.ACTIVE:
                owned.reset = False
                self.announcements.seek(tp)
        elif reading is OwnershipReading.LOST:
            del session.held[tp]
            self.announcements.report_lost((tp,), "another member owns it")
        elif reading is OwnershipReading.OFFSET_GONE:
            self._give_back(tp, "its stored offset was deleted")
        elif reading is OwnershipReading.OFFSET_HIDDEN:
            self._give_back(tp, "its stored offset may not be read any more")
