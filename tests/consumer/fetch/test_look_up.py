"""Where a log begins is asked of who leads now, not of who led a topic of that name before."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import kafka.errors
import pytest
from kafka.structs import TopicPartition

from consumer.fetch import metadata
from consumer.fetch.metadata import OffsetLookUp

TP = TopicPartition("t", 0)
BEGINNING = {TP: -2}


class Answer(NamedTuple):
    """As kafka-python has it."""

    offset: int


class Brokers:
    """One leads; what is known of that is refreshed only where somebody asks."""

    def __init__(self, known: int | None, leads: int) -> None:
        self.known, self.leads = known, leads
        self.asked: list[int] = []
        self.learnt = 0
        self.answers_after_ms = 0

    def has_leader(self, tp: TopicPartition) -> bool:
        """See `MetadataRequests`."""
        return self.known is not None

    async def learn_async(self, partitions: Collection[TopicPartition]) -> bool:
        """See `MetadataRequests`."""
        self.learnt += 1
        self.known = self.leads
        return True

    async def ask(self, specs: Mapping[TopicPartition, int], timeout_ms: int) -> Any:
        """Of another than the leader it is asked in vain until the time is over."""
        self.asked.append(timeout_ms)
        if self.known != self.leads or timeout_ms < self.answers_after_ms:
            raise kafka.errors.KafkaTimeoutError
        return {tp: Answer(7) for tp in specs}


def found(brokers: Brokers, timeout_ms: int, afresh: bool = False) -> dict[TopicPartition, int]:
    """What is found."""
    look_up = OffsetLookUp(brokers, brokers.ask)  # type: ignore[arg-type]  # as far as it is used
    return asyncio.run(look_up.found_async(BEGINNING, timeout_ms, afresh))


def test_a_leader_that_is_known_is_asked_at_once() -> None:
    brokers = Brokers(known=1, leads=1)
    assert found(brokers, 30_000) == {TP: 7}
    assert brokers.learnt == 0


def test_a_topic_that_was_made_again_may_have_another_leader() -> None:
    brokers = Brokers(known=2, leads=1)
    assert found(brokers, 30_000, afresh=True) == {TP: 7}
    assert len(brokers.asked) == 1, "nobody is asked in vain"


def test_who_does_not_lead_is_not_asked_until_the_time_is_over() -> None:
    brokers = Brokers(known=2, leads=1)
    assert found(brokers, 30_000) == {TP: 7}
    assert brokers.asked == [metadata.TRY_MS, 2 * metadata.TRY_MS]


def test_when_the_time_is_over_that_is_said() -> None:
    brokers = Brokers(known=2, leads=1)
    with pytest.raises(kafka.errors.KafkaTimeoutError):
        found(brokers, metadata.TRY_MS)
    assert len(brokers.asked) == 1


def test_a_leader_that_is_slow_is_given_more_time() -> None:
    brokers = Brokers(known=1, leads=1)
    brokers.answers_after_ms = 5 * metadata.TRY_MS
    assert found(brokers, 30_000) == {TP: 7}
    assert brokers.asked == [n * metadata.TRY_MS for n in (1, 2, 4, 8)]
