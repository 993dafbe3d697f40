"""Where a query begins, for partitions of which the group has stored nothing: `startingOffsets`.
Stands behind `consumer.offsets.initial_offsets`, which asks first what the group has committed in
Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from kafka.structs import TopicPartition as KafkaPartition

from consumer.fetch.client import FetchClient
from consumer.spark.option_values import EARLIEST, LATEST, Offsets
from zkcoord.core.model import TopicPartition

log = logging.getLogger(__name__)


class StartingOffsets:
    """The `OffsetResetter` of a query; any thread. Partitions that explicit offsets do not name
    begin at their first record, as new ones do in Spark's own source.
    """

    def __init__(
        self, data: FetchClient, offsets: Offsets, strict: bool, refuse: Callable[[str], None]
    ) -> None:
        # Asks the brokers.
        self._data = data
        # One of EARLIEST and LATEST, or first offsets by partition.
        self._offsets = offsets
        # Whether an offset behind the end of a log is refused (failOnDataLoss), or means its end.
        self._strict = strict
        # Ends the member, with a sentence; any thread.
        self._refuse = refuse

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
        explicit = {tp: offset for tp, offset in wanted.items() if offset >= 0}
        specs = {tp: LATEST if tp in explicit else spec for tp, spec in wanted.items()}

        def take(found: dict[KafkaPartition, int]) -> None:
            behind = {tp: end for tp, end in found.items() if explicit.get(tp, 0) > end}
            if behind and self._strict:
                return self._refuse(_behind(explicit, behind))
            if behind:
                log.warning("%s: beginning at the end", _behind(explicit, behind))
            done({tp: min(offset, explicit.get(tp, offset)) for tp, offset in found.items()})

        self._data.look_up(specs, take)
        return True

    def _of(self, tp: TopicPartition) -> int:
        return self._offsets if isinstance(self._offsets, int) else self._offsets.get(tp, EARLIEST)


def _behind(explicit: Mapping[KafkaPartition, int], ends: Mapping[KafkaPartition, int]) -> str:
    named = ", ".join(
        f"{TopicPartition(*tp)} at {explicit[tp]}, and its log ends at {end}"
        for tp, end in sorted(ends.items())
    )
    return (
        f"startingOffsets begins {named}: no record is lost, there was none; correct"
        " startingOffsets, or set failOnDataLoss to false to begin at the end"
    )
