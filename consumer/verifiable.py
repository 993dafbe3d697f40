"""A consumer process that tells what it does, one JSON object per line on standard output: for the
demo, benchmarks and fault tests.

    python -m consumer.verifiable --zookeeper HOST:PORT/chroot --topic T [--topic U] --group G

Every line has `event` and `t`, wall-clock nanoseconds of this machine. `t` is the moment at which a
thing happened on the thread where it happened, so that several processes' lines can be merged by
it:

    start {host}, registered {name}, assigned {offsets}, revoke {partitions}, revoked {positions},
        lost {partitions, reason}, first_fetch {partition}, notice {kind, detail}: when they
        happened
    called {callback, partitions}: when the application's callback ran
        records {ranges: {partition: [[first, last, count, newest producer timestamp in ms], ..]},
        count}: when handed out
    committed {offsets} or {error}: when a commit was answered
    closing: no record is handed out after this; closed {ms}, error {type, message}: the end

Partitions are written topic-number. `ranges` holds every offset delivered: a new range begins where
offsets are not consecutive. SIGTERM and SIGINT close cleanly; the exit status is 0 then, 1 after an
error, 2 for options that cannot be used.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, Protocol, TextIO

import kafka.errors
from kafka.structs import TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.core.messages import Notice, NoticeKind
from zkcoord.errors import ConfigurationError, ZkcoordError

POLL_MS = 200


class EventLines:
    """Writes lines, whole, from any thread; to standard output where no stream is given."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._lock = threading.Lock()
        self._stream = stream

    def write(self, event: str, t_ns: int | None = None, **fields: Any) -> None:
        """One line."""
        line = json.dumps(
            {"event": event, "t": time.time_ns() if t_ns is None else t_ns, **fields},
            separators=(",", ":"),
        )
        with self._lock:
            stream = self._stream or sys.stdout
            stream.write(line + "\n")
            stream.flush()


def named(tp: tuple[str, int]) -> str:
    """A partition as text."""
    return f"{tp[0]}-{tp[1]}"


class Reporter:
    """An `AssignmentObserver` that writes what it sees. Offsets of an assignment are what is stored
    there, so a line is enough to check hand-overs.
    """

    def __init__(self, journal: EventLines) -> None:
        self.journal = journal

    def on_assigned(self, offsets: Mapping[TopicPartition, int], now_ns: int) -> None:
        """See the module."""
        self.journal.write("assigned", now_ns, offsets={named(tp): o for tp, o in offsets.items()})

    def on_revoke(self, partitions: Iterable[TopicPartition], now_ns: int) -> None:
        """See the module."""
        self.journal.write("revoke", now_ns, partitions=sorted(map(named, partitions)))

    def on_revoked(self, positions: Mapping[TopicPartition, int], now_ns: int) -> None:
        """See the module."""
        self.journal.write(
            "revoked", now_ns, positions={named(tp): o for tp, o in positions.items()}
        )

    def on_lost(self, partitions: Iterable[TopicPartition], reason: str, now_ns: int) -> None:
        """See the module."""
        self.journal.write("lost", now_ns, partitions=sorted(map(named, partitions)), reason=reason)

    def on_first_fetch(self, partition: TopicPartition, now_ns: int) -> None:
        """See the module."""
        self.journal.write("first_fetch", now_ns, partition=named(partition))

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        """See the module."""
        if notice.kind is NoticeKind.REGISTERED:
            self.journal.write("registered", now_ns, **notice.detail)
        else:
            self.journal.write("notice", now_ns, kind=notice.kind.value, detail=dict(notice.detail))


