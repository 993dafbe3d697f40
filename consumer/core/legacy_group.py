"""A member whose group is shared with old consumers: the half of the agent that looks around.

Old consumers compute the whole group's assignment by themselves whenever the registrations or their
topics change, and take what it gives them; who still holds such a partition some seconds later
makes them give up. So when the registrations change (by name and transaction: a rescue, made and
gone in one, changes nothing), or the partitions of a subscribed topic, this member lets go of all
that it holds, without waiting for anybody: the application is asked, as at a stop, and what it has
not given up after `release_ms` is taken from it, so that nothing of it is handed out any more, and
its owner nodes are deleted. What the group shall have next is the coordinator's to say: a start
that it decided from other registrations than those that are there is not carried out.

Old consumers write offsets without any condition, also those who own nothing any more. So in such a
group an offset that somebody else wrote is no operator's reset: ours is written again.
"""

from __future__ import annotations

from zkcoord.core.model import Command, GroupMode, Malformed, Option, TopicPartition

from . import events as ev
from . import messages as msg
from .in_progress import (
    CommandInProgress,
    CommandStage,
    CommitIntent,
    DropIntent,
    InFlightKind,
    RequestInFlight,
)
from .member_writes import MemberWrites
from .owned_partitions import OwnedPartition, OwnedStep
from .phases import Phase


class LegacyGroupRules(MemberWrites):
    """What the agent does beside the rest where its group is shared."""

    def _mode_read(self, e: ev.ModeRead) -> None:
        if self.phase is not Phase.MEMBER or isinstance(e.mode, Malformed):
            return
        shared = e.mode is not None and e.mode.kind is not GroupMode.COORDINATED
        if shared is not self.shared:
            self._notice(
                msg.NoticeKind.GROUP_MODE,
                mode=e.mode.kind.value if e.mode is not None else GroupMode.COORDINATED.value,
            )
        self.shared = self.look_around = shared
        if not shared:
            self.around = None

    def _around_touched(self, e: ev.AroundTouched) -> None:
        self.look_around = self.shared and self.phase is Phase.MEMBER

    def _ask_around(self) -> None:
        """Read registrations and topics."""
        self.look_around = False
        self.waiting = RequestInFlight(InFlightKind.AROUND, self._token())
        self.out.append(ev.ReadAround(self.waiting.token, self.asked.subscription))

    def _around_read(self, e: ev.AroundRead) -> None:
        if self.waiting is None or self.waiting.token != e.token:
            return
        self.waiting = None
        before, self.around = self.around, (e.seen, e.topics)
        if before is not None and before != self.around:
            self._let_go(e.now_ms)

    def _let_go(self, now_ms: int) -> None:
        """The old consumers move: everything is to be given up, and what is about to be taken is
        not.
        """
        current = self.current
        if (
            current is not None
            and current.command.option is Option.START
            and current.stage is not CommandStage.READY
        ):
            self._void(current)
        if self.held and self.release_by_ms is None:
            self.release_by_ms = now_ms + self.options.release_ms
            self._notice(msg.NoticeKind.RELEASING, partitions=len(self.held))

    def _void(self, current: CommandInProgress) -> None:
        """Carry out a start by taking nothing: the coordinator sends again from what it sees."""
        current.begin_anew()
        current.void = True
        self._ready(current)

    def _outdated_start(self, command: Command) -> bool:
        """Whether a start was decided from other registrations than those that are there (they were
        just read). One that is refused again and again is believed: a reader may differ.
        """
        if (
            not self.shared
            or not command.seen
            or self.around is None
            or command.seen == self.around[0]
        ):
            self.refused = 0
            return False
        self.refused += 1
        return self.refused <= self.options.refused_starts_max

    def _begin_release(self) -> bool:
        """A stop of all that is held, which nobody commanded; False where nothing is left."""
        mine = tuple(sorted(self.held))[: self.options.release_partitions_max]
        if not mine:
            self.release_by_ms = None
            return False
        self.current = CommandInProgress(
            Command(self.name, self.incarnation, Option.STOP, 0, 0, self.generation, stop=mine),
            CommandStage.REVOKING,
        )
        for tp in mine:
            self.held[tp].step = OwnedStep.RELEASING
        self.current.ask = self._token()
        self._tell(msg.Revoke(self.current.ask, mine))
        return True

    def _release_overdue(self, now_ms: int) -> None:
        """The application did not let go in time: take it from it. A release whose write is under
        way is as good as done.
        """
        if (
            self.release_by_ms is None
            or now_ms < self.release_by_ms
            or (self.waiting is not None and self.waiting.asked is InFlightKind.ACK)
        ):
            return
        self.release_by_ms = None
        lost = tuple(sorted(self.held))
        current = self.current
        if lost:
            self._tell_lost(
                lost,
                "old consumers wait for these partitions, and they were not given up within"
                f" {self.options.release_ms} ms: process fewer records at a time"
                " (max_poll_records)",
            )
        self.held.clear()
        self.intents.extend(DropIntent(tp) for tp in lost)
        if current is not None and not current.command.node:
            self._drop_current()
        elif current is not None and current.command.option is Option.STOP:
            self._ready(current)

    def _write_again(self, tp: TopicPartition, held: OwnedPartition, ours: int) -> None:
        """Somebody else wrote the offset of a partition of ours: an old consumer that owned it
        before. Ours counts.
        """
        held.reset = False
        self._notice(
            msg.NoticeKind.FOREIGN_OFFSET, partition=str(tp), found=held.committed, ours=ours
        )
        if held.step is OwnedStep.ACTIVE and not any(
            isinstance(i, CommitIntent) and tp in i.offsets for i in self.intents
        ):
            self.intents.append(CommitIntent(None, {tp: ours}))
