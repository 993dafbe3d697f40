"""Fault mixes: which faults meet in a world, what the world looks like, and what a run must have
reached to count.

Every seed of a mix is a world of its own (swarm testing): it switches a random part of the mix's
faults on, draws how likely each is, and its sizes. `floors` says how often, in 1,000 seeds,
something must have happened: a fault by its name, a journal entry by its kind
(`tests.sim.processes`), `commands` or `evictions`, or the number of rows of a state table that were
taken (`group rows`, `member rows`). A fault that a mix names must fire `FIRED_PER_THOUSAND` times
in any case. A run of many seeds that misses a floor has shown nothing and fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.sim.change.faults import CHANGE_FAULTS
from tests.sim.faults import FAULTS, MAKE_TOPIC_AGAIN, FaultKind
from tests.sim.faults_foreign import FOREIGN_FAULTS
from tests.sim.faults_legacy import LEGACY_FAULTS
from tests.sim.faults_moments import MOMENT_FAULTS
from tests.sim.faults_operators import OPERATOR_FAULTS
from tests.sim.faults_processes import PROCESS_FAULTS
from tests.sim.faults_roles import ROLE_FAULTS
from tests.sim.faults_servers import SERVER_FAULTS
from tests.sim.faults_static import STATIC_FAULTS
from tests.sim.faults_wire import WIRE_FAULTS
from tests.sim.kernel import Kernel
from tests.sim.plan import Plan, SourcePlan, WirePlan, draw_plan, swarm
from tests.sim.sources.faults import SOURCE_FAULTS
from zkcoord.znodes.paths import Layout

DEFAULT = "default"
CHANGE = "change"
FIRED_PER_THOUSAND = 100
OTHER_LEASE_CHANCE = 0.4
ASKED_CHANCE = 0.6
KINDS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        *FAULTS,
        MAKE_TOPIC_AGAIN,
        *PROCESS_FAULTS,
        *SERVER_FAULTS,
        *FOREIGN_FAULTS,
        *STATIC_FAULTS,
        *MOMENT_FAULTS,
        *LEGACY_FAULTS,
        *ROLE_FAULTS,
        *WIRE_FAULTS,
        *CHANGE_FAULTS,
        *SOURCE_FAULTS,
        *OPERATOR_FAULTS,
    )
}


@dataclass(frozen=True)
class Mix:
    """One mix. `draw` makes a seed's plan."""

    name: str
    about: str
    draw: Callable[[Kernel], Plan]
    faults: tuple[str, ...]
    floors: Mapping[str, int] = field(default_factory=dict)


def _kinds(names: str) -> tuple[FaultKind, ...]:
    return tuple(KINDS[name] for name in names.split())


def _base(kernel: Kernel, faults: str, beside: str) -> Plan:
    """Sizes as in the default mix, faults of the mix and a few beside."""
    plan = replace(draw_plan(kernel), faults=swarm(kernel, _kinds(faults), _kinds(beside)))
    plan.layout = Layout.ISOLATED if kernel.chance(0.2) else Layout.DRAFT
    return plan


