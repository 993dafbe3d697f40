"""A group that moves from kafka-python to zkcoord and back while its topic is written to: the
journey, and what is counted on the way.

    python -m tests.acceptance.moving HOST:PORT TOPIC GROUP SESSION_TIMEOUT_MS
        a kafka-python consumer that tells what it does as `consumer.verifiable` does; SIGTERM
        closes it

Each leg is processes: the same topic, the same group id. `count` takes the lines of all of them, in
the order of their times, and says what was lost, what came twice, and what came twice although it
had been committed before.
"""

from __future__ import annotations

import faulthandler
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaProducer
from kafka.errors import CommitFailedError
from kafka.structs import TopicPartition

from consumer.verifiable import EventLines, named, ranges_of
from tests.harness.kafka import admin, end_offsets, group_member
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.test_processes import PATIENCE_S, Process, process

RECORDS_PER_TURN, TURN_S = 8, 0.02
OUR_SESSION_MS = 18_000
# a member that does not hear of a rebalance is waited for so long, and for five minutes otherwise
THEIR_REBALANCE_MS = 10_000
THEIR_CLOSE_MS = 5_000  # it waits 30 s otherwise, for an answer that may not come
THEIR_END_S = 20.0  # who has not ended by then says where it stands


@dataclass(frozen=True)
class Count:
    """Records: how many were written, and of those handed out: lost (never), again (more than
    once), again although a commit that covers them was answered before.
    """

    written: int
    lost: int
    again: int
    again_committed: int


