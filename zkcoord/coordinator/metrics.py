"""What a coordinator measures, for Prometheus: a registry of its own, names zkcoord_*, no label
that a stranger could make up.

Counters and the histogram follow the journal's records, gauges the driver's status at each scrape.
Labels come from fixed lists (states, causes, outcomes): group and member names are in the journal
and under /groups, not here, so the number of series does not grow with the number of groups.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from zkcoord import __version__
from zkcoord.coordinator.led_metrics import LedMetrics
from zkcoord.core.model import GroupState
from zkcoord.health.trouble.kinds import TroubleKind
from zkcoord.health.trouble.rules import KINDS_BY_JOURNAL
from zkcoord.zk.classic.figures import ClassicSeen

CAUSES = (
    "member joined",
    "member left",
    "subscription changed",
    "topic created",
    "topic deleted",
    "partitions changed",
    "topics matched by a wildcard changed",
    "coordinator took over",
    "static member did not come back",
    "quarantine is over",
    "operator asked for it",
    "operator paused the group",
    "operator resumed the group",
)
OTHER = "other"
DURATION_BUCKETS_S = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)


class Metrics:
    """Call `record` on the loop's thread; `refresh` and `text` on any, one at a time."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._make_gauges(self.registry)
        self._make_counters(self.registry)
        self.led = LedMetrics(self.registry)
        self._begin()

    def _make_gauges(self, registry: CollectorRegistry) -> None:
        Gauge(
            "zkcoord_info", "The version that runs; always 1.", ["version"], registry=registry
        ).labels(__version__).set(1)
        self.leader = Gauge("zkcoord_leader", "1 while this process leads.", registry=registry)
        self.connected = Gauge(
            "zkcoord_connected", "1 while the ZooKeeper session is connected.", registry=registry
        )
        self.waiting = Gauge(
            "zkcoord_waiting",
            "1 while something keeps this process from leading; /ready and the log say what.",
            registry=registry,
        )
        self.epoch = Gauge(
            "zkcoord_epoch", "Epoch of the present term; 0 while not leading.", registry=registry
        )
        self.contact_age = Gauge(
            "zkcoord_session_contact_age_seconds",
            "Time since the session was last proved alive; -1 without a session.",
            registry=registry,
        )
        self.ahead = Gauge(
            "zkcoord_groups_read_ahead",
            "Groups that this process has read while it stands by: so many it need not read when it"
            " leads.",
            registry=registry,
        )
        self.groups = Gauge("zkcoord_groups", "Groups by state.", ["state"], registry=registry)
        self.paused = Gauge(
            "zkcoord_groups_paused",
            "Groups that an operator has paused: nothing is handed out in them.",
            registry=registry,
        )
        self.topics = Gauge("zkcoord_topics", "Topics known.", registry=registry)
        self.queue = Gauge(
            "zkcoord_groups_queued", "Groups that wait for a decision.", registry=registry
        )
        self.writing = Gauge(
            "zkcoord_groups_writing", "Groups whose write is under way.", registry=registry
        )
        self.events_queued = Gauge(
            "zkcoord_events_queued", "Events that wait for the loop.", registry=registry
        )
        self.malformed_now = Gauge(
            "zkcoord_malformed_nodes", "Nodes that cannot be used at present.", registry=registry
        )
        self.broker_up = Gauge(
            "zkcoord_broker_up",
            "1 while the broker of --broker-id is registered; -1 without the option.",
            registry=registry,
        )
        self.broker_up.set(-1)
        self.journal_lost = Gauge(
            "zkcoord_journal_records_lost",
            "Journal records that could not be written.",
            registry=registry,
        )
        self.troubles = Gauge(
            "zkcoord_group_troubles",
            "Groups in trouble, by what it is, as far as this coordinator's own records tell it.",
            ["kind"],
            registry=registry,
        )

    def _make_counters(self, registry: CollectorRegistry) -> None:
        self.terms = Counter(
            "zkcoord_terms",
            "Terms begun, ready (all groups were read) and ended.",
            ["event"],
            registry=registry,
        )
        self.rebalances = Counter(
            "zkcoord_rebalances", "Rebalances completed, by cause.", ["cause"], registry=registry
        )
        self.duration = Histogram(
            "zkcoord_rebalance_duration_seconds",
            "From the first change to the moment every partition is where the target has it.",
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        self.moved = Counter(
            "zkcoord_partitions_moved", "Partitions that changed their owner.", registry=registry
        )
        self.commands = Counter(
            "zkcoord_commands", "Commands sent to members.", ["option"], registry=registry
        )
        self.evictions = Counter(
            "zkcoord_evictions", "Members that did not answer in time.", registry=registry
        )
        self.asked_evictions = Counter(
            "zkcoord_evictions_asked", "Members that operators had evicted.", registry=registry
        )
        self.quarantines = Counter(
            "zkcoord_quarantines",
            "Groups quarantined after too many failures in a row.",
            registry=registry,
        )
        self.assignors = Counter(
            "zkcoord_assignor_failures",
            "Custom assignors that failed or proposed what cannot be.",
            registry=registry,
        )
        self.statics = Counter(
            "zkcoord_static_members",
            "Static members that left, returned within their grace, or did not.",
            ["event"],
            registry=registry,
        )
        self.legacy = Counter(
            "zkcoord_old_consumers",
            "Old consumers in groups: problems found and solved, rescues of who gave up.",
            ["event"],
            registry=registry,
        )
        self.malformed = Counter(
            "zkcoord_malformed", "Malformed nodes found, by kind.", ["what"], registry=registry
        )
        self.writes = Counter(
            "zkcoord_writes",
            "Multis sent to ZooKeeper, by outcome.",
            ["outcome"],
            registry=registry,
        )

    def _begin(self) -> None:
        """Series exist from the start, so that a rate over them sees the first event."""
        for cause in (*CAUSES, OTHER):
            self.rebalances.labels(cause)
        for option in ("start-fetcher", "stop-fetcher"):
            self.commands.labels(option)
        for outcome in ("ok", "fenced", "refused", "unknown"):
            self.writes.labels(outcome)
        for event in ("left", "returned", "expired"):
            self.statics.labels(event)
        for event in ("found", "solved", "rescued"):
            self.legacy.labels(event)
        for event in ("elected", "ready", "resigned"):
            self.terms.labels(event)
        for state in GroupState:
            self.groups.labels(state.value).set(0)
        self.trouble({})

    def record(self, record: Mapping[str, object]) -> None:
        """Count a journal record."""
        kind = record.get("kind")
        if kind == "rebalance":
            cause = str(record.get("cause", ""))
            self.rebalances.labels(cause if cause in CAUSES else OTHER).inc()
            self.duration.observe(_number(record, "duration_ms") / 1000)
            self.moved.inc(_number(record, "moved"))
            self.commands.labels("start-fetcher").inc(_number(record, "starts"))
            self.commands.labels("stop-fetcher").inc(_number(record, "stops"))
        elif kind == "client-led rebalance":
            self.led.rebalanced(str(record.get("cause", "")), _number(record, "duration_ms"))
        elif kind == "evicted":
            (self.asked_evictions if record.get("by") else self.evictions).inc()
        elif kind == "assignor":
            self.assignors.inc()
        elif kind == "quarantined":
            self.quarantines.inc()
        elif kind == "static":
            self.statics.labels(str(record.get("event", OTHER))).inc()
        elif kind == "legacy":
            self.legacy.labels(str(record.get("event", OTHER))).inc()
        elif kind == "malformed":
            self.malformed.labels(str(record.get("what", OTHER))).inc()
        elif kind == "term":
            self.terms.labels(str(record.get("event", OTHER))).inc()

    def refresh(self, status: Mapping[str, object], events_queued: int, journal_lost: int) -> None:
        """Set the gauges from `CoordinatorDriver.status()`."""
        leading = bool(status.get("leading"))
        self.leader.set(leading)
        self.connected.set(bool(status.get("connected")))
        self.waiting.set(bool(status.get("waiting")))
        self.epoch.set(_number(status, "epoch") if leading else 0)
        age_ms = _number(status, "contact_age_ms")
        self.contact_age.set(age_ms / 1000 if age_ms >= 0 else -1)
        states = status.get("states")
        for state in GroupState:
            self.groups.labels(state.value).set(
                states.get(state.value, 0) if isinstance(states, Mapping) else 0
            )
        for gauge, name in (
            (self.topics, "topics"),
            (self.ahead, "ahead"),
            (self.paused, "paused"),
            (self.queue, "queue"),
            (self.writing, "writing"),
            (self.malformed_now, "malformed"),
        ):
            gauge.set(_number(status, name))
        led = status.get("led")
        self.led.refresh(led if isinstance(led, ClassicSeen) else ClassicSeen())
        self.events_queued.set(events_queued)
        self.journal_lost.set(journal_lost)

    def trouble(self, counts: Mapping[TroubleKind, int]) -> None:
        """How many groups are in each trouble."""
        for kind in KINDS_BY_JOURNAL:
            self.troubles.labels(kind.value).set(counts.get(kind, 0))

    def text(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self.registry)


def _number(record: Mapping[str, object], name: str) -> float:
    value = record.get(name, 0)
    return float(value) if isinstance(value, (int, float)) else 0.0
