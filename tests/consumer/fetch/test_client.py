"""Brokers that do not answer when a consumer is made."""

from __future__ import annotations

import logging
import threading

import pytest

from consumer import KafkaConsumer
from consumer.errors import BrokersUnreachableError
from zkcoord.stack.ports import HOST, free_port


def test_why_no_broker_answers_is_said_soon_and_raised_and_nothing_is_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, nobody = set(threading.enumerate()), f"{HOST}:{free_port()}"
    with pytest.raises(BrokersUnreachableError, match=f"{nobody} within 1500 ms .*ECONNREFUSED"):
        KafkaConsumer(bootstrap_servers=nobody, bootstrap_timeout_ms=1_500)
    (warning,) = (
        r.getMessage()
        for r in caplog.records
        if r.name == "consumer.fetch.quiet" and r.levelno == logging.WARNING
    )
    assert nobody in warning and "ECONNREFUSED" in warning
    left = [t.name for t in threading.enumerate() if t not in before and "kafka-io" in t.name]
    assert not left, left
