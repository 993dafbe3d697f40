"""Keys of `zkcoord top`."""

from __future__ import annotations

import pytest

from zkcoord.console.terminal.state import (
    BACK,
    DOWN,
    END,
    ENTER,
    ERASE,
    HOME,
    PAGE_DOWN,
    PAGE_UP,
    SORTED,
    UP,
    TopState,
)
from zkcoord.console.views.overview import NOT_WELL

SHOWN = [f"g{n}" for n in range(30)]


def after(*keys: str) -> TopState:
    state = TopState()
    for key in keys:
        state = state.pressed(key, SHOWN, 10)
    return state


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        ((DOWN,), 1),
        (("j", "j", "k"), 1),
        ((UP,), 0),
        ((PAGE_DOWN, DOWN), 11),
        ((PAGE_DOWN,) * 9, 29),
        ((END, PAGE_UP), 19),
        ((END, HOME), 0),
    ],
)
def test_the_mark_moves_and_stays_within_the_list(keys: tuple[str, ...], at: int) -> None:
    assert after(*keys).at == at


def test_a_group_is_entered_and_left() -> None:
    assert after(DOWN, ENTER).group == "g1"
    assert after(DOWN, ENTER, DOWN).group == "g1"
    left = after(DOWN, ENTER, BACK)
    assert (left.group, left.at) == ("", 1)
    assert TopState().pressed(ENTER, [], 10).group == "", "there is none"


def test_what_is_typed_is_looked_for_and_no_key() -> None:
    typed = after("/", "q", "s", "x", ERASE)
    assert typed.wanted.find == "qs" and typed.typing and not typed.is_over
    assert after("/", "q", ENTER, "q").is_over
    assert after("/", "q", BACK).wanted.find == ""
    assert after("/", "q", ENTER, BACK).wanted.find == ""
    assert after("/", "\x1b", "up").wanted.find == ""


def test_each_column_is_sorted_by_in_turn() -> None:
    seen = [after(*"s" * n).wanted.sort for n in range(len(SORTED) + 1)]
    assert set(seen) == set(SORTED) and seen[0] == seen[-1]
    assert after("r").wanted.down is not after().wanted.down


def test_what_is_not_well_and_help_and_the_end() -> None:
    assert after("w").wanted.verdict == NOT_WELL and after("w", "w").wanted.verdict == ""
    assert after("h").helps and not after("h", "q").helps and not after("h", "q").is_over
    assert after("q").is_over


def test_a_list_that_has_become_shorter_has_its_last_marked() -> None:
    assert after(END).within(3).at == 2 and after(END).within(0).at == 0
