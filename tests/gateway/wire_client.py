"""One librdkafka or kafka-python consumer as a process, told what to do and heard as
java/WireClient.java is: lines of "NANOSECONDS EVENT PARTITIONS" of the monotonic clock.

    python -m tests.gateway.wire_client librdkafka|kafka-python TOPIC name=value ...
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, Protocol


def say(event: str, partitions: Iterable[int] = ()) -> None:
    """One line."""
    numbers = ",".join(map(str, sorted(partitions)))
    sys.stdout.write(f"{time.monotonic_ns()} {event} {numbers}\n")
    sys.stdout.flush()


class Consumer(Protocol):
    """What the loop needs."""

    def join(self, topic: str) -> None:
        """Subscribe."""

    def poll(self) -> set[int]:
        """Of which partitions there were records."""

    def close(self) -> None:
        """Leave."""


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, topic: str, options: dict[str, str]) -> None:
        from confluent_kafka import Consumer as Confluent

        self._consumer = Confluent(options)
        self._consumer.list_topics(topic, 30)

    def join(self, topic: str) -> None:
        """Subscribe."""

        def tell(event: str) -> Any:
            return lambda _, found: say(event, [tp.partition for tp in found])

        self._consumer.subscribe(
            [topic], on_assign=tell("assigned"), on_revoke=tell("revoked"), on_lost=tell("lost")
        )

    def poll(self) -> set[int]:
        """One batch."""
        found = self._consumer.consume(500, 0.02)
        return {message.partition() for message in found if not message.error()}

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, topic: str, options: dict[str, str]) -> None:
        from kafka import KafkaConsumer

        known = KafkaConsumer.DEFAULT_CONFIG
        config = {name.replace(".", "_"): value for name, value in options.items()}
        self._consumer = KafkaConsumer(
            **{
                name: int(value) if isinstance(known.get(name), int) else value
                for name, value in config.items()
            }
        )
        self._consumer.partitions_for_topic(topic)

    def join(self, topic: str) -> None:
        """Subscribe."""
        from kafka import ConsumerRebalanceListener

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
            def on_partitions_assigned(self, assigned: Any) -> None:
                say("assigned", [tp.partition for tp in assigned])

            def on_partitions_revoked(self, revoked: Any) -> None:
                say("revoked", [tp.partition for tp in revoked])

            def on_partitions_lost(self, lost: Any) -> None:
                say("lost", [tp.partition for tp in lost])

        self._consumer.subscribe([topic], listener=Listener())

    def poll(self) -> set[int]:
        """One batch."""
        return {tp.partition for tp in self._consumer.poll(20)}

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


def main() -> int:
    """Until "close", or the end of standard input."""
    kind, topic, *given = sys.argv[1:]
    options = dict(one.split("=", 1) for one in given)
    made = {"librdkafka": Librdkafka, "kafka-python": KafkaPython}[kind]
    consumer: Consumer = made(topic, options)
    say("ready")
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            orders.put(line.strip())
        orders.put("close")

    threading.Thread(target=read, daemon=True).start()
    joined, hang_ms = False, 0
    while True:
        order = "" if orders.empty() else orders.get()
        if order == "join":
            say("joins")
            joined = True
            consumer.join(topic)
        elif order.startswith("hang "):
            hang_ms = int(order[5:])
        elif order == "close":
            say("closes")
            consumer.close()
            say("closed")
            return 0
        if not joined:
            time.sleep(0.002)
            continue
        found = consumer.poll()
        if not found:
            continue
        say("records", found)
        if hang_ms:
            say("hangs")
            time.sleep(hang_ms / 1000)
            hang_ms = 0
            say("goes on")


if __name__ == "__main__":
    sys.exit(main())
