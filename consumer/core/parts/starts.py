"""The start of partitions: what of a start command can be done, where each partition begins, and
whether its topic was the one that was meant.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

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
from consumer.core.owned_partitions import OwnedPartition
from consumer.core.state import MemberState
from consumer.core.topic_incarnations import Fate, counts, expected, fate, is_meant, mark
from zkcoord.core.model import Malformed, TopicPartition

from .announcements import Announcements
from .commands import Commands


class Starts:
    """The current start command, from the first reading to what its ack will say."""

    def __init__(
        self,
        options: MemberOptions,
        state: MemberState,
        outbox: Outbox,
        announcements: Announcements,
        commands: Commands,
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.announcements = announcements
        self.commands = commands

    # before the ack

    def read_partitions(self, current: CommandInProgress) -> None:
        """Read owner and offset nodes of all that the command starts and this member does not
        hold.
        """
        session, command = self.state.session, current.command
        token = self.outbox.token()
        session.in_flight = RequestInFlight(InFlightKind.START, token)
        self.outbox.request(
            ev.ReadPartitions(
                token,
                tuple(sorted(tp for tp in set(command.partitions) if tp not in session.held)),
                command.node,
                False,
                dict(sorted(command.incarnations.items())),
            )
        )

    def judge(self, e: ev.PartitionsRead) -> None:
        """What of the current start can be done, and what of it was done already."""
        session = self.state.session
        current = session.current
        assert current is not None
        adopted: dict[TopicPartition, int] = {}
        beside: dict[TopicPartition, str] = {}
        unreadable: list[TopicPartition] = []
        current.restart()
        for tp in sorted(current.command.start):
            if tp in session.held:
                continue
            read = e.holdings[tp]
            if read.whose is ev.Whose.MINE:
                offset = self._adopt(current, tp, read)
                if offset is not None:
                    adopted[tp], beside[tp] = offset, read.metadata
            elif (
                read.whose is ev.Whose.NOBODY
                and not current.void
                and is_meant(current.command.incarnations.get(tp.topic), e.topics.get(tp.topic))
            ):
                if self._is_unreadable(current, tp, read, e):
                    unreadable.append(tp)
                else:
                    self._plan_start(current, tp, read, e)
        session.intents = deque(
            i for i in session.intents if not (isinstance(i, DropIntent) and i.partition in adopted)
        )
        self.announcements.report_stored(adopted, beside)
        session.unannounced.update(adopted)
        self._report_recreated(current, e)
        if not e.command_there:
            return self.commands.drop()
        if current.unresolved:
            self.resolve(current)
        elif unreadable and not current.starts:
            # the coordinator asks again as soon as this is answered
            current.stage = CommandStage.UNREADABLE
            current.resolve_again_ms = e.now_ms + self.options.unreadable_retry_ms
        else:
            self.commands.ready(current)

    def _is_unreadable(
        self,
        current: CommandInProgress,
        tp: TopicPartition,
        read: ev.PartitionReading,
        e: ev.PartitionsRead,
    ) -> bool:
        """Whether something is stored that is no offset, and would count, or that this member may
        not read: such a partition is not started, because nobody knows where. Each is reported
        once.
        """
        beside = e.beside.get(tp.topic)
        found = fate(current.command.incarnations.get(tp.topic), beside)
        if not isinstance(read.offset, Malformed):
            return False
        hidden = read.version is None
        if hidden and not self.options.stores_offsets:
            return False  # what counts is kept elsewhere
        if not hidden and not counts(found, read.written, beside):
            return False
        reported = self.state.unreadable
        if reported.get(tp) != (read.offset.name, read.version):
            reported[tp] = (read.offset.name, read.version)
            self.outbox.notice(
                msg.NoticeKind.UNREADABLE_OFFSET,
                topic=tp.topic,
                partition=tp.partition,
                node=read.offset.name,
                reason=read.offset.reason,
            )
        return True

    def _adopt(
        self, current: CommandInProgress, tp: TopicPartition, read: ev.PartitionReading
    ) -> int | None:
        """An owner node that is ours already: the offset at which the start happened; None where it
        has to be done anew.
        """
        session = self.state.session
        if isinstance(read.offset, int) and self.options.stores_offsets:
            session.held[tp] = OwnedPartition(
                current.command.start[tp],
                read.offset,
                read.version,
                metadata=read.metadata,
                noted=read.noted,
            )
            self.commands.prove_topic_later(current.command, tp)
            return read.offset
        # the ack happened, and then somebody deleted or spoilt its offset: let it be started anew
        # (so it is where offsets are kept elsewhere)
        session.intents.append(DropIntent(tp))
        return None

    def _plan_start(
        self,
        current: CommandInProgress,
        tp: TopicPartition,
        read: ev.PartitionReading,
        e: ev.PartitionsRead,
    ) -> None:
        """A partition that can be started: at its stored offset, if that counts for the topic as it
        is now.
        """
        now, beside = current.command.incarnations.get(tp.topic), e.beside.get(tp.topic)
        found = fate(now, beside)
        stored = (
            read.offset
            if isinstance(read.offset, int) and counts(found, read.written, beside)
            else None
        )
        current.starts[tp] = ev.StartPartition(
            tp,
            current.command.start[tp],
            stored,
            read.version,
            read.metadata if stored is not None and counts(found, read.noted_in, beside) else "",
            read.noted,
            expected(now, beside) if self.options.stores_offsets else None,
        )
        if not self.options.stores_offsets:
            current.unresolved.add(tp)
            if stored is not None:
                current.stored[tp] = stored
            return
        if stored is None:
            current.unresolved.add(tp)
            if found in (Fate.PAST, Fate.NEWER_COUNT):
                current.afresh.add(tp)
        incarnation_mark = mark(tp.topic, now, beside)
        if incarnation_mark is not None:
            current.marks[tp.topic] = incarnation_mark

    def _report_malformed(self, bad: Malformed) -> None:
        self.outbox.notice(
            msg.NoticeKind.MALFORMED, what=bad.what, name=bad.name, reason=bad.reason
        )

    def _report_recreated(self, current: CommandInProgress, e: ev.PartitionsRead) -> None:
        """Report once which stored offsets do not count any more, and which notes of whose they are
        cannot be read.
        """
        recreated = self.state.recreated
        for topic in sorted({tp.topic for tp in current.starts}):
            beside, now = e.beside.get(topic), current.command.incarnations.get(topic, "")
            ignored = [
                f"{tp}={e.holdings[tp].offset}"
                for tp in sorted(current.afresh)
                if tp.topic == topic and isinstance(e.holdings[tp].offset, int)
            ]
            if isinstance(beside, Malformed):
                self._report_malformed(beside)
            elif ignored and (topic, now) not in recreated:
                assert beside is not None
                recreated.add((topic, now))
                unknown = topic not in current.marks
                self.outbox.notice(
                    msg.NoticeKind.TOPIC_RECREATED,
                    topic=topic,
                    was="" if unknown else beside.incarnation,
                    now=now,
                    ignored=" ".join(ignored),
                )

    # where partitions begin that have no stored offset

    def resolve(self, current: CommandInProgress) -> None:
        """Ask the fetching side where the unresolved partitions begin."""
        current.stage = CommandStage.RESOLVING
        current.question, current.resolve_again_ms = self.outbox.token(), None
        unresolved = current.unresolved
        self.outbox.send(
            msg.Resolve(
                current.question,
                tuple(sorted(unresolved)),
                tuple(sorted(unresolved & current.afresh)),
                {tp: o for tp, o in sorted(current.stored.items()) if tp in unresolved},
            )
        )

    def resolved(self, now_ms: int, answer: msg.Resolved) -> None:
        """Where some of them begin; the others are asked for again."""
        current = self.state.session.current
        if current is None or not current.waits_for(CommandStage.RESOLVING, answer.token):
            return
        for tp, offset in (*answer.offsets.items(), *((tp, None) for tp in answer.unset)):
            if tp in current.unresolved:
                current.unresolved.discard(tp)
                current.starts[tp] = replace(current.starts[tp], offset=offset)
        if current.unresolved:
            current.resolve_again_ms = now_ms + self.options.resolve_retry_ms
        else:
            self.commands.ready(current)

    def resolve_overdue(self, now_ms: int) -> None:
        """Ask again for what could not be resolved a while ago; have done with what could not be
        read, so that the coordinator has it tried again.
        """
        current = self.state.session.current
        if current is None or current.resolve_again_ms is None or current.resolve_again_ms > now_ms:
            return
        if current.stage is CommandStage.RESOLVING:
            self.resolve(current)
        elif current.stage is CommandStage.UNREADABLE:
            self.commands.ready(current)

    # after the ack

    def read_topics(self) -> None:
        """Read which incarnation each topic is for which something was started."""
        session = self.state.session
        token = self.outbox.token()
        session.in_flight = RequestInFlight(InFlightKind.TOPICS, token)
        topics = {tp.topic: meant for tp, meant in sorted(session.unproved.items())}
        self.outbox.request(ev.ReadPartitions(token, (), "", False, topics))

    def prove_topics(self, e: ev.PartitionsRead) -> None:
        """Read after the start acks: whether each topic was still the one that was meant. One that
        is made again later than this is younger than the owner node, which the coordinator sees.
        """
        session = self.state.session
        unproved, session.unproved = session.unproved, {}
        wrong = tuple(
            tp
            for tp, meant in sorted(unproved.items())
            if tp in session.held
            and e.topics.get(tp.topic)
            and not is_meant(meant, e.topics[tp.topic])
        )
        for tp in wrong:
            del session.held[tp]
            session.intents.append(DropIntent(tp))
        if wrong:
            self.announcements.report_lost(wrong, "it was started while its topic was made again")
