"""The states of a group, as a table.

A group's state is a summary for people and tools; the decisions do not depend on it. It follows,
after each decision, from what the group needs (a `Need`) and from nothing else: whatever a living
group needs may be found in any state. A dead group is forgotten; one that is made again under the
name is another. The diagram in docs/protocol.md is generated from the table.
"""

from __future__ import annotations

import enum

from zkcoord.core.model import GroupState, Option

from .view import GroupView


class Need(enum.Enum):
    """What separates a group from its target."""

    NOBODY = "no members"
    TARGET = "members, subscriptions or partitions changed"
    STOPS = "partitions must be given up"
    STARTS = "partitions must be taken"
    NOTHING = "every partition is where it belongs"
    LEFT_ALONE = "old consumers are there, and nothing may be commanded"
    FAILED = "too many failures in a row"
    DELETED = "the group was deleted"


class IllegalTransition(AssertionError):
    """A dead group needed something: a defect of the coordinator."""


STATES: dict[Need, GroupState] = {
    Need.NOBODY: GroupState.EMPTY,
    Need.TARGET: GroupState.PREPARING_REBALANCE,
    Need.STOPS: GroupState.PREPARING_REBALANCE,
    Need.STARTS: GroupState.COMPLETING_REBALANCE,
    Need.NOTHING: GroupState.STABLE,
    Need.LEFT_ALONE: GroupState.STABLE,
    Need.FAILED: GroupState.QUARANTINED,
    Need.DELETED: GroupState.DEAD,
}


def next_state(state: GroupState, need: Need) -> GroupState:
    """The state after `need` was found. Raises `IllegalTransition` for a dead group."""
    if state is GroupState.DEAD:
        raise IllegalTransition(f"a group in state {state.value} cannot meet: {need.value}")
    return STATES[need]


def need_of(
    view: GroupView,
    quarantined: bool,
    settled: bool,
    left_alone: bool = False,
    paused: bool = False,
) -> Need:
    """What the group of this view needs. `settled`: no other target is on its way; `left_alone`:
    none may be; `paused`: nobody is to have anything, also who is gone and may hold a lease.
    """
    if not view.members:
        return Need.NOBODY
    if quarantined:
        return Need.FAILED
    if not settled:
        return Need.TARGET
    if left_alone:
        return Need.LEFT_ALONE
    options = {c.option for nodes in view.live.values() for c in nodes.values()}
    if (
        view.to_revoke
        or Option.STOP in options
        or not view.target.keys().isdisjoint((*view.orphans, *view.not_ours))
        or (paused and view.orphans)
    ):
        return Need.STOPS
    if view.assignable or Option.START in options:
        return Need.STARTS
    return Need.NOTHING


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2", "    [*] --> Empty", '    state "any living state" as Living']
    lines += [f"    Living --> {state.value}: {need.value}" for need, state in STATES.items()]
    return "\n".join([*lines, "    Dead --> [*]"]) + "\n"
