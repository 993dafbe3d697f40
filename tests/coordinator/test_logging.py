"""Logs: one line per event, limited per message, never in the way."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from tests.harness.wait import wait_until
from zkcoord.config.settings import LogOptions
from zkcoord.coordinator import logging as logs_module
from zkcoord.coordinator.logging import (
    JsonFormatter,
    KeyValueFormatter,
    Logs,
    SameMessageLimit,
    timestamp,
)

PATIENCE_S = 20.0
log = logging.getLogger("zkcoord.test")


def record(
    text: str, *args: object, level: int = logging.INFO, **fields: object
) -> logging.LogRecord:
    made = logging.LogRecord("zkcoord.test", level, "f.py", 1, text, args, None)
    made.fields = fields
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The limiter's clock, in ms."""
    now = [1_000]
    monkeypatch.setattr(logs_module, "boot_ms", lambda: now[0])
    yield now


def test_a_line_is_key_value_and_survives_any_value() -> None:
    line = KeyValueFormatter().format(record("a %s", 'x"y', group='g\n2" ü', n=3, where={"a": 1}))
    assert "\n" not in line
    assert (
        'msg="a x\\"y"' in line
        and "n=3" in line
        and "level=info" in line
        and 'group="g\\n2\\" \\u00fc"' in line
    )
    long = KeyValueFormatter().format(record("m", value="v" * 10_000))
    assert len(long) < 3_000


def test_json_lines_are_json() -> None:
    found = json.loads(JsonFormatter().format(record("a %d", 1, group="g\n", other=object)))
    assert found["msg"] == "a 1" and found["group"] == "g\n" and found["logger"] == "zkcoord.test"


def test_an_exception_stays_on_its_line() -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        made = record("failed")
        made.exc_info = (ValueError, error, error.__traceback__)
    line = KeyValueFormatter().format(made)
    assert "\n" not in line and "boom" in line


def test_timestamps_are_utc_with_milliseconds() -> None:
    assert timestamp(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"


def test_one_message_is_limited_per_window_and_says_what_was_suppressed(clock: list[int]) -> None:
    limit = SameMessageLimit(2)
    passed = [limit.filter(record("member %s is slow", n)) for n in range(5)]
    assert passed == [True, True, False, False, False]
    assert limit.filter(record("another message")), "another key is not concerned"
    assert limit.filter(record("member %s is slow", 1, level=logging.ERROR)), "nor another level"
    clock[0] += logs_module.WINDOW_MS
    again = record("member %s is slow", 9)
    assert limit.filter(again) and vars(again)["suppressed"] == 3
    assert "suppressed=3" in KeyValueFormatter().format(again)
    once_more = record("member %s is slow", 10)
    assert limit.filter(once_more) and vars(once_more)["suppressed"] == 0


def test_the_limiter_forgets_rather_than_grows(
    clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "KEYS_MAX", 10)
    limit = SameMessageLimit(1)
    for n in range(100):
        assert limit.filter(record(f"message {n}"))
    assert len(limit._seen) <= 10


def test_logs_are_written_by_level_and_stop_leaves_logging_as_it_was() -> None:
    before = logging.getLogger().level
    out = io.StringIO()
    logs = Logs(LogOptions(level="warning"), out)
    log.info("not this")
    log.warning("but this", extra={"fields": {"group": "g"}})
    logs.stop()
    assert (
        "but this" in out.getvalue()
        and "group=g" in out.getvalue()
        and "not this" not in out.getvalue()
    )
    assert logging.getLogger().level == before
    log.error("nor this")
    assert "nor this" not in out.getvalue()


class Stuck(io.StringIO):
    """A stream whose reader does not read until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.entered = threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.free.wait(PATIENCE_S)
        return super().write(text)


def test_that_a_broker_refuses_connections_is_no_error_of_this_process() -> None:
    stream = io.StringIO()
    logs = Logs(LogOptions(), stream)
    logging.getLogger("kafka.net.connection").error("Connection lost: 111 ECONNREFUSED")
    log.warning("topics cannot be asked for")
    logs.stop()
    assert "ECONNREFUSED" not in stream.getvalue() and "cannot be asked" in stream.getvalue()


def test_a_stream_that_nobody_reads_holds_nobody_up_and_losses_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs_module, "QUEUE_LINES_MAX", 5)
    out = Stuck()
    logs = Logs(LogOptions(same_per_minute_max=1_000), out)
    log.info("first")
    assert out.entered.wait(PATIENCE_S)
    for n in range(20):
        log.info("line %d", n)
    assert logs._queued.dropped == 15
    out.free.set()
    wait_until(lambda: "line 4" in out.getvalue(), PATIENCE_S, "the lines that were queued")
    log.info("after")
    logs.stop()
    assert "dropped=15" in out.getvalue().splitlines()[-1]
