"""Answers to the request under way: reads, and how a multi ended.

An outcome that is not OK raises a doubt, and the write is due again after the doubt is settled;
nothing is repeated blindly.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.core import events as ev
from consumer.core.in_progress import CommitIntent, DropIntent, InFlightKind, RequestInFlight
from consumer.core.state import MemberState
from zkcoord.core.model import Option, TopicPartition
from zkcoord.core.value_type import assert_never

from .commands import Commands
from .commits import Commits
from .doubts import Doubts
from .lease_proofs import LeaseProofs
from .sessions import Sessions
from .starts import Starts


class Answers:
    """What follows from the answer to a read or a write of this member."""

    def __init__(
        self,
        state: MemberState,
        proofs: LeaseProofs,
        commits: Commits,
        commands: Commands,
        starts: Starts,
        sessions: Sessions,
        doubts: Doubts,
    ) -> None:
        self.state = state
        self.proofs = proofs
        self.commits = commits
        self.commands = commands
        self.starts = starts
        self.sessions = sessions
        self.doubts = doubts

    def epoch_read(self, e: ev.EpochRead) -> None:
        """The epoch that commands name, and its limit of a lease."""
        session = self.state.session
        if session.is_in_flight(InFlightKind.EPOCH):
            session.in_flight = None
            session.known_epoch = max(e.epoch, session.seen_epoch)
            self.proofs.limit(e.lease_max_ms)

    def partitions_read(self, e: ev.PartitionsRead) -> None:
        """Owner and offset nodes, for a doubt, for a start or after one."""
        session = self.state.session
        answered = session.in_flight
        if answered is None or answered.token != e.token:
            return
        session.in_flight = None
        if e.incarnation is None:
            return self.sessions.evicted("the registration is gone")
        if answered.kind is InFlightKind.TOPICS:
            return self.starts.prove_topics(e)
        if answered.kind is InFlightKind.DOUBT:
            self.doubts.settle(e)
        current = session.current
        if current is None or current.command.option is not Option.START:
            return
        if answered.kind is InFlightKind.START and any(
            tp in session.held for tp in current.command.start
        ):
            # for the coordinator it is free: an old consumer deleted our owner node by its path,
            # also where the group is not shared any more and it should have been stopped
            session.doubt = True
        self.starts.judge(e)

    def wrote(self, e: ev.Wrote) -> None:
        """How a multi ended."""
        session = self.state.session
        answered = session.in_flight
        if answered is None or answered.token != e.token:
            return
        session.in_flight = None
        match e.ending:
            case ev.Ending.OK:
                self.proofs.prove(e.now_ms, e.sent_ms)
                self._happened(answered, e.versions)
            case ev.Ending.EVICTED:
                if isinstance(answered.intent, CommitIntent):
                    session.intents.appendleft(answered.intent)
                self.sessions.evicted("the registration is gone")
            case ev.Ending.REFUSED | ev.Ending.UNKNOWN:
                self._doubted(answered, e.ending)
            case _:
                assert_never(e.ending)

    def _happened(self, answered: RequestInFlight, versions: Mapping[TopicPartition, int]) -> None:
        if answered.kind is InFlightKind.COMMIT:
            self.commits.written(answered, versions)
        elif answered.kind is InFlightKind.ACK:
            assert answered.ack is not None
            self.commands.acked(answered.ack, versions)
        elif answered.kind is InFlightKind.RESUBSCRIBE:
            # the new incarnation is read
            self.state.session.doubt = True

    def _doubted(self, answered: RequestInFlight, ending: ev.Ending) -> None:
        """Refused (it did not happen) or unknown (it may have): read before doing anything else."""
        session = self.state.session
        session.doubt = True
        refused = ending is ev.Ending.REFUSED
        if refused:
            for tp in answered.values:
                if tp in session.held:
                    session.held[tp].sent = None
        intent = answered.intent
        if isinstance(intent, CommitIntent):
            intent.tries += 1
        if intent is not None and not (isinstance(intent, DropIntent) and refused):
            session.intents.appendleft(intent)
