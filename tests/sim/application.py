"""The fetching side of the simulation: an application that obeys the contract of
consumer/core/messages.py over partitions whose records are only numbers.

A `Log` is every partition of the world: record n exists once enough time has passed. An application
polls now and then: it takes what the member said (in order), hands out the next few records of each
partition it may fetch, and processes them until a later poll; a slow one takes long. Both the fetch
and the hand-out happen only while the member's lease lasts, checked each time. Records are
processed in order, so a position is all that is needed: `handed` is what was given out, `processed`
what is done with. Automatic commit stores `processed` now and then; a manual application commits
when it likes, at the latest when partitions are revoked. What was handed out, processed and
committed is told to a `Witness`; nothing here judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from consumer.core.messages import (
    Assigned,
    Commit,
    CommitDone,
    CommitOutcome,
    Failed,
    FailureCode,
    FromFetcher,
    GiveUp,
    Lost,
    Notice,
    NoticeKind,
    Polled,
    Resolve,
    Resolved,
    Resumed,
    Revoke,
    Revoked,
    Seek,
    ToFetcher,
)
from tests.sim.kernel import Host, Kernel
from zkcoord.core.model import TopicPartition

RECORDS_PER_POLL_MAX = 10
NEVER_MS = EVERY_ERA = 10**9
NOTHING = -1


class Log:
    """All records of the world: partition p of topic t has `rate` records per second since it
    exists.
    """

    def __init__(self, kernel: Kernel, rate_per_s: int) -> None:
        self._kernel = kernel
        self._rate = rate_per_s
        self._since: dict[TopicPartition, int] = {}
        self._stopped_ms: int | None = None

    def add(self, partition: TopicPartition) -> None:
        """The partition exists from now on."""
        self._since.setdefault(partition, self._kernel.now)

    def begin_anew(self, partition: TopicPartition) -> None:
        """The partition belongs to another topic of the same name from now on."""
        self._since[partition] = self._kernel.now

    def end(self, partition: TopicPartition) -> int:
        """The next offset that will be written."""
        since = self._since.get(partition)
        return 0 if since is None else (self._kernel.now - since) * self._rate // 1000


class Witness(Protocol):
    """What an application reports."""

    def handed_out(
        self, app: Application, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        """Records first..next_offset-1 were given to the application's code."""

    def processed(self, app: Application, partition: TopicPartition, next_offset: int) -> None:
        """Every record below `next_offset` that this application was given is processed."""

    def assigned(self, app: Application, partition: TopicPartition, offset: int) -> None:
        """The application was told to fetch from `offset`."""

    def asks(self, app: Application, partition: TopicPartition, offset: int, text: str) -> None:
        """The application commits this, with text beside it or none."""

    def told(self, app: Application, message: ToFetcher) -> None:
        """Any message as the application takes it."""

    def said(self, app: Application, message: ToFetcher) -> None:
        """The same when the member says it."""


@dataclass(slots=True)
class Position:
    """One partition that the application may fetch."""

    handed: int
    processed: int
    committed: int
    revoking: bool = False


@dataclass(slots=True)
class Pending:
    """A revocation that is not answered yet."""

    token: int
    partitions: tuple[TopicPartition, ...]
    answer_at_ms: int
    waits_for_commit: int | None = None


@dataclass(slots=True)
class Habits:
    """How an application behaves; times in ms."""

    automatic: bool = True
    poll_min_ms: int = 20
    poll_max_ms: int = 150
    slow_chance: float = 0.0
    slow_max_ms: int = 3_000
    slow_revoke_chance: float = 0.0
    slow_revoke_max_ms: int = 4_000
    sticks: int = 0  # how many revocations it never answers
    # a poll gives it records of some partitions; while its handler is at work it gives up the
    # others
    answers_in_part: bool = False
    commit_every_ms: int = 700
    doorbell_chance: float = 0.7
    quits_chance: float = 0.0  # of closing when it hears that it was evicted
    resets: bool = True  # auto_offset_reset: earliest, or none
    seeks: bool = False  # without a reset policy: to the first record of what has no offset
    text_chance: float = 0.0  # of text beside an offset that it commits


