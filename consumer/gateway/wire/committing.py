"""Commits under way, and what their outcomes are to a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consumer.core import messages as msg
from zkcoord.core.model import TopicPartition

from .requests import WireCode

METADATA_CHARS_MAX = 4_096


@dataclass(slots=True)
class Committing:
    """A request of which the agent has been told: what was refused before, and what it stores."""

    ticket: int
    refused: dict[TopicPartition, WireCode] = field(default_factory=dict)
    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


COMMIT_CODES: Mapping[msg.CommitOutcome, WireCode] = {
    msg.CommitOutcome.OK: WireCode.NONE,
    msg.CommitOutcome.REFUSED: WireCode.COORDINATOR_NOT_AVAILABLE,
    msg.CommitOutcome.OVERRULED: WireCode.REBALANCE_IN_PROGRESS,
    msg.CommitOutcome.NOT_OWNED: WireCode.ILLEGAL_GENERATION,
    msg.CommitOutcome.GROUP_ALIVE: WireCode.UNKNOWN_MEMBER_ID,
    msg.CommitOutcome.NO_LONGER_MEMBER: WireCode.UNKNOWN_MEMBER_ID,
    msg.CommitOutcome.UNAVAILABLE: WireCode.COORDINATOR_LOAD_IN_PROGRESS,
}
