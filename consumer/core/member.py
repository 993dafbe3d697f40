"""What a member is, and how sessions and the application change it: the half of the agent that
talks.

Nothing of a session outlives it: a new session is a new name, a new registration, and a lease of
its own. Positions come back from the offset nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from zkcoord.core.error_codes import FENCED_INSTANCE_ID, NONE, REBALANCE_FAILED
from zkcoord.core.model import Command, Subscription, TopicPartition

from . import events as ev
from . import messages as msg
from .in_progress import (
    CommandInProgress,
    CommandStage,
    CommitIntent,
    DueWrite,
    InFlightKind,
    Intent,
    RequestInFlight,
)
from .options import MemberOptions
from .owned_partitions import OwnedPartition, OwnedStep
from .phases import Happening, Phase, next_phase


class MemberProtocol:
    """One member, for as long as its application lives; sessions and names come and go. The other
    half, which acts, is `Agent`.
    """

    def __init__(self, options: MemberOptions) -> None:
        self.options = options
        self.phase = Phase.IDLE
        self.wanted = self.asked = self.registered = msg.Subscribe(Subscription())
        self.connected = False
        self.timeout_ms = 0
        self.polled_ms = 0
        self.tokens = 0
        self.generation = 0
        self.era = 0
        self.floor = 0
        self.registered_before = False
        self.sent_away = self.back_after_ms = 0
        self.rebalance_failed = False
        self.recreated: set[tuple[str, str]] = set()
        self.out: list[ev.AgentAction] = []
        self._leave_group("")

    def _leave_group(self, name: str) -> None:
        """Nothing of a session outlives it."""
        self.era += 1
        self.name = name
        self.incarnation = 0
        self.proof_ms: int | None = None
        self.lapsed = self.unserved = False
        self.lease_max_ms = 0
        self.known_epoch = 0
        self.seen_epoch = 0
        self.done: tuple[int, int] = (0, 0)
        self.held: dict[TopicPartition, OwnedPartition] = {}
        self.unproved: dict[TopicPartition, str] = {}
        self.pending: dict[str, Command] = {}
        self.current: CommandInProgress | None = None
        self.intents: deque[Intent] = deque()
        self.waiting: RequestInFlight | None = None
        self.untold: set[TopicPartition] = set()  # of what is held: started, and not announced yet
        self.doubt = False
        self.read_channel = False
        self.leaving = False
        self.leader_gone_ms: int | None = None
        self.leader_warned = False
        self.shared = self.look_around = False
        self.around: tuple[str, str] | None = None
        self.looked_for = ""
        self.refused = 0
        self.release_by_ms: int | None = None

    # the seam

    @property
    def lease_ms(self) -> int:
        """How long a proof of membership is good for."""
        return min(self.timeout_ms * 2 // 3, self.lease_max_ms or self.options.lease_default_ms)

    @property
    def lease_until_ms(self) -> int:
        """The end of the present lease (0: none). Other threads ask too: what the member's thread
        may clear is read once.
        """
        proof_ms = self.proof_ms
        return 0 if proof_ms is None else proof_ms + self.lease_ms

    def lease_until(self, era: int) -> int:
        """Fetch and hand out only before this time, having heard everything up to `era` (0: not at
        all, something lost has not been heard of). Safe to ask from any thread: the floor rises
        before a lease is replaced.
        """
        until = self.lease_until_ms
        return until if era >= self.floor else 0

    def next_wake_ms(self) -> int | None:
        """When an `AgentTick` may have something to do; None = only after an event."""
        times: list[int] = []
        if self.phase is Phase.MEMBER and self.proof_ms is not None:
            if self.connected and self.waiting is None:
                times.append(self.proof_ms + self.lease_ms // 3)
                if self.leader_gone_ms is not None and not self.leader_warned:
                    times.append(self.leader_gone_ms + self.options.coordinator_warning_ms)
            if self.release_by_ms is not None and (
                self.waiting is None or self.waiting.asked is not InFlightKind.ACK
            ):
                times.append(self.release_by_ms)
            if not self.lapsed:
                times.append(self.lease_until_ms)
            if self.current is not None and self.current.resolve_again_ms is not None:
                times.append(self.current.resolve_again_ms)
        if (
            self.options.max_poll_interval_ms
            and not self.leaving
            and self.phase in (Phase.OPENING, Phase.JOINING, Phase.MEMBER)
        ):
            times.append(
                self.polled_ms + self.options.max_poll_interval_ms + self.options.poll_slack_ms
            )
        return min(times) if times else None

    def _tell(self, message: msg.ToFetcher) -> None:
        self.out.append(ev.Tell(message))

    def _notice(self, kind: msg.NoticeKind, **detail: str | int) -> None:
        self._tell(msg.Notice(kind, detail))

    def _tell_lost(self, partitions: tuple[TopicPartition, ...], reason: str) -> None:
        """From now on nothing may be handed out before this is heard. What nobody was told of is
        lost in silence.
        """
        told = tuple(tp for tp in partitions if tp not in self.untold)
        self.untold.difference_update(partitions)
        if told:
            self.era += 1
            self.floor = self.era
            self._tell(msg.Lost(told, reason, self.era))

    def _tell_stored(self, offsets: Mapping[TopicPartition, int], given: bool = False) -> None:
        if offsets and self.options.tells_stored:
            self._tell(msg.Stored(offsets, given))

    def _tell_seek(self, tp: TopicPartition) -> None:
        if tp in self.untold:
            return  # it will be announced where it stands now
        self.era += 1
        self.held[tp].reset_era = self.era
        self._tell(msg.Seek(tp, self.held[tp].committed, self.era))

    def _token(self) -> int:
        self.tokens += 1
        return self.tokens

    # sessions

    def _opened(self, e: ev.SessionOpened) -> None:
        if self.phase is not Phase.OPENING:
            return
        self.phase = next_phase(self.phase, Happening.OPENED)
        self._leave_group(e.name)
        self.connected, self.timeout_ms = True, e.timeout_ms
        self._join()

    def _suspended(self, e: ev.SessionSuspended) -> None:
        self.connected = False
        if self.waiting is not None and self.waiting.intent is not None:
            # its outcome is unknown: it is due again after the doubt is settled
            self.intents.appendleft(self.waiting.intent)
        self.waiting = None
        self.doubt = True
        self._fail_commits(msg.CommitOutcome.UNAVAILABLE)
        if self.leaving:
            self._close("closed while ZooKeeper was away")

    def _join(self) -> None:
        self.asked = self.wanted
        self._ask_to_join()

    def _ask_to_join(self) -> None:
        self.out.append(
            ev.Join(
                self.name, self.asked.subscription, self.asked.user_data, not self.registered_before
            )
        )

    def _resumed(self, e: ev.SessionResumed) -> None:
        self.connected = True
        if self.phase is Phase.JOINING:
            # the first attempt may have happened: what the registration says must not depend on
            # which did
            self._ask_to_join()
        elif self.phase is Phase.MEMBER:
            self.doubt = self.read_channel = True
            self.look_around = self.shared

    def _over(self, e: ev.SessionOver) -> None:
        was = self.phase
        self.connected = False
        if was is Phase.MEMBER:
            self._notice(msg.NoticeKind.SESSION_LOST, name=self.name)
        self._drop_all("the ZooKeeper session is over")
        if was is Phase.MEMBER and self.leaving:
            self.phase = next_phase(self.phase, Happening.LEAVE)
        self._leave_group("")
        if was in (Phase.IDLE, Phase.PARKED):
            return
        self.phase = next_phase(self.phase, Happening.OVER)
        if self.phase is Phase.OPENING:
            self.out.append(ev.OpenSession(self.back_after_ms))
            self.back_after_ms = 0

    def _join_failed(self, e: ev.JoinFailed) -> None:
        self._break(e.code, e.message)

    def _registered(self, e: ev.Registered) -> None:
        if self.phase is not Phase.JOINING:
            return
        self.phase = next_phase(self.phase, Happening.REGISTERED)
        self.registered_before = True
        self.incarnation, self.proof_ms = e.incarnation, e.sent_ms
        self.known_epoch = self.seen_epoch = e.epoch
        self.lease_max_ms = e.lease_max_ms
        self.read_channel = True
        self.registered = self.asked
        self._resubscribe()
        self._rebalances()  # what was said of the group was said to an earlier registration
        self._notice(msg.NoticeKind.REGISTERED, name=self.name, incarnation=e.incarnation)

    def _rejected(self, command: Command) -> None:
        """The coordinator does not take this member: for good, or for a while that doubles from one
        time to the next.
        """
        if command.fatal:
            code = (
                msg.FailureCode.FENCED_INSTANCE_ID
                if command.code == FENCED_INSTANCE_ID
                else msg.FailureCode.REJECTED
            )
            return self._break(code, f"{command.code}: {command.message}", command.code)
        self.phase = next_phase(self.phase, Happening.SENT_AWAY)
        self.back_after_ms = min(
            self.options.rejected_backoff_ms << min(self.sent_away, 30),
            self.options.rejected_backoff_max_ms,
        )
        self.sent_away += 1
        self._notice(
            msg.NoticeKind.SENT_AWAY,
            code=command.code,
            message=command.message,
            back_in_ms=self.back_after_ms,
        )
        self._drop_all(command.message)
        self.out.append(ev.CloseSession(command.message))

    def _notified(self, command: Command) -> None:
        """The coordinator tells something of the group."""
        if command.code == REBALANCE_FAILED and self.rebalance_failed:
            return  # said again by a coordinator that does not know whether the first time happened
        if command.code == REBALANCE_FAILED:
            self.rebalance_failed = True
            self._notice(msg.NoticeKind.REBALANCE_FAILED, message=command.message)
        elif command.code == NONE:
            self._rebalances()

    def _rebalances(self) -> None:
        """The group is, or will be, rebalanced."""
        if self.rebalance_failed:
            self.rebalance_failed = False
            self._notice(msg.NoticeKind.REBALANCE_OVER)

    def _break(self, code: msg.FailureCode, message: str, rejection: str = "") -> None:
        if self.phase in (Phase.OPENING, Phase.JOINING, Phase.MEMBER):
            self.phase = next_phase(self.phase, Happening.BROKEN)
            self._drop_all(message)
            self._tell(msg.Failed(code, message, rejection))
            self.out.append(ev.CloseSession(message))

    def _lapse(self, now_ms: int) -> None:
        if (
            self.phase is Phase.MEMBER
            and self.proof_ms is not None
            and not self.lapsed
            and now_ms >= self.lease_until_ms
        ):
            self.lapsed = True
            self._notice(msg.NoticeKind.LEASE_LAPSED, held=len(self.held))

    def _evicted(self, reason: str) -> None:
        """The registration is gone while the session lives: drop everything, close the session (its
        owner nodes vanish with it), come back under a new name.
        """
        if self.phase is Phase.MEMBER and self.leaving:
            return self._close(reason)
        if self.phase is Phase.MEMBER:
            self.phase = next_phase(self.phase, Happening.EVICTED)
            self._notice(msg.NoticeKind.EVICTED, name=self.name)
            self._drop_all(reason)
            self.out.append(ev.CloseSession(reason))

    def _drop_all(self, reason: str) -> None:
        if self.held:
            self._tell_lost(tuple(sorted(self.held)), reason)
        self.held.clear()
        self.proof_ms = None
        if self.waiting is not None and isinstance(self.waiting.intent, CommitIntent):
            self.intents.appendleft(self.waiting.intent)
        self.current, self.waiting, self.doubt, self.release_by_ms = None, None, False, None
        self._fail_commits(msg.CommitOutcome.NO_LONGER_MEMBER)

    def _close(self, reason: str) -> None:
        """Leave for good. Owner nodes and registration go with the session."""
        self.leaving = False
        self.phase = next_phase(self.phase, Happening.LEAVE)
        self._fail_commits(msg.CommitOutcome.NO_LONGER_MEMBER)
        self.held.clear()
        self.untold.clear()
        self.proof_ms = None
        if self.phase is Phase.CLOSING:
            self.out.append(ev.CloseSession(reason))

    # the fetching side

    def _told(self, e: ev.FromApplication) -> None:
        m = e.message
        if isinstance(m, msg.Commit):
            self._commit(e.now_ms, m)
        elif isinstance(m, msg.Revoked):
            self._revoked(m)
        elif isinstance(m, msg.Resolved):
            self._resolved(e.now_ms, m)
        elif isinstance(m, msg.GiveUp):
            self._break(m.code, m.message)
        elif isinstance(m, msg.Close):
            self._leave(m)
        elif isinstance(m, msg.ExpectCommit):
            self._foresee(m)
        else:
            self.polled_ms = e.now_ms
            if isinstance(m, msg.Subscribe):
                self._subscribe(m)
            elif self.phase in (Phase.PARKED, Phase.PARKING):
                self._want()

    def _want(self) -> None:
        self.phase = next_phase(self.phase, Happening.WANTED)
        if self.phase is Phase.OPENING:
            self.out.append(ev.OpenSession())

    def _subscribe(self, m: msg.Subscribe) -> None:
        self.wanted = m
        if self.phase in (Phase.IDLE, Phase.PARKED, Phase.PARKING):
            self._want()
        elif self.phase is Phase.MEMBER and not (
            self.waiting is not None and self.waiting.asked is InFlightKind.RESUBSCRIBE
        ):
            self._resubscribe()

    def _resubscribe(self) -> None:
        """The registration shall say what the application wants by now."""
        if self.wanted != self.registered and DueWrite.RESUBSCRIBE not in self.intents:
            self.intents.append(DueWrite.RESUBSCRIBE)

    def _commit(self, now_ms: int, m: msg.Commit) -> None:
        foreign = tuple(
            sorted(tp for tp in m.offsets if tp not in self.held or m.era < self.held[tp].era)
        )
        if self.phase is not Phase.MEMBER:
            self._tell(
                msg.CommitDone(
                    m.token, msg.CommitOutcome.NO_LONGER_MEMBER, tuple(sorted(m.offsets))
                )
            )
        elif foreign:
            self._tell(msg.CommitDone(m.token, msg.CommitOutcome.NOT_OWNED, foreign))
        elif not self.connected:
            self._tell(
                msg.CommitDone(m.token, msg.CommitOutcome.UNAVAILABLE, tuple(sorted(m.offsets)))
            )
        elif not self.options.stores_offsets:
            may = self.proof_ms is not None and now_ms < self.lease_until_ms
            self._tell(
                msg.CommitDone(m.token, msg.CommitOutcome.OK)
                if may
                else msg.CommitDone(
                    m.token, msg.CommitOutcome.UNAVAILABLE, tuple(sorted(m.offsets))
                )
            )
        else:
            overruled = {tp for tp in m.offsets if self.held[tp].overrules(m.era)}
            self.intents.append(
                CommitIntent(
                    m.token,
                    {tp: offset for tp, offset in m.offsets.items() if tp not in overruled},
                    overruled=overruled,
                )
            )

    def _foresee(self, m: msg.ExpectCommit) -> None:
        for tp, offset in m.offsets.items():
            if tp in self.held:
                self.held[tp].foreseen = offset

    def _fail_commits(self, outcome: msg.CommitOutcome) -> None:
        for intent in self.intents:
            if isinstance(intent, CommitIntent) and intent.token is not None:
                self._tell(msg.CommitDone(intent.token, outcome, tuple(sorted(intent.offsets))))
        self.intents = deque(i for i in self.intents if not isinstance(i, CommitIntent))

    def _void_commits(self, tp: TopicPartition) -> None:
        """An operator's reset overrules what the application had asked to store before it knew."""
        for intent in [i for i in self.intents if isinstance(i, CommitIntent) and tp in i.offsets]:
            del intent.offsets[tp]
            intent.overruled.add(tp)
            if not intent.offsets:
                self.intents.remove(intent)
                if intent.token is not None:
                    self._tell(intent.done())

    def _revoked(self, m: msg.Revoked) -> None:
        current = self.current
        if current is None or current.stage is not CommandStage.REVOKING or current.ask != m.token:
            return
        for tp in current.command.stop:
            held = self.held.get(tp)
            if held is not None and held.step is OwnedStep.RELEASING and tp not in m.busy:
                held.step = OwnedStep.RELEASED
                moved = self.options.auto_commit and not held.reset
                held.value = m.positions.get(tp, held.committed) if moved else held.committed
        self._ready(current)

    def _resolved(self, now_ms: int, m: msg.Resolved) -> None:
        current = self.current
        if current is None or current.stage is not CommandStage.RESOLVING or current.ask != m.token:
            return
        for tp, offset in m.offsets.items():
            if tp in current.unresolved:
                current.unresolved.discard(tp)
                version = current.takes[tp].version
                current.takes[tp] = ev.StartPartition(
                    tp, current.command.start[tp], offset, version
                )
        if current.unresolved:
            current.resolve_again_ms = now_ms + self.options.resolve_retry_ms
        else:
            self._ready(current)

    def _ready(self, current: CommandInProgress) -> None:
        """Nothing is missing for the ack: write it when its turn comes."""
        current.stage, current.resolve_again_ms = CommandStage.READY, None
        if DueWrite.ACK not in self.intents:
            self.intents.append(DueWrite.ACK)

    def _leave(self, m: msg.Close) -> None:
        if self.phase is Phase.MEMBER and self.connected and not self.leaving:
            self.leaving = True
            known = {
                tp: held
                for tp, held in self.held.items()
                if m.era >= held.era and not held.overrules(m.era)
            }
            offsets = {
                tp: offset
                for tp, offset in m.positions.items()
                if tp in known and known[tp].committed != offset
            }
            if self.options.auto_commit and self.options.stores_offsets and offsets:
                self.intents.append(CommitIntent(None, offsets))
        elif not self.leaving:
            self._close("closed by the application")
