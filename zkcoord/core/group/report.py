"""A group's report: what its node says for people and tools, and when that is news."""

from __future__ import annotations

from zkcoord.core.model import Cause, Departed, GroupMetadata, GroupState
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.target import TargetAssignment

from .legacy_group import LegacyGroup
from .quarantine import Quarantine

RESTS = (GroupState.STABLE, GroupState.EMPTY, GroupState.QUARANTINED)


def report(
    before: GroupMetadata,
    generation: int,
    state: GroupState,
    result: TargetAssignment,
    members: int,
    departed: tuple[Departed, ...],
    cause: Cause,
    trouble: Quarantine,
    sharing: LegacyGroup,
) -> GroupMetadata:
    """What there is to say now; what the group has used `before` holds while there is no target."""
    made = bool(result.assignor)
    return GroupMetadata(
        generation,
        state,
        result.assignor or before.assignor,
        result.protocol if made else before.protocol,
        result.topics if made else before.topics,
        members,
        configuration(trouble.options),
        departed,
        cause,
        before.since_ms,
        "",
        trouble.reason if trouble.quarantined else "",
        sharing.word.said(),
        sharing.reported,
        sharing.word.paused_by,
    )


CONFIGURED = (
    "default_assignor",
    "lease_max_ms",
    "rebalance_timeout_max_ms",
    "initial_delay_ms",
    "debounce_ms",
    "debounce_max_ms",
    "max_rebalance_retries",
    "quarantine_ms",
    "grace_max_ms",
    "members_per_group_max",
    "partitions_per_command_max",
)


def configuration(options: CoordinatorOptions) -> dict[str, str | int]:
    """The coordinator's options that a group lives under; those of each member are in its
    registration.
    """
    return {name: getattr(options, name) for name in CONFIGURED}


def is_due(
    before: GroupMetadata,
    after: GroupMetadata,
    beside_commands: bool,
    assigns: bool,
    trouble: Quarantine,
) -> bool:
    """Whether a report is to be written: beside commands, when the group comes to rest, and at
    once where it says something new of old consumers or of a pause. `assigns`: another target is
    due.
    """
    said = (after.mode, after.problems, after.paused) != (
        before.mode,
        before.problems,
        before.paused,
    )
    if not beside_commands and not said and after.state not in RESTS:
        return False
    if assigns and not beside_commands and not said and not trouble.quarantined:
        return False
    return not same_report(before, after)


def same_report(a: GroupMetadata, b: GroupMetadata) -> bool:
    """Whether a report says nothing new. A takeover of a balanced group must not write, so the
    cause alone is not news, nor are options of the coordinator (each report tells them anew), nor
    is when a coordinator saw an instance leave.
    """
    return _said(a) == _said(b)


def _said(report: GroupMetadata) -> tuple[object, ...]:
    promises = [
        (d.instance, d.partitions, d.grace_ms, d.since_ms > 0, d.numbers, d.topics)
        for d in report.departed
    ]
    return (
        report.generation,
        report.state,
        report.assignor,
        report.topics,
        report.members,
        report.failure,
        report.mode,
        report.problems,
        report.paused,
        promises,
    )
