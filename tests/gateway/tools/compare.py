"""Asks both sides everything, in the same order and the same states.

python -m tests.gateway.tools.compare VERSION     prints where they differ, on a stack of its own
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.clients import GatewayProcess
from tests.gateway.tools import commands
from tests.gateway.tools.commands import Command
from tests.gateway.tools.fields import different
from tests.gateway.tools.sides import PARTITIONS, Side, is_there, tools
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.stack import running_stack

EACH = 10


@dataclass(frozen=True)
class Difference:
    """One field of one answer."""

    who: str
    asked: str
    field: str
    kafka: str
    here: str

    def __str__(self) -> str:
        return f"{self.who} | {self.asked} | {self.field} | {self.kafka} | {self.here}"


def asked(here: Side, there: Side, wanted: Sequence[Command]) -> Iterator[Difference]:
    """Each command at both sides."""
    with ThreadPoolExecutor(2) as pool:
        for command in filter(is_there, wanted):
            answers = pool.map(lambda side: side.says(command), (here, there))
            ours, kafkas = answers
            for name, (of_kafka, of_ours) in different(ours, kafkas).items():
                yield Difference(command.who, str(command), name, of_kafka, of_ours)


def compared(
    version: str, java: Java, broker: str, zookeeper: str, folder: Path
) -> list[Difference]:
    """All of it: with Kafka's tools of one version."""
    topic = create_topic(broker, unique("tools"), PARTITIONS)
    produce_numbered(broker, topic, PARTITIONS, EACH)
    group = unique("g")
    found: list[Difference] = []
    with (
        coordinator(zookeeper),
        GatewayProcess(folder / "gateway", zookeeper, broker) as gateway,
        tools(version, java) as ours,
        tools(version, java) as kafkas,
    ):
        here = Side(gateway.address, f"{group}-ours", topic, ours, folder / "gateway")
        there = Side(broker, f"{group}-real", topic, kafkas, folder)
        here.others, there.others = there.group, here.group
        for side in (here, there):
            side.begin(PARTITIONS * EACH)
        found += asked(here, there, commands.WHILE_LIVE)
        for side in (here, there):
            side.end()
        found += asked(here, there, commands.WHEN_EMPTY)
        found += asked(here, there, commands.AT_LAST)
    return found


def main(words: Sequence[str]) -> int:
    """Print."""
    with tempfile.TemporaryDirectory() as name, running_stack(Path(name) / "stack") as stack:
        assert stack.kafka is not None and stack.zookeeper is not None
        for one in compared(
            words[0],
            find_java(),
            stack.kafka.address,
            stack.zookeeper.address,
            Path(name) / "compared",
        ):
            print(one, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
