"""Simulated processes: production drivers on a host, woken when they ask for it.

A driver's code runs only inside its host (callbacks of its port, its timers, messages of its
application), and after each such step the process looks at `next_wake_ms` and sets its timer, as
the real loop does. The clock is the machine's (it goes on while the process is paused); the wall
clock is off by something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from consumer.core.messages import (
    Close,
    Failed,
    FromFetcher,
    Lost,
    NoticeKind,
    Polled,
    Subscribe,
    ToFetcher,
)
from consumer.core.options import MemberOptions
from consumer.member.driver import MemberDriver
from tests.sim.application import Application, Habits, Log, Witness
from tests.sim.assignors import OddAssignor
from tests.sim.kernel import Host, Kernel
from tests.sim.sources.cluster import SimCluster
from tests.sim.zookeeper import HostEnsemble, SimEnsemble
from zkcoord.coordinator.driver import CoordinatorDriver
from zkcoord.core.model import Subscription
from zkcoord.core.options import CoordinatorOptions
from zkcoord.topics.options import TopicOptions
from zkcoord.topics.source import ClusterSource
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.zk.port import OPEN_ACL
from zkcoord.znodes.matching import PatternMatches
from zkcoord.znodes.paths import Layout

WALL_START_MS = 1_700_000_000_000
TIMER_LATE_MAX_MS = 3
LOOK_EVERY_MS = (50, 600)
END_LATE_MAX_MS = 5  # a process outlives its driver a little: a second close may still arrive


def _happening(entry: Mapping[str, object]) -> str:
    """A journal entry by kind; of a term, whether it began or why it ended."""
    if entry["kind"] != "term":
        return str(entry["kind"])
    reason = str(entry.get("reason", "")).split(":")[0]
    return f"term {entry['event']}" + (f": {reason}" if reason else "")


class Process:
    """What coordinator and consumer processes share: a host, an ensemble, a timer."""

    def __init__(self, kernel: Kernel, ensemble: SimEnsemble, name: str, timeout_ms: int) -> None:
        self.kernel = kernel
        self.host = Host(kernel, name)
        self.zk: HostEnsemble = ensemble.open_for(self.host, timeout_ms)
        self.timeout_ms = timeout_ms
        self.skew_ms = kernel.between(-2_000, 2_000)
        self.drift_per_mille = 0
        self.journal: list[dict[str, object]] = []
        self.driver: CoordinatorDriver | MemberDriver
        self._timer_ms: int | None = None
        self._timer = 0
        self._ending = False
        self.troubles = 0  # how often it was paused, resumed or killed
        self.host.on_state.append(self._troubled)

    def _troubled(self) -> None:
        self.troubles += 1

    def clock(self) -> int:
        """The machine's clock, ms: it may run a little faster or slower than the world's."""
        return self.kernel.now + self.kernel.now * self.drift_per_mille // 1000

    def _at(self, clock_ms: int) -> int:
        """When the machine's clock shows `clock_ms`, in the world's time (never before it does)."""
        if not self.drift_per_mille:
            return clock_ms
        return clock_ms * 1000 // (1000 + self.drift_per_mille) + 1

    def wall_clock(self) -> int:
        """What the machine believes the time of day to be, ms."""
        return WALL_START_MS + self.kernel.now + self.skew_ms

    def record(self, entry: dict[str, object]) -> None:
        """The driver's journal."""
        self.journal.append(entry)
        self.kernel.happened[_happening(entry)] += 1
        if self.kernel.tracing:
            self.kernel.trace(
                self.host.name, f"journal { {k: v for k, v in entry.items() if k != 't'} }"
            )

    def launch(self) -> None:
        """Start the process."""
        self.host.after_each = self._look_at_timer
        self.host.after(0, self.driver.start)

    def _look_at_timer(self) -> None:
        if self.driver.finished:
            if not self._ending:
                self._ending = True
                self.kernel.trace(self.host.name, "ends")
                self.host.after(self.kernel.between(0, END_LATE_MAX_MS), self.host.kill)
            return
        wake = self.driver.next_wake_ms()
        if wake is None:
            self._timer_ms = None
            self._timer += 1
            return
        wake = max(self._at(wake), self.kernel.now)
        if wake != self._timer_ms:
            self._timer_ms = wake
            self._timer += 1
            token = self._timer
            late = self.kernel.between(0, TIMER_LATE_MAX_MS) if wake > self.kernel.now else 0
            self.host.at(wake + late, lambda: self._tick(token), timer=True)

    def _tick(self, token: int) -> None:
        if token == self._timer:
            self._timer_ms = None
            self.driver.tick()

    @property
    def running(self) -> bool:
        """Whether the process exists (perhaps paused)."""
        return self.host.alive


