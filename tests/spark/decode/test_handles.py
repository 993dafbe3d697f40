"""Connections: kept per process and settings, one reading at a time, never shared with a fork; and
what the extension refuses.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from consumer.spark.decode import open_reader
from consumer.spark.decode import reader as product
from consumer.spark.decode.engine_c import load
from consumer.spark.decode.settings import librdkafka_settings
from consumer.spark.plan import PlannedRange
from tests.harness.wait import wait_until
from tests.spark.decode.conftest import DecodeBroker
from tests.spark.decode.reading import ENGINES
from tests.spark.decode.written import UNCOMMITTED, Log

pytestmark = pytest.mark.kafka

READ_MS = 200
WAIT_S = 60.0
CHILD_FAILED = 3


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The engines of handles that are made in the test, which begins and ends without any."""
    product.close_idle()
    found: list[str] = []
    make = product.make_handle

    def counted(engine: str, settings: Mapping[str, str]) -> Any:
        found.append(engine)
        return make(engine, settings)

    monkeypatch.setattr(product, "make_handle", counted)
    yield found
    product.close_idle()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_handle_is_used_again(
    broker: DecodeBroker,
    logs: Mapping[str, Log],
    made: list[str],
    engine: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logs["mixed-0"]
    wanted = [PlannedRange(log.topic, partition, 10, 40) for partition in (0, 1)]
    product._told.clear()
    with caplog.at_level(logging.INFO, "consumer.spark.decode"):
        for _ in range(3):
            reader = pickle.loads(
                pickle.dumps(open_reader({"bootstrap.servers": broker.address}, engine))
            )
            assert sum(batch.num_rows for batch in reader.read(wanted, ["offset"])) == 60
    assert made == [engine]
    assert caplog.text.count(f"the engine {engine} (") == 1
    first, second = (reader.read(wanted, ["offset"]) for _ in range(2))
    one, other = next(first), next(second)
    both = min(one.num_rows, other.num_rows)  # how many come at once is the broker's business
    # two at once: one handle each
    assert both and one.slice(0, both).equals(other.slice(0, both)) and made == [engine] * 2
    first.close()
    second.close()
    # what was given up is whole again
    assert sum(batch.num_rows for batch in reader.read(wanted, ["offset"])) == 60 and len(made) == 2
    list(
        open_reader({"bootstrap.servers": broker.address, "client.id": "other"}, engine).read(
            wanted, ["offset"]
        )
    )
    assert len(made) == 3


@pytest.fixture
def client(broker: DecodeBroker) -> Iterator[Any]:
    """Of the extension itself."""
    if "c" not in ENGINES:
        pytest.skip("the extension is not built here")
    extension, version = load()
    assert version.count(".") >= 2
    made = extension.Client(librdkafka_settings({"bootstrap.servers": broker.address}))
    yield made
    made.close()


def test_the_extension_refuses_a_partition_twice(client: Any, logs: Mapping[str, Log]) -> None:
    log = logs["mixed-0"]
    part = client.open(log.topic, 0, 0, 10)
    with pytest.raises(load()[0].KafkaError, match="already open"):
        client.open(log.topic, 0, 5, 10)
    other = client.open(log.topic, 1, 0, 10)
    with pytest.raises(RuntimeError, match="in use"):
        client.close()
    part.close()
    part.close()
    with pytest.raises(RuntimeError, match="closed"):
        part.read(10, 10, READ_MS, 0)
    again = client.open(log.topic, 0, 5, 9)
    found = wait_until(
        partial(again.read, 100, 1000, READ_MS, 0),
        WAIT_S,
        "records of a partition that is opened again",
    )
    assert found[:3] == (4, 9, True)
    del again  # as good as closing
    gc.collect()
    other.close()


def test_fetching_ends_when_all_of_the_range_is_there(client: Any, logs: Mapping[str, Log]) -> None:
    """What would be fetched beyond is thrown away. Nobody fetches the partition then, so it may be
    opened again.
    """
    log, end = logs["mixed-0"], 9
    part, again, position, ended = client.open(log.topic, 0, 0, end), None, 0, False
    while again is None:
        position, ended = wait_until(lambda: part.read(1, 1_000, READ_MS, 0), WAIT_S, "a record")[
            1:3
        ]
        try:
            again = client.open(log.topic, 0, 0, end)
        except load()[0].KafkaError:
            assert not ended, "all of the range is there, and it is fetched on"
    while not ended:
        position, ended = part.read(1, 1_000, READ_MS, 0)[1:3]
    assert position == end
    part.close()
    found = wait_until(
        lambda: again.read(100, 1_000, READ_MS, 0),
        WAIT_S,
        "records of a partition that is opened again",
    )
    assert found[0] > 0
    again.close()


@pytest.mark.parametrize(
    "arguments", [(0, 10, READ_MS, 7), (10, 0, READ_MS, 7), (10, 2**31, READ_MS, 7)]
)
def test_the_extension_refuses_senseless_limits(
    client: Any, logs: Mapping[str, Log], arguments: tuple[int, ...]
) -> None:
    part = client.open(logs["mixed-0"].topic, 0, 0, 10)
    with pytest.raises(ValueError, match="at least one row"):
        part.read(*arguments)
    part.close()


def test_a_limit_of_bytes(client: Any, logs: Mapping[str, Log]) -> None:
    """Batches are as large as asked, but for one record."""
    log = logs["mixed-0"]
    part = client.open(log.topic, 0, 0, log.end)
    extension, _ = load()
    sizes, position, ended = [], 0, False
    while not ended:
        found = wait_until(
            lambda: part.read(1_000, 3_000, READ_MS, extension.WANT_VALUE), WAIT_S, "records"
        )
        position, ended = found[1:3]
        sizes.append(len(found[4][1]))
    part.close()
    assert (
        position == log.end
        and sum(sizes) == sum(len(row["value"] or b"") for row in log.rows[UNCOMMITTED])
        and max(sizes) < 3_000 + 1_200
    )


def test_a_forked_child_leaves_its_parents_handle_alone(
    client: Any, logs: Mapping[str, Log]
) -> None:
    log = logs["mixed-0"]
    part = client.open(log.topic, 0, 0, 5)
    child = os.fork()
    if child == 0:
        status = CHILD_FAILED
        try:
            for act in (
                client.errors,
                lambda: client.bounds(log.topic, 0, READ_MS),
                lambda: part.read(5, 5, READ_MS, 0),
                lambda: client.open(log.topic, 1, 0, 5),
            ):
                with pytest.raises(RuntimeError, match="forked"):
                    act()
            part.close()
            client.close()
            status = 0
        finally:
            os._exit(status)
    ended: list[int] = []

    def is_over() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        ended.append(status)
        return pid == child

    try:
        wait_until(is_over, WAIT_S, "the child's end")
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    assert ended[-1] == 0
    assert (
        wait_until(lambda: part.read(5, 5_000, READ_MS, 0), WAIT_S, "the parent's records")[1] == 5
    )
    part.close()
