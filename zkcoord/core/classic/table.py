"""The states of a classic group as a table: state and input, and which states may follow.

An input here is one request, one timer or one answer of whoever persists. `judged` is asked about
each, and whatever the table does not have is a defect.
"""

from __future__ import annotations

import enum

from .state import ClassicPhase

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicPhase


class Trigger(enum.Enum):
    """What a group is told."""

    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    BEAT = "Heartbeat"
    LEAVE = "LeaveGroup"
    COMMIT = "OffsetCommit"
    DESCRIBE = "DescribeGroups"
    DELETE = "DeleteGroups"
    TIMER = "a timer"
    PERSISTED = "it is persisted"
    NOT_PERSISTED = "it is not persisted"
    RESTORED = "restored"
    UNLOADED = "unloaded"


class ClassicTransitionError(AssertionError):
    """A transition that the table does not have: a defect."""


_ONLY_READ = (Trigger.BEAT, Trigger.COMMIT, Trigger.DESCRIBE)

TRANSITIONS: dict[tuple[ClassicPhase, Trigger], frozenset[ClassicPhase]] = {
    **{(phase, trigger): frozenset({phase}) for phase in ClassicPhase for trigger in _ONLY_READ},
    (EMPTY, Trigger.JOIN): frozenset({EMPTY, PREPARING}),
    (EMPTY, Trigger.SYNC): frozenset({EMPTY}),
    (EMPTY, Trigger.LEAVE): frozenset({EMPTY}),
    (EMPTY, Trigger.DELETE): frozenset({EMPTY}),
    (EMPTY, Trigger.TIMER): frozenset({EMPTY}),
    (EMPTY, Trigger.PERSISTED): frozenset({DEAD}),
    (EMPTY, Trigger.NOT_PERSISTED): frozenset({EMPTY}),
    (EMPTY, Trigger.RESTORED): frozenset({EMPTY, PREPARING, COMPLETING, STABLE}),
    (EMPTY, Trigger.UNLOADED): frozenset({DEAD}),
    (PREPARING, Trigger.JOIN): frozenset({PREPARING}),
    (PREPARING, Trigger.SYNC): frozenset({PREPARING}),
    (PREPARING, Trigger.LEAVE): frozenset({PREPARING}),
    (PREPARING, Trigger.DELETE): frozenset({PREPARING}),
    (PREPARING, Trigger.TIMER): frozenset({PREPARING}),
    (PREPARING, Trigger.PERSISTED): frozenset({COMPLETING, EMPTY}),
    (PREPARING, Trigger.NOT_PERSISTED): frozenset({PREPARING, EMPTY}),
    (PREPARING, Trigger.UNLOADED): frozenset({DEAD}),
    (COMPLETING, Trigger.JOIN): frozenset({COMPLETING, PREPARING}),
    (COMPLETING, Trigger.SYNC): frozenset({COMPLETING, PREPARING}),
    (COMPLETING, Trigger.LEAVE): frozenset({COMPLETING, PREPARING}),
    (COMPLETING, Trigger.DELETE): frozenset({COMPLETING}),
    (COMPLETING, Trigger.TIMER): frozenset({COMPLETING, PREPARING}),
    (COMPLETING, Trigger.PERSISTED): frozenset({STABLE}),
    (COMPLETING, Trigger.NOT_PERSISTED): frozenset({PREPARING}),
    (COMPLETING, Trigger.UNLOADED): frozenset({DEAD}),
    (STABLE, Trigger.JOIN): frozenset({STABLE, PREPARING}),
    (STABLE, Trigger.SYNC): frozenset({STABLE}),
    (STABLE, Trigger.LEAVE): frozenset({STABLE, PREPARING}),
    (STABLE, Trigger.DELETE): frozenset({STABLE}),
    (STABLE, Trigger.TIMER): frozenset({STABLE, PREPARING}),
    (STABLE, Trigger.PERSISTED): frozenset({STABLE}),
    (STABLE, Trigger.NOT_PERSISTED): frozenset({STABLE}),
    (STABLE, Trigger.UNLOADED): frozenset({DEAD}),
    (DEAD, Trigger.JOIN): frozenset({DEAD}),
    (DEAD, Trigger.SYNC): frozenset({DEAD}),
    (DEAD, Trigger.LEAVE): frozenset({DEAD}),
    (DEAD, Trigger.DELETE): frozenset({DEAD}),
}


def judged(before: ClassicPhase, trigger: Trigger, after: ClassicPhase) -> None:
    """Raise `ClassicTransitionError` unless the table has it."""
    if after not in TRANSITIONS.get((before, trigger), frozenset()):
        raise ClassicTransitionError(f"{before.value}, {trigger.value}: {after.value}")
