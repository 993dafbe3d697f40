"""Gateways that are stopped and begun again, one after the other, under four librdkafka clients
whose session timeout is 10 s: each must go on, and hear nothing of it.

python -m tests.gateway.handovers FOLDER [--times 25]     all logs are kept in the folder
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from tests.bench.gateway_stuck import load
from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.gateway.test_failover import named
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.stack import running_stack

CLIENTS, PARTITIONS = 4, 24
STRATEGIES = ("range", "cooperative-sticky")
SESSION_S = 10.0
ANSWER = re.compile(r"Received (Heartbeat|SyncGroup)Response")
AFTERWARDS_S = 2.0
"""How much longer than a session timeout is waited for one."""


def transcript(path: Path) -> logging.Logger:
    """What a client says of itself."""
    found = logging.getLogger(str(path))
    found.setLevel(logging.DEBUG)
    found.propagate = False
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    found.addHandler(handler)
    return found


def longest_s(lines: Iterable[str]) -> float:
    """Of a transcript the longest time between two answers that keep the client's session alive."""
    good: list[datetime] = []
    waiting: datetime | None = None  # an answer of which it is not known yet what the client says
    for line in lines:
        if "heartbeat error response" in line and "ebalance in progress" not in line:
            waiting = None
        elif ANSWER.search(line) or "Heartbeat for group" in line:
            good += [] if waiting is None else [waiting]
            waiting = datetime.fromisoformat(line[:23].replace(",", "."))
            waiting = waiting if ANSWER.search(line) else None
    return max(((b - a).total_seconds() for a, b in zip(good, good[1:])), default=0.0)


@contextmanager
def group(
    folder: Path, broker: str, bootstrap: str, strategy: str, commits_ms: int
) -> Iterator[list[Librdkafka]]:
    """The clients, once they share everything, under a load."""
    topic = create_topic(broker, unique("handover"), PARTITIONS)
    name = unique("handover")
    with ExitStack() as ends:
        ends.enter_context(load(broker, topic))
        clients = []
        for number in range(CLIENTS):
            client = Librdkafka(
                bootstrap,
                name,
                topic,
                **{
                    "client.id": f"c{number}",
                    "partition.assignment.strategy": strategy,
                    "session.timeout.ms": int(SESSION_S * 1000),
                    "auto.commit.interval.ms": commits_ms,
                    "debug": "cgrp,protocol",
                    "logger": transcript(folder / f"{strategy}-{number}.log"),
                },
            )
            ends.callback(client.close)
            clients.append(client)
        shared(clients, PARTITIONS)
        yield clients


def handed_over(gateways: Sequence[GatewayProcess], clients: Sequence[Librdkafka]) -> list[str]:
    """One hand-over by SIGTERM, from the gateway where the most are; what was wrong."""
    before = [list(client.calls) for client in clients]
    taken = [len(client.taken) for client in clients]
    gateway = gateways[0]
    began = time.monotonic()
    wrong = []
    status = gateway.stop()
    if status != 0:
        wrong.append(f"status {status}")
    time.sleep(max(0.0, began + SESSION_S + AFTERWARDS_S - time.monotonic()))
    for number, client in enumerate(clients):
        more = client.calls[len(before[number]) :]
        if more:
            wrong.append(f"client {number}: {more}")
        if len(client.taken) == taken[number]:
            wrong.append(f"client {number} has read nothing")
    return wrong


def begun_again(gateway: GatewayProcess, other: GatewayProcess) -> None:
    """The same gateway at the same addresses; both know each other."""
    gateway.restart()
    for one in (gateway, other):
        wait_until(lambda one=one: named(one) == 3, PATIENCE_S, "gateways that know each other")


def run(folder: Path, times: int, commits_ms: int) -> int:
    """1 after a hand-over that was not silent, which is then the last one."""
    with running_stack(folder / "stack") as stack:
        assert stack.kafka is not None and stack.zookeeper is not None
        broker, zookeeper = stack.kafka.address, stack.zookeeper.address
        with (
            coordinator(zookeeper),
            GatewayProcess(folder / "a", zookeeper, broker, "--log-level", "debug") as one,
            GatewayProcess(folder / "b", zookeeper, broker, "--log-level", "debug") as other,
        ):
            for gateway in (one, other):
                wait_until(lambda: named(gateway) == 3, PATIENCE_S, "gateways that know each other")
            both = f"{one.address},{other.address}"
            for strategy in STRATEGIES:
                with group(folder, broker, both, strategy, commits_ms) as clients:
                    pair = [one, other]
                    for number in range(times // len(STRATEGIES) + 1):
                        wrong = handed_over(pair, clients)
                        now = time.strftime("%H:%M:%S")
                        print(f"{now} {strategy} {number + 1}: {wrong or 'silent'}", flush=True)
                        if wrong:
                            return 1
                        begun_again(*pair)
                        pair.reverse()
    return 0


def longest_of_all_s(folder: Path) -> float:
    """The same of all clients of a run."""
    transcripts = [path for name in STRATEGIES for path in folder.glob(f"{name}-*.log")]
    found = []
    for path in transcripts:
        with path.open(encoding="utf-8", errors="replace") as lines:
            found.append(longest_s(lines))
    return max(found)


def main(words: Sequence[str]) -> int:
    """Exit status 1 after a hand-over that was noticed."""
    parser = argparse.ArgumentParser(prog="tests.gateway.handovers", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=25)
    parser.add_argument("--commits-ms", type=int, default=5_000, help="auto.commit.interval.ms")
    args = parser.parse_args(words)
    args.folder.mkdir(parents=True, exist_ok=True)
    status = run(args.folder.resolve(), args.times, args.commits_ms)
    print(f"at most {longest_of_all_s(args.folder):.1f} s without an answer that keeps a session")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
