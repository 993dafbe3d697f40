"""Commits under way, and what their outcomes are to a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from consumer.core import messages as msg
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

METADATA_CHARS_MAX = 4_096
ALL_BUT_THOSE_NAMED = (msg.CommitOutcome.OK, msg.CommitOutcome.OVERRULED)
"""Outcomes of which all partitions are stored that are not named."""


@dataclass(slots=True)
class Committing:
    """A request of which the agent has been told: what was refused before, and what it stores."""

    ticket: int
    refused: dict[TopicPartition, WireCode] = field(default_factory=dict)
    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)

    def ended(
        self, done: msg.CommitDone
    ) -> tuple[dict[TopicPartition, WireCode], dict[TopicPartition, tuple[int, str]]]:
        """What its client is answered of partitions, and what is stored now. What an agent that
        has not stored all does not name may not be stored either, but beside an operator's reset.
        """
        codes: dict[TopicPartition, WireCode] = {}
        if done.outcome is not msg.CommitOutcome.OK:
            named = self.offsets.keys() & (done.partitions or self.offsets.keys())
            codes = dict.fromkeys(named, COMMIT_CODES[done.outcome])
        if done.outcome not in ALL_BUT_THOSE_NAMED:
            later = COMMIT_CODES[msg.CommitOutcome.UNAVAILABLE]
            codes = dict.fromkeys(self.offsets, later) | codes
        stored = {tp: value for tp, value in self.offsets.items() if tp not in codes}
        return {**self.refused, **codes}, stored


COMMIT_CODES: Mapping[msg.CommitOutcome, WireCode] = {
    msg.CommitOutcome.OK: WireCode.NONE,
    msg.CommitOutcome.REFUSED: WireCode.COORDINATOR_NOT_AVAILABLE,
    msg.CommitOutcome.OVERRULED: WireCode.REBALANCE_IN_PROGRESS,
    msg.CommitOutcome.NOT_OWNED: WireCode.ILLEGAL_GENERATION,
    msg.CommitOutcome.GROUP_ALIVE: WireCode.UNKNOWN_MEMBER_ID,
    msg.CommitOutcome.NO_LONGER_MEMBER: WireCode.UNKNOWN_MEMBER_ID,
    msg.CommitOutcome.UNAVAILABLE: WireCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def judged(
    offsets: Mapping[TopicPartition, tuple[int, str]],
    may_store: Callable[[TopicPartition, int], WireCode],
) -> tuple[dict[TopicPartition, tuple[int, str]], dict[TopicPartition, WireCode]]:
    """What of a commit is to be stored, and what is refused: for what it is, or because its member
    may not store it.
    """
    stored: dict[TopicPartition, tuple[int, str]] = {}
    refused: dict[TopicPartition, WireCode] = {}
    for tp, (offset, metadata) in offsets.items():
        if offset < 0:
            refused[tp] = WireCode.INVALID_REQUEST
        elif len(metadata.encode("utf-16-le")) // 2 > METADATA_CHARS_MAX:
            refused[tp] = WireCode.OFFSET_METADATA_TOO_LARGE
        elif (code := may_store(tp, offset)) is not WireCode.NONE:
            refused[tp] = code
        else:
            stored[tp] = (offset, metadata)
    return stored, refused
