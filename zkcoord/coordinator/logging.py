"""Logs of a process: one line per event on standard error, key=value or JSON, limited per message,
never in the way.

* A line's text is a constant; what varies is in its arguments or in `fields`. So the constant is a
  key, and one message that comes a thousand times a second cannot drown the others: after
  `same_per_minute_max` lines of a key within `WINDOW_MS` the rest of the window is counted, and the
  key's next line says suppressed=n.
* Formatting and writing happen on a thread of their own behind a queue of `QUEUE_LINES_MAX`:
  standard error may be a pipe that nobody reads, and the loop must not stop for it. When the queue
  is full, lines are dropped and counted; the next line that gets through says dropped=n.
* Foreign text never breaks a line: values are quoted and escaped where they hold anything but plain
  characters.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
import re
import sys
import threading
import time
from typing import Any, TextIO

from zkcoord.config.settings import LogOptions
from zkcoord.zk.clock import boot_ms

WINDOW_MS = 60_000
KEYS_MAX = 10_000
QUEUE_LINES_MAX = 10_000
WALL_MS_MAX = 253_402_300_800_000  # the year 10000
VALUE_CHARS_MAX = 2_000
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
NOISY_LOGGERS = {"kazoo": logging.WARNING, "kafka": logging.CRITICAL}
"""From which level on libraries are heard. kafka-python calls it an error whenever a broker refuses
a connection, a hundred times a minute while it is away; whoever asks brokers says that once.
"""

_PLAIN = re.compile(r"[A-Za-z0-9._:/@#%+,*~()\[\]-]+", re.ASCII)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What a record says: its message and its fields (given as `extra={"fields": {...}}`)."""
    found: dict[str, Any] = {"msg": record.getMessage()}
    found.update(getattr(record, "fields", {}))
    for name in ("suppressed", "dropped"):
        if getattr(record, name, 0):
            found[name] = getattr(record, name)
    if record.exc_info and record.exc_info[0] is not None:
        found["error"] = logging.Formatter().formatException(record.exc_info)
    return found


class KeyValueFormatter(logging.Formatter):
    """`t=2026-01-31T10:00:00.123Z level=info logger=zkcoord.coordinator.service msg="..."
    key=value`
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the values."""
        head = (
            f"t={timestamp(int(record.created * 1000))} level={record.levelname.lower()}"
            f" logger={record.name}"
        )
        return head + "".join(
            f" {key}={_quoted(value)}" for key, value in fields_of(record).items()
        )


class JsonFormatter(logging.Formatter):
    """One JSON object per line with t, level, logger, msg and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the values."""
        head = {
            "t": timestamp(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        return json.dumps({**head, **fields_of(record)}, default=str)


class SameMessageLimit(logging.Filter):
    """Lets `limit` lines of one key through per window. Thread-safe; remembers at most `KEYS_MAX`
    keys and starts anew beyond.
    """

    def __init__(self, limit: int, window_ms: int = WINDOW_MS) -> None:
        super().__init__()
        self.limit = limit
        self.window_ms = window_ms
        # key -> [window's start, lines in it, suppressed]
        self._seen: dict[tuple[str, int, str], list[int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line may pass; a line that passes carries the count of those that did
        not.
        """
        key = (record.name, record.levelno, str(record.msg))
        now_ms = boot_ms()
        with self._lock:
            if len(self._seen) >= KEYS_MAX and key not in self._seen:
                self._seen.clear()
            state = self._seen.setdefault(key, [now_ms, 0, 0])
            if now_ms - state[0] >= self.window_ms:
                state[0], state[1] = now_ms, 0
            if state[1] >= self.limit:
                state[2] += 1
                return False
            state[1] += 1
            record.suppressed, state[2] = state[2], 0
        return True


class DroppingHandler(logging.handlers.QueueHandler):
    """Puts records into a bounded queue and never waits: when it is full the record is dropped and
    counted.
    """

    def __init__(self, lines: queue.Queue[Any]) -> None:
        super().__init__(lines)
        self.dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        record.dropped = self.dropped
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1
        else:
            self.dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The record stays as it is: it is formatted in this process, on the writing thread."""
        return record


class Logs:
    """The logs of this process while they are on. `stop` writes out what waits, for at most a
    moment.
    """

    def __init__(self, options: LogOptions, stream: TextIO | None = None) -> None:
        handler = logging.StreamHandler(stream or sys.stderr)
        handler.setFormatter(JsonFormatter() if options.format == "json" else KeyValueFormatter())
        self._lines: queue.Queue[Any] = queue.Queue(QUEUE_LINES_MAX)
        self._queued = DroppingHandler(self._lines)
        self._queued.addFilter(SameMessageLimit(options.same_per_minute_max))
        self._listener = logging.handlers.QueueListener(self._lines, handler)
        self._root = logging.getLogger()
        self._before = (
            self._root.level,
            {name: logging.getLogger(name).level for name in NOISY_LOGGERS},
        )
        self._root.setLevel(LEVELS[options.level])
        for name, least in NOISY_LOGGERS.items():
            logging.getLogger(name).setLevel(max(LEVELS[options.level], least))
        self._root.addHandler(self._queued)
        self._listener.start()

    def stop(self) -> None:
        """Write what waits, and leave logging as it was."""
        self._root.removeHandler(self._queued)
        self._root.setLevel(self._before[0])
        for name, level in self._before[1].items():
            logging.getLogger(name).setLevel(level)
        # a full queue means a reader that does not read: its thread is a daemon, and is left behind
        if not self._lines.full():
            self._listener.stop()


def timestamp(wall_ms: int) -> str:
    """UTC with milliseconds, 2026-01-31T10:00:00.123Z, of milliseconds since 1970; the number where
    that is no time of ours.
    """
    if not 0 <= wall_ms < WALL_MS_MAX:
        return str(wall_ms) if abs(wall_ms) < 10**30 else "a time that cannot be"
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_ms // 1000)) + f".{wall_ms % 1000:03d}Z"
    )


def _quoted(value: Any) -> str:
    if isinstance(value, (dict, list)):
        text = json.dumps(value, default=str)
    else:
        text = value if isinstance(value, str) else str(value)
    if len(text) > VALUE_CHARS_MAX and "\n" not in text:
        text = text[:VALUE_CHARS_MAX] + "..."
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
