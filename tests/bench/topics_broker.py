"""A broker that only says which topics there are, of a cluster as large as one likes:

    python -m tests.bench.topics_broker TOPICS PARTITIONS NAME:PARTITIONS...

It answers ApiVersions and Metadata as a broker of Kafka 4 does, so that whoever asks goes the whole
way through a socket. It says its port, and then does what each line of its input asks for, as JSON:
{"do": "create" | "grow" | "move" | "delete", "name"}; then it says when that was so, in ns.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
import uuid
from contextlib import suppress
from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

METADATA, API_VERSIONS, QUORUM = 3, 18, 55
VERSIONS = {METADATA: (9, 13), API_VERSIONS: (0, 4), QUORUM: (0, 2)}
HOST, BROKER, REPLICAS = "127.0.0.1", 1, [1, 2, 3]
CLUSTER = "bench-of-many-topics"
UNKNOWN_TOPIC = 3
Topic = MetadataResponse.MetadataResponseTopic
Partition = Topic.MetadataResponsePartition


class ManyTopics:
    """The cluster. An answer of all is put together of what was encoded before."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.lock = threading.Lock()
        self.topics: dict[str, tuple[uuid.UUID, int, int]] = {}
        self.encoded: dict[tuple[int, str], bytes] = {}

    def put(self, name: str, topic_id: uuid.UUID, partitions: int, epoch: int) -> None:
        """A topic, as it is from now on."""
        with self.lock:
            self.topics[name] = (topic_id, partitions, epoch)
            self._forget(name)

    def _forget(self, name: str) -> None:
        for version in range(VERSIONS[METADATA][1] + 1):
            self.encoded.pop((version, name), None)

    def change(self, what: str, name: str, partitions: int) -> None:
        """See the module."""
        if what == "create":
            return self.put(name, uuid.uuid4(), partitions, 0)
        if what == "delete":
            with self.lock:
                del self.topics[name]
                return self._forget(name)
        topic_id, before, epoch = self.topics[name]
        more = what == "grow"
        return self.put(name, topic_id, before + more, epoch + (not more))

    def answer(self, names: list[str] | None, version: int) -> bytes:
        """Of these topics, or all."""
        with self.lock:
            found = list(self.topics) if names is None else names
            head, tail = self._around(version)
            parts = [self._encoded(name, version) for name in found]
        return b"".join([head, compact(len(parts) + 1), *parts, tail])

    def _response(self, topics: list[Any]) -> Any:
        broker = MetadataResponse.MetadataResponseBroker
        brokers = [broker(node_id=BROKER, host=HOST, port=self.port, rack=None)]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=brokers,
            cluster_id=CLUSTER,
            controller_id=BROKER,
            topics=topics,
        )

    def _around(self, version: int) -> tuple[bytes, bytes]:
        """What stands before the topics, and behind them."""
        none = self._response([]).encode(version=version)
        size = len(none) - {9: 5, 10: 5, 13: 3}.get(version, 1) - 1
        return none[:size], none[size + 1 :]

    def _encoded(self, name: str, version: int) -> bytes:
        if (version, name) not in self.encoded:
            head, tail = self._around(version)
            whole = self._response([self._topic(name)]).encode(version=version)
            self.encoded[version, name] = whole[len(head) + 1 : len(whole) - len(tail)]
        return self.encoded[version, name]

    def _topic(self, name: str) -> Any:
        if name not in self.topics:
            zero = uuid.UUID(int=0)
            return Topic(UNKNOWN_TOPIC, name=name, topic_id=zero, is_internal=False, partitions=[])
        topic_id, partitions, epoch = self.topics[name]
        return Topic(
            error_code=0,
            name=name,
            topic_id=topic_id,
            is_internal=False,
            partitions=[
                Partition(
                    error_code=0,
                    partition_index=number,
                    leader_id=REPLICAS[(number + epoch) % len(REPLICAS)],
                    leader_epoch=epoch,
                    replica_nodes=REPLICAS,
                    isr_nodes=REPLICAS,
                    offline_replicas=[],
                )
                for number in range(partitions)
            ],
        )


def compact(number: int) -> bytes:
    """As lengths are written."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def serve(cluster: ManyTopics, connection: socket.socket) -> None:
    """One connection, until it ends."""
    with suppress(OSError), connection, connection.makefile("rb") as read:
        while len(size := read.read(4)) == 4:
            request = read.read(*struct.unpack(">i", size))
            key, version, correlation = struct.unpack(">hhi", request[:8])
            if key == API_VERSIONS:
                kind = ApiVersionsResponse.ApiVersion
                keys = [
                    kind(api_key=k, min_version=low, max_version=high)
                    for k, (low, high) in VERSIONS.items()
                ]
                response = ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)
                answer = response.encode(version=version)
            else:
                asked = MetadataRequest.decode(request, version=version, header=True)
                names = None if asked.topics is None else [one.name for one in asked.topics]
                answer = b"\0" + cluster.answer(names, version)
            connection.sendall(struct.pack(">ii", len(answer) + 4, correlation) + answer)


def accept(cluster: ManyTopics, listener: socket.socket) -> None:
    """Connections, each on a thread of its own."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(cluster, connection), daemon=True).start()


def started() -> ManyTopics:
    """A cluster without topics, whose broker takes connections as long as this process lives."""
    listener = socket.create_server((HOST, 0))
    cluster = ManyTopics(listener.getsockname()[1])
    threading.Thread(target=accept, args=(cluster, listener), daemon=True).start()
    return cluster


def main() -> int:
    """Serve until the input ends."""
    count, partitions = map(int, sys.argv[1:3])
    cluster = started()
    for number in range(count):
        name = f"team-{number % 37:02d}.service-{number:05d}.events"
        cluster.put(name, uuid.uuid4(), partitions, number % 7)
    for one in sys.argv[3:]:
        name, _, its = one.partition(":")
        cluster.put(name, uuid.uuid4(), int(its), 0)
    cluster.answer(None, VERSIONS[METADATA][1])
    print(cluster.port, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        cluster.change(order["do"], order["name"], partitions)
        print(time.time_ns(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
