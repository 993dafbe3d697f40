"""A consumer of the walk through the console, as a process of its own:

    python -m tests.console.walk_member healthy|restless|silent --zookeeper HOSTS --group NAME
        --topic NAME --client NAME

It says who it is (`member NAME`) once it has partitions, and ends when its standard input does, so
that nobody is left behind a walk that was killed. A line `hang` there has a healthy one hang with
its next records in hand (it says `hangs`).
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from consumer.api.kafka_consumer import KafkaConsumer

POLL_MS = 200
CRASH_AFTER_S = 0.5
COMMITS = 14
"""Of the one that stops to commit: more than a verdict's window holds."""

EACH_S = 0.6
"""From one of them to the next: longer than from one look of the console to the next."""

hang = threading.Event()


def say(text: str) -> None:
    """To the walk."""
    print(text, flush=True)


def listen() -> None:
    """To the walk, until it ends."""
    for line in sys.stdin:
        if line.strip() == "hang":
            hang.set()
    os._exit(0)


def joined(consumer: Any) -> None:
    """Poll until it has something; says who it is."""
    while not consumer.assignment():
        consumer.poll(POLL_MS)
    say(f"member {consumer.group_metadata().member_id}")


def healthy(consumer: Any) -> None:
    """Takes what comes and commits it; hangs when it is told to."""
    said = False
    while True:
        if consumer.poll(POLL_MS):
            if hang.is_set():
                say("hangs")
                threading.Event().wait()
            consumer.commit()
        if consumer.assignment() and not said:
            said = True
            say(f"member {consumer.group_metadata().member_id}")


def restless(consumer: Any) -> None:
    """Dies soon after it came, as of a bug."""
    joined(consumer)
    until = time.monotonic() + CRASH_AFTER_S
    while time.monotonic() < until:
        consumer.poll(POLL_MS)
    os._exit(1)


def silent(consumer: Any) -> None:
    """Commits for a while, a record at a time, and then only looks alive."""
    joined(consumer)
    for _ in range(COMMITS):
        while not consumer.poll(POLL_MS, max_records=len(consumer.assignment())):
            pass
        consumer.commit()
        time.sleep(EACH_S)
    say("silent")
    while True:
        consumer.pause(*consumer.assignment())
        consumer.poll(POLL_MS)


KINDS: dict[str, Callable[[Any], None]] = {
    "healthy": healthy,
    "restless": restless,
    "silent": silent,
}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.console.walk_member")
    parser.add_argument("kind", choices=KINDS)
    for name in ("zookeeper", "group", "topic", "client"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    threading.Thread(target=listen, daemon=True).start()
    consumer = KafkaConsumer(
        args.topic,
        zookeeper_connect=args.zookeeper,
        group_id=args.group,
        client_id=args.client,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    KINDS[args.kind](consumer)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
