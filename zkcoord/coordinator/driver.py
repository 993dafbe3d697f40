"""The coordinator process without its process: session, election, mirror, core and writer, driven
by events.

Single-threaded and deterministic: every method runs on the loop's thread (or the simulator's). A
connected session stands for election; the winner mirrors the world into the core and carries out
what the core says. Ends of a term: the session expired, a write was fenced, the leader node is gone
or another's, no contact for 2/3 of the session timeout, or `stop`. Each ends the same way: the
session is closed, all state is dropped, and a new session stands again. One whose leader node was
taken away (to step down) lets others go first: it tries when one of them led, or after `YIELD_MS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from zkcoord.assignors.here import AskAssignor, compute_here
from zkcoord.coordinator.input_recorder import Inputs
from zkcoord.coordinator.obstacles import Obstacles
from zkcoord.core.assignment import Assignment
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import (
    Action,
    Assign,
    AssignorAnswered,
    Elected,
    Event,
    GroupChanged,
    Paused,
    ReadGroup,
    Ready,
    Record,
    Resign,
    Spent,
    Tick,
    Write,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.value_type import assert_never
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.backoff import Backoff
from zkcoord.zk.classic.figures import ClassicFigures
from zkcoord.zk.contact_clock import ContactClockPort
from zkcoord.zk.mirror.world_reader import WorldReader
from zkcoord.zk.port import (
    OPEN_ACL,
    AclEntry,
    Closed,
    Connected,
    Ensemble,
    Expired,
    Fired,
    GetData,
    PortEvent,
    Refused,
    Suspended,
    acl_bytes,
)
from zkcoord.zk.term.comings import comings
from zkcoord.zk.term.election import (
    Adrift,
    Candidate,
    Election,
    Free,
    Overruled,
    Standby,
    Unfit,
    Verdict,
    Waiting,
    Won,
)
from zkcoord.zk.term.services import TermServices, led_seen
from zkcoord.zk.term.topic_source import TopicSourceOf
from zkcoord.zk.term.work_meter import WorkMeter
from zkcoord.zk.term.writer import TermWriter
from zkcoord.znodes.matching import PatternMatches
from zkcoord.znodes.paths import Layout

REOPEN = Backoff(first_ms=50, max_ms=5_000)
RESTAND_MS = 1_000
YIELD_MS = 500


class CoordinatorDriver:
    """One coordinator. `journal` takes flat records; `on_session(session_id)` tells of a new
    session (the guardian's cue); `failure` is a sentence when it cannot go on. `chroot` only counts
    in the cap on owner paths. `inputs` records what the core is told. `ask(group, assignor, input,
    done)` has an assignor compute elsewhere, and calls `done` later, on the loop's thread
    (`zkcoord.assignors.pool`); it is needed where the options name any custom ones. With `roles` a
    node is believed only where nobody else could have written it. `cpu_ns` is its work's clock.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        layout: Layout,
        options: CoordinatorOptions,
        clock: Callable[[], int],
        wall_clock: Callable[[], int],
        journal: Callable[[dict[str, object]], None],
        candidate: Candidate | None = None,
        acl: tuple[AclEntry, ...] = OPEN_ACL,
        on_session: Callable[[int], None] = lambda session_id: None,
        chroot: str = "",
        inputs: Inputs | None = None,
        ask: AskAssignor | None = None,
        roles: Roles | None = None,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        topics: TopicSourceOf | None = None,
    ) -> None:
        self.topics = topics
        self.ensemble = ensemble
        self.layout = layout
        self.options = replace(
            options,
            owner_path_prefix_bytes=layout.owner_fixed_bytes("", chroot),
            acl_bytes=acl_bytes(acl),
        )
        self.clock = clock
        self.wall_clock = wall_clock
        self.journal = journal
        self.candidate = candidate or Candidate("", 0, None, options.lease_max_ms)
        self.acl = acl
        self.on_session = on_session
        self.inputs = inputs
        self.ask = ask
        self.roles = roles
        self.obstacles = Obstacles()
        self.led_figures = ClassicFigures(wall_clock)
        self.meter = WorkMeter(
            cpu_ns,
            lambda group: self.core.queue.is_heavy(group, self.clock()),
            lambda group: self.core.queue.rests(group, self.clock()),
        )
        self.matches = PatternMatches(cpu_ns)
        self.world = WorldReader(layout, clock, options, roles, self.matches, self.meter)
        self.core = Coordinator(self.options, self.meter.works_for)
        self.failure: str | None = None
        self.stopping = False
        self.finished = False
        self.reopens = 0
        self.epoch_seen = 0
        self.elected_ms: int | None = None
        self.yields_until_ms: int | None = None
        self.reopen_at_ms: int | None = None
        self._forget_session()

    def _forget_session(self) -> None:
        self.port: ContactClockPort | None = None
        self.session_id = 0
        self.timeout_ms = 0
        self.world.forget()
        self.connected = False
        self.closing = False
        self.election: Election | None = None
        self.restand_at_ms: int | None = None
        self.writer: TermWriter | None = None
        self.services: TermServices | None = None

    # life

    def start(self) -> None:
        """Open a session."""
        self.reopen_at_ms = None
        port = ContactClockPort(self.clock)
        self.port = port
        port.port = self.ensemble.open(lambda event: self._event(port, event))

    def stop(self) -> None:
        """Resign and close; `finished` becomes true when the session is closed."""
        self.stopping = True
        if self.port is None:
            self.finished = True
        else:
            self._close("stopped")

    def _close(self, reason: str) -> None:
        """End the term, if there is one, and the session with it."""
        if self.core.leading or self.writer is not None:
            self._term("resigned", reason=reason)
            if self.inputs is not None:
                self.inputs.ended(reason)
        self.core = Coordinator(self.options, self.meter.works_for)
        self.writer = None
        self._serve_no_more()
        self.world.ends()
        if self.port is not None and not self.closing:
            self.closing = True
            self.port.close()

    def _ended(self) -> None:
        """The session is over: stand again with a new one, unless we are stopping."""
        self._close("the session is over")
        self._forget_session()
        if self.stopping or self.failure is not None:
            self.finished = True
            return
        self.reopen_at_ms = self.clock() + REOPEN.delay_ms(self.reopens)
        self.reopens += 1

    # events of the session

    def _event(self, port: ContactClockPort, event: PortEvent) -> None:
        if port is not self.port:
            return
        match event:
            case Connected():
                self._connected(event)
            case Suspended():
                self._suspended(event)
            case Fired():
                self._fired(event)
            case Refused():
                self.failure = event.reason
                self._ended()
            case Expired() | Closed():
                self.closing = True
                self._ended()
            case _:
                assert_never(event)

    def _connected(self, event: Connected) -> None:
        assert self.port is not None
        if self.closing:
            return
        self.connected = True
        self.timeout_ms = event.timeout_ms
        if event.session_id != self.session_id:
            self.session_id = event.session_id
            self.on_session(event.session_id)
        self.election = Election(
            self.port,
            event.session_id,
            self.layout,
            self.candidate,
            self.acl,
            self.wall_clock,
            self._decided,
            self.epoch_seen,
            self.roles,
        )
        self._stand()

    def _stand(self) -> None:
        """Try to lead, or only look: who leads already must not win its own seat anew, only to
        leave it, and who was asked to leave it lets others go first.
        """
        if self.election is not None:
            yields = self.yields_until_ms is not None and self.clock() < self.yields_until_ms
            self.election.stand(only_look=self.writer is not None or yields)

    def _suspended(self, event: Suspended) -> None:
        self.connected = False
        self.election = None
        self.restand_at_ms = None
        self._serve_no_more()
        self.world.suspended(event.answer_too_large)
        self._feed(Paused(self.clock()))

    def _fired(self, event: Fired) -> None:
        if event.path == self.layout.leader:
            self._stand()
        elif self.services is not None and self.services.fired(event):
            pass
        else:
            self.world.fired(event)

    # the election

    def _decided(self, verdict: Verdict) -> None:
        if self.closing or not self.connected:
            return
        seen = self.election.epoch_seen if self.election is not None else 0
        self.epoch_seen = max(self.epoch_seen, seen)
        if not isinstance(verdict, Adrift):
            strange = self.election.strange if self.election is not None else ()
            for record in self.obstacles.news(verdict, strange):
                self._record(record)
        if isinstance(verdict, Won):
            self._won(verdict)
        elif isinstance(verdict, Unfit):
            self.failure = verdict.reason
            self._close(verdict.reason)
        elif self.core.leading or self.writer is not None:
            if isinstance(verdict, (Standby, Overruled, Free, Waiting)):
                until_ms = self.clock() + YIELD_MS
                self.yields_until_ms = until_ms if isinstance(verdict, Free) else None
                self._close("the leader node is gone or another's")
        elif isinstance(verdict, Overruled):
            self._close("the leader node is its own, and the epoch is not")
        elif isinstance(verdict, Free):
            self.restand_at_ms = self.yields_until_ms
        else:
            self.yields_until_ms = None if isinstance(verdict, Standby) else self.yields_until_ms
            if isinstance(verdict, Standby) and self.port is not None:
                self.world.stands_by(self.port)
            stands_again = isinstance(verdict, (Adrift, Waiting))
            self.restand_at_ms = self.clock() + RESTAND_MS if stands_again else None

    def _won(self, won: Won) -> None:
        assert self.port is not None
        if self.writer is not None and won.epoch != self.core.epoch:
            return self._close("the leader node was replaced")
        if self.world.mirror is not None:
            return
        self.reopens = 0
        if self.writer is None:
            self.writer = TermWriter(
                self.port, self.layout, won.fence, self.acl, self.clock, self.wall_clock, self._feed
            )
            after = replace(self.options, older_lease_ms=won.older_lease_ms)
            self.core = Coordinator(after, self.meter.works_for)
            self.meter.forget()
            self.matches.forget_groups()
            self.elected_ms = self.clock()
            self._step(Elected(self.elected_ms, won.epoch))
        mirror = self.world.leads(self.port, won.epoch, self._feed, self.core.related)
        self.services = TermServices(
            self.port,
            self.layout,
            won.fence,
            self.acl,
            self.roles,
            self.clock,
            self._record,
            self._close,
            lambda: len(self.core.groups),
            self.core.registered,
            self.led_figures,
            self.topics,
            self.core.index.named,
            self.meter.cpu_ns,
            self.world.reads_max,
            mirror.look_again,
        )
        mirror.may_be_led = self.services.classic.may_lead
        self.services.begin()

    def _serve_no_more(self) -> None:
        if self.services is not None:
            self.services.lost()
        self.services = None

    def _feed(self, event: Event) -> None:
        if self.writer is not None and not self.closing:
            self._step(event)

    def _step(self, event: Event) -> None:
        for came_or_went in comings(event, self.core.groups):
            self._record(came_or_went)
        actions = self.core.step(event)
        if self.inputs is not None:
            self.inputs.step(self.core.options, event, actions)
        if isinstance(event, Ready) and self.elected_ms is not None:
            took_ms = event.now_ms - self.elected_ms
            self._term("ready", groups=len(self.core.groups), duration_ms=took_ms)
            self.elected_ms = None
        elif isinstance(event, GroupChanged) and self.services is not None:
            self.services.groups_changed()
        self._act(actions)

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Write():
                    if self.writer is not None:
                        self.meter.works_for(action.group)
                        self.writer.write(action)
                        self.meter.works_for("")
                case ReadGroup():
                    if self.world.mirror is not None:
                        self.world.mirror.read_group(action.group)
                case Assign():
                    self._ask(action, self.ask or compute_here)
                case Record():
                    self._record(action)
                case Resign():
                    self._close(action.reason)
                case _:
                    assert_never(action)

    def _ask(self, action: Assign, ask: AskAssignor) -> None:
        """Tokens begin anew with every term, so an answer counts in its own only."""
        core = self.core

        def done(answer: Assignment | None, failure: str, spent_ns: int = 0) -> None:
            if self.core is core:
                self.meter.charge(action.group, spent_ns)
                self._feed(
                    AssignorAnswered(self.clock(), action.group, action.token, answer, failure)
                )

        ask(action.group, action.assignor, action.given, done)

    def _term(self, event: str, **detail: object) -> None:
        self._record(Record("term", "", {"event": event, "epoch": self.core.epoch, **detail}))

    def _record(self, record: Record) -> None:
        self.journal(
            {
                "t": self.wall_clock(),
                "kind": record.kind,
                **({"group": record.group} if record.group else {}),
                **record.detail,
            }
        )

    # time

    def tick(self) -> None:
        """Do what is due."""
        now = self.clock()
        if self.reopen_at_ms is not None and now >= self.reopen_at_ms:
            self.start()
        if self.port is None or self.closing:
            return
        if (
            self.timeout_ms
            and self.core.leading
            and now - self.port.contact_ms >= self.timeout_ms * 2 // 3
        ):
            return self._close("no contact with ZooKeeper for 2/3 of the session timeout")
        restands = self.restand_at_ms is not None and now >= self.restand_at_ms
        if restands and self.election is not None:
            self.restand_at_ms = None
            self._stand()
        self.meter.works_for("")
        self.world.tick()
        if self.services is not None:
            self.services.tick()
        if self.meter.due:
            self._feed(Spent(now, self.meter.take_us()))
        if self.connected and self.timeout_ms and now - self.port.sent_ms >= self.timeout_ms // 3:
            self.port.read([GetData(self.layout.leader)], lambda result: None)
        wake = self.core.next_wake_ms()
        if wake is not None and now >= wake:
            self._feed(Tick(now))

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do; None = only after an event."""
        times = [self.reopen_at_ms] if self.reopen_at_ms is not None else []
        if self.port is not None and not self.closing:
            if self.restand_at_ms is not None:
                times.append(self.restand_at_ms)
            if self.meter.due:
                times.append(self.clock())
            if self.connected and self.timeout_ms:
                times.append(self.port.sent_ms + self.timeout_ms // 3)
            if self.core.leading and self.timeout_ms:
                times.append(self.port.contact_ms + self.timeout_ms * 2 // 3)
            served = self.services.next_wake_ms() if self.services is not None else None
            reads = self.world.next_wake_ms(self.core.queue.rested_at_ms)
            times += [at for at in (self.core.next_wake_ms(), served, reads) if at is not None]
        return min(times) if times else None

    def status(self) -> Mapping[str, object]:
        """A snapshot for metrics and HTTP (call it on the loop's thread)."""
        return {
            **self.core.status(),
            "led": led_seen(self.services, self.led_figures),
            "ahead": self.world.groups_ahead,
            "connected": self.connected,
            "session_id": self.session_id,
            "contact_age_ms": self.clock() - self.port.contact_ms if self.port else -1,
            "failure": self.failure or "",
            "waiting": self.obstacles.waiting,
        }
