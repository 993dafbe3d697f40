"""One run: a world drawn from a seed, a safety phase full of faults, a liveness phase without, and
the death of a coordinator in a balanced group.

The world is drawn as a swarm: each seed enables its own subset of faults, with its own sizes
(servers, coordinators, groups, consumers, topics, partitions, time limits), so that rare
combinations meet. Phases:

1. safety: faults fire at random for `safety_ms`; the checkers watch every transaction and every
   hand-out;
2. liveness: faults stop and are healed; within 2 session timeouts + deadline + lease + 5 s each
   subscribed partition must be fetched by exactly one live member, and then nobody may be commanded
   any more;
3. takeover: the leading coordinator of the balanced world dies; a successor must lead and must send
   no command.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from consumer.core.messages import FailureCode
from tests.sim.application import Application, Habits, Log
from tests.sim.assignors import ODD
from tests.sim.change.wires import ChangeWires
from tests.sim.contract import Contract
from tests.sim.faults import PARTITIONS_MAX
from tests.sim.faults_legacy import write_mode
from tests.sim.faults_moments import Moment, spring
from tests.sim.faults_operators import is_paused, pause, paused_groups
from tests.sim.faults_roles import make_older
from tests.sim.invariants import Checker, Violation
from tests.sim.kernel import Kernel, RunawaySimulation
from tests.sim.legacy import LegacyMember
from tests.sim.mixes import DEFAULT, MIXES
from tests.sim.places import Places
from tests.sim.plan import LEASES_MS, Plan
from tests.sim.processes import ConsumerProcess, CoordinatorProcess, Process, Wishes
from tests.sim.replay import Replayed
from tests.sim.rights import ROLES, Rights
from tests.sim.sources.checks import SourceChecks, topic_node
from tests.sim.sources.cluster import SimCluster
from tests.sim.tree import Txn
from tests.sim.wire import Wires
from tests.sim.wire_invariants import GATEWAY
from tests.sim.zookeeper import SimEnsemble, Weather
from zkcoord.core.model import Pattern, PatternKind, Subscription, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.topics.judging import SaidTopic
from zkcoord.zk.port import Create, Delete, Op, SetData
from zkcoord.znodes.paths import Layout

QUIET_MS = 3_000
UNDER_WAY = ("PreparingRebalance", "CompletingRebalance", "Quarantined")
LOOK_EVERY_MS = 250
SLICES_MAX = 4
READ_AGAIN_MS = (1, 300, 3_000)
"""When a standby reads a group again that changed: with these it does so all the time."""
BURDENED_EVERY, REPLAYED_BURDENED_EVERY = 8, 24
CPU_NS_PER_LOOK = 1_000_000
TAKEOVER_MS = 3_000
SOURCE_MS = 30_000  # until a coordinator that asks brokers is sure of what they say
OLD_ATTEMPTS_MS = 40_000  # of old consumers: four attempts, what a rescue waits for, four more


@dataclass(slots=True)
class Result:
    """What one seed did. `happened` counts what the processes' journals told, by kind."""

    mix: str
    seed: int
    steps: int = 0
    time_ms: int = 0
    transactions: int = 0
    commands: int = 0
    evictions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    replayed: Replayed | None = None


