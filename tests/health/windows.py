"""Windows made by hand: each commit is one look."""

from __future__ import annotations

from collections.abc import Iterable

from zkcoord.health.window import CommitWindow, StoredSeen, begun


def window(
    looks: Iterable[tuple[int, int, int | None] | tuple[int, int, int | None, int]],
    commits_max: int = 10,
) -> CommitWindow:
    """Of looks (second, offset, end) or (second, offset, end, mark)."""
    found: CommitWindow | None = None
    for second, offset, end, *mark in looks:
        seen = StoredSeen(offset, second * 1_000, *mark)
        found = begun(seen, end) if found is None else found.looked(seen, end, commits_max)
    assert found is not None
    return found
