"""Commits of the application: what is accepted, written, answered and overruled.

Every `Commit` is answered by exactly one `CommitDone`. A write whose outcome is not known is due
again after the doubt is settled; nothing is repeated blindly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.in_progress import CommitIntent, InFlightKind, RequestInFlight
from consumer.core.options import MemberOptions
from consumer.core.outbox import Outbox
from consumer.core.owned_partitions import first_offset_notes
from consumer.core.state import MemberState
from zkcoord.core.model import TopicPartition

from .announcements import Announcements
from .lease_proofs import LeaseProofs


class Commits:
    """Offsets that the application stores, from the request to the answer."""

    def __init__(
        self,
        options: MemberOptions,
        state: MemberState,
        outbox: Outbox,
        proofs: LeaseProofs,
        announcements: Announcements,
    ) -> None:
        self.options = options
        self.state = state
        self.outbox = outbox
        self.proofs = proofs
        self.announcements = announcements

    # requests of the application

    def request(self, now_ms: int, commit: msg.Commit) -> None:
        """Accept a commit, or answer at once why not."""
        refusal = self._refusal(now_ms, commit)
        if refusal is not None:
            self.outbox.send(refusal)
        elif not self.options.stores_offsets:
            self.outbox.send(msg.CommitDone(commit.token, msg.CommitOutcome.OK))
        else:
            session = self.state.session
            overruled = {
                tp for tp in commit.offsets if session.held[tp].overrules(commit.assignment_epoch)
            }
            session.intents.append(
                CommitIntent(
                    commit.token,
                    {tp: offset for tp, offset in commit.offsets.items() if tp not in overruled},
                    dict(commit.metadata),
                    overruled=overruled,
                )
            )

    def _refusal(self, now_ms: int, commit: msg.Commit) -> msg.CommitDone | None:
        session = self.state.session
        everything = tuple(sorted(commit.offsets))
        foreign = tuple(
            tp
            for tp in everything
            if tp not in session.held or commit.assignment_epoch < session.held[tp].assignment_epoch
        )
        if not self.state.is_member:
            return msg.CommitDone(commit.token, msg.CommitOutcome.NO_LONGER_MEMBER, everything)
        if foreign:
            return msg.CommitDone(commit.token, msg.CommitOutcome.NOT_OWNED, foreign)
        if not session.connected or (
            not self.options.stores_offsets and not self.proofs.holds(now_ms)
        ):
            return msg.CommitDone(commit.token, msg.CommitOutcome.UNAVAILABLE, everything)
        return None

    def expect(self, expected: msg.ExpectCommit) -> None:
        """Offsets that a sink may store for this member are no operator's reset."""
        held = self.state.session.held
        for tp, offset in expected.offsets.items():
            if tp in held:
                held[tp].foreseen = offset

    def store_positions(self, close: msg.Close) -> None:
        """The positions with which an application leaves, where commits are automatic."""
        session = self.state.session
        known = {
            tp: held
            for tp, held in session.held.items()
            if close.assignment_epoch >= held.assignment_epoch
            and not held.overrules(close.assignment_epoch)
        }
        offsets = {
            tp: offset
            for tp, offset in close.positions.items()
            if tp in known and known[tp].committed != offset
        }
        if self.options.auto_commit and self.options.stores_offsets:
            session.intents.append(CommitIntent(None, offsets))

    def store_again(self, tp: TopicPartition, offset: int, metadata: str) -> None:
        """Somebody else wrote over an offset of ours. A commit that is due anyway is enough."""
        session = self.state.session
        if not any(isinstance(i, CommitIntent) and tp in i.offsets for i in session.intents):
            session.intents.append(CommitIntent(None, {tp: offset}, {tp: metadata}))

    # what becomes of them

    def fail(self, outcome: msg.CommitOutcome) -> None:
        """None of the commits that are due will be written."""
        session = self.state.session
        for intent in session.intents:
            if isinstance(intent, CommitIntent) and intent.token is not None:
                self.outbox.send(
                    msg.CommitDone(intent.token, outcome, tuple(sorted(intent.offsets)))
                )
        session.intents = deque(i for i in session.intents if not isinstance(i, CommitIntent))

    def overrule(self, tp: TopicPartition) -> None:
        """An operator's reset overrules what the application had asked to store before it knew."""
        intents = self.state.session.intents
        for intent in [i for i in intents if isinstance(i, CommitIntent) and tp in i.offsets]:
            del intent.offsets[tp]
            intent.overruled.add(tp)
            if not intent.offsets:
                intents.remove(intent)
                if intent.token is not None:
                    self.outbox.send(intent.done())

    def next_due(self) -> CommitIntent | None:
        """The commit that became due first."""
        return next((i for i in self.state.session.intents if isinstance(i, CommitIntent)), None)

    # writing

    def write(self, intent: CommitIntent) -> None:
        """Store the next part of a commit; what is stored already is not written again."""
        session = self.state.session
        held = session.held
        for tp in [
            tp
            for tp, value in intent.offsets.items()
            if tp in held
            and held[tp].committed == value
            and held[tp].metadata == intent.metadata.get(tp, "")
        ]:
            del intent.offsets[tp]
        foreign = tuple(sorted(tp for tp in intent.offsets if tp not in held))
        if intent.token is None:
            # nobody hears of those that are lost, and repeats the others
            for tp in foreign:
                del intent.offsets[tp]
            foreign = ()
        if foreign or not intent.offsets or intent.tries >= self.options.commit_tries_max:
            return self._answer_unwritten(intent, foreign)
        part, metadata = self._next_part(intent)
        values = {tp: intent.offsets[tp] for tp in part}
        for tp in part:
            held[tp].sent = values[tp]
        token = self.outbox.token()
        session.in_flight = RequestInFlight(InFlightKind.COMMIT, token, intent, values)
        self.outbox.request(
            ev.Store(
                token,
                {tp: (value, held[tp].version) for tp, value in values.items()},
                session.shared,
                metadata,
                first_offset_notes(held, part),
            )
        )

    def _next_part(
        self, intent: CommitIntent
    ) -> tuple[list[TopicPartition], dict[TopicPartition, tuple[str, bool]]]:
        """What of a commit goes into the next multi, and what becomes of its metadata."""
        held, options = self.state.session.held, self.options
        part: list[TopicPartition] = []
        metadata: dict[TopicPartition, tuple[str, bool]] = {}
        chars = 0
        for tp in sorted(intent.offsets)[: options.offsets_per_write_max]:
            text, noted = intent.metadata.get(tp, ""), held[tp].noted
            chars += len(text)
            full = len(metadata) >= options.metadata_per_write_max
            if part and (
                chars > options.metadata_chars_per_write_max or (full and (text or noted))
            ):
                break
            part.append(tp)
            if text or noted:
                metadata[tp] = (text, noted)
        return part, metadata

    def _answer_unwritten(self, intent: CommitIntent, foreign: tuple[TopicPartition, ...]) -> None:
        if intent.token is None:
            return
        if not intent.offsets:
            self.outbox.send(intent.done())
            return
        failed = msg.CommitOutcome.NOT_OWNED if foreign else msg.CommitOutcome.UNAVAILABLE
        partitions = foreign or tuple(sorted(intent.offsets))
        self.outbox.send(msg.CommitDone(intent.token, failed, partitions))

    def written(self, written: RequestInFlight, versions: Mapping[TopicPartition, int]) -> None:
        """A part of a commit is stored, its offset nodes at these versions."""
        session, intent = self.state.session, written.intent
        assert isinstance(intent, CommitIntent)
        for tp, value in written.values.items():
            intent.offsets.pop(tp, None)
            if tp in session.held:
                text = intent.metadata.get(tp, "")
                session.held[tp].stored(value, versions[tp], text, bool(text))
        self.announcements.report_stored(written.values, metadata=intent.metadata)
        if intent.offsets:
            session.intents.appendleft(intent)
        elif intent.token is not None:
            self.outbox.send(intent.done())