class World:
    """Everything that exists in one run."""

    def __init__(
        self, seed: int, tracing: bool = False, plan: Plan | None = None, mix: str = DEFAULT
    ) -> None:
        self.seed = seed
        # every group is wide and heavy by its coordinators' limits and clocks; of these seeds some
        # are replayed, too
        self.burdened = seed % BURDENED_EVERY == 1 or seed % REPLAYED_BURDENED_EVERY == 16
        self._cpu_count = 0
        self.mix = mix
        self.kernel = Kernel(seed, tracing)
        self.plan = plan or MIXES[mix].draw(self.kernel)
        # what a client is given, or is to give up, comes one by one
        self.in_parts = self.plan.wire is not None and seed % 5 == 3
        self.places = Places.ISOLATED if self.plan.layout is Layout.ISOLATED else Places.DRAFT
        self.zk = SimEnsemble(
            self.kernel,
            self.plan.servers,
            Weather(tick_ms=self.kernel.rng.choice((100, 500))),
            Rights() if self.plan.roles else None,
        )
        self.roles = ROLES if self.plan.roles else None
        self.log = Log(self.kernel, self.plan.rate_per_s)
        self.coordinators: list[CoordinatorProcess] = []
        self.consumers: list[ConsumerProcess] = []
        self.apps: list[Application] = []
        self.legacies: list[LegacyMember] = []
        self.checker = Checker(self.kernel, self.zk.tree, self._role, self._apps, self.places)
        self.checker.role_session = self.host_of_session
        self.contract = Contract(self, self.checker.violate) if self.plan.shared else None
        if self.contract is not None:
            self.checker.handed_beside, self.checker.knows_shared = (
                self.contract.handed_out,
                self.contract.knows,
            )
        self.cluster = _cluster(self)
        self.wires = _wires(self)
        if isinstance(self.wires, ChangeWires):
            self.checker.stored_by_state = self.wires.checker.commits_by_state
        if self.wires is not None:
            self.checker.handed_beside = self.wires.checker.shim_handed_out
            self.checker.position_behind = self.wires.checker.position
        groups = self.checker.groups
        groups.slots = self.plan.groups_in_flight_max
        if not self.plan.custom_chance:  # what an assignor said, and when, is in no transaction
            groups.backoff_ms = (
                self.plan.quarantine_backoff_ms * 1000 // (1000 + self.plan.drift_per_mille_max)
            )
        groups.members_max = self.plan.members_per_group_max
        groups.eager, groups.isolated = self.plan.eager_chance == 1, self._undisturbed
        self.checker.topic_node = partial(topic_node, self.zk.tree)
        self.sources = (
            SourceChecks(self.cluster, self.zk.tree, self.checker.violate, self._begins_anew)
            if self.cluster is not None
            else None
        )
        self.zk.observers.append(self._observe)
        self.topics: dict[str, int] = {}
        self.calm = False
        self.ambush = False
        self.moments: list[Moment] = []
        self.disturbed_ms = 0
        self.follows_until_ms = 0
        self._names: Counter[str] = Counter()
        self._lives: Counter[str] = Counter()
        self._topics_made = 0
        # of its own, so that nothing else of a seed depends on it
        self._leases = random.Random(f"leases {seed}")
        self._make_topics()

    # ---- who is who ----

    def _undisturbed(self) -> bool:
        """Where all groups owe more time than others leave them, they wait for each other."""
        leader = self.leader()
        alone = self.plan.judge_isolation and not self.burdened
        return alone and leader is not None and leader.running

    def _role(self, host: str) -> str:
        kinds = {"k": "coordinator", "c": "consumer", "l": "legacy", "w": "consumer"}
        return kinds.get(host[:1], "operator")

    def host_of_session(self, session: int) -> str:
        """The process whose session it is ("": nobody's)."""
        found = self.zk.sessions.get(session)
        return found.host.name if found is not None else ""

    def _apps(self) -> list[Application]:
        return self.apps

    def _observe(self, txn: Txn, _tree: object) -> None:
        self.checker.committed(txn, self.zk.tree)
        if self.contract is not None:
            self.contract.committed(txn)
        if self.wires is not None:
            self.wires.checker.committed(txn)
        if self.sources is not None:
            self.sources.committed(txn)
        if self.ambush and not self.calm:
            self._spring(txn)
        if self.moments and not self.calm:
            spring(self, txn)

    def _spring(self, txn: Txn) -> None:
        """The registration of the first member that this transaction commands is deleted a moment
        later.
        """
        created = [
            self.places.place_of(path)
            for path, before, after in txn.changes
            if before is None and after is not None
        ]
        commanded = [place for place in created if place.kind == "command"]
        if commanded and self._role(txn.host) == "coordinator":
            self.ambush = False
            path = f"{self.places.ids(commanded[0].group)}/{commanded[0].member}"
            self.kernel.after(self.kernel.between(0, 5), lambda: self._delete_if_there(path))

    def _delete_if_there(self, path: str) -> None:
        if path in self.zk.tree.nodes:
            self.zk.commit([Delete(path)], 0, "operator")

    # ---- making things ----

    def operator(self, *ops: Create | SetData) -> None:
        """An operator, Kafka or a foreign tool writes."""
        self.zk.commit(ops, 0, "operator")

    def operator_writes(self, ops: Sequence[Op]) -> None:
        """The same."""
        self.zk.commit(ops, 0, "operator")

    def _make_topics(self) -> None:
        self.operator(
            Create("/brokers", b""), Create("/brokers/topics", b""), Create("/consumers", b"")
        )
        if self.plan.older_roles:
            make_older(self)
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
        if self.cluster is not None:
            self.cluster.put(name, None)
        if self.cluster is None or not self.cluster.finalised:
            self.zk.commit([Delete(f"/brokers/topics/{name}")], 0, "operator")

    def add_topic(self, name: str, partitions: int) -> None:
        """Kafka creates a topic, or gives it more partitions."""
        known_as = f"id-{name}{'_' * self._lives[name]}"
        topic_id = f'"topic_id":"{known_as}",' if self.plan.topic_ids else ""
        if self.cluster is not None:
            self.cluster.put(name, SaidTopic(known_as, partitions))
        data = (
            '{"version":3,%s"partitions":{%s}}'
            % (topic_id, ",".join(f'"{p}":[0]' for p in range(partitions)))
        ).encode()
        path = f"/brokers/topics/{name}"
        if self.cluster is None or not self.cluster.finalised:
            self.operator(SetData(path, data, -1) if name in self.topics else Create(path, data))
        self.topics[name] = partitions
        for p in range(partitions):
            self.log.add(TopicPartition(name, p))

    def make_topic_again(self, name: str, partitions: int) -> None:
        """Kafka creates a topic whose name a deleted one had."""
        if name in self.topics:
            return
        self._lives[name] += 1
        if self.cluster is None:
            self._begins_anew(name)
        self.add_topic(name, partitions)

    def _begins_anew(self, name: str) -> None:
        """From now on there are records of another topic. Where a coordinator has to ask for it,
        nobody writes any before it knows: a broker would refuse who fetches by the former's id.
        """
        for p in range(PARTITIONS_MAX + 2):
            self.log.begin_anew(TopicPartition(name, p))
        self.checker.topic_made_again(name, self.groups, PARTITIONS_MAX + 2)

    def later(self, delay_ms: int, thunk: Callable[[], object]) -> None:
        """Something that follows from a fault in a while: the world is not healed before."""
        self.follows_until_ms = max(self.follows_until_ms, self.kernel.now + delay_ms)
        self.kernel.after(delay_ms, lambda: _ignore(thunk()))

    def new_name(self, letter: str) -> str:
        """A host name that no process had."""
        self._names[letter] += 1
        return f"{letter}{self._names[letter]}"

    def add_coordinator(self, lease_max_ms: int = 0) -> None:
        """Start a coordinator, with this lease or a drawn one."""
        p = self.plan
        drawn_ms = (
            self._leases.choice(LEASES_MS)
            if self._leases.random() < p.other_lease_chance
            else p.lease_max_ms
        )
        o = CoordinatorOptions(
            lease_max_ms=lease_max_ms or drawn_ms,
            rebalance_timeout_max_ms=p.deadline_ms,
            channel_orphan_ms=5_000,
            groups_in_flight_max=p.groups_in_flight_max,
            max_rebalance_retries=p.max_rebalance_retries,
            quarantine_ms=p.quarantine_ms,
            quarantine_backoff_ms=p.quarantine_backoff_ms,
            quarantine_backoff_max_ms=p.quarantine_backoff_max_ms,
            retries_forgotten_ms=p.retries_forgotten_ms,
            members_per_group_max=p.members_per_group_max,
            external_assignors=(ODD,),
        )
        if self.burdened:
            o = replace(o, filed_at_once_max=2, assigned_here_max=0, weight_per_step_max=1)
        if self.in_parts:
            o = replace(o, partitions_per_command_max=1)
        name = self.new_name("k")
        self.kernel.trace(name, f"started: lease_max_ms={o.lease_max_ms}")
        self.coordinators.append(
            CoordinatorProcess(
                self.kernel,
                self.zk,
                name,
                self.plan.coordinator_session_ms,
                o,
                self.plan.layout,
                lambda: 0.0 if self.calm else p.assignor_wrong_chance,
                self._cpu_ns,
                self.roles,
                self.cluster,
                self.plan.source.refresh_ms if self.plan.source is not None else 0,
            )
        )
        world = self.coordinators[-1].driver.world
        world.read_again_ms = READ_AGAIN_MS[self.seed % len(READ_AGAIN_MS)]
        if self.seed % 2:  # a takeover reads all groups at once, or a few after the other
            world.groups_per_slice = -(-p.groups // SLICES_MAX)
        self.drift(self.coordinators[-1])

    def _cpu_ns(self) -> int:
        """The time that coordinators count as spent: none, or a little with each look, so that all
        groups soon owe more than others leave them.
        """
        self._cpu_count += self.burdened
        return self._cpu_count * CPU_NS_PER_LOOK

    def draw_subscription(self) -> Subscription:
        """What an application may want."""
        names = sorted(self.topics)
        if self.kernel.chance(0.2):
            return Subscription(
                pattern=Pattern(PatternKind.WHITE_LIST, self.kernel.rng.choice(("t.*", "t[01]")))
            )
        if self.kernel.chance(0.6):
            return Subscription(topics=dict.fromkeys(names, 1))
        some = [t for t in names if self.kernel.chance(0.6)] or names[:1]
        return Subscription(topics={t: self.kernel.between(1, 2) for t in some})

    def add_consumer(
        self,
        group: str,
        stillborn: bool = False,
        consumer_id: str = "",
        again: ConsumerProcess | None = None,
    ) -> ConsumerProcess:
        """Start a consumer, or `again` one that was started before. In an odd world some have
        another assignor or no reset policy, and may be told to go.
        """
        odd = not self.calm and self.kernel.chance(self.plan.odd_chance)
        slow = self.plan.slow and not self.calm
        h = Habits(
            automatic=not self.kernel.chance(self.plan.manual_chance),
            slow_chance=0.02 if slow else 0.0,
            slow_revoke_chance=0.15 if slow else 0.0,
            answers_in_part=self.plan.answers_in_part,
            quits_chance=0.0 if self.calm else 0.1,
            resets=not (odd and self.kernel.chance(0.5)),
        )
        h.text_chance = self.plan.text_chance
        if self.plan.seeks_chance and self.kernel.chance(self.plan.seeks_chance):
            h.resets, h.seeks = False, True
        if self.kernel.chance(self.plan.stuck_chance):
            h.sticks = 1
        name = self.new_name("c")
        wishes = Wishes(
            group,
            self.draw_subscription(),
            self.plan.session_ms,
            self.plan.deadline_ms,
            h,
            max_poll_interval_ms=self.plan.max_poll_interval_ms,
            stillborn=stillborn,
            rejected_backoff_max_ms=self.plan.rejected_backoff_max_ms,
            idle_look_ms=self.plan.idle_look_ms,
        )
        if consumer_id or self.kernel.chance(self.plan.chosen_id_chance):
            wishes.consumer_id = consumer_id or f"id{name}"
        if odd and h.resets:
            wishes.assignors = self.kernel.rng.choice(
                (("range",), ("range", "sticky"), ("sticky", "range"))
            )
        if self.kernel.chance(self.plan.custom_chance):
            wishes.assignors = (ODD, "sticky")
        if self.kernel.chance(self.plan.static_chance):
            wishes.instance, wishes.grace_ms = f"i{name}", self.plan.grace_ms
        if self.kernel.chance(self.plan.eager_chance):
            wishes.protocols = ("eager",)
        wishes.failsafe = bool(self.plan.failsafe_chance) and self.kernel.chance(
            self.plan.failsafe_chance
        )
        if again is not None:
            before = again.wishes
            (
                wishes.subscription,
                wishes.instance,
                wishes.grace_ms,
                wishes.protocols,
                wishes.assignors,
            ) = (
                before.subscription,
                before.instance,
                before.grace_ms,
                before.protocols,
                before.assignors,
            )
        self.kernel.trace(name, f"started: {wishes.subscription} automatic={h.automatic}")
        self.consumers.append(
            ConsumerProcess(
                self.kernel,
                self.zk,
                name,
                wishes,
                self.log,
                self.checker,
                self.plan.layout,
                self.roles,
                self.cluster is not None,
            )
        )
        self.apps.append(self.consumers[-1].app)
        self.drift(self.consumers[-1])
        return self.consumers[-1]

    def add_legacy(self, group: str) -> LegacyMember:
        """Start an old consumer, with its own notion of how often to commit."""
        kernel, contract = self.kernel, self.contract
        assert contract is not None
        some = [t for t in sorted(self.topics) if kernel.chance(0.8)] or sorted(self.topics)[:1]
        topics = {t: kernel.between(1, 2) for t in some}
        regex = ""
        if self.plan.unfollowed_chance and kernel.chance(self.plan.unfollowed_chance):
            topics, regex = dict.fromkeys(topics, 1), f"(?=t)({'|'.join(topics)})"
        name = self.new_name("l")
        kernel.trace(name, f"started: {topics}")
        self.legacies.append(
            LegacyMember(
                kernel,
                self.zk,
                name,
                group,
                topics,
                kernel.rng.choice((3_000, 6_000)),
                kernel.rng.choice((200, 1_000, 60_000)),
                self.places,
                self.log,
                contract.delivered,
                regex,
            )
        )
        return self.legacies[-1]

    def set_mode(self, group: str, mode: str) -> None:
        """An operator says whose a group is ("": nobody says it)."""
        write_mode(self, group, mode)

    def drift(self, process: Process) -> None:
        """A machine's clock runs at a rate of its own."""
        limit = self.plan.drift_per_mille_max
        process.drift_per_mille = self.kernel.between(-limit, limit)

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
            if self._liveness() and (self.wires is None or self.wires.handover()):
                self._takeover()
        except RunawaySimulation as error:
            self.checker.violate("I11", str(error))
        self._post_mortem()
        k = self.kernel
        return Result(
            self.mix,
            self.seed,
            k.steps,
            k.now,
            len(self.zk.log),
            self.checker.commands_sent,
            self.checker.evictions,
            k.faults,
            k.happened,
            self.checker.violations,
            k.lines,
        )

    def _populate(self) -> None:
        for _ in range(self.plan.coordinators):
            self.kernel.after(self.kernel.between(0, 500), self.add_coordinator)
        if self.wires is not None:
            self.wires.populate()
        for group in self.groups:
            if self.plan.shared:
                self.kernel.after(
                    (
                        0
                        if self.kernel.chance(0.7)
                        else self.kernel.between(0, self.plan.safety_ms // 2)
                    ),
                    lambda group=group: self.set_mode(group, "mixed"),
                )  # type: ignore[misc]
            for _ in range(self.plan.legacy):
                self.kernel.after(
                    self.kernel.between(0, self.plan.join_within_ms),
                    lambda group=group: self.add_legacy(group),
                )  # type: ignore[misc]
            for _ in range(self.plan.consumers):
                self.kernel.after(
                    self.kernel.between(0, self.plan.join_within_ms),
                    lambda group=group: self.add_consumer(group),
                )  # type: ignore[misc]

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
        for process in [*self.coordinators, *self.consumers, *self.legacies]:
            process.host.resume()
        if self.wires is not None:
            self.wires.calm_down()
        if self.cluster is not None:
            self.cluster.heal()
        for group in self.groups if self.plan.shared else ():
            self.set_mode(group, "mixed")
        for old in self.legacies:
            if old.regex and old.running and not old.closing:
                old.close()  # an operator stops whom nobody understands
        for consumer in self.consumers:
            consumer.app.habits.quits_chance = consumer.app.habits.slow_chance = (
                consumer.app.habits.slow_revoke_chance
            ) = 0.0
        if not any(c.running for c in self.coordinators):
            self.add_coordinator()
        self._delete_if_there(self.places.other_leader)
        for group in self.groups:
            if self.wires is not None:
                if not self.wires.of_group(group):
                    self.wires.add_client(group)
            elif not [m for m in self.members(group) if m.app.failed is None]:
                self.add_consumer(group)
        self.kernel.trace("WORLD", "=== the faults are over")

    def members(self, group: str) -> list[ConsumerProcess]:
        """The consumers of a group that want to be members."""
        return [
            c for c in self.consumers if c.running and c.wishes.group == group and not c.closing
        ]

    def old_members(self, group: str) -> list[LegacyMember]:
        """The old consumers of a group that run."""
        return [m for m in self.legacies if m.running and not m.closing and m.group == group]

    def wanted(self, group: str) -> set[TopicPartition]:
        """Every partition that a member of the group subscribes."""
        topics: set[str] = set()
        for member in self.members(group):
            if member.app.failed is None:
                s = member.wishes.subscription
                topics.update(
                    s.topics
                    if s.pattern is None
                    else [t for t in self.topics if s.pattern.regex == "t.*" or t in ("t0", "t1")]
                )
        for old in self.old_members(group):
            topics.update(old.topics)
        if self.wires is not None:
            topics.update(self.wires.wanted(group))
        return {
            TopicPartition(t, p) for t in topics if t in self.topics for p in range(self.topics[t])
        }

    def unsettled(self) -> str:
        """Why the groups are not settled; "" when they are."""
        leader = self.leader()
        if (
            leader is None
            or not leader.running
            or leader.driver.session_id != self.zk.tree.nodes[self.places.leader].owner
        ):
            return "nobody leads"
        if self.sources is not None:
            named = {tp.topic for group in self.groups for tp in self.wanted(group)}
            if why := self.sources.unsettled(named):
                return why
        for group in self.groups:
            fetchers: Counter[TopicPartition] = Counter(
                tp for m in self.members(group) for tp in m.app.fetching()
            )
            fetchers.update(tp for m in self.old_members(group) for tp in m.fetching)
            if self.wires is not None:
                fetchers.update(self.wires.consumed(group))
            wanted = self.wanted(group) if not is_paused(self, group) else set()
            if not wanted and (owned := self.checker.operators.still_owned(group)):
                return f"{group}: {owned} is owned though nobody is to have anything"
            for tp in sorted(wanted):
                if fetchers[tp] != 1:
                    return f"{group}: {tp} is fetched by {fetchers[tp]} members"
                if self.checker.part((group, tp)).last_handed_ms < self.disturbed_ms:
                    return f"{group}: {tp} is owned but was not fetched since"
            extra = sorted(set(fetchers) - wanted)
            if extra:
                return f"{group}: {extra[0]} is fetched but nobody subscribes it"
            ids = self.places.ids(group)
            registered = {
                self.host_of_session(self.zk.tree.nodes[f"{ids}/{name}"].owner)
                for name in self.zk.tree.children.get(ids, ())
            }
            expected = {m.host.name for m in self.members(group) if m.app.failed is None} | {
                m.host.name for m in self.old_members(group)
            }
            odd = self.contract.unsettled(group) if self.contract is not None else ""
            if self.wires is not None:
                odd = self.wires.unsettled(group)
                registered = {host for host in registered if host[:1] != GATEWAY}
            if odd:
                return odd
            if registered - {""} != expected:
                return f"{group}: {sorted(registered)} are registered, expected {sorted(expected)}"
            channels = self.zk.tree.children.get(self.places.channels(group), ())
            deaf = sorted(
                name
                for name in self.zk.tree.children.get(ids, ())
                if name not in channels
                and self._role(self.host_of_session(self.zk.tree.nodes[f"{ids}/{name}"].owner))
                == "consumer"
            )
            if deaf:
                return (
                    f"{group}: {deaf[0]} has no channel, so nobody can tell it anything: it is yet"
                    " to be evicted"
                )
            instances = Counter(
                m.wishes.instance
                for m in self.members(group)
                if m.app.failed is None and m.wishes.instance is not None
            )
            twice = sorted(instance for instance, count in instances.items() if count > 1)
            if twice:
                return f"{group}: {twice[0]} is the instance of two members"
        return ""

    def _settle(self, limit_ms: int, promise: str = "I8") -> bool:
        self.disturbed_ms = self.kernel.now
        deadline = self.kernel.now + limit_ms
        while (why := self.unsettled()) and self.kernel.now < deadline:
            self.kernel.run_until(self.kernel.now + LOOK_EVERY_MS)
        if why:
            self.checker.violate(promise, f"{limit_ms} ms after the last fault: {why}")
        return not why

    @property
    def liveness_ms(self) -> int:
        """How long a healed world may take: 2 session timeouts, the deadline of a command, the
        lease, a static member's grace, a quarantine and the trial after it, the backoff of a member
        that was sent away (twice, if it came too early), and 5 s.
        """
        p = self.plan
        return (
            2 * max(p.session_ms, p.coordinator_session_ms)
            + p.deadline_ms
            + p.lease_longest_ms
            + p.grace_ms * (p.static_chance > 0)
            + p.quarantine_ms
            + p.deadline_ms
            + 5_000
            + OLD_ATTEMPTS_MS * p.shared
            + 2 * p.rejected_backoff_max_ms * p.capped
            + (self.wires.liveness_ms if self.wires is not None else 0)
            + SOURCE_MS * (self.cluster is not None)
            + sum(c.app.habits.sticks + len(c.app.revokes) for c in self.consumers if c.running)
            * (p.deadline_ms + 1_000)
        )

    def _healed_at_ms(self) -> int:
        """When the last link, server and slow application is well again."""
        times = [
            self.kernel.now,
            self.follows_until_ms,
            self.wires.healed_at_ms() if self.wires is not None else 0,
            self.zk.frozen_until_ms,
            *(s.isolated_until_ms for s in self.zk.servers),
            *(c.app.busy_until_ms for c in self.consumers if c.running),
        ]
        return max(
            [
                *times,
                *(
                    p.host.link_bad_until()
                    for p in [*self.coordinators, *self.consumers, *self.legacies]
                    if p.running
                ),
            ]
        )

    def _liveness(self) -> bool:
        self._calm_down()
        while self._healed_at_ms() > self.kernel.now:
            self.kernel.run_until(self._healed_at_ms())
        if not any(c.running for c in self.coordinators):
            self.add_coordinator()
        if self.wires is not None:
            self.wires.ensure()
        self._make_room()
        self.kernel.trace("WORLD", "=== everything is healed")
        if paused_groups(self) and not self._paused():
            return False
        if not self._settle(self.liveness_ms):
            return False
        self._rest()
        # whose connection was cut before may be given up just now, by the gateway that it left
        if self.wires is not None and self.unsettled() and not self._settle(self.liveness_ms):
            return False
        before = self.checker.commands_sent
        heard = self.wires.heard() if self.wires is not None else {}
        if self.cluster is not None:
            while self.cluster.migrate(QUIET_MS // 10) is not None:
                self.kernel.run_until(self.kernel.now + SOURCE_MS // 3)
        self.kernel.run_until(self.kernel.now + QUIET_MS)
        if self.wires is not None and self.wires.heard() != heard:
            self.checker.violate("W6", f"told in a balanced world: {heard}, {self.wires.heard()}")
        if self.checker.commands_sent != before:
            self.checker.violate(
                "I8",
                f"{self.checker.commands_sent - before} commands in a balanced, undisturbed world",
            )
        return True

    def _rest(self) -> None:
        """Until nothing goes on that began before."""
        self.kernel.run_until(self.kernel.now + QUIET_MS)
        limit = (
            self.kernel.now
            + self.plan.quarantine_ms
            + self.plan.quarantine_backoff_max_ms
            + self.plan.deadline_ms
        )
        while self._restless() and self.kernel.now < limit:
            self.kernel.run_until(self.kernel.now + QUIET_MS)

    def _paused(self) -> bool:
        """I24: some groups are paused still: in them nobody has anything, also when the coordinator
        dies; then they are resumed.
        """
        if not self._settle(self.liveness_ms, "I24"):
            return False
        self._rest()
        self.kernel.happened["paused and quiet"] += len(paused_groups(self))
        self._takeover()
        for group in paused_groups(self):
            pause(self, group, False)
        return not self.checker.violations

    def _make_room(self) -> None:
        """As many leave a full group as were sent away, or would be."""
        for group in self.groups:
            able = [m for m in self.members(group) if m.app.failed is None]
            while len(able) > self.plan.members_per_group_max:
                able.pop(self.kernel.between(0, len(able) - 1)).close()

    def _restless(self) -> bool:
        """A quarantine that ends, a command that is not answered yet or a rebalance that goes on:
        the group is not balanced before.
        """
        return any(
            known.state in UNDER_WAY or known.commands
            for known in self.checker.groups.groups.values()
        )

    def leader(self) -> CoordinatorProcess | None:
        """The coordinator whose session holds the leader node."""
        node = self.zk.tree.nodes.get(self.places.leader)
        return next(
            (
                c
                for c in self.coordinators
                if node is not None and self.host_of_session(node.owner) == c.host.name
            ),
            None,
        )

    def _takeover(self) -> None:
        old = self.leader()
        if old is None:
            self.checker.violate("I8", "nobody leads a healed world")
            return
        commands, callbacks = self.checker.commands_sent, dict(self.checker.callbacks)
        heard = self.wires.heard() if self.wires is not None else {}
        self.kernel.trace("WORLD", f"=== {old.host.name} dies in a balanced world")
        if not any(c.running for c in self.coordinators if c is not old):
            self.add_coordinator()
        self.kill(old)
        self.kernel.run_until(
            self.kernel.now
            + self.plan.coordinator_session_ms
            + self.zk.weather.tick_ms
            + TAKEOVER_MS
        )
        if self.leader() in (None, old):
            self.checker.violate("I8", "no successor leads")
        if self.checker.commands_sent != commands or self.checker.callbacks != callbacks:
            self.checker.violate(
                "I8",
                f"the death of a coordinator cost {self.checker.commands_sent - commands} commands",
            )
        if self.wires is not None and self.wires.heard() != heard:
            self.checker.violate("I8", "clients of gateways heard of a coordinator's death")
        why = self.unsettled()
        if why:
            self.checker.violate("I8", f"after a takeover: {why}")

    def kill(self, process: Process) -> None:
        """kill -9; a guardian may close its sessions."""
        process.host.kill()
        if self.kernel.chance(self.plan.guardian_chance):
            for port in process.zk.ports:
                if port.session_id:
                    self.kernel.after(
                        self.kernel.between(1, 30),
                        lambda session=port.session_id: self.zk.end_session(session),
                    )  # type: ignore[misc]

    def _post_mortem(self) -> None:
        hosts = [p.host for p in [*self.coordinators, *self.consumers, *self.legacies]]
        if self.wires is not None:
            hosts += [one.host for one in self.wires.hosts]
            self.wires.post_mortem()
        for host in hosts:
            if host.crash is not None:
                self.checker.violate(
                    "I10", f"{host.name} died of {type(host.crash).__name__}: {host.crash}"
                )
        for member in self.consumers if self.plan.roles else ():
            failed = member.app.failed
            if failed is not None and failed.code is FailureCode.REJECTED:
                self.checker.violate(
                    "I22", f"{member.host.name} was sent away by nobody's word: {failed.message}"
                )
        for refusal in self.zk.refusals[:5]:
            self.checker.violate("I11", refusal)


def _cluster(world: World) -> SimCluster | None:
    plan = world.plan.source
    if plan is None:
        return None
    return SimCluster(world.kernel, plan.brokers, plan.in_kraft, world.operator_writes)


def _wires(world: World) -> Wires | None:
    if world.plan.wire is None:
        return None
    return ChangeWires(world) if world.plan.wire.change else Wires(world)


def _ignore(_result: object) -> None:
    """What a thunk of the kernel returns is of no interest."""
