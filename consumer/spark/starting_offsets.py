"""Where a query begins, for partitions of which the group has stored nothing: `startingOffsets`.
Stands behind `consumer.offsets.initial_offsets`, which asks first what the group has committed in
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kafka.structs import TopicPartition as KafkaPartition

from consumer.fetch.client import FetchClient
from consumer.spark.option_values import EARLIEST, Offsets
from zkcoord.core.model import TopicPartition


class StartingOffsets:
    """The `OffsetResetter` of a query; any thread. Partitions that explicit offsets do not name
    begin at their first record, as new ones do in Spark's own source.
    """

    def __init__(self, data: FetchClient, offsets: Offsets) -> None:
        # Asks the brokers.
        self._data = data
        # One of EARLIEST and LATEST, or first offsets by partition.
        self._offsets = offsets

    def resolve(
        self,
        partitions: Collection[KafkaPartition],
        done: Callable[[dict[KafkaPartition, int]], None],
        earliest: Collection[KafkaPartition] = (),
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
            self._data.look_up(rest, lambda found: done({**known, **found}))
        else:
            done(known)
        return True

    def _of(self, tp: TopicPartition) -> int:
        return self._offsets if isinstance(self._offsets, int) else self._offsets.get(tp, EARLIEST)
