"""The sizes of one world, and how a seed draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.sim.faults import FAULTS, FaultKind
from tests.sim.kernel import Kernel
from zkcoord.znodes.paths import Layout

WEIGHT_MAX = 4
LEASES_MS = (1_500, 3_000, 12_000)


@dataclass(slots=True)
class WirePlan:
    """Gateways and the clients that each group has behind them, as Plan's sizes."""

    gateways: int = 2
    gateways_max: int = 3
    clients: int = 3
    clients_max: int = 5
    cooperative_chance: float = 0.5
    static_chance: float = 0.2
    slow_chance: float = 0.0
    session_ms: tuple[int, ...] = (3_000, 6_000)
    member_grace_ms: int = 6_000
    disconnect_grace_ms: int = 1_000
    # the group goes over to a leader among its clients, and back: eager, cooperative or mixed ones
    change: str = ""


@dataclass(frozen=True)
class SourcePlan:
    """Brokers that a coordinator may ask. `in_kraft`: none has ZooKeeper underneath."""

    brokers: int = 2
    in_kraft: bool = False
    refresh_ms: int = 1_000


@dataclass(slots=True)
class Plan:
    """The sizes of one world. Times in ms. `faults` names a kind as often as it is likelier than
    another.
    """

    servers: int = 3
    coordinators: int = 2
    groups: int = 1
    consumers: int = 3
    consumers_max: int = 6
    topics: int = 2
    partitions_max: int = 6
    session_ms: int = 4_000
    coordinator_session_ms: int = 4_000
    lease_max_ms: int = 3_000
    # of a coordinator with a lease_max_ms of its own, one of LEASES_MS
    other_lease_chance: float = 0.0
    deadline_ms: int = 3_000
    safety_ms: int = 20_000
    fault_every_ms: int = 900
    rate_per_s: int = 100
    guardian_chance: float = 0.5
    manual_chance: float = 0.3
    slow: bool = False
    answers_in_part: bool = False  # applications give up at once what their handlers do not work on
    max_poll_interval_ms: int = 0
    odd_chance: float = 0.0
    faults: tuple[FaultKind, ...] = ()
    layout: Layout = Layout.DRAFT
    join_within_ms: int = 3_000
    chosen_id_chance: float = 0.0  # of a consumer whose user chose its consumer.id
    drift_per_mille_max: int = 0  # how much faster or slower a machine's clock may run
    groups_in_flight_max: int = 64
    # nothing is wrong with network and coordinators, so that I9 can be judged
    judge_isolation: bool = False
    static_chance: float = 0.0  # of a consumer with an instance id
    grace_ms: int = 4_000
    topic_ids: bool = True  # whether Kafka gives topics ids
    stuck_chance: float = 0.0  # of an application that never answers one revocation
    custom_chance: float = 0.0  # of a consumer that prefers a custom assignor
    assignor_wrong_chance: float = 0.3
    eager_chance: float = 0.0  # of a consumer that can only be rebalanced eagerly
    max_rebalance_retries: int = 4
    quarantine_ms: int = 3_000
    quarantine_backoff_ms: int = 400
    quarantine_backoff_max_ms: int = 3_000
    retries_forgotten_ms: int = 4_000
    members_per_group_max: int = 10_000
    rejected_backoff_max_ms: int = 60_000
    failsafe_chance: float = 0.0  # of a consumer that goes on while nobody serves
    text_chance: float = 0.0  # of text beside an offset that an application commits
    seeks_chance: float = 0.0  # of an application without a reset policy that seeks
    # when a member that was told nothing looks whether the group is balanced; 0: never
    idle_look_ms: int = 0
    legacy: int = 0  # old consumers in each group at the beginning
    shared: bool = False  # groups are shared with old consumers
    unfollowed_chance: float = 0.0  # of an old consumer whose expression nobody else understands
    roles: bool = False  # nodes have ACLs, and members ask for their groups
    older_roles: bool = False  # an older version with roles made what is there
    wire: WirePlan | None = None  # gateways and their clients
    source: SourcePlan | None = None  # topics are asked of brokers, or will be

    @property
    def lease_longest_ms(self) -> int:
        """No coordinator lets members fetch for longer."""
        return max(LEASES_MS) if self.other_lease_chance else self.lease_max_ms

    @property
    def capped(self) -> bool:
        """Whether groups may become full."""
        return self.members_per_group_max <= self.consumers_max


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
        lease_max_ms=rng.choice(LEASES_MS),
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


def swarm(
    kernel: Kernel, kinds: Sequence[FaultKind], beside: Sequence[FaultKind] = ()
) -> tuple[FaultKind, ...]:
    """Some of the kinds, each with a weight of its own: two of three of `kinds` (one at least), one
    of four of `beside`.
    """
    some = [kind for kind in kinds if kernel.chance(0.67)] or [kernel.rng.choice(list(kinds))]
    some += [kind for kind in beside if kernel.chance(0.25)]
    return tuple(kind for kind in some for _ in range(kernel.between(1, WEIGHT_MAX)))
