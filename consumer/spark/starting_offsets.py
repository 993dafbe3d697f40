"""Where a query begins, for partitions of which the group has stored nothing: `startingOffsets`.
Stands before `consumer.offsets.initial_offsets`, which asks first what the group has committed in
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from consumer.core import messages as msg
from consumer.spark.options import EARLIEST, Offsets
from consumer.spark.query_assignment import QueryAssignment
from zkcoord.core.model import TopicPartition


class StartingOffsets:
    """The `StartingMember` of a query. Partitions that explicit offsets do not name begin at
    their first record, as new ones do in Spark's own source.
    """

    def __init__(self, assignment: QueryAssignment, offsets: Offsets) -> None:
        self._assignment = assignment
        self._offsets = offsets
        self.data = self

    def send(self, message: msg.FromFetcher) -> None:
        """Send to the member's thread."""
        self._assignment.send(message)

    @property
    def closed(self) -> bool:
        """Has the member ended?"""
        return self._assignment.closed

    @property
    def failure(self) -> Exception | None:
        """What ended it."""
        return self._assignment.failure

    def resolve(
        self,
        partitions: Collection[Any],
        done: Callable[[dict[Any, int]], None],
        earliest: Collection[Any] = (),
    ) -> bool:
        """`done` gets where these begin, as far as it can be found out now; those in `earliest` at
        their first record. There is always a policy.
        """
        wanted = {
            tp: EARLIEST if tp in earliest else self._of(TopicPartition(*tp)) for tp in partitions
        }
        known = {tp: offset for tp, offset in wanted.items() if offset >= 0}
        rest = {tp: spec for tp, spec in wanted.items() if spec < 0}
        if rest:
            self._assignment.data.look_up(rest, lambda found: done({**known, **found}))
        else:
            done(known)
        return True

    def _of(self, tp: TopicPartition) -> int:
        return self._offsets if isinstance(self._offsets, int) else self._offsets.get(tp, EARLIEST)
