"""The table of a group's states: complete where it must be, and an illegal event changes
nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from zkcoord.core.group.states import TRANSITIONS, IllegalTransition, Need, diagram, next_state
from zkcoord.core.model import GroupState

LIVING = [
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
]
LEVELS = [Need.NOBODY, Need.TARGET, Need.STOPS, Need.STARTS, Need.NOTHING]


@pytest.mark.parametrize("state", LIVING)
@pytest.mark.parametrize("need", LEVELS)
def test_a_living_group_meets_every_level(state: GroupState, need: Need) -> None:
    """Decisions are level-triggered: whatever a group needs may be found in any state, and the
    state that follows depends on the need alone.
    """
    assert next_state(state, need) is next_state(GroupState.EMPTY, need)


def test_a_dead_group_meets_nothing() -> None:
    """It is forgotten; whatever still came for it would be a defect."""
    for need in Need:
        with pytest.raises(IllegalTransition, match="Dead"):
            next_state(GroupState.DEAD, need)


def test_the_diagram_in_the_docs_is_the_table() -> None:
    """docs/protocol.md shows the diagram that the table makes."""
    text = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    assert diagram() in text, (
        "the diagram is stale: "
        "python -c 'from zkcoord.core.group.states import diagram; print(diagram())'"
    )


def test_every_state_is_reached() -> None:
    """No state of the table is only there to be seen."""
    assert {after for (_, _), after in TRANSITIONS.items()} == set(GroupState)
