"""What a coordinator counts of client-led groups through all its terms, and sees of them just now:
plain integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zkcoord.core.classic.state import ClassicPhase
from zkcoord.core.value_type import value
from zkcoord.zk.clock import wall_ms

NO_STATES = {phase.value: 0 for phase in ClassicPhase}


@dataclass(slots=True)
class ClassicFigures:
    """Requests that were refused, by code, and those that were answered otherwise. `wall_clock` is
    that of what is said to people.
    """

    wall_clock: Callable[[], int] = wall_ms
    refused: Counter[str] = field(default_factory=Counter)
    answered: int = 0


@value
class ClassicSeen:
    """At one moment: groups by state, members, requests without an answer, of which some have not
    been read yet, and groups that are left alone (`none_is_served`: all of them are), since others
    than coordinators may write what is said of them, or it is hidden; and what was counted until
    then.
    """

    states: Mapping[str, int] = field(default_factory=lambda: NO_STATES)
    members: int = 0
    waiting: int = 0
    unread: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    answered: int = 0
    left_alone: int = 0
    none_is_served: bool = False
