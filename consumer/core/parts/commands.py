"""A command that is being carried out: what the application gives up for it, its ack, and what
becomes of it when it is withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.in_progress import (
    CommandInProgress,
    CommandStage,
    DueWrite,
    InFlightKind,
    RequestInFlight,
)
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.owned_partitions import OwnedPartition, OwnedStep, first_offset_notes
from consumer.core.state import MemberState
from zkcoord.core.model import Command, TopicPartition

from .announcements import Announcements


class Commands:
    """The command in progress, from the application's answer to the ack."""

    def __init__(
        self,
        options: MemberOptions,
        state: MemberState,
        outbox: Outbox,
        announcements: Announcements,
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.announcements = announcements

    def revoke(self, partitions: tuple[TopicPartition, ...], in_part: bool) -> None:
        """Ask the application to give these up for the current command. `in_part`: it may keep some
        for a later question.
        """
        session = self.state.session
        current = session.current
        assert current is not None
        for tp in partitions:
            session.held[tp].step = OwnedStep.RELEASING
        current.question = self.outbox.token()
        self.outbox.send(msg.Revoke(current.question, partitions, in_part, current.command.more))

    def revoked(self, answer: msg.Revoked) -> None:
        """The application gave up what it was asked for, or a part of it."""
        session = self.state.session
        current = session.current
        if current is None or not current.waits_for(CommandStage.REVOKING, answer.token):
            return
        for tp in current.command.stop:
            held = session.held.get(tp)
            if held is not None and tp not in answer.busy:
                held.step = OwnedStep.RELEASED
                position = answer.positions.get(tp, held.committed)
                held.value = held.committed if held.reset else position
        self.ready(current)

    def ready(self, current: CommandInProgress) -> None:
        """Nothing is missing for the ack: write it when its turn comes."""
        intents = self.state.session.intents
        current.stage, current.resolve_again_ms = CommandStage.READY, None
        if DueWrite.ACK not in intents:
            intents.append(DueWrite.ACK)

    def void(self, current: CommandInProgress) -> None:
        """Carry out a start by starting nothing: the coordinator decides anew from what it sees."""
        current.restart()
        current.void = True
        self.ready(current)

    def drop(self) -> None:
        """There is no current command any more."""
        session = self.state.session
        session.current = None
        session.discard(DueWrite.ACK)

    def withdraw(self, current: CommandInProgress) -> None:
        """The command is gone, or was answered in part. What it wanted stopped, and is still ours,
        goes on.
        """
        held = self.state.session.held
        back = [tp for tp in current.command.stop if tp in held]
        for tp in back:
            held[tp].step = OwnedStep.ACTIVE
        self.drop()
        if back:
            self.outbox.send(msg.Resumed(tuple(back)))
            for tp in back:
                if held[tp].reset:
                    held[tp].reset = False
                    self.announcements.seek(tp)

    def write_ack(self) -> None:
        """Write the ack of a command that is ready."""
        session = self.state.session
        current = session.current
        assert current is not None
        if current.stage is not CommandStage.READY:
            return  # where something begins is asked anew
        stops = []
        for tp in sorted(current.command.stop):
            held = session.held.get(tp)
            if held is not None and held.step is OwnedStep.RELEASED:
                if not self.options.auto_commit:
                    # the application's last commit may have happened after it let go
                    held.value = held.committed
                clears = held.noted and held.value != held.committed
                stops.append(ev.StopPartition(tp, held.value, held.version, clears))
        ack = ev.Ack(
            self.outbox.token(),
            current.command.node,
            tuple(current.starts[tp] for tp in sorted(current.starts)),
            tuple(stops),
            tuple(current.marks.values()),
            first_offset_notes(
                session.held, (stop.partition for stop in stops if stop.offset is not None)
            ),
        )
        if self.options.tells_starts and ack.starts and not current.command.more:
            self.outbox.send(msg.Starting(tuple(start.partition for start in ack.starts)))
        session.in_flight = RequestInFlight(InFlightKind.ACK, ack.token, DueWrite.ACK, ack=ack)
        self.outbox.request(ack)

    def acked(self, ack: ev.Ack, versions: Mapping[TopicPartition, int]) -> None:
        """The ack happened; offset nodes are at these versions."""
        session = self.state.session
        current = session.current
        assert current is not None and current.command.node == ack.command
        metadata = {stop.partition: session.held[stop.partition].metadata for stop in ack.stops}
        for stop in ack.stops:
            del session.held[stop.partition]
            if stop.clears:
                del metadata[stop.partition]
        self.announcements.report_stored(
            {stop.partition: stop.offset for stop in ack.stops if stop.offset is not None},
            metadata,
            given=True,
        )
        for start in ack.starts:
            stored = start.offset is not None
            session.held[start.partition] = OwnedPartition(
                start.thread,
                start.offset,
                versions.get(start.partition, 0) if stored else start.version,
                metadata=start.metadata,
                noted=start.noted,
                note=start.note,
            )
            self.prove_topic_later(current.command, start.partition)
        self.announcements.report_stored(
            {start.partition: start.offset for start in ack.starts if start.offset is not None},
            {start.partition: start.metadata for start in ack.starts},
        )
        self.state.generation = current.command.generation
        session.more_to_come = current.command.more
        if ack.command:
            session.done = (current.command.epoch, current.command.seq)
        self.state.rejections = 0
        self.withdraw(current)
        session.unannounced.update(start.partition for start in ack.starts)

    def prove_topic_later(self, command: Command, tp: TopicPartition) -> None:
        """It was started for the topic that the command means; whether that was still there is to
        be read before anything else is written.
        """
        if tp.topic in command.incarnations:
            self.state.session.unproved[tp] = command.incarnations[tp.topic]
