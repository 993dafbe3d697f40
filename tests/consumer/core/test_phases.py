"""The life of a member as a table: what is not in it raises, and from everywhere there is a way
out.
"""

from __future__ import annotations

import pytest

from consumer.core.phases import TRANSITIONS, Happening, Phase, next_phase


def test_a_pair_that_the_table_does_not_have_raises() -> None:
    for phase in Phase:
        for happening in Happening:
            if (phase, happening) not in TRANSITIONS:
                with pytest.raises(AssertionError, match=phase.value):
                    next_phase(phase, happening)


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
def test_the_application_can_always_leave(phase: Phase) -> None:
    """Whatever happens, closing ends in CLOSED, at once or when the session is over."""
    after = next_phase(phase, Happening.LEAVE)
    assert after is Phase.CLOSED or next_phase(after, Happening.OVER) is Phase.CLOSED


def test_every_phase_is_reached_from_the_first() -> None:
    reached, new = {Phase.IDLE}, {Phase.IDLE}
    while new:
        new = {after for (before, _), after in TRANSITIONS.items() if before in new} - reached
        reached |= new
    assert reached == set(Phase)


def test_nothing_leads_out_of_the_end() -> None:
    assert {after for (before, _), after in TRANSITIONS.items() if before is Phase.CLOSED} == {
        Phase.CLOSED
    }