class Callbacks:
    """The application's listener."""

    def __init__(self, journal: EventLines) -> None:
        self.journal = journal

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Report it."""
        self.journal.write("called", callback="revoked", partitions=sorted(map(named, revoked)))

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Report it."""
        self.journal.write("called", callback="assigned", partitions=sorted(map(named, assigned)))

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Report it."""
        self.journal.write("called", callback="lost", partitions=sorted(map(named, lost)))


def ranges_of(records: Sequence[Any]) -> list[list[int]]:
    """[[first offset, last offset, count, newest timestamp], ..] of records in order."""
    found: list[list[int]] = []
    for record in records:
        if found and record.offset == found[-1][1] + 1:
            last = found[-1]
            last[1], last[2], last[3] = record.offset, last[2] + 1, max(last[3], record.timestamp)
        else:
            found.append([record.offset, record.offset, 1, record.timestamp])
    return found


class VerifiableConsumer(Protocol):
    """As much of a `KafkaConsumer` as is used here."""

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None
    ) -> None:
        """See `KafkaConsumer.subscribe`."""
        ...

    def poll(self, timeout_ms: float = 0) -> dict[TopicPartition, list[Any]]:
        """See `KafkaConsumer.poll`."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """See `KafkaConsumer.commit`."""
        ...

    def commit_async(self) -> Any:
        """See `KafkaConsumer.commit_async`."""
        ...

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """See `KafkaConsumer.close`."""
        ...


MakeConsumer = Callable[..., VerifiableConsumer]


class Verifiable:
    """The process's work. `make_consumer` is called with the options of a `KafkaConsumer`."""

    def __init__(
        self, args: argparse.Namespace, make_consumer: MakeConsumer = KafkaConsumer
    ) -> None:
        self.args = args
        self._make_consumer = make_consumer
        self.journal = EventLines()
        self.stopping = False
        self.delivered = 0

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """A signal: close after this poll."""
        self.stopping = True

    def configs(self) -> dict[str, Any]:
        """The consumer's options."""
        a = self.args
        configs: dict[str, Any] = {
            "zookeeper_connect": a.zookeeper,
            "group_id": a.group,
            "zookeeper_session_timeout_ms": a.session_timeout_ms,
            "zookeeper_layout": a.layout,
            "zookeeper_connection_timeout_ms": a.connection_timeout_ms,
            "guardian": not a.no_guardian,
            "failsafe": a.failsafe,
            "enable_auto_commit": a.commit == "auto",
            "auto_commit_interval_ms": a.commit_interval_ms,
            "auto_offset_reset": a.reset,
            "max_poll_records": a.max_poll_records,
            "partition_assignment_strategy": a.assignor.split(","),
            "observer": Reporter(self.journal),
            "default_offset_commit_callback": self.committed,
        }
        for name in (
            "consumer_id",
            "group_instance_id",
            "group_instance_grace_ms",
            "rebalance_protocol",
            "bootstrap_servers",
            "bootstrap_timeout_ms",
            "max_poll_interval_ms",
            "rebalance_timeout_ms",
            "client_id",
            "initial_offsets",
            "offsets_storage",
        ):
            if getattr(a, name) is not None:
                configs[name] = getattr(a, name)
        return configs

    def committed(self, offsets: Mapping[TopicPartition, Any], answer: Any) -> None:
        """How a commit ended."""
        if isinstance(answer, Exception):
            self.journal.write("committed", error=f"{type(answer).__name__}: {answer}")
        else:
            self.journal.write(
                "committed",
                offsets={named(tp): getattr(o, "offset", o) for tp, o in offsets.items()},
            )

    def run(self) -> int:
        """Consume until stopped; the exit status."""
        self.journal.write(
            "start",
            host=platform.node(),
            group=self.args.group,
            topics=self.args.topic,
            pattern=self.args.pattern,
        )
        consumer: VerifiableConsumer | None = None
        status = 0
        try:
            consumer = self._make_consumer(**self.configs())
            consumer.subscribe(
                self.args.topic or (),
                pattern=self.args.pattern,
                listener=Callbacks(self.journal) if self.args.listener else None,
            )
            while not self.stopping and not 0 < self.args.max_records <= self.delivered:
                self.turn(consumer)
        except (ZkcoordError, kafka.errors.KafkaError, ValueError, TypeError) as error:
            self.journal.write(
                "error",
                type=type(error).__name__,
                message=str(error.args[0] if error.args else error),
            )
            # one write: other threads log
            sys.stderr.write(f"{error.args[0] if error.args else error}\n")
            status = 2 if isinstance(error, ConfigurationError) else 1
        self.journal.write("closing")
        began = time.monotonic()
        if consumer is not None:
            consumer.close(timeout_ms=self.args.close_timeout_ms)
        self.journal.write(
            "closed", ms=round((time.monotonic() - began) * 1000, 1), delivered=self.delivered
        )
        return status

    def turn(self, consumer: VerifiableConsumer) -> None:
        """One poll and what follows."""
        batch = consumer.poll(POLL_MS)
        handed_out_ns = time.time_ns()
        if not batch:
            return
        count = sum(map(len, batch.values()))
        self.delivered += count
        self.journal.write(
            "records",
            handed_out_ns,
            count=count,
            ranges={named(tp): ranges_of(records) for tp, records in batch.items()},
        )
        delay_s = (self.args.batch_delay_ms + count * self.args.record_delay_ms) / 1000
        if delay_s:
            time.sleep(delay_s)
        if self.args.commit == "sync":
            offsets = {tp: records[-1].offset + 1 for tp, records in batch.items()}
            try:
                consumer.commit(offsets)
                self.committed(offsets, None)
            except kafka.errors.KafkaError as error:
                self.committed(offsets, error)
        elif self.args.commit == "async":
            consumer.commit_async()


