"""When a group cannot be rebalanced: retries, then quarantine of that group alone.

Failures are evictions, failures of a custom assignor and proposals of it that were no good.
`max_rebalance_retries` of them without a rest of `retries_forgotten_ms` between and the group is
quarantined: nothing is started or stopped in it, everybody keeps what it has, and the reason is
recorded. It leaves on a membership change, or after `quarantine_ms` by itself, but never before a
backoff that doubles from one quarantine to the next (an evicted member's return is itself a
membership change). Leaving is a trial: the next failure ends it.

The old consumer gave up after rebalance.max.retries with a ConsumerRebalanceFailedException; the
name is kept.
"""

from __future__ import annotations

from zkcoord.core.events import Record
from zkcoord.core.options import CoordinatorOptions

EXCEPTION = "ConsumerRebalanceFailedException"


class Quarantine:
    """One group's failures. Times are ms of the coordinator's own clock. What begins or ends a
    quarantine also gives what is to be recorded of it.
    """

    def __init__(self, options: CoordinatorOptions, group: str = "") -> None:
        self.options = options
        self.group = group
        self.failures = 0
        self.rounds = 0
        self.reason = ""
        self.quarantined = False
        self.not_before_ms = 0
        self.by_itself_ms = 0
        self.changed = False
        self.rested_since_ms: int | None = None

    def failed(self, now_ms: int, reason: str) -> list[Record]:
        """Something failed. The last retry spent quarantines the group."""
        self.rests(now_ms, False)
        self.failures += 1
        self.reason = f"{EXCEPTION}: {reason} ({self.failures} failures in a row)"
        if self.quarantined or self.failures < self.options.max_rebalance_retries:
            return []
        self.quarantine(now_ms)
        detail = {
            "reason": self.reason,
            "failures": self.failures,
            "backoff_ms": self.not_before_ms - now_ms,
        }
        return [Record("quarantined", self.group, detail)]

    def quarantine(self, now_ms: int) -> None:
        """Leave the group alone from now on."""
        o = self.options
        backoff_ms = min(
            o.quarantine_backoff_ms * 2 ** min(self.rounds, 16), o.quarantine_backoff_max_ms
        )
        self.rounds += 1
        self.quarantined, self.changed = True, False
        self.not_before_ms = now_ms + backoff_ms
        self.by_itself_ms = now_ms + max(backoff_ms, o.quarantine_ms)

    def inherit(self, now_ms: int, reason: str) -> None:
        """A coordinator before us quarantined the group: go on with it, with the first backoff."""
        self.failures = max(self.failures, self.options.max_rebalance_retries)
        self.reason = reason
        self.quarantine(now_ms)

    def membership_changed(self) -> None:
        """A reason to try again, when the backoff is over."""
        self.changed = True

    def release_at_ms(self) -> int | None:
        """When the quarantine ends; None: there is none."""
        if not self.quarantined:
            return None
        return self.not_before_ms if self.changed else self.by_itself_ms

    def release(self, because: str) -> list[Record]:
        """End the quarantine: one trial."""
        self.quarantined = False
        self.failures = min(self.failures, self.options.max_rebalance_retries - 1)
        return [Record("released", self.group, {"because": because, "reason": self.reason})]

    def rests(self, now_ms: int, resting: bool) -> None:
        """Whether the group is at rest now; a long rest forgets."""
        if (
            self.rested_since_ms is not None
            and now_ms - self.rested_since_ms >= self.options.retries_forgotten_ms
        ):
            self.failures = self.rounds = 0
        if not resting:
            self.rested_since_ms = None
        elif self.rested_since_ms is None:
            self.rested_since_ms = now_ms
