"""What a coordinator measures of groups whose leader is a client. Labels come from fixed lists, as
those of the other groups.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from zkcoord.core.classic.messages import CauseKind
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.error_codes import WireCode
from zkcoord.zk.classic.figures import ClassicSeen

CAUSES = tuple(kind.value for kind in CauseKind)
OTHER = "other"
WAITS = ("unread", "open")
REFUSALS = tuple(code.name for code in WireCode if code is not WireCode.NONE)
DURATION_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class LedMetrics:
    """See the module: `rebalanced` on the loop's thread, `refresh` at each scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counted: dict[str, int] = {}
        self.groups = Gauge(
            "zkcoord_client_led_groups",
            "Groups whose leader is a client, by state.",
            ["state"],
            registry=registry,
        )
        self.members = Gauge(
            "zkcoord_client_led_members", "Their members, joining ones too.", registry=registry
        )
        self.requests = Gauge(
            "zkcoord_client_led_requests",
            "Requests of gateways without an answer: not read yet, or waiting for members.",
            ["kind"],
            registry=registry,
        )
        self.left_alone = Gauge(
            "zkcoord_client_led_left_alone",
            "Groups of clients that are not served, since others than coordinators may write what"
            " is said of them.",
            registry=registry,
        )
        self.none_served = Gauge(
            "zkcoord_client_led_none_served",
            "1 while none of them is, since others may write what is above all of them, or they"
            " cannot be listed.",
            registry=registry,
        )
        self.rebalances = Counter(
            "zkcoord_client_led_rebalances",
            "Rebalances of client-led groups that ended, by what began them.",
            ["cause"],
            registry=registry,
        )
        self.duration = Histogram(
            "zkcoord_client_led_rebalance_duration_seconds",
            "From its beginning to the leader's assignment.",
            buckets=DURATION_BUCKETS_S,
            registry=registry,
        )
        self.answers = Counter(
            "zkcoord_client_led_answers",
            "Requests of gateways that were answered, by Kafka's code.",
            ["code"],
            registry=registry,
        )
        for cause in (*CAUSES, OTHER):
            self.rebalances.labels(cause)
        for code in ("NONE", *REFUSALS):
            self.answers.labels(code)
        self.refresh(ClassicSeen())

    def rebalanced(self, cause: str, duration_ms: float) -> None:
        """One has ended."""
        self.rebalances.labels(cause if cause in CAUSES else OTHER).inc()
        self.duration.observe(duration_ms / 1000)

    def refresh(self, seen: ClassicSeen) -> None:
        """What there is now, and what was counted since the last time."""
        for phase in ClassicPhase:
            self.groups.labels(phase.value).set(seen.states[phase.value])
        self.members.set(seen.members)
        self.left_alone.set(seen.left_alone)
        self.none_served.set(seen.none_is_served)
        for kind, value in zip(WAITS, (seen.unread, seen.waiting - seen.unread), strict=True):
            self.requests.labels(kind).set(value)
        for code, count in {"NONE": seen.answered, **seen.refused}.items():
            more = count - self._counted.get(code, 0)
            if more > 0:
                self.answers.labels(code).inc(more)
                self._counted[code] = count