class VerifiableParser(argparse.ArgumentParser):
    """Refuses in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Exit status 2."""
        self.exit(2, f"{self.prog}: {message}: see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = VerifiableParser(
        prog="python -m consumer.verifiable",
        description="A consumer that reports everything it does as JSON lines.",
    )
    p.add_argument("--zookeeper", required=True, metavar="HOSTS[/chroot]")
    p.add_argument("--group", required=True)
    p.add_argument("--topic", action="append", help="may be given several times")
    p.add_argument(
        "--pattern", help="instead of --topic: a regular expression that matches whole names"
    )
    p.add_argument("--bootstrap-servers", help="default: the brokers registered in ZooKeeper")
    p.add_argument("--commit", choices=("auto", "sync", "async", "none"), default="auto")
    p.add_argument("--commit-interval-ms", type=int, default=5_000, help="of automatic commits")
    p.add_argument(
        "--record-delay-ms", type=float, default=0.0, help="the handler's time per record"
    )
    p.add_argument("--batch-delay-ms", type=float, default=0.0, help="the handler's time per poll")
    p.add_argument("--session-timeout-ms", type=int, default=18_000)
    p.add_argument(
        "--connection-timeout-ms",
        type=int,
        default=10_000,
        help="for the first connection to ZooKeeper",
    )
    p.add_argument("--bootstrap-timeout-ms", type=int, help="for the first answer of a broker")
    p.add_argument("--max-poll-records", type=int, default=500)
    p.add_argument("--max-poll-interval-ms", type=int)
    p.add_argument("--rebalance-timeout-ms", type=int)
    p.add_argument(
        "--max-records", type=int, default=0, help="close after so many (0: only when stopped)"
    )
    p.add_argument("--close-timeout-ms", type=int, default=10_000)
    p.add_argument(
        "--assignor", default="sticky", help="names in order of preference, separated by commas"
    )
    p.add_argument("--reset", choices=("earliest", "latest", "none"), default="earliest")
    p.add_argument("--initial-offsets", choices=("kafka", "reset", "refuse"))
    p.add_argument("--offsets-storage", choices=("zookeeper", "dual", "kafka"))
    p.add_argument("--layout", choices=("draft", "isolated"), default="draft")
    p.add_argument("--consumer-id")
    p.add_argument("--client-id")
    p.add_argument("--group-instance-id", help="be a static member")
    p.add_argument(
        "--group-instance-grace-ms",
        type=int,
        help="for how long its partitions are kept for its return",
    )
    p.add_argument("--rebalance-protocol", choices=("cooperative", "eager"))
    p.add_argument("--no-guardian", action="store_true")
    p.add_argument(
        "--failsafe",
        action="store_true",
        help="go on with what is owned while no ZooKeeper server serves anybody",
    )
    p.add_argument(
        "--listener",
        action="store_true",
        help="subscribe with a rebalance listener and report its calls",
    )
    return p


def main(argv: Sequence[str] | None = None, make_consumer: MakeConsumer = KafkaConsumer) -> int:
    """Run; the exit status."""
    command_line = parser()
    args = command_line.parse_args(argv)
    if bool(args.topic) == (args.pattern is not None):
        command_line.error("give either --topic or --pattern")
    work = Verifiable(args, make_consumer)
    signal.signal(signal.SIGTERM, work.stop)
    signal.signal(signal.SIGINT, work.stop)
    return work.run()


if __name__ == "__main__":
    raise SystemExit(main())