class CoordinatorProcess(Process):
    """One coordinator."""

    driver: CoordinatorDriver

    def __init__(
        self,
        kernel: Kernel,
        ensemble: SimEnsemble,
        name: str,
        timeout_ms: int,
        options: CoordinatorOptions,
        layout: Layout,
        wrong_chance: Callable[[], float],
        cpu_ns: Callable[[], int],
        roles: Roles | None = None,
        cluster: SimCluster | None = None,
        refresh_ms: int = 0,
    ) -> None:
        super().__init__(kernel, ensemble, name, timeout_ms)
        self.driver = CoordinatorDriver(
            self.zk if cluster is None else OverlaidEnsemble(self.zk),
            layout,
            options,
            self.clock,
            self.wall_clock,
            self.record,
            ask=OddAssignor(kernel, self.host, wrong_chance).ask,
            roles=roles,
            cpu_ns=cpu_ns,
            topics=(
                None
                if cluster is None
                else partial(
                    ClusterSource,
                    cluster.asking(self.host),
                    self.clock,
                    OPEN_ACL,
                    TopicOptions(refresh_ms=refresh_ms),
                )
            ),
        )
        # patterns are judged by real time, of which there is none here
        self.driver.matches = PatternMatches(lambda: 0)
        self.launch()


@dataclass(slots=True)
class Wishes:
    """What a consumer process is started with."""

    group: str
    subscription: Subscription
    timeout_ms: int
    rebalance_timeout_ms: int
    habits: Habits = field(default_factory=Habits)
    assignors: tuple[str, ...] = ("sticky",)
    consumer_id: str | None = None
    instance: str | None = None
    grace_ms: int = 0
    protocols: tuple[str, ...] = ("cooperative", "eager")
    max_poll_interval_ms: int = 0
    stillborn: bool = False
    rejected_backoff_max_ms: int = 60_000
    failsafe: bool = False
    idle_look_ms: int = 0


class Lookout:
    """`consumer.member.driver.Outage` of a process: what it hears of the servers while it looks,
    over its own link.
    """

    def __init__(self, process: Process, ensemble: SimEnsemble) -> None:
        self.process = process
        self.ensemble = ensemble
        self.looking = 0

    def begin(self, proved: Callable[[int], None]) -> None:
        """See `Outage`."""
        self.looking += 1
        self._look(self.looking, proved)

    def end(self) -> None:
        """See `Outage`."""
        self.looking += 1

    def _look(self, token: int, proved: Callable[[int], None]) -> None:
        """The servers are asked at some moment, and heard of at another."""
        if token == self.looking:
            kernel, host = self.process.kernel, self.process.host
            began = self.process.clock()
            kernel.after(self.ensemble.latency_ms(), lambda: self._asked(token, began, proved))
            host.after(
                kernel.between(*LOOK_EVERY_MS), lambda: self._look(token, proved), timer=True
            )

    def _asked(self, token: int, began: int, proved: Callable[[int], None]) -> None:
        kernel, host = self.process.kernel, self.process.host
        if self.ensemble.frozen_until_ms > kernel.now and host.link_bad_until() <= kernel.now:
            kernel.after(
                self.ensemble.latency_ms(),
                lambda: host.do(lambda: self._heard(token, began, proved)),
            )

    def _heard(self, token: int, began: int, proved: Callable[[int], None]) -> None:
        if token == self.looking:
            self.process.kernel.happened["nobody serves"] += 1
            proved(began)


