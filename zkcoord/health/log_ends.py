"""The ends of many logs, asked again and again: requests of bounded size, one at a time, and what
is not answered holds up nothing else. It is asked for beside the others, and less often.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from zkcoord.core.model import TopicPartition
from zkcoord.zk.clock import boot_ms

PARTITIONS_PER_REQUEST = 2_000
UNANSWERED_AGAIN_MS = 15_000


class EndsSource(Protocol):
    """As `zkcoord.admin.offsets.log_offsets.LogOffsets` asks."""

    warning: str

    def of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """What brokers say, as far as they do."""

    def why_not(self, tp: TopicPartition) -> str:
        """Why one is not known."""


class LogEnd(NamedTuple):
    """Where a log ended, and when that was seen."""

    end: int
    at_ms: int


class LogEnds:
    """For one thread. `usual` is asked for what it answered last time, `doubtful` for the rest: a
    source that has not answered as a whole asks for less at once afterwards.
    """

    def __init__(
        self, usual: EndsSource, doubtful: EndsSource, now_ms: Callable[[], int] = boot_ms
    ) -> None:
        self._usual = usual
        self._doubtful = doubtful
        self._now_ms = now_ms
        self._unanswered: dict[TopicPartition, str] = {}
        self._again_ms = 0

    def of(
        self, wanted: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, LogEnd], dict[TopicPartition, str]]:
        """The ends, and why the others are not known."""
        found: dict[TopicPartition, LogEnd] = {}
        before = {tp: why for tp, why in self._unanswered.items() if tp in wanted}
        failed: dict[TopicPartition, str] = {}
        self._ask(self._usual, sorted(set(wanted) - set(before)), found, failed)
        if before and self._now_ms() >= self._again_ms:
            self._again_ms = self._now_ms() + UNANSWERED_AGAIN_MS
            self._ask(self._doubtful, sorted(before), found, failed)
        else:
            failed.update(before)
        self._unanswered = failed
        return found, failed

    def _ask(
        self,
        source: EndsSource,
        wanted: Sequence[TopicPartition],
        found: dict[TopicPartition, LogEnd],
        failed: dict[TopicPartition, str],
    ) -> None:
        for at in range(0, len(wanted), PARTITIONS_PER_REQUEST):
            some = wanted[at : at + PARTITIONS_PER_REQUEST]
            ends = source.of(some)
            now = self._now_ms()
            found.update((tp, LogEnd(end, now)) for tp, end in ends.items())
            failed.update((tp, source.why_not(tp)) for tp in some if tp not in ends)
            if failed:
                self._again_ms = max(self._again_ms, now + UNANSWERED_AGAIN_MS)
