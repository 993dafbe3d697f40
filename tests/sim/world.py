"""One run: a world drawn from a seed, a safety phase full of faults, a liveness phase without, and the death of a coordinator in a balanced group.

The world is drawn as a swarm: each seed enables its own subset of faults, with its own sizes (servers, coordinators, groups, consumers, topics, partitions, time limits), so that
rare combinations meet. Phases:

1. safety: faults fire at random for `safety_ms`; the checkers watch every transaction and every hand-out;
2. liveness: faults stop and are healed; within 2 session timeouts + deadline + lease + 5 s each subscribed partition must be fetched by exactly one live member, and then nobody
   may be commanded any more;
3. takeover: the leading coordinator of the balanced world dies; a successor must lead and must send no command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from zkcoord.core.model import Pattern, PatternKind, Subscription, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.port import Create, Delete, SetData

from tests.sim.application import Application, Habits, Log
from tests.sim.faults import FAULTS, FOREIGN_PATHS, FaultKind
from tests.sim.invariants import Checker, Violation
from tests.sim.kernel import Kernel, RunawaySimulation
from tests.sim.processes import ConsumerProcess, CoordinatorProcess, Wishes
from tests.sim.tree import Txn
from tests.sim.zookeeper import SimEnsemble, Weather

QUIET_MS = 3_000
LOOK_EVERY_MS = 250
TAKEOVER_MS = 3_000


@dataclass(slots=True)
class Plan:
    """The sizes of one world. Times in ms."""

    servers: int = 3
    coordinators: int = 2
    groups: int = 1
    consumers: int = 3
    topics: int = 2
    partitions_max: int = 6
    session_ms: int = 4_000
    coordinator_session_ms: int = 4_000
    lease_max_ms: int = 3_000
    deadline_ms: int = 3_000
    safety_ms: int = 20_000
    fault_every_ms: int = 900
    rate_per_s: int = 100
    guardian_chance: float = 0.5
    manual_chance: float = 0.3
    slow: bool = False
    max_poll_interval_ms: int = 0
    odd_chance: float = 0.0
    faults: tuple[FaultKind, ...] = ()


def draw_plan(kernel: Kernel) -> Plan:
    """A world's sizes from its generator."""
    rng, between = kernel.rng, kernel.between
    enabled = tuple(kind for kind in FAULTS if kernel.chance(0.55))
    return Plan(
        servers=rng.choice((1, 3, 3)),
        coordinators=rng.choice((1, 2, 2, 3)),
        groups=rng.choice((1, 1, 2)),
        consumers=between(2, 4),
        topics=between(1, 3),
        partitions_max=between(1, 6),
        session_ms=rng.choice((2_000, 4_000, 6_000)),
        coordinator_session_ms=rng.choice((2_000, 4_000)),
        lease_max_ms=rng.choice((1_500, 3_000, 12_000)),
        deadline_ms=rng.choice((1_500, 3_000, 6_000)),
        safety_ms=between(8_000, 20_000),
        fault_every_ms=rng.choice((300, 700, 1_500)),
        guardian_chance=rng.choice((0.0, 0.5, 1.0)),
        rate_per_s=rng.choice((0, 20, 100)),
        slow=kernel.chance(0.4),
        max_poll_interval_ms=rng.choice((0, 0, 2_500, 5_000)),
        odd_chance=rng.choice((0.0, 0.0, 0.15)),
        faults=enabled,
    )


@dataclass(slots=True)
class Result:
    """What one seed did."""

    seed: int
    steps: int = 0
    time_ms: int = 0
    transactions: int = 0
    commands: int = 0
    evictions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


