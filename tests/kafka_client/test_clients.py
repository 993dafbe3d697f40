"""A client of kafka-python that cannot be made leaves nothing behind."""

from __future__ import annotations

import gc
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaError
from kafka.future import Future

from tests.bench import topics_broker
from tests.harness.wait import wait_until
from zkcoord.kafka_client.clients import kafka_client

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.mark.parametrize("make", [KafkaAdminClient, KafkaConsumer])
def test_where_no_broker_answers_no_thread_and_no_descriptor_stays(
    make: Callable[..., Any], closed_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")  # a line that is kept keeps its connection
    config = {"bootstrap_servers": [f"127.0.0.1:{closed_port}"], "bootstrap_timeout_ms": 300}

    def fail() -> None:
        with pytest.raises(KafkaError):
            kafka_client(make, config)

    def open_files() -> int:
        gc.collect()  # sockets of a connection under way are in circles
        return len(os.listdir("/proc/self/fd"))

    fail()
    threads, files = set(threading.enumerate()), open_files()
    for _ in range(3):
        fail()
    wait_until(lambda: set(threading.enumerate()) <= threads, WAIT_S, "its threads to end")
    wait_until(lambda: open_files() <= files, WAIT_S, "its descriptors to be closed")


@pytest.mark.parametrize("make", [KafkaAdminClient, KafkaConsumer])
def test_an_answer_that_it_would_lose_is_not_waited_for_for_ever(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(cluster: ClusterMetadata, node_id: object = None) -> None:
        await Future()

    monkeypatch.setattr(ClusterMetadata, "refresh_metadata", lost)
    others = set(threading.enumerate())
    address = f"127.0.0.1:{topics_broker.started().port}"
    with pytest.raises(KafkaError):
        kafka_client(make, {"bootstrap_servers": [address], "bootstrap_timeout_ms": 300})
    new = set(threading.enumerate()) - others
    kept = [one for one in new if one.name.startswith("kafka-io")]
    wait_until(lambda: not any(one.is_alive() for one in kept), WAIT_S, "its thread to end")
    monkeypatch.undo()
    made = kafka_client(make, {"bootstrap_servers": [address], "bootstrap_timeout_ms": 300})
    wait_until(
        lambda: not any(isinstance(one, threading.Timer) for one in threading.enumerate()),
        WAIT_S,
        "nobody to watch one that was made",
    )
    made.close()


def test_nobody_makes_one_otherwise() -> None:
    """But the shim's data path, which says more of why, and closes what it opened (`quiet`), and
    the demo's actors, whose processes end with them.
    """
    others = {"consumer/fetch/quiet.py", "zkcoord/demo/rogue.py", "zkcoord/demo/cast.py"}
    found = {
        str(path.relative_to(ROOT))
        for folder in ("zkcoord", "consumer")
        for path in (ROOT / folder).rglob("*.py")
        if any(f"{name}(" in path.read_text() for name in ("KafkaAdminClient", "KafkaConsumer"))
    }
    assert found == others
