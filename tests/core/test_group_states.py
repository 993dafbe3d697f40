"""The table of a group's states: each need leads to one state, from wherever the group stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from zkcoord.core.group.states import IllegalTransition, Need, diagram, next_state
from zkcoord.core.model import GroupState

# as docs/protocol.md and Kafka's own words have it, and not as the code
LEADS_TO = {
    "no members": "Empty",
    "members, subscriptions or partitions changed": "PreparingRebalance",
    "partitions must be given up": "PreparingRebalance",
    "partitions must be taken": "CompletingRebalance",
    "every partition is where it belongs": "Stable",
    "old consumers are there, and nothing may be commanded": "Stable",
    "too many failures in a row": "Quarantined",
    "the group was deleted": "Dead",
}


def test_each_need_leads_where_the_words_say() -> None:
    assert {need.value: next_state(GroupState.EMPTY, need).value for need in Need} == LEADS_TO


def test_no_state_is_only_there_to_be_seen() -> None:
    assert set(LEADS_TO.values()) == {state.value for state in GroupState}


@pytest.mark.parametrize("need", Need)
def test_a_dead_group_needs_nothing(need: Need) -> None:
    """It is forgotten; whatever still came for it would be a defect."""
    with pytest.raises(IllegalTransition, match="Dead"):
        next_state(GroupState.DEAD, need)


@pytest.mark.parametrize("need", Need)
@pytest.mark.parametrize(
    "state", sorted(set(GroupState) - {GroupState.DEAD}, key=lambda state: state.value)
)
def test_a_living_group_meets_every_need(state: GroupState, need: Need) -> None:
    assert next_state(state, need) is next_state(GroupState.EMPTY, need)


def test_the_diagram_in_the_docs_is_the_table() -> None:
    """docs/protocol.md shows the diagram that the table makes."""
    text = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert diagram() in text, (
        "the diagram is stale: "
        "python -c 'from zkcoord.core.group.states import diagram; print(diagram())'"
    )
