"""What a member writes, one request at a time, and what it makes of the answer: commits, acks, and
the lease that every multi that happened proves.

An outcome that is not OK raises a doubt, and the write is due again after the doubt is settled
(`Agent`); nothing is repeated blindly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from zkcoord.core.model import Command, TopicPartition

from . import events as ev
from . import messages as msg
from .in_progress import (
    CommandInProgress,
    CommandStage,
    CommitIntent,
    DropIntent,
    DueWrite,
    InFlightKind,
    RequestInFlight,
)
from .member import MemberProtocol
from .owned_partitions import OwnedPartition, OwnedStep
from .phases import Phase


class MemberWrites(MemberProtocol):
    """The half of the agent that writes."""

    def _write_commit(self, intent: CommitIntent) -> None:
        """Store the next part of a commit; what is stored already is not written again."""
        for tp in [
            tp
            for tp, value in intent.offsets.items()
            if tp in self.held and self.held[tp].committed == value and self.held[tp].sent is None
        ]:
            del intent.offsets[tp]
        foreign = tuple(sorted(tp for tp in intent.offsets if tp not in self.held))
        if foreign or not intent.offsets or intent.tries >= self.options.commit_tries_max:
            failed = msg.CommitOutcome.NOT_OWNED if foreign else msg.CommitOutcome.UNAVAILABLE
            if intent.token is not None:
                self._tell(
                    msg.CommitDone(intent.token, failed, foreign or tuple(sorted(intent.offsets)))
                    if intent.offsets
                    else intent.done()
                )
            return
        part = sorted(intent.offsets)[: self.options.offsets_per_write_max]
        values = {tp: intent.offsets[tp] for tp in part}
        for tp in part:
            self.held[tp].sent = values[tp]
        self.waiting = RequestInFlight(InFlightKind.COMMIT, self._token(), intent, values)
        self.out.append(
            ev.Store(
                self.waiting.token,
                {tp: (value, self.held[tp].version) for tp, value in values.items()},
                self.shared,
            )
        )

    def _write_ack(self) -> None:
        current = self.current
        if current is None or current.stage is not CommandStage.READY:
            return
        gives = []
        for tp in sorted(current.command.stop):
            held = self.held.get(tp)
            if held is not None and held.step is OwnedStep.RELEASED:
                if not self.options.auto_commit:
                    # the application's last commit may have happened after it let go
                    held.value = held.committed
                held.sent = held.value
                gives.append(ev.StopPartition(tp, held.value, held.version))
        ack = ev.Ack(
            self._token(),
            current.command.node,
            tuple(current.takes[tp] for tp in sorted(current.takes)),
            tuple(gives),
            tuple(current.marks.values()),
        )
        self.waiting = RequestInFlight(InFlightKind.ACK, ack.token, DueWrite.ACK, ack=ack)
        self.out.append(ack)

    def _drop_current(self) -> None:
        self.current = None
        self.intents = deque(i for i in self.intents if i is not DueWrite.ACK)

    def _withdraw(self, current: CommandInProgress) -> None:
        """The command is gone, or was answered in part. What it wanted stopped, and is still ours,
        goes on.
        """
        back = [
            tp
            for tp in current.command.stop
            if tp in self.held and self.held[tp].step is not OwnedStep.ACTIVE
        ]
        for tp in back:
            self.held[tp].step = OwnedStep.ACTIVE
        self._drop_current()
        if back:
            self._tell(msg.Resumed(tuple(back)))
            for tp in back:
                if self.held[tp].reset:
                    self.held[tp].reset = False
                    self._tell_seek(tp)

    # how it ended

    def _nobody_serves(self, e: ev.NobodyServes) -> None:
        """As good as a proof of membership while the lease lasts: until then the session cannot
        have ended, and without a quorum nobody's does. A lease that is over comes back with
        ZooKeeper only. Old consumers promise nothing of the kind, so it is none in a shared group.
        """
        if (
            self.phase is not Phase.MEMBER
            or self.proof_ms is None
            or not self._may_prolong(e.now_ms)
        ):
            return
        self.proof_ms = max(self.proof_ms, e.at_ms)
        if not self.unserved:
            self.unserved = True
            self._notice(msg.NoticeKind.FAILSAFE, held=len(self.held))

    def _may_prolong(self, now_ms: int) -> bool:
        return (
            self.options.failsafe
            and not self.shared
            and not self.connected
            and not self.lapsed
            and now_ms < self.lease_until_ms
        )

    def _wrote(self, e: ev.Wrote) -> None:
        waiting = self.waiting
        if waiting is None or waiting.token != e.token:
            return
        self.waiting = None
        if e.ending is ev.Ending.OK:
            self.proof_ms = max(self.proof_ms or 0, e.sent_ms)
            if (self.lapsed or self.unserved) and e.now_ms < self.lease_until_ms:
                self.lapsed = self.unserved = False
                self._notice(msg.NoticeKind.LEASE_BACK)
            self._happened(waiting, e.versions)
        elif e.ending is ev.Ending.EVICTED:
            if isinstance(waiting.intent, CommitIntent):
                self.intents.appendleft(waiting.intent)
            self._evicted("the registration is gone")
        else:
            self._unsure(waiting, e)

    def _happened(self, waiting: RequestInFlight, versions: Mapping[TopicPartition, int]) -> None:
        if waiting.asked is InFlightKind.COMMIT:
            assert isinstance(waiting.intent, CommitIntent)
            for tp, value in waiting.values.items():
                waiting.intent.offsets.pop(tp, None)
                if tp in self.held:
                    self.held[tp].stored(value, versions[tp])
            self._tell_stored(waiting.values)
            if waiting.intent.offsets:
                self.intents.appendleft(waiting.intent)
            elif waiting.intent.token is not None:
                self._tell(waiting.intent.done())
        elif waiting.asked is InFlightKind.ACK:
            assert waiting.ack is not None
            self._acked(waiting.ack, versions)
        elif waiting.asked is InFlightKind.RESUBSCRIBE:
            self.doubt = True

    def _acked(self, ack: ev.Ack, versions: Mapping[TopicPartition, int]) -> None:
        current = self.current
        assert current is not None and current.command.node == ack.command
        for give in ack.gives:
            del self.held[give.partition]
        self._tell_stored({give.partition: give.offset for give in ack.gives}, given=True)
        for take in ack.takes:
            self.held[take.partition] = OwnedPartition(
                take.thread, take.offset, versions.get(take.partition, 0)
            )
            self._prove_later(current.command, take.partition)
        self._tell_stored({take.partition: take.offset for take in ack.takes})
        self.generation = current.command.generation
        if ack.command:
            self.done = (current.command.epoch, current.command.seq)
        self.sent_away = 0
        self._withdraw(current)
        self.untold.update(take.partition for take in ack.takes)

    def _announce(self, now_ms: int) -> None:
        """Say what was started, but not without a lease: an answer that came late may be one of a
        session that is over, and then another owns it by now.
        """
        if not self.untold or now_ms >= self.lease_until_ms:
            return
        news = {tp: self.held[tp] for tp in sorted(self.untold)}
        self.untold.clear()
        self.era += 1
        for held in news.values():
            held.era = self.era
        self._tell(
            msg.Assigned(
                {tp: held.committed for tp, held in news.items()},
                self.era,
                {tp: held.thread.number for tp, held in news.items() if held.thread.number},
            )
        )

    def _prove_later(self, command: Command, tp: TopicPartition) -> None:
        """It was started for the topic that the command means; whether that was still there is to
        be looked at before anything else is written.
        """
        if tp.topic in command.incarnations:
            self.unproved[tp] = command.incarnations[tp.topic]

    def _unsure(self, waiting: RequestInFlight, e: ev.Wrote) -> None:
        """Refused (it did not happen) or unknown (it may have): look before doing anything else."""
        self.doubt = True
        if e.ending is ev.Ending.REFUSED:
            gives = waiting.ack.gives if waiting.ack is not None else ()
            for tp in (*waiting.values, *(give.partition for give in gives)):
                if tp in self.held:
                    self.held[tp].sent = None
        intent = waiting.intent
        if isinstance(intent, CommitIntent):
            intent.tries += 1
            self.intents.appendleft(intent)
        elif intent is not None and not (
            isinstance(intent, DropIntent) and e.ending is ev.Ending.REFUSED
        ):
            self.intents.appendleft(intent)