class World:
    """Everything that exists in one run."""

    def __init__(self, seed: int, tracing: bool = False, plan: Plan | None = None) -> None:
        self.seed = seed
        self.kernel = Kernel(seed, tracing)
        self.plan = plan or draw_plan(self.kernel)
        self.zk = SimEnsemble(self.kernel, self.plan.servers, Weather(tick_ms=self.kernel.rng.choice((100, 500))))
        self.log = Log(self.kernel, self.plan.rate_per_s)
        self.coordinators: list[CoordinatorProcess] = []
        self.consumers: list[ConsumerProcess] = []
        self.checker = Checker(self.kernel, self.zk.tree, self._role, self._apps)
        self.checker.role_session = self._host_of_session
        self.zk.observers.append(self._observe)
        self.topics: dict[str, int] = {}
        self.calm = False
        self.ambush = False
        self.disturbed_ms = 0
        self.follows_until_ms = 0
        self._names: Counter[str] = Counter()
        self._topics_made = 0
        self._make_topics()

    # ---- who is who ----

    def _role(self, host: str) -> str:
        return {"k": "coordinator", "c": "consumer"}.get(host[:1], "operator")

    def _host_of_session(self, session: int) -> str:
        found = self.zk.sessions.get(session)
        return found.host.name if found is not None else ""

    def _apps(self) -> list[Application]:
        return [c.app for c in self.consumers]

    def _observe(self, txn: Txn, _tree: object) -> None:
        self.checker.committed(txn, self.zk.tree)
        if self.ambush and not self.calm:
            self._spring(txn)

    def _spring(self, txn: Txn) -> None:
        """The registration of the first member that this transaction commands is deleted a moment later."""
        commanded = [path for path, before, after in txn.changes if before is None and after is not None and "/channel/" in path and path.count("/") == 6]
        if commanded and self._role(txn.host) == "coordinator":
            self.ambush = False
            group, _, member = commanded[0].split("/")[3:6]
            path = f"/consumers/groups/{group}/ids/{member}"
            self.kernel.after(self.kernel.between(0, 5), lambda: self._delete_if_there(path))

    def _delete_if_there(self, path: str) -> None:
        if path in self.zk.tree.nodes:
            self.zk.commit([Delete(path)], 0, "operator")

    # ---- making things ----

    def operator(self, *ops: Create | SetData) -> None:
        """An operator, Kafka or a foreign tool writes."""
        self.zk.commit(ops, 0, "operator")

    def _make_topics(self) -> None:
        self.operator(Create("/brokers", b""), Create("/brokers/topics", b""), Create("/consumers", b""))
        for _ in range(self.plan.topics):
            self.new_topic(self.kernel.between(1, self.plan.partitions_max))

    def new_topic(self, partitions: int) -> str:
        """A topic with a name that none had."""
        name = f"t{self._topics_made}"
        self._topics_made += 1
        self.add_topic(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Kafka deletes a topic."""
        del self.topics[name]
        self.zk.commit([Delete(f"/brokers/topics/{name}")], 0, "operator")

    def add_topic(self, name: str, partitions: int) -> None:
        """Kafka creates a topic, or gives it more partitions."""
        data = ('{"version":3,"topic_id":"id-%s","partitions":{%s}}' % (name, ",".join(f'"{p}":[0]' for p in range(partitions)))).encode()
        path = f"/brokers/topics/{name}"
        self.operator(SetData(path, data, -1) if name in self.topics else Create(path, data))
        self.topics[name] = partitions
        for p in range(partitions):
            self.log.add(TopicPartition(name, p))

    def later(self, delay_ms: int, thunk: Callable[[], object]) -> None:
        """Something that follows from a fault in a while: the world is not healed before."""
        self.follows_until_ms = max(self.follows_until_ms, self.kernel.now + delay_ms)
        self.kernel.after(delay_ms, lambda: _ignore(thunk()))

    def new_name(self, letter: str) -> str:
        """A host name that no process had."""
        self._names[letter] += 1
        return f"{letter}{self._names[letter]}"

    def add_coordinator(self) -> None:
        """Start a coordinator."""
        o = CoordinatorOptions(lease_max_ms=self.plan.lease_max_ms, rebalance_timeout_max_ms=self.plan.deadline_ms, channel_orphan_ms=5_000)
        name = self.new_name("k")
        self.kernel.trace(name, "started")
        self.coordinators.append(CoordinatorProcess(self.kernel, self.zk, name, self.plan.coordinator_session_ms, o))

    def draw_subscription(self) -> Subscription:
        """What an application may want."""
        names = sorted(self.topics)
        if self.kernel.chance(0.2):
            return Subscription(pattern=Pattern(PatternKind.WHITE_LIST, self.kernel.rng.choice(("t.*", "t[01]"))))
        if self.kernel.chance(0.6):
            return Subscription(topics={t: 1 for t in names})
        some = [t for t in names if self.kernel.chance(0.6)] or names[:1]
        return Subscription(topics={t: self.kernel.between(1, 2) for t in some})

    def add_consumer(self, group: str, stillborn: bool = False) -> ConsumerProcess:
        """Start a consumer. In an odd world some have another assignor or no reset policy, and may be told to go."""
        odd = not self.calm and self.kernel.chance(self.plan.odd_chance)
        slow = self.plan.slow and not self.calm
        h = Habits(automatic=not self.kernel.chance(self.plan.manual_chance), slow_chance=0.02 if slow else 0.0, slow_revoke_chance=0.15 if slow else 0.0,
                   quits_chance=0.0 if self.calm else 0.1, resets=not (odd and self.kernel.chance(0.5)))
        name = self.new_name("c")
        wishes = Wishes(group, self.draw_subscription(), self.plan.session_ms, self.plan.deadline_ms, h, max_poll_interval_ms=self.plan.max_poll_interval_ms, stillborn=stillborn)
        if odd and h.resets:
            wishes.assignors = self.kernel.rng.choice((("range",), ("range", "sticky"), ("sticky", "range")))
        self.kernel.trace(name, f"started: {wishes.subscription} automatic={h.automatic}")
        self.consumers.append(ConsumerProcess(self.kernel, self.zk, name, wishes, self.log, self.checker))
        return self.consumers[-1]

    @property
    def groups(self) -> list[str]:
        """The names of the groups."""
        return [f"g{i}" for i in range(self.plan.groups)]

    # ---- the phases ----

    def run(self) -> Result:
        """All three phases."""
        try:
            self._populate()
            self._safety()
            if self._liveness():
                self._takeover()
        except RunawaySimulation as error:
            self.checker.violate("I11", str(error))
        self._post_mortem()
        k = self.kernel
        return Result(self.seed, k.steps, k.now, len(self.zk.log), self.checker.commands_sent, self.checker.evictions, k.faults, self.checker.violations, k.lines)

    def _populate(self) -> None:
        for _ in range(self.plan.coordinators):
            self.kernel.after(self.kernel.between(0, 500), self.add_coordinator)
        for group in self.groups:
            for _ in range(self.plan.consumers):
                self.kernel.after(self.kernel.between(0, 3_000), lambda group=group: self.add_consumer(group))  # type: ignore[misc]

    def _safety(self) -> None:
        self.kernel.after(500, self._next_fault)
        self.kernel.run_until(self.plan.safety_ms)

    def _next_fault(self) -> None:
        if self.calm or not self.plan.faults:
            return
        self.kernel.rng.choice(self.plan.faults).fire(self)
        self.kernel.after(self.kernel.between(10, 2 * self.plan.fault_every_ms), self._next_fault)

    def _calm_down(self) -> None:
        """Faults stop and are healed."""
        self.calm = True
        self.zk.weather = Weather(tick_ms=self.zk.weather.tick_ms)
        for process in [*self.coordinators, *self.consumers]:
            process.host.resume()
        for consumer in self.consumers:
            consumer.app.habits.quits_chance = consumer.app.habits.slow_chance = consumer.app.habits.slow_revoke_chance = 0.0
        if not any(c.running for c in self.coordinators):
            self.add_coordinator()
        for path in FOREIGN_PATHS:
            if path in self.zk.tree.nodes:
                self.zk.commit([Delete(path)], 0, "operator")
        for group in self.groups:
            if not [m for m in self.members(group) if m.app.failed is None]:
                self.add_consumer(group)
        self.kernel.trace("WORLD", "=== the faults are over")

    def members(self, group: str) -> list[ConsumerProcess]:
        """The consumers of a group that want to be members."""
        return [c for c in self.consumers if c.running and c.wishes.group == group and not c.closing]

    def wanted(self, group: str) -> set[TopicPartition]:
        """Every partition that a member of the group subscribes."""
        topics: set[str] = set()
        for member in self.members(group):
            if member.app.failed is None:
                s = member.wishes.subscription
                topics.update(s.topics if s.pattern is None else [t for t in self.topics if s.pattern.regex == "t.*" or t in ("t0", "t1")])
        return {TopicPartition(t, p) for t in topics if t in self.topics for p in range(self.topics[t])}

    def unsettled(self) -> str:
        """Why the groups are not settled; "" when they are."""
        leader = self.leader()
        if leader is None or not leader.running or leader.driver.session_id != self.zk.tree.nodes["/consumers/coordinator"].owner:
            return "nobody leads"
        for group in self.groups:
            fetchers: Counter[TopicPartition] = Counter(tp for m in self.members(group) for tp in m.app.fetching())
            for tp in sorted(self.wanted(group)):
                if fetchers[tp] != 1:
                    return f"{group}: {tp} is fetched by {fetchers[tp]} members"
                if self.checker.part((group, tp)).last_handed_ms < self.disturbed_ms:
                    return f"{group}: {tp} is owned but was not fetched since"
            extra = sorted(set(fetchers) - self.wanted(group))
            if extra:
                return f"{group}: {extra[0]} is fetched but nobody subscribes it"
            names = [path for path in self.zk.tree.nodes if path.startswith(f"/consumers/groups/{group}/ids/")]
            registered = {self._host_of_session(self.zk.tree.nodes[path].owner) for path in names}
            expected = {m.host.name for m in self.members(group) if m.app.failed is None}
            if registered - {""} != expected:
                return f"{group}: {sorted(registered)} are registered, expected {sorted(expected)}"
        return ""

    def _settle(self, limit_ms: int) -> bool:
        self.disturbed_ms = self.kernel.now
        deadline = self.kernel.now + limit_ms
        while (why := self.unsettled()) and self.kernel.now < deadline:
            self.kernel.run_until(self.kernel.now + LOOK_EVERY_MS)
        if why:
            self.checker.violate("I8", f"{limit_ms} ms after the last fault: {why}")
        return not why

    @property
    def liveness_ms(self) -> int:
        """How long a healed world may take: 2 session timeouts, the deadline of a command, the lease, and 5 s."""
        p = self.plan
        return 2 * max(p.session_ms, p.coordinator_session_ms) + p.deadline_ms + p.lease_max_ms + 5_000

    def _healed_at_ms(self) -> int:
        """When the last link, server and slow application is well again."""
        hosts = [p.host for p in [*self.coordinators, *self.consumers] if p.running]
        times = [self.kernel.now, self.follows_until_ms, self.zk.frozen_until_ms, *(s.isolated_until_ms for s in self.zk.servers), *(c.app.busy_until_ms for c in self.consumers if c.running)]
        return max([*times, *(h.link_stalled_until for h in hosts), *(h.link_cut_until for h in hosts)])

    def _liveness(self) -> bool:
        self._calm_down()
        while self._healed_at_ms() > self.kernel.now:
            self.kernel.run_until(self._healed_at_ms())
        if not any(c.running for c in self.coordinators):
            self.add_coordinator()
        self.kernel.trace("WORLD", "=== everything is healed")
        if not self._settle(self.liveness_ms):
            return False
        self.kernel.run_until(self.kernel.now + QUIET_MS)
        before = self.checker.commands_sent
        self.kernel.run_until(self.kernel.now + QUIET_MS)
        if self.checker.commands_sent != before:
            self.checker.violate("I8", f"{self.checker.commands_sent - before} commands in a balanced, undisturbed world")
        return True

    def leader(self) -> CoordinatorProcess | None:
        """The coordinator whose session holds the leader node."""
        node = self.zk.tree.nodes.get("/consumers/coordinator")
        return next((c for c in self.coordinators if node is not None and self._host_of_session(node.owner) == c.host.name), None)

    def _takeover(self) -> None:
        old = self.leader()
        if old is None:
            self.checker.violate("I8", "nobody leads a healed world")
            return
        commands, callbacks = self.checker.commands_sent, dict(self.checker.callbacks)
        self.kernel.trace("WORLD", f"=== {old.host.name} dies in a balanced world")
        if not any(c.running for c in self.coordinators if c is not old):
            self.add_coordinator()
        self.kill(old)
        self.kernel.run_until(self.kernel.now + self.plan.coordinator_session_ms + self.zk.weather.tick_ms + TAKEOVER_MS)
        if self.leader() in (None, old):
            self.checker.violate("I8", "no successor leads")
        if self.checker.commands_sent != commands or self.checker.callbacks != callbacks:
            self.checker.violate("I8", f"the death of a coordinator cost {self.checker.commands_sent - commands} commands")
        why = self.unsettled()
        if why:
            self.checker.violate("I8", f"after a takeover: {why}")

    def kill(self, process: CoordinatorProcess | ConsumerProcess) -> None:
        """kill -9; a guardian may close its sessions."""
        process.host.kill()
        if self.kernel.chance(self.plan.guardian_chance):
            for port in process.zk.ports:
                if port.session_id:
                    self.kernel.after(self.kernel.between(1, 30), lambda session=port.session_id: self.zk.end_session(session))  # type: ignore[misc]

    def _post_mortem(self) -> None:
        for process in [*self.coordinators, *self.consumers]:
            if process.host.crash is not None:
                self.checker.violate("I10", f"{process.host.name} died of {type(process.host.crash).__name__}: {process.host.crash}")
        for refusal in self.zk.refusals[:5]:
            self.checker.violate("I11", refusal)


def _ignore(_result: object) -> None:
    """What a thunk of the kernel returns is of no interest."""