_COORDINATORS = (
    "kill_coordinator stop_coordinator step_down pause_leader cut_leader zombie_leader candidates"
    " delete_leader_node touch_epoch strand_member"
)
_COORDINATORS_BESIDE = (
    "join kill_consumer close_consumer grow_topic new_topic bad_weather delete_registration"
    " pause_long"
)
_MEMBERS = (
    "kill_consumer pause_member_at_edge cut_member_at_edge application_hangs never_acks flap"
    " same_id newborn stillborn resubscribe close_consumer join"
)
_MEMBERS_BESIDE = (
    "kill_coordinator grow_topic bad_weather pause_long delete_registration reset_offset"
)
_NETWORK = "lossy slow_network fine_weather mute_link deaf_link stall_link cut_link cut_all"
_NETWORK_BESIDE = (
    "join kill_consumer close_consumer grow_topic resubscribe kill_coordinator newborn"
)
_ENSEMBLE = (
    "server_leader_lost quorum_lost full_restart isolate_follower lagging_followers outage cut_all"
)
_ENSEMBLE_BESIDE = "join kill_consumer close_consumer kill_coordinator lossy grow_topic pause_long"
_TOPICS = "grow_topic new_topic delete_topic make_topic_again resubscribe"
_TOPICS_BESIDE = (
    "join close_consumer kill_consumer kill_coordinator bad_weather cut_link delete_offset"
)
_SOURCES = (
    "migrate_cluster broker_behind broker_down grow_topic new_topic delete_topic make_topic_again"
)
_SOURCES_BESIDE = (
    "join close_consumer kill_consumer kill_coordinator stop_coordinator pause_leader cut_leader"
    " zombie_leader bad_weather cut_link resubscribe delete_leader_node touch_epoch outage"
)
_OPERATORS = (
    "reset_offset delete_offset delete_offsets_of_topic delete_registration delete_channel"
    " delete_command overwrite junk junk_flood foreign_owner foreign_leader legacy_member"
    " request_rebalance delete_leader_node touch_epoch erase_group"
)
_PAUSES, _ASKED_OUT = "pause_group resume_group", "evict_member"
_OPERATORS_BESIDE = (
    "join kill_consumer close_consumer kill_coordinator bad_weather grow_topic cut_link"
)
_STORM = "burst flap"
_STORM_BESIDE = "kill_coordinator grow_topic bad_weather never_acks"
_WIDE = "never_acks flap join close_consumer kill_consumer grow_topic"
_WIDE_BESIDE = "kill_coordinator erase_group resubscribe junk"
_STATIC = "restart_static restart_static_late roll_static twin_static"
_STATIC_BESIDE = (
    "kill_coordinator pause_leader join close_consumer grow_topic never_acks pause_member_at_edge"
    " bad_weather"
)
_EAGER = "join close_consumer kill_consumer grow_topic resubscribe never_acks"
_EAGER_BESIDE = (
    "kill_coordinator bad_weather delete_topic cut_link delete_registration pause_long flap"
)
_CLOCKS = (
    "jump_wall_clock pause_member_at_edge cut_member_at_edge pause_leader kill_consumer never_acks"
    " join"
)
_CLOCKS_BESIDE = "kill_coordinator bad_weather close_consumer delete_registration"
_FULL = "join burst flap close_consumer kill_consumer resubscribe"
_FULL_BESIDE = (
    "kill_coordinator newborn bad_weather cut_link delete_registration pause_member_at_edge"
    " never_acks grow_topic pause_leader"
)
_MOMENTS = (
    "at_start_sent at_stop_sent at_start_acked at_stop_acked at_offset_stored at_registered"
    " at_elected"
)
_MOMENTS_BESIDE = (
    "join close_consumer resubscribe grow_topic make_topic_again kill_coordinator lossy"
    " lagging_followers"
)
_MIXED = (
    "legacy_join legacy_leave legacy_kill legacy_pause legacy_cut poison obstacle set_mode join"
    " close_consumer kill_consumer kill_coordinator"
)
_MIXED_BESIDE = (
    "pause_member_at_edge cut_link delete_registration pause_long resubscribe grow_topic"
    " bad_weather stop_coordinator application_hangs outage"
)
_FAILSAFE = (
    "cut_into_outage quorum_lost outage server_leader_lost full_restart delete_registration"
    " never_acks pause_member_at_edge cut_member_at_edge mute_link cut_link"
)
_FAILSAFE_BESIDE = (
    "join close_consumer kill_consumer kill_coordinator pause_leader lossy grow_topic"
    " application_hangs stall_link"
)
_COMMITS = (
    "join close_consumer kill_consumer resubscribe reset_offset delete_offset lossy cut_link"
    " pause_member_at_edge at_offset_stored at_start_acked at_stop_acked"
)
_COMMITS_BESIDE = (
    "kill_coordinator grow_topic make_topic_again delete_registration never_acks flap"
    " delete_offsets_of_topic application_hangs lagging_followers"
)
_ROLES = (
    "forge_mode forge_request forge_leader lock_out ask_for_junk take_ask_away erase_group join"
    " close_consumer kill_coordinator ask_between_terms"
)
_ROLES_BESIDE = (
    "kill_consumer stop_coordinator pause_leader cut_leader zombie_leader bad_weather cut_link"
    " delete_registration request_rebalance grow_topic new_topic lossy lagging_followers"
)
_WIRE = (
    "kill_gateway stop_gateway roll_gateways pause_gateway cut_gateway expire_agent cut_connection"
    " mute_connection move_client duplicate_join kill_client pause_client leave_client join_client"
)
_WIRE_BESIDE = (
    "kill_coordinator outage reset_offset grow_topic bad_weather other_topics close_consumer join"
    " delete_registration stop_coordinator"
)
_PINS = "pin_group pin_twice pin_back unpin_group"
_CHANGE = (
    "kill_gateway stop_gateway roll_gateways pause_gateway cut_gateway expire_agent cut_connection"
    " mute_connection move_client duplicate_join kill_client pause_client leave_client join_client"
    " other_topics"
)
_CHANGE_BESIDE = (
    "kill_coordinator stop_coordinator step_down pause_leader cut_leader zombie_leader outage"
    " bad_weather"
)
_ALL_OF_DEFAULT = " ".join(kind.name for kind in FAULTS)