@dataclass(slots=True)
class Application:
    """One application process over one member."""

    kernel: Kernel
    host: Host
    log: Log
    habits: Habits
    witness: Witness
    tell: Callable[[FromFetcher], None]
    # ms, by the own clock; None: what was assigned in that epoch is lost, and was not heard of yet
    lease_left: Callable[[int], int | None]
    group: str
    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    # given up, but the revocation may still be withdrawn
    released: dict[TopicPartition, Position] = field(default_factory=dict)
    inbox: list[ToFetcher] = field(default_factory=list)
    revokes: dict[int, Pending] = field(default_factory=dict)
    failed: Failed | None = None
    busy_until_ms: int = 0
    stopped: bool = False
    # whether the member has heard of a poll since it was evicted last
    may_register: bool = True
    assignment_epoch: int = 0
    _token: int = 0
    # every offset that it has asked to store
    asked: set[tuple[TopicPartition, int]] = field(default_factory=set)
    _commits: dict[int, Mapping[TopicPartition, int]] = field(default_factory=dict)
    _next_commit_ms: int = 0
    _poll_token: int = 0

    def leased(self) -> bool:
        """Whether the lease of what was assigned, as far as this application has heard, still lasts
        by its own clock.
        """
        return (self.lease_left(self.assignment_epoch) or 0) > 0

    def may_hold(self) -> bool:
        """Whether the member has a lease, whatever of its losses this application has heard of."""
        return (self.lease_left(EVERY_ERA) or 0) > 0

    def start(self) -> None:
        """Begin to poll."""
        self._next_poll(self.kernel.between(0, self.habits.poll_max_ms))

    def hear(self, message: ToFetcher) -> None:
        """The agent says something (it arrives in the queue; an idle application may wake at
        once).
        """
        self.witness.said(self, message)
        if isinstance(message, Notice) and message.kind is NoticeKind.EVICTED:
            self.may_register = False
        self.inbox.append(message)
        if self.busy_until_ms > self.kernel.now:
            self._answer_in_part()
        elif self.kernel.chance(self.habits.doorbell_chance):
            self._next_poll(0)

    def _next_poll(self, delay_ms: int) -> None:
        self._poll_token += 1
        token = self._poll_token
        self.host.after(delay_ms, lambda: self._poll(token), timer=True)

    def _poll(self, token: int) -> None:
        if token != self._poll_token or self.stopped:
            return
        h, now = self.habits, self.kernel.now
        if now < self.busy_until_ms:
            self._next_poll(self.busy_until_ms - now)
            return
        self._finish_processing()
        self._obey()
        self._answer_revokes()
        self._commit_sometimes()
        self._hand_out()
        self.tell(Polled())
        if self.kernel.chance(h.slow_chance):
            self.busy_until_ms = now + self.kernel.between(1, h.slow_max_ms)
            self.kernel.faults["slow_application"] += 1
            self._next_poll(self.busy_until_ms - now)
            return
        self._next_poll(self.kernel.between(h.poll_min_ms, h.poll_max_ms))

    # what the member said

    def _obey(self) -> None:
        inbox, self.inbox = self.inbox, []
        for message in inbox:
            self.witness.told(self, message)
            if isinstance(message, Assigned):
                self.assignment_epoch = message.assignment_epoch
                for tp, offset in sorted(message.offsets.items()):
                    self.released.pop(tp, None)
                    self.positions[tp] = Position(offset, offset, offset)
                    self.witness.assigned(self, tp, offset)
                self._seek(message.unset)
            elif isinstance(message, Revoke):
                self._revoke(message)
            elif isinstance(message, Resumed):
                for tp in message.partitions:
                    self._void(tp)
                    if tp in self.released:
                        self.positions[tp] = self.released.pop(tp)
                    if tp in self.positions:
                        self.positions[tp].revoking = False
            elif isinstance(message, Lost):
                self.assignment_epoch = message.assignment_epoch
                for tp in message.partitions:
                    self._void(tp)
                    self.positions.pop(tp, None)
                    self.released.pop(tp, None)
            elif isinstance(message, Seek):
                self.assignment_epoch = message.assignment_epoch
                p = self.positions.get(message.partition) or self.released.get(message.partition)
                if p is not None:
                    p.handed = p.processed = p.committed = message.offset
            elif isinstance(message, Resolve):
                self._resolve(message)
            elif isinstance(message, CommitDone):
                self._commit_done(message)
            elif isinstance(message, Failed):
                self.failed = message
                self.positions.clear()
                self.released.clear()

    def _seek(self, unset: tuple[TopicPartition, ...]) -> None:
        """Nothing says where these begin: at the first record."""
        for tp in unset:
            self.released.pop(tp, None)
            self.positions[tp] = Position(0, 0, NOTHING)
            self.kernel.happened["began without an offset"] += 1
            self.witness.assigned(self, tp, 0)

    def _resolve(self, message: Resolve) -> None:
        """Begin at the beginning; sometimes part of it can only be told when asked again. Without a
        reset policy that is the end, unless a topic was made again.
        """
        if not self.habits.resets and not set(message.partitions) <= set(message.earliest):
            if self.habits.seeks:
                unset = tuple(tp for tp in message.partitions if tp not in message.earliest)
                self.tell(Resolved(message.token, dict.fromkeys(message.earliest, 0), unset))
            else:
                self.tell(GiveUp(FailureCode.RESET_POLICY, "no offset is stored"))
            return
        known = [tp for tp in message.partitions if not self.kernel.chance(0.1)]
        self.tell(Resolved(message.token, dict.fromkeys(known, 0)))

    def _revoke(self, message: Revoke) -> None:
        for tp in message.partitions:
            if tp in self.positions:
                self.positions[tp].revoking = True
        h = self.habits
        delay = (
            self.kernel.between(0, h.slow_revoke_max_ms)
            if self.kernel.chance(h.slow_revoke_chance)
            else 0
        )
        if delay:
            self.kernel.faults["slow_revoke"] += 1
        if h.sticks and self.kernel.chance(0.5):
            h.sticks -= 1
            delay = NEVER_MS
            self.kernel.fault("stuck_revoke", self.host.name)
        pending = Pending(message.token, message.partitions, self.kernel.now + delay)
        self.revokes[message.token] = pending
        if not h.automatic and self.kernel.chance(0.7):
            pending.waits_for_commit = self._commit(
                [tp for tp in message.partitions if tp in self.positions]
            )

    def _void(self, partition: TopicPartition) -> None:
        for pending in self.revokes.values():
            pending.partitions = tuple(tp for tp in pending.partitions if tp != partition)

    def _answer_revokes(self) -> None:
        for token, pending in list(self.revokes.items()):
            if pending.answer_at_ms > self.kernel.now or pending.waits_for_commit is not None:
                continue
            self._answer(token, ())

    def _answer_in_part(self) -> None:
        """While the handler is at work: what it does not work on is given up when that is asked
        for, if nothing has to be done before; the rest is left to the next command.
        """
        asked = self.inbox[-1]
        if (
            self.habits.answers_in_part
            and not self.stopped
            and isinstance(asked, Revoke)
            and asked.in_part
            and all(isinstance(m, Notice) for m in self.inbox[:-1])
        ):
            self._obey()
            pending = self.revokes[asked.token]
            busy = tuple(
                tp
                for tp in pending.partitions
                if tp in self.positions
                and self.positions[tp].processed != self.positions[tp].handed
            )
            if (
                pending.answer_at_ms <= self.kernel.now
                and pending.waits_for_commit is None
                and len(busy) < len(pending.partitions)
            ):
                self.kernel.faults["answered_in_part"] += bool(busy)
                self._answer(asked.token, busy)

    def _answer(self, token: int, busy: tuple[TopicPartition, ...]) -> None:
        pending = self.revokes.pop(token)
        gone = {
            tp: self.positions.pop(tp)
            for tp in pending.partitions
            if tp in self.positions and tp not in busy
        }
        self.released.update(gone)
        self.tell(Revoked(token, {tp: p.processed for tp, p in gone.items()}, busy))

    # records

    def hang(self, duration_ms: int) -> None:
        """The application does not poll for a while."""
        self.busy_until_ms = max(self.busy_until_ms, self.kernel.now + duration_ms)

    def finish(self) -> None:
        """Process what is in flight (before a clean close)."""
        self._finish_processing()

    def _finish_processing(self) -> None:
        for tp, p in self.positions.items():
            if p.processed != p.handed:
                p.processed = p.handed
                self.witness.processed(self, tp, p.processed)

    def _hand_out(self) -> None:
        for tp, p in self.positions.items():
            if (
                p.revoking
                or not self.leased()
                or (self.habits.answers_in_part and self.kernel.chance(0.5))
            ):
                continue
            last = min(self.log.end(tp), p.handed + RECORDS_PER_POLL_MAX * 20)
            first, p.handed = p.handed, max(p.handed, last)
            self.witness.handed_out(self, tp, first, p.handed)

    # commits

    def _commit_sometimes(self) -> None:
        h = self.habits
        if self.kernel.now < self._next_commit_ms:
            return
        self._next_commit_ms = self.kernel.now + self.kernel.between(
            h.commit_every_ms // 2, h.commit_every_ms * 3 // 2
        )
        self._commit([tp for tp, p in self.positions.items() if not p.revoking])

    def _commit(self, partitions: list[TopicPartition]) -> int | None:
        offsets = {
            tp: self.positions[tp].processed
            for tp in partitions
            if self.positions[tp].processed != self.positions[tp].committed
        }
        if not offsets:
            return None
        self._token += 1
        self._commits[self._token] = offsets
        self.asked.update(offsets.items())
        chance = self.habits.text_chance
        texts = {
            tp: f"{self.host.name}.{self._token}"
            for tp in sorted(offsets)
            if chance and self.kernel.chance(chance)
        }
        self.kernel.happened["text beside an offset"] += len(texts)
        for tp, offset in offsets.items():
            self.witness.asks(self, tp, offset, texts.get(tp, ""))
        self.tell(Commit(self._token, offsets, self.assignment_epoch, texts))
        return self._token

    def _commit_done(self, message: CommitDone) -> None:
        offsets = self._commits.pop(message.token, {})
        if message.outcome is CommitOutcome.OK:
            for tp, offset in offsets.items():
                if tp in self.positions:
                    self.positions[tp].committed = offset
        for pending in self.revokes.values():
            if pending.waits_for_commit == message.token:
                pending.waits_for_commit = None

    def fetching(self) -> list[TopicPartition]:
        """The partitions that this application would hand out records of now."""
        if self.stopped or self.failed is not None or not self.leased():
            return []
        return [tp for tp, p in self.positions.items() if not p.revoking]


__all__ = ["Application", "Habits", "Log", "Notice", "Position", "Witness"]
