"""Lines of kafka-python that come again with each attempt."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from consumer.fetch import quiet as module
from consumer.fetch.quiet import AGAIN_S, RepeatedLines, connected

OURS = threading.get_ident()


class Loop(SimpleNamespace):
    """An IO loop of kafka-python, as far as its thread is asked for."""

    __hash__ = object.__hash__


def line(number: int, *about: str, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord(
        "kafka.cluster", level, "cluster.py", number, "Topic %s not found", about or ("t",), None
    )


@pytest.fixture
def clock() -> list[float]:
    return [1_000.0]


@pytest.fixture
def loop() -> Loop:
    return Loop(_io_thread=SimpleNamespace(ident=OURS))


@pytest.fixture
def lines(clock: list[float], loop: Loop) -> RepeatedLines:
    found = RepeatedLines(lambda: clock[0])
    found.add(loop)
    return found


def test_a_line_goes_through_once_and_seldom_again_with_a_count(
    lines: RepeatedLines, clock: list[float]
) -> None:
    assert [lines.filter(line(1)) for _ in range(5)] == [True, False, False, False, False]
    clock[0] += AGAIN_S
    again = line(1)
    assert lines.filter(again)
    assert again.getMessage() == "Topic t not found (and 4 like it before)"
    assert not lines.filter(line(1))


def test_other_lines_and_other_topics_go_through(lines: RepeatedLines) -> None:
    assert lines.filter(line(1)) and lines.filter(line(2)) and lines.filter(line(1, "u"))
    assert all(lines.filter(line(3, level=logging.INFO)) for _ in range(3))


def test_what_other_clients_of_the_process_log_is_theirs(lines: RepeatedLines, loop: Loop) -> None:
    loop._io_thread.ident = OURS + 1
    assert all(lines.filter(line(1)) for _ in range(3))
    loop._io_thread = None
    assert all(lines.filter(line(1)) for _ in range(3))


def test_what_ends_the_making_of_a_client_is_what_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal handler's `sys.exit`, while the client's thread began: that cannot be joined yet.
    (One of 500 signals.)
    """
    closed = []

    def close() -> None:
        closed.append(True)
        raise RuntimeError("cannot join thread before it is started")

    def making(**configs: Any) -> None:
        configs["kafka_client"]()
        raise SystemExit

    monkeypatch.setattr(module.kafka, "KafkaConsumer", making)
    configs = {
        "bootstrap_timeout_ms": 100,
        "bootstrap_servers": "127.0.0.1:1",
        "security_protocol": "PLAINTEXT",
        "kafka_client": lambda: SimpleNamespace(close=close),
    }
    with pytest.raises(SystemExit):
        connected(configs)
    assert closed == [True]
