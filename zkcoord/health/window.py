"""What was committed of a partition lately: a sliding window of commits, fed by looks at what is
stored. Pure.

Where a commit's time comes from is the difference to a monitor that reads Kafka's topic of commits.
Looks see values, so several looks at one offset are one commit, whose time does not move. Of
offsets in ZooKeeper a look sees more: the transaction that wrote the node, so the same offset
committed again is another commit; and the node's mtime, the time of the commit itself. Of offsets
in Kafka a commit counts from the look that saw it first, and the same offset committed again is not
seen.

The mtime is of the ensemble's clock. It is believed as far as looks allow: a commit was made after
the look that did not see it yet and before the one that did. So a wrong clock, or one that steps,
costs the exactness and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from zkcoord.core.value_type import value

COMMITS_MAX = 10


class StoredSeen(NamedTuple):
    """What one look found stored. `mark` is the transaction that wrote it, 0 where that is not
    known; `wrote_ms` when, on the clock of `seen_ms`.
    """

    offset: int
    seen_ms: int
    mark: int = 0
    wrote_ms: int | None = None


class SeenCommit(NamedTuple):
    """A commit, and where the log ended when it was first seen (None: not known then)."""

    offset: int
    at_ms: int
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """How many records were behind it then."""
        return None if self.end is None else max(0, self.end - self.offset)


@value
class CommitWindow:
    """The last commits, oldest first; never empty. `since_ms` is the first look, `seen_ms` the
    last; `beyond` counts the last looks in a row that found the offset beyond the log's end.
    """

    commits: tuple[SeenCommit, ...]
    mark: int
    since_ms: int
    seen_ms: int
    beyond: int = 0

    @property
    def offset(self) -> int:
        """What is committed now."""
        return self.commits[-1].offset

    @property
    def width_ms(self) -> int:
        """From the first commit to the last."""
        return self.commits[-1].at_ms - self.commits[0].at_ms

    @property
    def watched_ms(self) -> int:
        """From the first look to the last."""
        return self.seen_ms - self.since_ms

    def looked(
        self, seen: StoredSeen, end: int | None, commits_max: int = COMMITS_MAX
    ) -> CommitWindow:
        """With what another look has found, and where the log ended then."""
        beyond = self.beyond + 1 if end is not None and seen.offset > end else 0
        last = self.commits[-1]
        if (seen.offset, seen.mark) == (last.offset, self.mark):
            known = self.commits
            if last.end is None and end is not None:
                known = (*known[:-1], last._replace(end=end))
            return CommitWindow(known, self.mark, self.since_ms, seen.seen_ms, beyond)
        wrote = seen.seen_ms if seen.wrote_ms is None else seen.wrote_ms
        at_ms = min(max(wrote, self.seen_ms, last.at_ms), seen.seen_ms)
        commits = (*self.commits, SeenCommit(seen.offset, at_ms, end))[-commits_max:]
        return CommitWindow(commits, seen.mark, self.since_ms, seen.seen_ms, beyond)


def begun(seen: StoredSeen, end: int | None) -> CommitWindow:
    """The window of a partition that is seen for the first time, or of another log."""
    at_ms = seen.seen_ms if seen.wrote_ms is None else min(seen.wrote_ms, seen.seen_ms)
    commit = SeenCommit(seen.offset, at_ms, end)
    beyond = int(end is not None and seen.offset > end)
    return CommitWindow((commit,), seen.mark, seen.seen_ms, seen.seen_ms, beyond)
