"""The states of a group, as a table.

A group's state is a summary for people and tools; the decisions do not depend on it. It is derived,
after each decision, from what the group needs (a `Need`), and the table below says which change of
state that is. An event that the table does not have raises and leaves the state untouched. A dead
group is forgotten: one that is made again under the same name is another. The diagram in
docs/protocol.md is generated from it.
"""

from __future__ import annotations

import enum

from zkcoord.core.model import GroupState


class Need(enum.Enum):
    """What a group needs to become what it shall be."""

    NOBODY = "no members"
    TARGET = "members, subscriptions or partitions changed"
    STOPS = "partitions must be given up"
    STARTS = "partitions must be taken"
    NOTHING = "every partition is where it shall be"
    FAILED = "too many failures in a row"
    DELETED = "the group was deleted"


class IllegalTransition(AssertionError):
    """A group met an event that its state does not have: a defect of the coordinator."""


_E, _P, _C, _S, _D, _Q = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
    GroupState.QUARANTINED,
)

TRANSITIONS: dict[tuple[GroupState, Need], GroupState] = {
    (_E, Need.NOBODY): _E,
    (_E, Need.TARGET): _P,
    (_E, Need.STOPS): _P,
    (_E, Need.STARTS): _C,
    (_E, Need.NOTHING): _S,
    (_E, Need.FAILED): _Q,
    (_E, Need.DELETED): _D,
    (_P, Need.NOBODY): _E,
    (_P, Need.TARGET): _P,
    (_P, Need.STOPS): _P,
    (_P, Need.STARTS): _C,
    (_P, Need.NOTHING): _S,
    (_P, Need.FAILED): _Q,
    (_P, Need.DELETED): _D,
    (_C, Need.NOBODY): _E,
    (_C, Need.TARGET): _P,
    (_C, Need.STOPS): _P,
    (_C, Need.STARTS): _C,
    (_C, Need.NOTHING): _S,
    (_C, Need.FAILED): _Q,
    (_C, Need.DELETED): _D,
    (_S, Need.NOBODY): _E,
    (_S, Need.TARGET): _P,
    (_S, Need.STOPS): _P,
    (_S, Need.STARTS): _C,
    (_S, Need.NOTHING): _S,
    (_S, Need.FAILED): _Q,
    (_S, Need.DELETED): _D,
    (_Q, Need.NOBODY): _E,
    (_Q, Need.TARGET): _P,
    (_Q, Need.STOPS): _P,
    (_Q, Need.STARTS): _C,
    (_Q, Need.NOTHING): _S,
    (_Q, Need.FAILED): _Q,
    (_Q, Need.DELETED): _D,
}


def next_state(state: GroupState, need: Need) -> GroupState:
    """The state after `need` was found. Raises `IllegalTransition` for a pair that the table does
    not have.
    """
    try:
        return TRANSITIONS[(state, need)]
    except KeyError:
        raise IllegalTransition(
            f"a group in state {state.value} cannot meet: {need.value}"
        ) from None


def diagram() -> str:
    """The table as a Mermaid state diagram (changes of state only), for the docs."""
    lines = ["stateDiagram-v2", "    [*] --> Empty"]
    lines += [
        f"    {a.value} --> {b.value}: {need.value}"
        for (a, need), b in TRANSITIONS.items()
        if a is not b
    ]
    return "\n".join(lines) + "\n"
