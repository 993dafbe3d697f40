"""One librdkafka client as a process, for `gateway_relay` and `gateway_produce`: says "ready" when
it is connected, begins at a line on standard input, and says in JSON what it found. Settings are
the library's defaults.

    python -m tests.bench.gateway_load read  BOOTSTRAP TOPIC GROUP WARM TOTAL
    python -m tests.bench.gateway_load write BOOTSTRAP TOPIC SIZE WARM TOTAL
    python -m tests.bench.gateway_load pace  BOOTSTRAP TOPIC SIZE PER_S SECONDS

read: all records of a topic from its first on, until TOTAL; write: TOTAL records of SIZE bytes,
acks=all, until the last is acknowledged; both clocks begin after WARM records and tell `records`
and `seconds`. pace: PER_S records of SIZE bytes a second, acks=all, each sent at once (linger 0);
`latencies`: ms from each record's time to its acknowledgement, the first second left out.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

BATCH = 10_000
QUEUED_MAX = 100_000
POLL_S = 0.1
FLUSH_S = 60.0
WARM_S = 1.0


def begin(client: Any, topic: str) -> None:
    """Wait for the word."""
    client.list_topics(topic, FLUSH_S)
    print("ready", flush=True)
    sys.stdin.readline()


def read(bootstrap: str, topic: str, group: str, warm: int, total: int) -> dict[str, Any]:
    """As a member of a group."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    begin(consumer, topic)
    consumer.subscribe([topic])
    count = first = 0
    began = 0.0
    while count < total:
        count += len(consumer.consume(min(BATCH, total - count), POLL_S))
        if not began and count >= warm:
            began, first = time.monotonic(), count
    seconds = time.monotonic() - began
    consumer.close()
    return {"records": count - first, "seconds": seconds}


class Acknowledged:
    """Deliveries, and when."""

    def __init__(self) -> None:
        self.count = 0
        self.failed = ""

    def __call__(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed = str(error)
        self.count += 1


def write(bootstrap: str, topic: str, size: int, warm: int, total: int) -> dict[str, Any]:
    """As fast as it goes, to the last acknowledgement."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    begin(producer, topic)
    value, done = b"x" * size, Acknowledged()

    def send(count: int) -> float:
        """Seconds."""
        since = time.monotonic()
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=done)
                    break
                except BufferError:
                    producer.poll(POLL_S)
            producer.poll(0)
        producer.flush(FLUSH_S)
        return time.monotonic() - since

    send(warm)
    seconds = send(total - warm)
    if done.failed or done.count < total:
        raise SystemExit(f"not delivered: {done.failed or total - done.count}")
    return {"records": total - warm, "seconds": seconds}


def pace(bootstrap: str, topic: str, size: int, per_s: int, seconds: int) -> dict[str, Any]:
    """One record after the other."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    begin(producer, topic)
    value = b"x" * size
    latencies: list[float] = []
    failed: list[str] = []
    began = time.monotonic()
    for number in range(per_s * seconds):
        due = began + number / per_s
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)

        def acknowledged(error: Any, _: Any, due: float = due) -> None:
            if error is not None:
                failed.append(str(error))
            elif due > began + WARM_S:
                latencies.append(1000 * (time.monotonic() - due))

        producer.produce(topic, value, on_delivery=acknowledged)
    producer.flush(FLUSH_S)
    if failed:
        raise SystemExit(f"not delivered: {failed[0]}")
    return {"latencies": latencies}


def main() -> int:
    """See the module."""
    what, bootstrap, topic, *rest = sys.argv[1:]
    if what == "read":
        found = read(bootstrap, topic, rest[0], int(rest[1]), int(rest[2]))
    else:
        size, one, two = map(int, rest)
        found = {"write": write, "pace": pace}[what](bootstrap, topic, size, one, two)
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
