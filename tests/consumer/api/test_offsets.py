"""Answers that depend on brokers which come and go."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaError, OffsetOutOfRangeError, RequestTimedOutError
from kafka.structs import OffsetAndMetadata

from consumer.api.offsets import OffsetMethods
from tests.consumer.fakes import tp


class Asking(OffsetMethods):
    """A consumer whose brokers answer a question for a position with an error; `known` is where the
    partition stands as far as it knows.
    """

    def __init__(self, error: KafkaError, known: int | None) -> None:
        def position(partition: object, timeout_ms: float) -> int:
            raise error

        at = None if known is None else OffsetAndMetadata(known, "", -1)
        self._data: Any = SimpleNamespace(
            lock=threading.RLock(),
            kafka=SimpleNamespace(position=position),
            position=lambda partition: at,
        )
        self._cursor: Any = SimpleNamespace(positions=dict)
        self.config = {"request_timeout_ms": 1_000}

    def _check(self) -> None:
        """Open."""


@pytest.mark.parametrize("known", [None, 5])
def test_a_broker_that_goes_away_while_a_position_is_asked_for_is_no_error(
    known: int | None,
) -> None:
    assert Asking(RequestTimedOutError(), known).position(tp(0)) == known
    with pytest.raises(OffsetOutOfRangeError):
        Asking(OffsetOutOfRangeError(), known).position(tp(0))
