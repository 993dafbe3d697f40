"""What a worker does around a task, without Spark; what it brings is in the benchmark (the time
from record to driver).
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from consumer.spark import source, task_process
from consumer.spark.source import ReadTask, ZkcoordSource

LOOPBACK = "127.0.0.1"
BATCH = {"kafka.bootstrap.servers": "b:1", "subscribe": "orders"}
STREAM = {"zookeeperConnect": "z:1", "groupId": "billing", "subscribe": "orders"}

linux = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="Linux acknowledges late, and can be told not to"
)


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """One end of a connection that holds small pieces back and acknowledges late, as a worker's
    is.
    """
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0],
    ):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield one


def options_of(connection: socket.socket) -> tuple[bool, bool]:
    return tuple(
        bool(connection.getsockopt(socket.IPPROTO_TCP, option))
        for option in (socket.TCP_NODELAY, socket.TCP_QUICKACK)
    )  # type: ignore[return-value]


@linux
def test_connections_acknowledge_at_once_and_hold_nothing_back(connection: socket.socket) -> None:
    assert options_of(connection) == (False, False)
    before = len(os.listdir(task_process.FDS))
    task_process.hurry()
    assert options_of(connection) == (True, True)
    assert os.get_blocking(connection.fileno()) and len(os.listdir(task_process.FDS)) == before, (
        "nothing else has changed"
    )


@linux
def test_nothing_is_touched_where_that_would_set_a_time_out(connection: socket.socket) -> None:
    """A socket that Python opens by its number gets the process's default time-out, and so does
    whoever shares it.
    """
    socket.setdefaulttimeout(5)
    try:
        task_process.hurry()
    finally:
        socket.setdefaulttimeout(None)
    assert options_of(connection) == (False, False) and os.get_blocking(connection.fileno())


@linux
@pytest.mark.parametrize("options", [BATCH, STREAM], ids=["batch", "stream"])
def test_a_reader_that_is_unpickled_says_so(
    connection: socket.socket, options: dict[str, str]
) -> None:
    """A worker has read the first piece of its task then, and waits for the second."""
    made = ZkcoordSource({name.lower(): value for name, value in options.items()})
    reader: Any = (
        made.reader(made.schema()) if options is BATCH else made.streamReader(made.schema())
    )
    again = cloudpickle.loads(cloudpickle.dumps(reader))
    assert vars(again) == vars(reader) and options_of(connection) == (True, True)


@pytest.mark.parametrize("in_a_worker", [True, False])
def test_what_a_worker_has_imported_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, in_a_worker: bool
) -> None:
    """Spark's worker collects garbage after each task."""
    monkeypatch.setattr(task_process.TaskContext, "get", lambda: object() if in_a_worker else None)
    monkeypatch.setattr(
        source,
        "open_reader",
        lambda *given, **_: SimpleNamespace(read=lambda ranges, columns: iter(["rows"])),
    )
    options: Any = SimpleNamespace(
        kafka={}, engine="auto", fail_on_data_loss=True, null_timestamps=False
    )
    gc.unfreeze()
    try:
        for _ in range(2):
            assert list(source.read_task(options, [], ReadTask((), "b:1"))) == ["rows"]  # type: ignore[comparison-overlap]
            assert (gc.get_freeze_count() > 0) == in_a_worker
    finally:
        gc.unfreeze()