@dataclass
class Journey:
    """One topic and group, its records, and the lines of every process that consumed them."""

    broker: str
    zookeeper: str
    topic: str
    partitions: int
    session_timeout_ms: int = 6_000
    lines: list[dict[str, Any]] = field(default_factory=list)
    handed: int = 0

    def kafka_python(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """How to start kafka-python's consumer."""
        return (self.broker, self.topic, self.topic, str(self.session_timeout_ms)), {
            "command": ("-m", "tests.acceptance.moving")
        }

    def zkcoord(self, *more: str) -> tuple[tuple[str, ...], dict[str, Any]]:
        """How to start ours."""
        return (
            "--zookeeper",
            self.zookeeper,
            "--topic",
            self.topic,
            "--group",
            self.topic,
            "--commit",
            "sync",
            "--max-poll-records",
            "50",
            "--session-timeout-ms",
            str(OUR_SESSION_MS),
            *more,
        ), {}

    def leg(
        self,
        start: tuple[tuple[str, ...], dict[str, Any]],
        members: int,
        enough: Callable[[list[Process]], bool],
        end: signal.Signals = signal.SIGTERM,
    ) -> None:
        """Some members until it is enough; then each is ended by a signal, and its lines are
        kept.
        """
        with ExitStack() as running:
            arguments, how = start
            started = [running.enter_context(process(*arguments, **how)) for _ in range(members)]
            try:
                wait_until(
                    lambda: enough(started) or any(p.child.poll() is not None for p in started),
                    3 * PATIENCE_S,
                    "enough of a leg",
                )
            except AssertionError as vain:
                seen = [
                    ({p: len(o) for p, o in m.delivered().items()}, m.lines[-2:], m.errors[-3:])
                    for m in started
                ]
                raise AssertionError(f"{vain} {arguments}: {seen}") from None
            for each in started:
                each.child.send_signal(end)
            for each in started:
                status = each.end()
                assert status == (0 if end is signal.SIGTERM else -end), (status, each.errors)
                self.lines += each.lines

    def share(self, count: int) -> Callable[[list[Process]], bool]:
        """Enough: every member has had `count` records and committed since."""
        return lambda members: all(
            sum(map(len, m.delivered().values())) >= count and m.of("committed") for m in members
        )

    def drained(self, members: list[Process]) -> bool:
        """Enough: everything that was written was handed out."""
        ends = end_offsets(self.broker, self.topic, self.partitions)
        reached = dict.fromkeys(ends, 0)
        for line in itertools.chain(self.lines, *(m.of("records") for m in members)):
            if line["event"] == "records":
                for partition, ranges in line["ranges"].items():
                    number = int(partition.rpartition("-")[2])
                    reached[number] = max(reached[number], *(last + 1 for _, last, _, _ in ranges))
        return all(reached[number] >= end for number, end in ends.items())

    def forgotten_by_kafka(self) -> None:
        """Wait until Kafka has noticed that no member is left, as after a kill."""
        with admin(self.broker) as client:
            wait_until(
                lambda: not client.describe_groups([self.topic])[self.topic]["members"],
                PATIENCE_S,
                "an empty group in Kafka",
            )

    def forget_in_zookeeper(self) -> None:
        """Delete the group's offsets there, which are older than Kafka's: as the guide says to do
        before the group comes back.
        """
        client = connect(self.zookeeper)
        try:
            client.delete(f"/consumers/{self.topic}/offsets", recursive=True)
        finally:
            disconnect(client)

    def count(self) -> Count:
        """What became of the records."""
        ends = end_offsets(self.broker, self.topic, self.partitions)
        return count(self.lines, {f"{self.topic}-{number}": end for number, end in ends.items()})


def count(lines: Iterable[dict[str, Any]], ends: dict[str, int]) -> Count:
    """Of the lines of all processes, and the number of records written to each partition."""
    seen: dict[str, set[int]] = {p: set() for p in ends}
    committed = dict.fromkeys(ends, 0)
    again = again_committed = 0
    for line in sorted(lines, key=lambda each: each["t"]):
        if line["event"] == "committed":
            for partition, offset in line.get("offsets", {}).items():
                committed[partition] = max(committed[partition], offset)
        elif line["event"] == "records":
            for partition, ranges in line["ranges"].items():
                for offset in (o for first, last, _, _ in ranges for o in range(first, last + 1)):
                    if offset in seen[partition]:
                        again += 1
                        again_committed += offset < committed[partition]
                    seen[partition].add(offset)
    return Count(
        sum(ends.values()),
        sum(end - len(seen[p] & set(range(end))) for p, end in ends.items()),
        again,
        again_committed,
    )


@contextmanager
def load(broker: str, topic: str, partitions: int) -> Iterator[Callable[[], None]]:
    """Records into every partition all the time, until the given function is called."""
    over = threading.Event()
    producer = KafkaProducer(bootstrap_servers=broker, acks="all", linger_ms=5)

    def write() -> None:
        for number in itertools.count():
            if over.wait(TURN_S):
                return
            for n in range(RECORDS_PER_TURN):
                producer.send(topic, value=str(number).encode(), partition=n % partitions)

    def stop() -> None:
        over.set()
        writer.join(PATIENCE_S)
        producer.flush(timeout=PATIENCE_S)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield stop
    finally:
        stop()
        producer.close(timeout=PATIENCE_S)


def main(broker: str, topic: str, group: str, session_timeout_ms: str) -> int:
    """kafka-python's consumer: commits each batch and waits for it."""
    journal = EventLines()
    stopping = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        stopping.set()
        faulthandler.dump_traceback_later(THEIR_END_S, exit=True)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    consumer = group_member(
        broker,
        topic,
        group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=int(session_timeout_ms),
        heartbeat_interval_ms=500,
        max_poll_records=500,
        max_poll_interval_ms=THEIR_REBALANCE_MS,
    )
    while not stopping.is_set():
        batch: dict[TopicPartition, list[Any]] = consumer.poll(200)
        if not batch:
            continue
        journal.write(
            "records",
            count=sum(map(len, batch.values())),
            ranges={named(tp): ranges_of(records) for tp, records in batch.items()},
        )
        try:
            consumer.commit()
        except CommitFailedError as error:  # a rebalance came first
            journal.write("committed", error=str(error))
        else:
            journal.write(
                "committed",
                offsets={named(tp): records[-1].offset + 1 for tp, records in batch.items()},
            )
    consumer.close(timeout_ms=THEIR_CLOSE_MS)
    journal.write("closed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