def _default(kernel: Kernel) -> Plan:
    plan = draw_plan(kernel)
    plan.other_lease_chance = OTHER_LEASE_CHANCE
    return plan


def _coordinators(kernel: Kernel) -> Plan:
    plan = _base(kernel, _COORDINATORS, _COORDINATORS_BESIDE)
    plan.other_lease_chance = OTHER_LEASE_CHANCE
    plan.coordinators = kernel.between(1, 5)
    plan.coordinator_session_ms = kernel.rng.choice((1_000, 2_000, 4_000))
    return plan


def _members(kernel: Kernel) -> Plan:
    plan = _base(kernel, _MEMBERS, _MEMBERS_BESIDE)
    plan.slow = plan.answers_in_part = kernel.chance(0.6)
    plan.stuck_chance = kernel.rng.choice((0.0, 0.2, 0.5))
    plan.max_rebalance_retries = kernel.rng.choice((2, 4, 100))
    plan.chosen_id_chance = kernel.rng.choice((0.0, 0.5, 1.0))
    return plan


def _network(kernel: Kernel) -> Plan:
    return _base(kernel, _NETWORK, _NETWORK_BESIDE)


def _ensemble(kernel: Kernel) -> Plan:
    plan = _base(kernel, _ENSEMBLE, _ENSEMBLE_BESIDE)
    plan.servers = kernel.rng.choice((3, 3, 5))
    return plan


def _failsafe(kernel: Kernel) -> Plan:
    """Members that go on while nobody serves, some beside others that do not; coordinators that
    outlive what is gone, and some that do not.
    """
    plan = _base(kernel, _FAILSAFE, _FAILSAFE_BESIDE)
    plan.failsafe_chance = kernel.rng.choice((1.0, 1.0, 0.5))
    plan.coordinator_session_ms = kernel.rng.choice((4_000, 12_000, 30_000))
    plan.lease_max_ms = kernel.rng.choice((1_500, 3_000))
    plan.fault_every_ms = kernel.rng.choice((300, 700, 2_000))
    plan.deadline_ms = kernel.rng.choice((1_500, 3_000))
    plan.drift_per_mille_max = kernel.rng.choice((0, 0, 20))
    plan.rate_per_s = 100
    return plan


