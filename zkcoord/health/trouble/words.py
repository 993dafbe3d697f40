"""How figures are said in the sentences of findings."""

from __future__ import annotations

from collections.abc import Sequence

NAMED_MAX = 4


def span(ms: int) -> str:
    """A duration for people."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def many(count: int, what: str) -> str:
    """`1 member`, `2 members`."""
    return f"{count} {what}" + ("" if count == 1 else "s")
