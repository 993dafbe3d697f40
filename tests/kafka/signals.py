"""Consumers that are sent a signal at a random moment, and what is held against them afterwards.

`run` starts one process that consumes (`python -m tests.kafka.signals CASE`, below), waits until it
is at work, sends SIGTERM after a random time, and waits for its end. The process tells what it was
given, what it asked to commit and what was stored, so that the offsets in ZooKeeper can be judged.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

WORKS = ("poll", "poll_commit", "iterate", "iterate_commit", "callbacks", "streams", "start")
HANDLERS = ("close", "exit", "wakeup")
CLIENTS = ("kafka-python", "librdkafka")
RECORDS_PER_POLL = 20
DELAY_MAX_S = 0.4
COMMAND = ("-X", "faulthandler", "-m", "tests.kafka.signals")
HANG_S = 60.0
SOON_S = 2.0


@dataclass(frozen=True)
class Case:
    """What one process does, and what its handler does: close and go on, close and `sys.exit`, or
    set a flag and wake up.
    """

    hosts: str
    topic: str
    group: str
    work: str
    handler: str
    client: str
    delay_s: float

    @property
    def stores_automatically(self) -> bool:
        return self.work in ("poll", "iterate", "streams", "start")


@dataclass
class Told:
    """What the process tells as it ends. Offsets are next offsets by partition."""

    # After the last record that the application was given.
    given: dict[str, int] = field(default_factory=dict)
    # Of the last commit that was asked for, and of the last that returned.
    asked: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    # Whether the handler interrupted the application's own code.
    outside: bool = False
    # Whether the last record given was still being worked on.
    in_hand: bool = False
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """One process: what it told (None: it was killed because it hung), how it ended, and how long
    that took from the signal on.
    """

    case: Case
    told: Told | None
    status: int
    seconds: float
    errors: str


def cases(hosts: str, topic: str, count: int, seed: int) -> list[Case]:
    """So many, each kind as often as the others; delays and order by the seed."""
    drawn = random.Random(seed)
    kinds = [
        (work, handler, client)
        for work in WORKS
        for handler in HANDLERS
        for client in CLIENTS
        if (work, handler) != ("streams", "wakeup")
    ]
    drawn.shuffle(kinds)
    return [
        Case(
            hosts,
            topic,
            f"{topic}-{n}-{seed}",
            *kinds[n % len(kinds)],
            drawn.random() * DELAY_MAX_S,
        )
        for n in range(count)
    ]


def run(case: Case) -> Outcome:
    """One signal."""
    child = subprocess.Popen(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "tests.kafka.signals",
            json.dumps(asdict(case)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(child.stderr or ()), daemon=True)
    reader.start()
    assert child.stdout is not None
    try:
        child.stdout.readline()  # it is at work
        time.sleep(case.delay_s)  # the moment is what is tried
        child.send_signal(signal.SIGTERM)
        sent = time.monotonic()
        watch = threading.Timer(HANG_S, child.send_signal, [signal.SIGABRT])  # says where it hangs
        watch.start()
        line = child.stdout.readline()
        status = child.wait()
        took = time.monotonic() - sent
        watch.cancel()
        reader.join()
        return Outcome(
            case, Told(**json.loads(line)) if line else None, status, took, "".join(errors)
        )
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def wrong_with(outcome: Outcome, committed: dict[str, int]) -> str:
    """What is wrong with one outcome, given what is stored; "" for nothing."""
    case, told = outcome.case, outcome.told
    if told is None or outcome.status != 0:
        return f"ended with {outcome.status}"
    if told.error:
        return told.error
    if case.work == "streams" and told.in_hand and case.handler == "exit":
        return ""
    for partition in committed.keys() | told.given.keys() | told.stored.keys():
        now = committed.get(partition, 0)
        if case.stores_automatically:
            low = high = told.given.get(partition, 0)
            if told.outside:
                # the handler may have come between the hand-out and its note
                high += 1 if case.work == "iterate" else RECORDS_PER_POLL
        else:
            low, high = told.stored.get(partition, 0), told.asked.get(partition, 0)
        if not low <= now <= high:
            return f"partition {partition} is stored at {now}, not within {low}..{high}: {told}"
    return ""


# the process


class Stop(Exception):
    """The flag of the handler was seen."""


class Application:
    """What a process does until its handler ends it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.told = Told()
        self.consumer: Any = None
        self.stop = False
        self.said = False

    def handle(self, _number: int, frame: Any) -> None:
        self.told.outside = frame.f_code.co_filename == __file__
        if self.case.handler == "wakeup":
            self.stop = True
            if self.consumer is not None:
                self.consumer.wakeup()
            return
        self.stop = self.case.work == "start"  # which would make another one
        consumer = self.consumer
        if consumer is not None:
            (consumer.shutdown if self.case.work == "streams" else consumer.close)()
        if self.case.handler == "exit" or consumer is None:
            sys.exit(0)

    def working(self) -> None:
        if not self.said:
            self.said = True
            print("at work", flush=True)

    def open(self, **more: Any) -> Any:
        from consumer import KafkaConsumer

        case = self.case
        self.consumer = KafkaConsumer(
            group_id=case.group,
            zookeeper_connect=case.hosts,
            auto_offset_reset="earliest",
            enable_auto_commit=case.stores_automatically,
            data_client=case.client,
            max_poll_records=RECORDS_PER_POLL,
            auto_commit_interval_ms=20,
            **more,
        )
        return self.consumer

    def note(self, partition: int, offset: int) -> None:
        self.told.given[str(partition)] = offset + 1

    def commit(self) -> None:
        self.told.asked = dict(self.told.given)
        self.consumer.commit()
        self.told.stored = dict(self.told.asked)

    def look(self) -> None:
        if self.stop:
            raise Stop

    def poll(self, then: Any = None) -> None:
        consumer = self.open()
        consumer.subscribe([self.case.topic])
        while True:
            for tp, records in consumer.poll(500).items():
                self.note(tp.partition, records[-1].offset)
            if self.told.given:
                self.working()
            self.look()
            if then is not None:
                then()

    def poll_commit(self) -> None:
        self.poll(self.commit)

    def iterate(self, then: Any = None) -> None:
        consumer = self.open()
        consumer.subscribe([self.case.topic])
        for record in consumer:
            self.note(record.partition, record.offset)
            self.working()
            self.look()
            if then is not None:
                then()

    def iterate_commit(self) -> None:
        self.iterate(self.commit)

    def callbacks(self) -> None:
        from consumer import ConsumerRebalanceListener

        application = self

        class Committing(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                application.commit()

            def on_partitions_assigned(self, assigned: Any) -> None:
                for tp in sorted(assigned):
                    application.consumer.position(tp)

        consumer = self.open()
        while True:
            consumer.subscribe([self.case.topic], listener=Committing())
            seen = False
            while not seen:
                for tp, records in consumer.poll(500).items():
                    self.note(tp.partition, records[-1].offset)
                    seen = True
                self.look()
            self.working()
            consumer.unsubscribe()
            self.told.given = dict(self.told.stored)

    def streams(self) -> None:
        from consumer import ZookeeperConsumerConnector

        case = self.case
        self.consumer = ZookeeperConsumerConnector(
            {
                "zookeeper.connect": case.hosts,
                "group.id": case.group,
                "auto.offset.reset": "smallest",
                "auto.commit.interval.ms": 20,
            },
            data_client=case.client,
            max_poll_records=RECORDS_PER_POLL,
        )
        (stream,) = self.consumer.create_message_streams({case.topic: 1})[case.topic]
        for message in stream:
            self.told.in_hand = True
            self.note(message.partition, message.offset)
            self.working()
            self.told.in_hand = False

    def start(self) -> None:
        """Made and closed again and again, so that the signal comes while it is being made."""
        while True:
            self.working()
            self.consumer = self.open()
            self.consumer.subscribe([self.case.topic])
            for tp, records in self.consumer.poll(50).items():
                self.note(tp.partition, records[-1].offset)
            self.look()
            self.consumer.close()

    def run(self) -> None:
        # what is raised while modules are loaded may be lost in any of them
        from kafka.errors import IllegalStateError

        from consumer import KafkaConsumer, ZookeeperConsumerConnector  # noqa: F401

        signal.signal(signal.SIGTERM, self.handle)
        try:
            getattr(self, self.case.work)()
        except (Stop, SystemExit):
            pass
        except IllegalStateError as e:
            # what a consumer says that the handler has closed
            if self.case.handler == "wakeup" or "closed" not in str(e):
                raise
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if self.consumer is not None:
                with contextlib.suppress(IllegalStateError):
                    (
                        self.consumer.shutdown
                        if self.case.work == "streams"
                        else self.consumer.close
                    )()


def main() -> None:
    application = Application(Case(**json.loads(sys.argv[1])))
    try:
        application.run()
    except Exception as e:
        application.told.error = repr(e)
        raise
    finally:
        print(json.dumps(asdict(application.told)), flush=True)


if __name__ == "__main__":
    main()