class ConsumerProcess(Process):
    """One consumer: a member and an application."""

    driver: MemberDriver

    def __init__(
        self,
        kernel: Kernel,
        ensemble: SimEnsemble,
        name: str,
        wishes: Wishes,
        log: Log,
        witness: Witness,
        layout: Layout,
        roles: Roles | None = None,
        overlaid: bool = False,
    ) -> None:
        super().__init__(kernel, ensemble, name, wishes.timeout_ms)
        self.wishes = wishes
        self._ids = 0
        self.closing = False
        options = MemberOptions(
            group=wishes.group,
            host=name,
            rebalance_timeout_ms=wishes.rebalance_timeout_ms,
            auto_commit=wishes.habits.automatic,
            consumer_id=wishes.consumer_id,
            process=name,
            instance=wishes.instance,
            grace_ms=wishes.grace_ms,
            protocols=wishes.protocols,
            assignors=wishes.assignors,
            max_poll_interval_ms=wishes.max_poll_interval_ms,
            returns_with_poll=True,
            rejected_backoff_max_ms=wishes.rejected_backoff_max_ms,
            failsafe=wishes.failsafe,
            idle_look_ms=wishes.idle_look_ms,
        )
        self.driver = MemberDriver(
            OverlaidEnsemble(self.zk) if overlaid else self.zk,
            layout,
            options,
            self.clock,
            self.wall_clock,
            self._new_id,
            self._to_app,
            self.record,
            outage=Lookout(self, ensemble) if wishes.failsafe else None,
            roles=roles,
        )
        self.app = Application(
            kernel,
            self.host,
            log,
            wishes.habits,
            witness,
            self._to_agent,
            self._lease_left,
            wishes.group,
        )
        self.launch()
        if wishes.stillborn:
            self.close()
            self.close()
            return
        self._to_agent(Subscribe(wishes.subscription))
        self.app.start()

    def _new_id(self) -> str:
        self._ids += 1
        consumer = self.wishes.consumer_id or self.host.name
        drawn = f"{self.wall_clock()}-{self.kernel.rng.getrandbits(32):08x}"
        return f"{self.wishes.group}_{consumer}-{drawn}"

    def record(self, entry: dict[str, object]) -> None:
        """The member's journal. Some applications close their consumer just when it was evicted."""
        super().record(entry)
        if (
            entry["kind"] == NoticeKind.EVICTED.value
            and not self.closing
            and self.kernel.chance(self.wishes.habits.quits_chance)
        ):
            self.close()

    def _to_app(self, message: ToFetcher) -> None:
        self.app.hear(message)
        if (
            isinstance(message, Lost)
            and "did not poll" in message.reason
            and not self.closing
            and self.kernel.chance(self.wishes.habits.quits_chance)
        ):
            self.close()
        if isinstance(message, Failed) and self.kernel.chance(0.5):
            self.close()  # some applications close what failed, others just end

    def _to_agent(self, message: FromFetcher) -> None:
        def heard() -> None:
            if isinstance(message, (Polled, Subscribe)):
                self.app.may_register = True
            self.driver.receive(message)

        self.host.after(0, heard)

    def _lease_left(self, assignment_epoch: int) -> int | None:
        until = self.driver.lease_until(assignment_epoch)
        return until - self.clock() if until else None

    def subscribe(self, subscription: Subscription) -> None:
        """The application changes its mind."""
        self.wishes.subscription = subscription
        self._to_agent(Subscribe(subscription))

    def close(self) -> None:
        """A clean leave."""
        self.closing = True
        self.host.after(0, self._close)

    def _close(self) -> None:
        self.app.finish()
        self.app.stopped = True
        self._to_agent(
            Close(
                {tp: p.processed for tp, p in self.app.positions.items()}, self.app.assignment_epoch
            )
        )
