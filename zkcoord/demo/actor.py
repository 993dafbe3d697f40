"""A consumer of the demo: `consumer.verifiable`, unless it is told to wait before it begins, or to
be broken.

    python -m zkcoord.demo.actor [--wait] [--fault lost|duplicate] -- options of consumer.verifiable

`--wait`: load everything, print {"event": "waiting"}, begin at SIGUSR2. So a join can be timed to a
hair. `--fault`: at SIGUSR1 do something wrong, once, at the level at which an application or a
client library would, and print {"event": "fault"}:

    lost        a batch of one partition that the consumer was handed never reaches the application,
                and the consumer commits beyond it
    duplicate   the position is set back over records that the application has had already
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from consumer import verifiable
from consumer.api.kafka_consumer import KafkaConsumer

RECORDS_MIN = 5

armed = threading.Event()
begin = threading.Event()


class DroppingConsumer(KafkaConsumer):
    """Hands out everything but one batch of one partition."""

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[Any, list[Any]]:
        """See `KafkaConsumer.poll`."""
        batch = super().poll(timeout_ms, max_records, update_offsets)
        if armed.is_set() and len(batch) > 1 and len(batch[_largest(batch)]) >= RECORDS_MIN:
            at = _largest(batch)
            dropped = batch.pop(at)
            armed.clear()
            tell(
                "fault",
                partition=f"{at.topic}-{at.partition}",
                first=dropped[0].offset,
                last=dropped[-1].offset,
            )
        return batch


class RepeatingConsumer(KafkaConsumer):
    """Hands out one batch of one partition twice."""

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[Any, list[Any]]:
        """See `KafkaConsumer.poll`."""
        batch = super().poll(timeout_ms, max_records, update_offsets)
        if armed.is_set() and batch and len(batch[_largest(batch)]) >= RECORDS_MIN:
            at = _largest(batch)
            self.seek(at, batch[at][0].offset)
            armed.clear()
            tell(
                "fault",
                partition=f"{at.topic}-{at.partition}",
                first=batch[at][0].offset,
                last=batch[at][-1].offset,
            )
        return batch


CONSUMERS: dict[str, type[KafkaConsumer]] = {
    "lost": DroppingConsumer,
    "duplicate": RepeatingConsumer,
}


def _largest(batch: dict[Any, list[Any]]) -> Any:
    return max(batch, key=lambda at: len(batch[at]))


def tell(event: str, **fields: Any) -> None:
    """One JSON line, in one write."""
    sys.stdout.write(
        json.dumps({"event": event, "t": time.time_ns(), **fields}, separators=(",", ":")) + "\n"
    )
    sys.stdout.flush()


def _arm(_number: int, _frame: FrameType | None) -> None:
    armed.set()


def _begin(_number: int, _frame: FrameType | None) -> None:
    begin.set()


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status of `consumer.verifiable`."""
    parser = argparse.ArgumentParser(prog="python -m zkcoord.demo.actor")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--fault", choices=sorted(CONSUMERS))
    parser.add_argument("options", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    signal.signal(signal.SIGUSR1, _arm)
    if args.fault is not None:
        setattr(verifiable, "KafkaConsumer", CONSUMERS[args.fault])  # noqa: B010  patched here alone
    if args.wait:
        signal.signal(signal.SIGUSR2, _begin)
        tell("waiting")
        begin.wait()
    return verifiable.main([option for option in args.options if option != "--"])


if __name__ == "__main__":
    raise SystemExit(main())
