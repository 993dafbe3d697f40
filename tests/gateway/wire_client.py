"""One librdkafka or kafka-python consumer as a process, told what to do and heard as
java/WireClient.java is: lines of "NANOSECONDS EVENT NUMBERS" of the monotonic clock. The numbers
are partitions, but those of "took": a partition, the first and the last offset of a batch of it.

    python -m tests.gateway.wire_client librdkafka|kafka-python TOPIC name=value ...
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, Protocol

Batches = dict[int, tuple[int, int]]
"""Partition -> the first and the last offset of what was handed out."""


def say(event: str, partitions: Iterable[int] = ()) -> None:
    """One line."""
    line(event, *sorted(partitions))


def line(event: str, *numbers: int) -> None:
    """One line, its numbers in the order given."""
    sys.stdout.write(f"{time.monotonic_ns()} {event} {','.join(map(str, numbers))}\n")
    sys.stdout.flush()


def took(batches: Batches) -> None:
    """Which records there were."""
    say("records", batches)
    for partition, (first, last) in batches.items():
        line("took", partition, first, last)


class Consumer(Protocol):
    """What the loop needs. `refusals`: the errors of a commit."""

    refusals: type[Exception]

    def join(self, topic: str) -> None:
        """Subscribe."""

    def poll(self) -> Batches:
        """What was handed out."""

    def commit(self) -> None:
        """What was handed out before, and wait for the answer."""

    def close(self) -> None:
        """Leave."""


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, topic: str, options: dict[str, str]) -> None:
        from confluent_kafka import Consumer as Confluent
        from confluent_kafka import KafkaException

        self.refusals: type[Exception] = KafkaException
        self._consumer = Confluent(options)
        self._consumer.list_topics(topic, 30)

    def join(self, topic: str) -> None:
        """Subscribe."""

        def tell(event: str) -> Any:
            return lambda _, found: say(event, [tp.partition for tp in found])

        self._consumer.subscribe(
            [topic], on_assign=tell("assigned"), on_revoke=tell("revoked"), on_lost=tell("lost")
        )

    def poll(self) -> Batches:
        """One batch."""
        found: Batches = {}
        for message in self._consumer.consume(500, 0.02):
            if not message.error():
                partition, offset = message.partition(), message.offset()
                found[partition] = (found.get(partition, (offset, 0))[0], offset)
        return found

    def commit(self) -> None:
        """What was handed out before."""
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, topic: str, options: dict[str, str]) -> None:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        self.refusals: type[Exception] = KafkaError
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

    def poll(self) -> Batches:
        """One batch."""
        found = self._consumer.poll(20)
        return {tp.partition: (part[0].offset, part[-1].offset) for tp, part in found.items()}

    def commit(self) -> None:
        """What was handed out before."""
        self._consumer.commit()

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
        elif order == "commit":
            try:
                consumer.commit()
                say("committed")
            except consumer.refusals as error:
                print(error, file=sys.stderr)
                say("commit failed")
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
        took(found)
        if hang_ms:
            say("hangs")
            time.sleep(hang_ms / 1000)
            hang_ms = 0
            say("goes on")


if __name__ == "__main__":
    sys.exit(main())