def _commits(kernel: Kernel) -> Plan:
    """Applications that commit text beside offsets, and some that know themselves where they
    begin.
    """
    plan = _base(kernel, _COMMITS, _COMMITS_BESIDE)
    plan.manual_chance = 1.0
    plan.idle_look_ms = kernel.rng.choice((100, 1_000))
    plan.text_chance = kernel.rng.choice((0.2, 0.5, 1.0))
    plan.seeks_chance = kernel.rng.choice((0.0, 0.5, 1.0))
    plan.rate_per_s = 100
    return plan


def _isolated(kernel: Kernel) -> Plan:
    plan = draw_plan(kernel)
    plan.layout = Layout.ISOLATED
    return plan


def _topics(kernel: Kernel) -> Plan:
    plan = _base(kernel, _TOPICS, _TOPICS_BESIDE)
    plan.fault_every_ms = kernel.rng.choice((100, 300, 700, 2_000))
    plan.topics = kernel.between(2, 3)
    plan.topic_ids = kernel.chance(0.6)
    return plan


def _sources(kernel: Kernel) -> Plan:
    plan = _base(kernel, _SOURCES, _SOURCES_BESIDE)
    plan.fault_every_ms = kernel.rng.choice((300, 700, 2_000))
    plan.topics = kernel.between(2, 3)
    plan.safety_ms = kernel.between(15_000, 40_000)
    plan.source = SourcePlan(
        kernel.rng.choice((1, 2, 2, 3)), kernel.chance(0.3), kernel.rng.choice((300, 1_000))
    )
    return plan


def _operators(kernel: Kernel) -> Plan:
    plan = _base(kernel, _OPERATORS, _OPERATORS_BESIDE)
    # drawn aside: what seeds without pauses and evictions have found is to be found still
    aside = random.Random(str(kernel.rng.getstate()[1][:4]))
    for asked in (_PAUSES, _ASKED_OUT):
        if aside.random() < ASKED_CHANCE:
            plan.faults += tuple(kind for kind in _kinds(asked) for _ in range(aside.randint(1, 4)))
    return plan


def _storm(kernel: Kernel) -> Plan:
    plan = _base(kernel, _STORM, _STORM_BESIDE)
    plan.consumers_max = 24
    plan.partitions_max = kernel.rng.choice((6, 12))
    plan.safety_ms = kernel.between(5_000, 9_000)
    return plan


def _wide(kernel: Kernel) -> Plan:
    """Many small groups, of which one has a member that never answers; the coordinator has few
    slots.
    """
    plan = _base(kernel, _WIDE, _WIDE_BESIDE)
    plan.groups = (
        kernel.rng.choice((3, 4, 4, 6)) if kernel.chance(0.99) else kernel.rng.choice((40, 150))
    )
    plan.consumers = kernel.between(1, 2)
    plan.consumers_max = 3
    plan.topics, plan.partitions_max = kernel.between(1, 2), kernel.between(1, 3)
    plan.safety_ms = kernel.between(6_000, 8_000)
    plan.join_within_ms = 1_500
    plan.fault_every_ms = 150
    plan.groups_in_flight_max = kernel.rng.choice((1, 2, 8))
    plan.lease_max_ms = kernel.rng.choice((1_500, 3_000))
    plan.deadline_ms = 1_500
    plan.coordinators = 2
    plan.rate_per_s = 20
    plan.stuck_chance = kernel.rng.choice((0.0, 0.2))
    plan.custom_chance = kernel.rng.choice((0.0, 0.5))
    plan.max_rebalance_retries = kernel.rng.choice((1, 2, 4))
    plan.quarantine_backoff_ms = kernel.rng.choice((400, 1_500))
    plan.judge_isolation = True
    return plan


