"""What a core remembers over a lost connection."""

from __future__ import annotations

from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import Elected, GroupUnread, Paused, ReadGroup, Ready
from zkcoord.core.options import CoordinatorOptions


def reads(actions: object) -> list[str]:
    """The groups that are to be read."""
    return [action.group for action in actions if isinstance(action, ReadGroup)]  # type: ignore[attr-defined]


def test_a_group_that_went_before_it_was_read_is_read_when_it_comes_again() -> None:
    """It was made, and while the connection was gone it was deleted: nobody can tell that of a
    group that was never known.
    """
    core = Coordinator(CoordinatorOptions())
    core.step(Elected(0, 7))
    core.step(Ready(0))
    assert reads(core.step(GroupUnread(1, "g"))) == ["g"]
    core.step(Paused(2))
    core.step(Ready(3))
    assert reads(core.step(GroupUnread(4, "g"))) == ["g"]
    assert reads(core.step(GroupUnread(5, "g"))) == [], "once at a time"
