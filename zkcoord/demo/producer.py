"""The demo's producer: `python -m zkcoord.demo.producer --bootstrap-servers B --topic T
--partitions N --rate R`.

Records go round all partitions at an even rate; a record's value is its partition-unique sequence
number and the time it was sent (ns), padded to `--value-bytes`. The producer is idempotent and
waits for all replicas, so that a record's offset is its sequence number: if the broker ever says
otherwise, that is an error here, because then counting would prove nothing.

It prints JSON lines: produced {ends: {partition: records acknowledged}} every `REPORT_S`,
partitions {count} when the topic has grown, stopped at the end with the final ends. `ends` are next
offsets. SIGTERM and SIGINT stop it: what was sent is flushed first.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from types import FrameType
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

REPORT_S = 0.1
SLICE_S = 0.02
GROWTH_CHECK_S = 0.25
FLUSH_TIMEOUT_S = 20.0
LINGER_MS = 10
PRODUCTS = 8


class Producer:
    """The process's work. Only the sending thread counts `sent`; acknowledgements are counted on
    kafka-python's thread under `lock`.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.stopping = False
        self.sent = [0] * args.partitions
        self.acknowledged = [0] * args.partitions
        self.lock = threading.Lock()
        self.failure: str | None = None
        self.kafka = KafkaProducer(
            bootstrap_servers=args.bootstrap_servers,
            acks="all",
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            metadata_max_age_ms=int(GROWTH_CHECK_S * 1000),
        )

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """A signal: stop after this slice."""
        self.stopping = True

    def _stopped(self) -> bool:
        """Whether a signal has come; asked anew, since it comes in between."""
        return self.stopping

    def run(self) -> int:
        """Produce until stopped; the exit status."""
        began = time.monotonic()
        reported = grown = began
        count = 0
        while not self.stopping and self.failure is None:
            now = time.monotonic()
            due = int((now - began) * self.args.rate)
            # what is behind catches up a slice at a time, and goes on telling and growing meanwhile
            while count < due and not self._stopped() and time.monotonic() - now < REPORT_S:
                self.send(count % len(self.sent))
                count += 1
            if now - reported >= REPORT_S:
                reported = now
                self.report("produced")
            if now - grown >= GROWTH_CHECK_S:
                grown = now
                self.grow()
            time.sleep(SLICE_S)
        self.kafka.flush(timeout=FLUSH_TIMEOUT_S)
        self.kafka.close(timeout=FLUSH_TIMEOUT_S)
        self.report("produced")
        self.report("stopped")
        if self.failure is None and self.sent != self.acknowledged:
            self.failure = (
                f"{sum(self.sent) - sum(self.acknowledged)} records were sent and never"
                " acknowledged"
            )
        if self.failure is not None:
            print(self.failure, file=sys.stderr)
        return 0 if self.failure is None else 1

    def send(self, partition: int) -> None:
        """Send the partition's next record."""
        sequence = self.sent[partition]
        value = (
            order(partition, sequence)
            if self.args.orders
            else f"{sequence},{time.time_ns()}".encode().ljust(self.args.value_bytes, b".")
        )
        self.sent[partition] = sequence + 1
        future = self.kafka.send(self.args.topic, value=value, partition=partition)
        future.add_callback(partial(self.acknowledge, partition, sequence))
        future.add_errback(self.fail)

    def acknowledge(self, partition: int, sequence: int, metadata: Any) -> None:
        """On kafka-python's thread: the broker has it."""
        if metadata.offset != sequence:
            self.failure = (
                f"record {sequence} of partition {partition} got offset {metadata.offset}: the"
                " topic was not empty, or the broker lost or doubled a record"
            )
        with self.lock:
            self.acknowledged[partition] += 1

    def fail(self, error: BaseException) -> None:
        """On kafka-python's thread: a record is not in the topic."""
        self.failure = f"a record could not be produced: {error!r}"

    def grow(self) -> None:
        """Use the partitions that came since."""
        known = self.kafka.partitions_for(self.args.topic)
        count = len(known) if known else 0
        if count > len(self.sent):
            with self.lock:
                self.acknowledged += [0] * (count - len(self.sent))
            self.sent += [0] * (count - len(self.sent))
            tell("partitions", count=count)

    def report(self, event: str) -> None:
        """One line with what is acknowledged."""
        with self.lock:
            ends = {
                f"{self.args.topic}-{number}": count
                for number, count in enumerate(self.acknowledged)
            }
        tell(event, ends=ends)


def order(partition: int, sequence: int) -> bytes:
    """An order, as docs/examples/spark_pipeline.py takes it."""
    at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    return json.dumps(
        {
            "order": partition * 10**9 + sequence,
            "product": f"p{sequence % PRODUCTS}",
            "cents": 100 + sequence % 900,
            "at": at,
        }
    ).encode()


def tell(event: str, **fields: Any) -> None:
    """One JSON line."""
    print(
        json.dumps({"event": event, "t": time.time_ns(), **fields}, separators=(",", ":")),
        flush=True,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m zkcoord.demo.producer")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--rate", type=int, default=2_400, help="records per second")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--orders", action="store_true", help="values are orders in JSON instead")
    try:
        producer = Producer(parser.parse_args(argv))
    except KafkaError as error:
        print(f"no broker can be reached: {error}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, producer.stop)
    signal.signal(signal.SIGINT, producer.stop)
    return producer.run()


if __name__ == "__main__":
    raise SystemExit(main())