def _static(kernel: Kernel) -> Plan:
    plan = _base(kernel, _STATIC, _STATIC_BESIDE)
    plan.other_lease_chance = OTHER_LEASE_CHANCE
    plan.static_chance = kernel.rng.choice((1.0, 1.0, 0.6))
    plan.grace_ms = kernel.rng.choice((3_000, 6_000, 10_000))
    plan.fault_every_ms = kernel.rng.choice((700, 1_500, 4_000))
    plan.consumers = kernel.between(2, 6)
    plan.consumers_max = 8
    plan.join_within_ms = kernel.rng.choice((500, 3_000))
    return plan


def _eager(kernel: Kernel) -> Plan:
    """Groups that are eager, and groups that become so and cease to be as members come and go."""
    plan = _base(kernel, _EAGER, _EAGER_BESIDE)
    plan.eager_chance = kernel.rng.choice((1.0, 1.0, 0.5, 0.2))
    plan.custom_chance = kernel.rng.choice((0.0, 0.3))
    plan.max_rebalance_retries = kernel.rng.choice((2, 4))
    return plan


def _clocks(kernel: Kernel) -> Plan:
    plan = _base(kernel, _CLOCKS, _CLOCKS_BESIDE)
    plan.drift_per_mille_max = kernel.rng.choice((0, 5, 40))
    return plan


def _full(kernel: Kernel) -> Plan:
    """Groups with more applications than places. In the end as many stay as there are places, and
    whoever was sent away comes back.
    """
    plan = _base(kernel, _FULL, _FULL_BESIDE)
    plan.members_per_group_max = kernel.rng.choice((1, 2, 3, 5))
    plan.consumers = kernel.between(2, 6)
    plan.consumers_max = 9
    plan.fault_every_ms = kernel.rng.choice((300, 700, 1_500))
    plan.rejected_backoff_max_ms = kernel.rng.choice((1_000, 4_000))
    plan.odd_chance = 0.0  # the check of places takes it that nobody is sent away for anything else
    return plan


def _moments(kernel: Kernel) -> Plan:
    plan = _base(kernel, _MOMENTS, _MOMENTS_BESIDE)
    plan.fault_every_ms = kernel.rng.choice((150, 400, 900))
    plan.topics = kernel.between(2, 3)
    plan.topic_ids = kernel.chance(0.6)
    plan.deadline_ms = kernel.rng.choice((1_500, 3_000))
    return plan


def _mixed(kernel: Kernel) -> Plan:
    """Groups shared with old consumers, some with coordinators that are away for long."""
    plan = _base(kernel, _MIXED, _MIXED_BESIDE)
    plan.layout, plan.shared = Layout.ISOLATED, True
    plan.legacy = kernel.between(0, 3)
    plan.consumers = kernel.between(1, 3)
    plan.consumers_max = 4
    plan.groups = 1
    plan.slow = kernel.chance(0.5)
    plan.session_ms = kernel.rng.choice((4_000, 6_000))
    plan.fault_every_ms = kernel.rng.choice((700, 2_000, 5_000))
    plan.safety_ms = kernel.between(15_000, 40_000)
    plan.max_poll_interval_ms = 0
    plan.odd_chance = 0.0
    # drawn aside: the seeds that show a weakened variant are to show it still
    aside = random.Random(str(kernel.rng.getstate()[1][:4]))
    plan.unfollowed_chance = aside.choice((0.0, 0.0, 0.3, 0.6))
    return plan


def _roles(kernel: Kernel) -> Plan:
    """Nodes with ACLs: coordinators make groups that members ask for, and members of another
    application forge what they can.
    """
    plan = _base(kernel, _ROLES, _ROLES_BESIDE)
    plan.roles, plan.older_roles = True, kernel.chance(0.5)
    plan.layout = kernel.rng.choice((Layout.DRAFT, Layout.ISOLATED))
    plan.groups = kernel.rng.choice((1, 2, 4))
    plan.coordinators = kernel.between(1, 3)
    plan.fault_every_ms = kernel.rng.choice((200, 500, 1_000))
    plan.odd_chance = 0.0
    return plan


