"""Strangers at a gateway's ports: frames that are none, and connections that say nothing or hardly
anything. Whoever is there is served meanwhile, and the gateway stays as large as it was.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.consumer.gateway.test_frames import hostile
from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 4
EACH = 50
IDLE = 500
FRAMES = 2_000
FRAMES_PER_CONNECTION = 4
SENDERS = 8
GROWTH_BYTES_MAX = 150 * 1024 * 1024
LENGTHS = (-1, -(2**31), 0, 1, 7, 2**31 - 1, 100 * 1024 * 1024 + 1)


def strange(seed: int) -> bytes:
    """A frame as it comes: mostly a request with something changed behind its key and version (so
    that it is one of a group's), else a length that cannot be, or noise.
    """
    draw = random.Random(seed)
    match draw.randrange(10):
        case 0:
            return struct.pack(">i", draw.choice(LENGTHS)) + draw.randbytes(20)
        case 1:
            return draw.randbytes(draw.randint(1, 200))
        case _:
            frame = hostile(seed)
            return struct.pack(">i", len(frame)) + frame


def send(address: tuple[str, int], seeds: range) -> None:
    """Frames on one connection, whatever is answered."""
    try:
        with socket.create_connection(address, 10) as connection:
            connection.settimeout(10)
            for seed in seeds:
                connection.sendall(strange(seed))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass
    except OSError:
        return


@contextmanager
def idle(address: tuple[str, int], count: int) -> Iterator[None]:
    """Connections: half of them say nothing, half a byte of a frame each second."""
    with ExitStack() as stack:
        found = [
            stack.enter_context(socket.create_connection(address, PATIENCE_S)) for _ in range(count)
        ]
        over = threading.Event()

        def drip() -> None:
            frame = struct.pack(">ihhi", 1_000, 18, 0, 1)
            for n in range(10_000):
                for connection in found[::2]:
                    try:
                        connection.send(frame[n % len(frame) : n % len(frame) + 1])
                    except OSError:
                        continue
                if over.wait(1):
                    return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield
        over.set()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("frames", [FRAMES, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_who_is_there_is_served_beside_strangers(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, frames: int
) -> None:
    topic = create_topic(kafka_broker.address, unique("wire"), PARTITIONS)
    group = unique("g")
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
    ):
        first = Librdkafka(gateway.address, group, topic)
        shared([first], PARTITIONS)
        calls = list(first.calls)
        memory = psutil.Process(gateway.process.pid).memory_info
        address = ("127.0.0.1", gateway.port)
        with idle(address, IDLE), ThreadPoolExecutor(SENDERS) as pool:
            before = memory().rss
            sent = [
                pool.submit(send, address, range(n, n + FRAMES_PER_CONNECTION))
                for n in range(0, frames, FRAMES_PER_CONNECTION)
            ]
            wait_until(lambda: sent[len(sent) // 4].done(), PATIENCE_S * 20, "a quarter")
            produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
            wait_until(lambda: len(first.taken) == PARTITIONS * EACH, PATIENCE_S, "records")
            assert first.calls == calls, "nobody has moved anything"
            second = Librdkafka(gateway.address, group, topic)
            shared([first, second], PARTITIONS)
            for one in sent:
                one.result()
            assert memory().rss - before < GROWTH_BYTES_MAX
        second.close()
        shared([first], PARTITIONS)
        first.close()
        assert not first.errors and not second.errors
        assert gateway.stop() == 0
