"""A consumer of the demo: `consumer.verifiable`, unless an option makes it wait before it begins,
or break something.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, Protocol

from kafka.structs import TopicPartition

from consumer import verifiable
from consumer.api.kafka_consumer import KafkaConsumer

RECORDS_MIN = 5

armed = threading.Event()
begin = threading.Event()


Batch = dict[TopicPartition, list[Any]]


class SeekableConsumer(verifiable.VerifiableConsumer, Protocol):
    """What a consumer needs so that its position can be set back."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `KafkaConsumer.seek`."""
        ...


Fault = Callable[[SeekableConsumer, Batch], None]


def drop(consumer: SeekableConsumer, batch: Batch) -> None:
    """Everything but the largest part of this batch reaches the application."""
    if len(batch) > 1 and len(batch[_largest(batch)]) >= RECORDS_MIN:
        at = _largest(batch)
        _done(at, batch.pop(at))


def repeat(consumer: SeekableConsumer, batch: Batch) -> None:
    """The largest part of this batch comes again."""
    if batch and len(batch[_largest(batch)]) >= RECORDS_MIN:
        at = _largest(batch)
        consumer.seek(at, batch[at][0].offset)
        _done(at, batch[at])


FAULTS: dict[str, Fault] = {"lost": drop, "duplicate": repeat}


def _done(at: TopicPartition, records: list[Any]) -> None:
    armed.clear()
    report(
        "fault",
        partition=f"{at.topic}-{at.partition}",
        first=records[0].offset,
        last=records[-1].offset,
    )


class FaultyConsumer:
    """A consumer behind a fault that happens once, in the first batch after `armed` was set
    that is large enough. The `VerifiableConsumer` of the demo.
    """

    def __init__(self, fault: Fault, make: Callable[..., SeekableConsumer], **configs: Any) -> None:
        self._consumer = make(**configs)
        self._fault = fault

    def poll(self, timeout_ms: float = 0) -> Batch:
        """See `KafkaConsumer.poll`."""
        batch = self._consumer.poll(timeout_ms)
        if armed.is_set():
            self._fault(self._consumer, batch)
        return batch

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None
    ) -> None:
        """See `KafkaConsumer.subscribe`."""
        self._consumer.subscribe(topics, pattern, listener)

    def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """See `KafkaConsumer.commit`."""
        self._consumer.commit(offsets)

    def commit_async(self) -> Any:
        """See `KafkaConsumer.commit_async`."""
        return self._consumer.commit_async()

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """See `KafkaConsumer.close`."""
        self._consumer.close(autocommit, timeout_ms)


def _largest(batch: Batch) -> TopicPartition:
    return max(batch, key=lambda at: len(batch[at]))


def report(event: str, **fields: Any) -> None:
    """One JSON line, in one write."""
    sys.stdout.write(
        json.dumps({"event": event, "t": time.time_ns(), **fields}, separators=(",", ":")) + "\n"
    )
    sys.stdout.flush()


def _arm(_number: int, _frame: FrameType | None) -> None:
    armed.set()


def _begin(_number: int, _frame: FrameType | None) -> None:
    begin.set()


def main(
    argv: Sequence[str] | None = None, make: Callable[..., SeekableConsumer] = KafkaConsumer
) -> int:
    """Run a consumer that `make` makes of a `KafkaConsumer`'s options; the exit status of
    `consumer.verifiable`.
    """
    parser = argparse.ArgumentParser(prog="python -m zkcoord.demo.actor")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--fault", choices=sorted(FAULTS))
    parser.add_argument("options", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    signal.signal(signal.SIGUSR1, _arm)
    if args.wait:
        signal.signal(signal.SIGUSR2, _begin)
        report("waiting")
        begin.wait()
    return verifiable.main(
        [option for option in args.options if option != "--"],
        make if args.fault is None else partial(FaultyConsumer, FAULTS[args.fault], make),
    )


if __name__ == "__main__":
    raise SystemExit(main())