def _wire(kernel: Kernel) -> Plan:
    """Groups whose members are clients of gateways, in some beside members of our own."""
    plan = _base(kernel, _WIRE, _WIRE_BESIDE)
    plan.groups = kernel.rng.choice((1, 1, 2))
    plan.consumers = kernel.rng.choice((0, 0, 1))
    plan.consumers_max = plan.consumers
    plan.odd_chance, plan.max_poll_interval_ms = 0.0, 0
    plan.fault_every_ms = kernel.rng.choice((500, 1_500, 4_000))
    plan.wire = WirePlan(
        gateways=kernel.between(1, 3),
        clients=kernel.between(2, 4),
        cooperative_chance=kernel.rng.choice((0.0, 0.5, 1.0)),
        static_chance=kernel.rng.choice((0.0, 0.3)),
        slow_chance=0.02 if plan.slow else 0.0,
        member_grace_ms=kernel.rng.choice((4_000, 8_000)),
    )
    return plan


def _change(kernel: Kernel) -> Plan:
    """One group whose clients go over from the coordinator to a leader among them, and back."""
    plan = _base(kernel, _CHANGE, _CHANGE_BESIDE)
    pins = swarm(kernel, _kinds(_PINS))
    plan.faults = (*plan.faults, *pins * max(1, len(plan.faults) // (2 * len(pins))))
    plan.groups, plan.consumers, plan.consumers_max = 1, 0, 0
    plan.coordinators = kernel.between(1, 2)
    plan.odd_chance, plan.max_poll_interval_ms = 0.0, 0
    plan.fault_every_ms = kernel.rng.choice((700, 1_500, 4_000))
    plan.safety_ms = kernel.between(10_000, 30_000)
    flavour = kernel.rng.choice(("eager", "cooperative", "mixed"))
    plan.wire = WirePlan(
        gateways=kernel.between(2, 3),
        clients=kernel.between(2, 6),
        clients_max=6,
        cooperative_chance={"eager": 0.0, "cooperative": 1.0, "mixed": 0.5}[flavour],
        static_chance=kernel.rng.choice((0.0, 0.3)),
        slow_chance=0.02 if plan.slow else 0.0,
        session_ms=(6_000, 9_000),
        member_grace_ms=kernel.rng.choice((4_000, 8_000)),
        change=flavour,
    )
    return plan


LED_FAULTS = (
    "join leave kill_client hang_client reconnect kill_coordinator pause_coordinator"
    " cut_coordinator stop_coordinator zombie_coordinator kill_gateway pause_gateway cut_gateway"
    " weather register_beside"
)
_MIXES = (
    Mix(
        DEFAULT,
        "every fault of the first simulator, alone and together",
        _default,
        tuple(_ALL_OF_DEFAULT.split()),
        {
            "commands": 5000,
            "evictions": 20,
            "session lost": 100,
            "lease lapsed": 100,
            "term elected": 1000,
            "group rows": 20,
            "member rows": 26,
        },
    ),
    Mix(
        "coordinators",
        "coordinators killed, paused around their session, cut off, replaced, told to go; many"
        " candidates",
        _coordinators,
        tuple(_COORDINATORS.split()),
        {
            "commands": 3500,
            "term elected": 3000,
            "term resigned: fenced": 140,
            "term resigned: no contact with ZooKeeper for 2/3 of the session timeout": 800,
            "term resigned: the leader node is gone or another's": 250,
            "group rows": 16,
        },
    ),
    Mix(
        "members",
        "members killed, paused and cut around lease, session and deadline; slow, mute, flapping,"
        " two of one consumer id",
        _members,
        tuple(_MEMBERS.split()),
        {
            "commands": 4000,
            "evictions": 300,
            "quarantined": 30,
            "lease lapsed": 300,
            "stuck_revoke": 100,
            "answered_in_part": 20,
            "group rows": 20,
            "member rows": 24,
        },
    ),
    Mix(
        "network",
        "lost requests and replies of every kind, delays, one-way and two-way black holes, cuts",
        _network,
        tuple(_NETWORK.split()),
        {
            "commands": 3500,
            "lost_reply": 200,
            "lost_read_reply": 100,
            "lost_watch_reply": 100,
            "lost_welcome": 100,
            "lease lapsed": 1300,
            "session lost": 700,
            "member rows": 24,
        },
    ),
    Mix(
        "ensemble",
        "the leading server lost, the quorum away for longer than a session, everything restarted,"
        " followers that lag or are alone",
        _ensemble,
        tuple(_ENSEMBLE.split()),
        {
            "commands": 2000,
            "lease lapsed": 1200,
            "lease back": 900,
            "term elected": 1000,
            "group rows": 16,
        },
    ),
    Mix(
        "failsafe",
        "members that go on with what they own while nobody serves: the quorum away, registrations"
        " deleted, evictions, links that are cut before and during it",
        _failsafe,
        tuple(_FAILSAFE.split()),
        {
            "commands": 2000,
            "nobody serves": 2000,
            "failsafe": 500,
            "lease lapsed": 500,
            "evictions": 50,
            "group rows": 16,
        },
    ),
    Mix(
        "static",
        "static members restarted within and beyond their grace, with the coordinator dying in"
        " between; two processes of one instance",
        _static,
        tuple(_STATIC.split()),
        {
            "commands": 4500,
            "static promise judged": 250,
            "static replaced": 60,
            "session_expired": 300,
            "group rows": 18,
        },
    ),
    Mix(
        "eager",
        "eager groups, and groups whose members vote them from one form into the other",
        _eager,
        tuple(_EAGER.split()),
        {"commands": 8000, "eager start judged": 1500, "evictions": 200, "group rows": 20},
    ),
    Mix(
        "topics",
        "topics grow, go, appear; wildcards that match them; subscriptions that change",
        _topics,
        tuple(_TOPICS.split()),
        {"commands": 5000, "topic made again": 500, "group rows": 18},
    ),
    Mix(
        "sources",
        "a cluster on its way from ZooKeeper to KRaft: brokers that are behind, or down, while"
        " topics grow, go, and are made again",
        _sources,
        tuple(_SOURCES.split()),
        {"commands": 5000, "topics": 500, "group rows": 16},
    ),
    Mix(
        "operators",
        "offsets and nodes reset, deleted and overwritten, junk, foreign writers, an old consumer"
        " that comes and goes; groups paused and resumed, members evicted",
        _operators,
        (*_OPERATORS.split(), *_PAUSES.split(), _ASKED_OUT),
        {
            "commands": 5500,
            "malformed": 8000,
            "evicted": 800,
            "eviction asked for and done": 400,
            "paused and quiet": 100,
            "term resigned: fenced": 300,
            "group rows": 20,
        },
    ),
    Mix(
        "storm",
        "bursts of joins and leaves",
        _storm,
        tuple(_STORM.split()),
        {"commands": 6000, "registered": 5000, "group rows": 16},
    ),
    Mix(
        "wide",
        "many groups behind few slots, some with members that never answer",
        _wide,
        tuple(_WIDE.split()),
        {
            "commands": 12000,
            "evictions": 500,
            "isolation judged": 50,
            "quarantined": 100,
            "custom assignor answered": 500,
            "group rows": 22,
        },
    ),
    Mix(
        "clocks",
        "times of day that jump, clocks that run at different rates",
        _clocks,
        tuple(_CLOCKS.split()),
        {"commands": 3000, "evictions": 30, "lease lapsed": 200, "group rows": 16},
    ),
    Mix(
        "full",
        "more applications than a group may have members: some are sent away and come back",
        _full,
        tuple(_FULL.split()),
        {
            "commands": 20000,
            "sent away for a while": 8000,
            "registered": 15000,
            "group rows": 18,
            "member rows": 22,
        },
    ),
    Mix(
        "moments",
        "faults that strike just when a command, an ack, a commit, a registration or an election"
        " was written",
        _moments,
        tuple(_MOMENTS.split()),
        {
            "commands": 8000,
            "moment struck": 5000,
            "topic made again": 1200,
            "lease lapsed": 800,
            "term elected": 2500,
            "group rows": 18,
            "member rows": 21,
        },
    ),
    Mix(
        "commits",
        "applications that commit text beside offsets, and that know themselves where they begin;"
        " members that look whether anything is left for them",
        _commits,
        tuple(_COMMITS.split()),
        {
            "commands": 5000,
            "text beside an offset": 10000,
            "began without an offset": 1000,
            "group rows": 5,
        },
    ),
    Mix(
        "mixed",
        "groups shared with old consumers, which come, go, die and come back as zombies; poison,"
        " obstacles, modes",
        _mixed,
        tuple(_MIXED.split()),
        {
            "commands": 8000,
            "evictions": 100,
            "release judged": 2500,
            "old consumer gave up": 300,
            "zombie delivery": 1000,
            "an offset of ours was overwritten": 15,
            "term elected": 1500,
            "group rows": 20,
            "member rows": 8,
        },
    ),
    Mix(
        "roles",
        "nodes with ACLs: groups that members ask for, made by coordinators that die and are"
        " replaced; forged modes, requests, leaders and groups",
        _roles,
        tuple(_ROLES.split()),
        {
            "commands": 4000,
            "group made": 1500,
            "malformed": 500,
            "term elected": 1500,
            "group rows": 5,
            "member rows": 8,
        },
    ),
    Mix(
        "wire",
        "clients of gateways, which die, stop, are paused and cut off; clients that move, come"
        " back, hang and go",
        _wire,
        tuple(_WIRE.split()),
        {
            "commands": 7000,
            "registered": 6000,
            "static promise judged": 1000,
            "JoinGroup lost its connection": 400,
            "wire client lost all: UNKNOWN_MEMBER_ID": 500,
            "wire client lost all: ILLEGAL_GENERATION": 200,
            "commit refused: REBALANCE_IN_PROGRESS": 200,
            "a gateway ends in a balanced world": 300,
            "a gateway dies in a balanced world": 300,
            "leave judged": 40,
            "group rows": 10,
            "member rows": 12,
        },
    ),
    Mix(
        CHANGE,
        "a group that goes over from the coordinator to a leader among its clients, and back, as an"
        " operator says, while gateways, coordinators and clients die, hang and are cut off",
        _change,
        tuple(f"{_PINS} {_CHANGE}".split()),
        {
            "commands": 8000,
            "registered": 5000,
            "clients lead": 500,
            "clients lead no more": 250,
            "commit by a led member": 30000,
            "commit refused: ILLEGAL_GENERATION": 80,
            "static promise judged": 300,
            "a gateway ends in a balanced world": 300,
            "a gateway dies in a balanced world": 300,
            "term elected": 1500,
        },
    ),
    Mix(
        "led",
        "client-led groups: clients of two gateways that join, lead, leave, hang and die, while"
        " coordinators and gateways do, and members that register beside them without looking (a"
        " world of its own: tests/sim/led)",
        draw_plan,
        tuple(LED_FAULTS.split()),
        {
            "client-led group": 4000,
            "term elected": 2000,
            "registered beside clients that lead": 500,
            "commanded, without having looked": 200,
            "client-led rows": 24,
        },
    ),
    Mix(
        "isolated",
        "the default faults in the isolated layout",
        _isolated,
        tuple(_ALL_OF_DEFAULT.split()),
        {
            "commands": 5000,
            "evictions": 20,
            "session lost": 100,
            "term elected": 1000,
            "group rows": 20,
            "member rows": 26,
        },
    ),
)
MIXES: dict[str, Mix] = {mix.name: mix for mix in _MIXES}
