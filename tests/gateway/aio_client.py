"""One aiokafka consumer as a process, told what to do and heard as `wire_client` is.

    python -m tests.gateway.aio_client FOLDER TOPIC name=value ...

aiokafka is in FOLDER, and not among the project's packages. It commits by itself: now and then,
and before partitions are revoked.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

from tests.gateway.wire_client import say, took

WAIT_MS = 20


def assignor(name: str) -> Any:
    """aiokafka's class of an assignor."""
    module = importlib.import_module(f"aiokafka.coordinator.assignors.{name}")
    return {
        "range": lambda: module.RangePartitionAssignor,
        "roundrobin": lambda: module.RoundRobinPartitionAssignor,
    }[name]()


def typed(name: str, value: str) -> Any:
    """A setting's value as aiokafka wants it."""
    if name == "partition.assignment.strategy":
        return [assignor(value)]
    if name == "enable.auto.commit":
        return value == "true"
    return int(value) if value.isdigit() else value


class Client:
    """`hang_ms`: how long the next handler is stuck."""

    def __init__(self, topic: str, options: dict[str, str]) -> None:
        self.library = importlib.import_module("aiokafka")
        self.topic = topic
        self.hang_ms = 0
        config = {name.replace(".", "_"): typed(name, value) for name, value in options.items()}
        self.consumer = self.library.AIOKafkaConsumer(**config)

    async def start(self) -> None:
        """Connect, and do not join."""
        await self.consumer.start()
        await self.consumer.topics()

    def join(self) -> None:
        """Subscribe."""
        base: Any = self.library.abc.ConsumerRebalanceListener

        class Listener(base):  # type: ignore[misc]  # aiokafka is not there when types are checked
            async def on_partitions_revoked(self, revoked: Any) -> None:
                say("revoked", [tp.partition for tp in revoked])

            async def on_partitions_assigned(self, assigned: Any) -> None:
                say("assigned", [tp.partition for tp in assigned])

        self.consumer.subscribe([self.topic], listener=Listener())

    async def poll(self) -> None:
        """One batch of each partition."""
        found = await self.consumer.getmany(timeout_ms=WAIT_MS)
        if not found:
            return
        took({tp.partition: (part[0].offset, part[-1].offset) for tp, part in found.items()})
        if self.hang_ms:
            say("hangs")
            length, self.hang_ms = self.hang_ms, 0
            await asyncio.sleep(length / 1000)
            say("goes on")

    async def commit(self) -> None:
        """What was handed out before."""
        try:
            await self.consumer.commit()
            say("committed")
        except self.library.errors.KafkaError as error:
            print(error, file=sys.stderr)
            say("commit failed")


async def run(topic: str, options: dict[str, str]) -> int:
    """Until "close", or the end of standard input."""
    client = Client(topic, options)
    await client.start()
    say("ready")
    orders: asyncio.Queue[str] = asyncio.Queue()
    reader = asyncio.StreamReader()
    events = asyncio.get_running_loop()
    await events.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def read() -> None:
        while found := await reader.readline():
            await orders.put(found.decode().strip())
        await orders.put("close")

    reading = asyncio.create_task(read())
    joined = False
    while True:
        order = "" if joined and orders.empty() else await orders.get()
        if order == "join":
            say("joins")
            joined = True
            client.join()
        elif order.startswith("hang "):
            client.hang_ms = int(order[5:])
        elif order == "commit":
            await client.commit()
        elif order == "close":
            say("closes")
            await client.consumer.stop()
            say("closed")
            reading.cancel()
            return 0
        if joined:
            await client.poll()


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    sys.exit(asyncio.run(run(sys.argv[2], dict(one.split("=", 1) for one in sys.argv[3:]))))
