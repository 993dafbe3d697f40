"""Who floods a gateway, and what a healthy member beside it notices."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from kafka.protocol.consumer import (
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from consumer.gateway.wire.subscription import encode_subscription
from tests.consumer.gateway.recordings import framed
from tests.gateway.clients import GatewayProcess
from tests.gateway.raw_client import SESSION_MS, RawClient
from tests.gateway.test_order import COMMIT_V, FETCH_V, commit
from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

SILENCE_S = 0.5
MIB = 1024 * 1024
JOIN_V = 5
GROWTH_BYTES_MAX = 100 * MIB
SMALL_PARTS = 19_000
ANSWER = OffsetCommitResponse


class Place:
    """A broker's gateway with a topic."""

    def __init__(self, gateway: GatewayProcess, topic: str) -> None:
        self.gateway = gateway
        self.topic = topic

    def stranger(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.gateway.port), 60)

    def rss(self) -> int:
        """How large the gateway is."""
        return int(psutil.Process(self.gateway.process.pid).memory_info().rss)


@pytest.fixture
def place(kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path) -> Iterator[Place]:
    """See `Place`."""
    topic = create_topic(kafka_broker.address, unique("wire"), 1)
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
    ):
        yield Place(gateway, topic)


@contextmanager
def healthy(place: Place) -> Iterator[list[float]]:
    """A member of its own group that commits all the time: how long each took, in s."""
    took: list[float] = []
    over = threading.Event()
    group = unique("healthy")
    with RawClient(place.gateway.address) as client:
        member, generation = client.join(group, place.topic)

        def run() -> None:
            for offset in range(1_000_000):
                before = time.monotonic()
                asked = commit(group, place.topic, member, generation, offset)
                answer = client.ask(asked, COMMIT_V, OffsetCommitResponse)
                assert answer.topics[0].partitions[0].error_code == 0
                took.append(time.monotonic() - before)
                if over.wait(0.02):
                    return

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        time.sleep(2)
        took.clear()
        yield took
        time.sleep(1)
        over.set()
        thread.join(60)


def join(group: str, topic: str, member: str, name: str) -> JoinGroupRequest:
    """With one assignor."""
    of = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[of(name=name, metadata=encode_subscription([topic]))],
        reason=None,
    )


def fetch(group: str, topic: str, partitions: range) -> OffsetFetchRequest:
    """OffsetFetch."""
    of = OffsetFetchRequest.OffsetFetchRequestTopic
    return OffsetFetchRequest(
        group_id=group, topics=[of(name=topic, partition_indexes=list(partitions))]
    )


def test_a_produce_whose_tags_never_end_holds_up_nobody(place: Place) -> None:
    with healthy(place) as took, place.stranger() as stranger:
        head = struct.pack(">hhih", 0, 9, 1, 0) + b"\xff\xff\xff\xff\x07"
        with contextlib.suppress(OSError):  # it is closed
            stranger.sendall(struct.pack(">i", 100 * MIB) + head + bytes(4 * MIB))
        time.sleep(3)
    assert max(took) < SILENCE_S


def test_a_request_of_many_small_parts_holds_up_nobody(place: Place) -> None:
    with healthy(place) as took, place.stranger() as stranger:
        count = MIB // 7
        group = struct.pack(">h", 1) + b"g"
        frame = struct.pack(">hhih", 9, 5, 1, 0) + group + struct.pack(">i", count)
        frame += bytes(6) * count
        with contextlib.suppress(OSError):  # it is closed
            stranger.sendall(struct.pack(">i", len(frame)) + frame)
        time.sleep(3)
    assert max(took) < SILENCE_S


def test_who_reads_no_answers_is_not_read_either(place: Place) -> None:
    asked = framed(JOIN_V, join(unique("g"), place.topic, "m" * 32_000, "range"))
    with place.stranger() as stranger:
        stranger.sendall(asked)
        time.sleep(1)
        before = place.rss()
        stranger.settimeout(5)
        try:
            for _ in range(300 * MIB // len(asked)):
                stranger.sendall(asked)
                time.sleep(0.0005)
        except OSError:
            pass
        time.sleep(1)
        assert place.rss() - before < GROWTH_BYTES_MAX


def test_large_requests_without_an_answer_are_not_all_kept(place: Place) -> None:
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    part = of_topic.OffsetCommitRequestPartition(
        partition_index=0,
        committed_offset=1,
        committed_leader_epoch=-1,
        committed_metadata="x" * (3 * MIB),
    )
    asked = commit(unique("g"), place.topic, "", -1, 1)
    asked.topics = [of_topic(name=place.topic, partitions=[part])]
    before = place.rss()
    with place.stranger() as stranger:
        frame = framed(8, asked)
        stranger.settimeout(5)
        try:
            for _ in range(100):
                stranger.sendall(frame)
        except OSError:
            pass
        assert place.rss() - before < GROWTH_BYTES_MAX


def test_requests_of_many_small_parts_are_kept_by_what_they_take_decoded(place: Place) -> None:
    """Ten clients with 12 commits of 340 KB each: 18 times as much as objects."""
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    asked = commit(unique("g"), place.topic, "", -1, 1)
    (only,) = asked.topics[0].partitions
    asked.topics = [of_topic(name=place.topic, partitions=[only] * SMALL_PARTS)]
    data = framed(7, asked) * 12
    with contextlib.ExitStack() as strangers, RawClient(place.gateway.address) as client:
        before = place.rss()
        for _ in range(10):
            stranger = strangers.enter_context(place.stranger())
            sender = threading.Thread(target=send_all, args=(stranger, data))
            strangers.callback(sender.join)
            strangers.callback(stranger.shutdown, socket.SHUT_RDWR)
            sender.start()
        peak = 0
        for _ in range(20):
            answer = client.ask(commit(unique("g"), place.topic, "", -1, 1), COMMIT_V, ANSWER)
            assert answer.topics[0].partitions[0].error_code == 0
            peak = max(peak, place.rss())
        assert peak - before < 2 * GROWTH_BYTES_MAX


def send_all(stranger: socket.socket, data: bytes) -> None:
    """As long as it is there."""
    with contextlib.suppress(OSError):
        stranger.sendall(data)


def test_who_fetches_many_offsets_holds_up_no_other_groups(place: Place) -> None:
    clients = [RawClient(place.gateway.address) for _ in range(20)]
    with RawClient(place.gateway.address) as other:
        for client in clients:
            client.send(fetch("theirs", place.topic, range(20_000)), FETCH_V)
        time.sleep(1)
        took = []
        for _ in range(5):
            before = time.monotonic()
            other.ask(fetch("mine", place.topic, range(1)), FETCH_V, OffsetFetchResponse)
            took.append(time.monotonic() - before)
        assert max(took) < 2
