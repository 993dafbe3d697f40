"""What a worker process of Spark does for itself around a task of this source, against two waits
that each batch would have.

* Spark's JVM writes a task to its worker in two small pieces. TCP holds the second back until the
  first is acknowledged (Nagle), and Linux acknowledges what needs no answer 40 ms later. So the
  worker, once it has read the first piece, has its connections acknowledge at once, which is for
  that moment only and has to be said each time; what it writes itself is not held back.
  (SPARK-51667 mended the same between workers and the state server. With
  `spark.python.unix.domain.socket.enabled` there is no TCP.)
* A worker that is used again collects garbage after each task, and goes through everything that was
  imported each time. After its first task that is set aside.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import Any

from pyspark import TaskContext

from consumer.spark.option_names import in_sparks_words

FDS = "/proc/self/fd"
LINES = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class SparksWords(logging.Filter):
    """Names of options as a user of Spark has given them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        record.msg, record.args = in_sparks_words(record.getMessage()), ()
        return True


def tell_people() -> None:
    """In a Python process that Spark has started, and where nobody has set up logging: warnings go
    to standard error with time, level and name.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name.startswith("pyspark.") and not logging.root.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(LINES))
        handler.addFilter(SparksWords())
        logging.root.addHandler(handler)


def begin_task(reader: object, state: dict[str, Any]) -> None:
    """What a reader's `__setstate__` does: a worker unpickles the reader before it waits for the
    rest of its task.
    """
    reader.__dict__.update(state)
    tell_people()
    hurry()


def hurry() -> None:
    """Have all connections of this process acknowledge now what came, and send at once what goes.
    Nothing where there is no Linux, or where sockets that are looked at would be given a time-out.
    """
    if (
        hasattr(socket, "TCP_QUICKACK")
        and socket.getdefaulttimeout() is None
        and os.path.isdir(FDS)
    ):
        for name in os.listdir(FDS):
            with suppress(OSError):  # it is closed by now, or no connection
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    _hurry(int(name))


def _hurry(fd: int) -> None:
    with socket.socket(fileno=os.dup(fd)) as connection:
        if connection.type == socket.SOCK_STREAM and connection.family in (
            socket.AF_INET,
            socket.AF_INET6,
        ):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def task_ends() -> None:
    """Call when a task has read everything."""
    if TaskContext.get() is not None and gc.get_freeze_count() == 0:
        gc.freeze()
