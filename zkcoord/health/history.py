"""Where logs ended before anybody looked: brokers find the first record that is not older than a
time. Asked of partitions that are behind for longer than they were watched, a few times each, in
requests of bounded size; of the largest ensembles so many a look that it stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from zkcoord.core.model import TopicPartition
from zkcoord.health.monitor import HealthMonitor
from zkcoord.zk.clock import boot_ms, wall_ms

OFFSETS_PER_LOOK = 2_000
STEPS_MAX = 24
"""Questions of one partition in a look: 16 doublings of a minute are a month, and three halvings
of such a step are a tenth.
"""


class TimesSource(Protocol):
    """`zkcoord.admin.offsets.log_offsets.LogOffsets`."""

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offsets that are not older than these times; -1 where all are."""


class LogHistory:
    """For one thread. The wall clock is read once, as where commits' times are."""

    def __init__(self, source: TimesSource) -> None:
        self._source = source
        self._wall_of_boot = wall_ms() - boot_ms()

    def complete(self, monitor: HealthMonitor) -> None:
        """Ask what the monitor wants to know, after a look."""
        behind = monitor.behind()[:OFFSETS_PER_LOOK]
        for _ in range(STEPS_MAX):
            times = monitor.questions(behind)
            if not times:
                return
            asked = {tp: at_ms + self._wall_of_boot for tp, at_ms in times.items()}
            monitor.answered(times, self._source.at_times(asked))
