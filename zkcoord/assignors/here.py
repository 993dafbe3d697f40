"""Where assignors compute: elsewhere (`pool`), or, where there is no elsewhere, at once."""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.assignors.wide import AnswerTaker
from zkcoord.core.assignment import ASSIGNORS, AssignmentInput

AskAssignor = Callable[[str, str, AssignmentInput, AnswerTaker], None]
"""Of a group, an assignor's name, what it is given, and who takes the answer."""


def compute_here(group: str, assignor: str, given: AssignmentInput, done: AnswerTaker) -> None:
    """Those that are built in; of others there is no answer."""
    if assignor in ASSIGNORS:
        done(ASSIGNORS[assignor](given), "")
