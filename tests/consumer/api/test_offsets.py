"""Answers that depend on brokers which come and go."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaError, OffsetOutOfRangeError, RequestTimedOutError
from kafka.structs import OffsetAndMetadata

from consumer.api.offsets import Offsets
from tests.consumer.fakes import tp


def asking(error: KafkaError, known: int | None) -> Offsets:
    """The offsets of a consumer whose brokers answer a question for a position with an error;
    `known` is where the partition stands as far as it knows.
    """

    def position(partition: object, timeout_ms: float) -> int:
        raise error

    at = None if known is None else OffsetAndMetadata(known, "", -1)
    data = SimpleNamespace(
        lock=threading.RLock(),
        kafka=SimpleNamespace(position=position),
        position=lambda partition: at,
    )
    setup: Any = SimpleNamespace(data=data, config={"request_timeout_ms": 1_000})
    ledger = SimpleNamespace(unset=set())
    session: Any = SimpleNamespace(state=SimpleNamespace(ledger=ledger), by_hand=None)
    records: Any = SimpleNamespace(positions=dict)
    return Offsets(setup, session, records)


@pytest.mark.parametrize("known", [None, 5])
def test_a_broker_that_goes_away_while_a_position_is_asked_for_is_no_error(
    known: int | None,
) -> None:
    assert asking(RequestTimedOutError(), known).position(tp(0)) == known
    with pytest.raises(OffsetOutOfRangeError):
        asking(OffsetOutOfRangeError(), known).position(tp(0))
