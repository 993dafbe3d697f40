"""The time in which a member that another gateway served gets back what its client has.

The client has been told its partitions, reads on, and must hear nothing of the change. So its
heartbeats and its commits wait until the agent holds all of it again (a commit until the next
request comes on its connection, whose answer it would hold up); where some does not come back
within moments of the rest, or nothing within the time that the coordinator keeps it, the client is
told what is so now, as of any other change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value

from .actions import WireTimes
from .requests import CommitRequest

COMMITS_MAX = 1_000


@value
class WaitingCommit:
    """A commit that cannot be judged yet."""

    ticket: int
    connection: int
    request: CommitRequest


@dataclass(slots=True)
class Restoring:
    """See the module. `generation`: what the client was told with its assignment; one that has
    joined again since, and was not given another, names a later one.
    """

    times: WireTimes
    began_ms: int
    expected: frozenset[TopicPartition]
    generation: int
    first_ms: int | None = None
    commits: list[WaitingCommit] = field(default_factory=list)

    @property
    def until_ms(self) -> int:
        """When it ends whatever has come back."""
        if self.first_ms is not None:
            return min(self.first_ms + self.times.restore_rest_ms, self._last_ms)
        return self._last_ms

    @property
    def _last_ms(self) -> int:
        return self.began_ms + self.times.restore_ms

    def came(self, now_ms: int) -> None:
        """The agent was assigned something."""
        if self.first_ms is None:
            self.first_ms = now_ms

    def no_longer(self, connection: int) -> list[int]:
        """Commits of this connection wait no longer: their tickets."""
        gone = [one.ticket for one in self.commits if one.connection == connection]
        self.commits = [one for one in self.commits if one.connection != connection]
        return gone

    def is_over(self, now_ms: int, held: Collection[TopicPartition]) -> bool:
        """Whether what there is to come back is there, or will not come."""
        return now_ms >= self.until_ms or self.expected <= frozenset(held)


@dataclass(slots=True)
class Returned:
    """What came back to a client that reads on where it stands, and the next offset that was
    stored by then. While it was away for longer than it is waited for others have read on, and may
    have stored more than it has reached: that is not to be undone.
    """

    stored: dict[TopicPartition, int] = field(default_factory=dict)

    def came(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The agent was assigned these. Which of them the client has may not be known: what it was
        told last could not be written down while ZooKeeper did not answer.
        """
        self.stored.update(offsets)

    def is_behind(self, tp: TopicPartition, offset: int) -> bool:
        """Whether a commit would go back. One that does not says that the client is as far: what it
        commits from then on is its own affair.
        """
        behind = offset < self.stored.get(tp, 0)
        if not behind:
            self.stored.pop(tp, None)
        return behind

    def keep(self, has: Collection[TopicPartition]) -> None:
        """The client joins: of all but these it asks again where they begin."""
        self.stored = {tp: offset for tp, offset in self.stored.items() if tp in has}
