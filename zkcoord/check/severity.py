"""How bad what `zkcoord check` finds is, and what is known of each kind of it."""

from __future__ import annotations

import enum

from zkcoord.core.value_type import value

ALL = "0.8.0 - 1.1.1"
"""The versions of the old consumer."""


class Severity(enum.Enum):
    """`ERROR`: consumers stand still, or lose or repeat records, now or at the next rebalance.
    `WARNING`: it may come to that, or does under a condition. `NOTE`: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """Worse is less."""
        return list(Severity).index(self)


@value
class CheckRule:
    """One kind of problem. `versions`: of the old consumers that it hurts ("": not about them)."""

    severity: Severity
    versions: str
    effect: str
    fix: str
