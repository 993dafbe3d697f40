"""The channel: commands as they are read, and the next one to be begun."""

from __future__ import annotations

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.in_progress import (
    CommandInProgress,
    CommandStage,
    InFlightKind,
    RequestInFlight,
)
from consumer.core.outbox import Outbox
from consumer.core.state import MemberState
from zkcoord.core.error_codes import NONE, REBALANCE_FAILED
from zkcoord.core.model import Command, Malformed, Option

from .announcements import Announcements
from .commands import Commands
from .legacy_group import LegacyGroupRules
from .sessions import Sessions
from .starts import Starts


class CommandChannel:
    """Commands in their order, (epoch, sequence): each once, none of an older epoch, and one at a
    time.
    """

    def __init__(
        self,
        state: MemberState,
        outbox: Outbox,
        announcements: Announcements,
        commands: Commands,
        starts: Starts,
        sessions: Sessions,
        legacy: LegacyGroupRules,
    ) -> None:
        self.state = state
        self.outbox = outbox
        self.announcements = announcements
        self.commands = commands
        self.starts = starts
        self.sessions = sessions
        self.legacy = legacy

    def read(self) -> None:
        """Read the whole channel."""
        session = self.state.session
        session.channel_read_due = False
        session.in_flight = RequestInFlight(InFlightKind.CHANNEL, self.outbox.token())
        self.outbox.request(ev.ReadCommands())

    def commands_read(self, e: ev.CommandsRead) -> None:
        """One command, or with `complete` all that there are."""
        session = self.state.session
        if e.complete:
            if session.is_in_flight(InFlightKind.CHANNEL):
                session.in_flight = None
            session.pending.clear()
        for command in e.commands:
            if isinstance(command, Malformed):
                self.outbox.notice(
                    msg.NoticeKind.MALFORMED,
                    what=command.what,
                    name=command.name,
                    reason=command.reason,
                )
            elif command.incarnation == session.incarnation and self.state.is_member:
                session.pending[command.node] = command
                session.seen_epoch = max(session.seen_epoch, command.epoch)

    def command_vanished(self, e: ev.CommandVanished) -> None:
        """A command's node is gone: by our ack, or by somebody who withdrew it."""
        session = self.state.session
        session.pending.pop(e.node, None)
        if (
            session.current is not None
            and session.current.command.node == e.node
            and not session.is_in_flight(InFlightKind.ACK)
        ):
            session.doubt = True

    def begin_next(self) -> None:
        """Begin the next valid command, or the release that comes before every command."""
        session = self.state.session
        if session.current is not None or self.legacy.begin_release():
            return
        for node in [
            n
            for n, c in session.pending.items()
            if c.epoch < session.seen_epoch or (c.epoch, c.seq) <= session.done
        ]:
            del session.pending[node]
        if not session.pending:
            return
        command = min(session.pending.values(), key=lambda c: (c.epoch, c.seq))
        if command.option is Option.START and self.legacy.needs_group_read(command):
            return self.legacy.read_group()
        del session.pending[command.node]
        self._begin(command)

    def _begin(self, command: Command) -> None:
        session = self.state.session
        self.outbox.notice(
            msg.NoticeKind.COMMAND,
            option=command.option.value,
            epoch=command.epoch,
            seq=command.seq,
            generation=command.generation,
            partitions=len(command.partitions),
        )
        if command.user_data is not None:
            self.outbox.send(msg.UserData(command.user_data))
        if command.option is Option.REJECT:
            return self.sessions.rejected(command)
        if command.option is Option.NOTIFY:
            self._report_group(command)
            session.current = CommandInProgress(command, CommandStage.READY)
            return self.commands.ready(session.current)
        self.announcements.rebalance_possible()
        session.idle_look_at_ms = None
        if command.option is Option.START:
            session.current = CommandInProgress(command, CommandStage.READING)
            if self.legacy.is_outdated(command):
                return self.commands.void(session.current)
            return self.starts.read_partitions(session.current)
        session.current = CommandInProgress(command, CommandStage.REVOKING)
        mine = tuple(tp for tp in sorted(command.stop) if tp in session.held)
        if not mine:
            return self.commands.ready(session.current)
        return self.commands.revoke(mine, in_part=True)

    def _report_group(self, command: Command) -> None:
        if command.code == REBALANCE_FAILED:
            self.announcements.rebalance_failed(command.message)
        elif command.code == NONE:
            self.announcements.rebalance_possible()
