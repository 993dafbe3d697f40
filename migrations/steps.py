"""The numbered steps, in order. A step is two pure functions, forward and back, from what the
stores hold and what the operator has decided to a `MigrationPlan`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from migrations import m0001_zookeeper_to_coordinated as m0001
from migrations import m0002_coordinated_to_kafka as m0002
from migrations.model import Choices, GroupNow, MigrationPlan
from zkcoord.errors import ConfigurationError


@dataclass(frozen=True)
class MigrationStep:
    """One step. `name` is the file's."""

    number: int
    name: str
    title: str
    forward: Callable[[GroupNow, Choices], MigrationPlan]
    back: Callable[[GroupNow, Choices], MigrationPlan]

    def plan(self, rollback: bool) -> Callable[[GroupNow, Choices], MigrationPlan]:
        """One of its two ways."""
        return self.back if rollback else self.forward


STEPS = (
    MigrationStep(
        1,
        "zookeeper-to-coordinated",
        "offsets of old consumers, checked and marked for zkcoord's groups",
        m0001.forward,
        m0001.back,
    ),
    MigrationStep(
        2,
        "coordinated-to-kafka",
        "offsets of zkcoord's groups, copied to Kafka's own groups",
        m0002.forward,
        m0002.back,
    ),
)


def step_named(text: str) -> MigrationStep:
    """By number or name. Raises `ConfigurationError`."""
    for step in STEPS:
        if text in (str(step.number), f"{step.number:04d}", step.name):
            return step
    raise ConfigurationError(
        f"there is no migration {text[:80]!a}: write"
        f" {' or '.join(f'{step.number} ({step.name})' for step in STEPS)}"
    )
