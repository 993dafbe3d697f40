"""A group's life on a topic that grows: members of any kind share it, leave, and come back.

A member is what can `close`, which leaves the group with everything committed that was handed out,
and has `taken`: (partition, offset) of what that was.
"""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from consumer import WhiteList
from tests.harness.kafka import add_partitions, create_topic, produce, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import consumer
from tests.kafka.test_streams import Worker, connector
from tests.legacy.broker_checks import Against, consume, decode
from tests.spark.applications import Application

PATIENCE_S = 90.0
SPARK_PATIENCE_S = 240.0
EACH = 40
FIRST, GROWN = 4, 6
SHOWN = 5
Taken = list[tuple[int, int]]


class GroupMember(Protocol):
    """See the module."""

    @property
    def taken(self) -> Taken:
        """What it was handed out so far."""
        ...

    def close(self) -> None:
        """Leave."""


Begin = Callable[[str, str], GroupMember]
"""Begins a member of this group, which wants this topic from its first record on."""


class Polled:
    """A consumer with kafka-python's interface, polled on a thread of its own."""

    def __init__(self, one: Any) -> None:
        self._consumer = one
        self._taken: Taken = []
        self._stop = threading.Event()
        threads = ThreadPoolExecutor(1)
        self._polling = threads.submit(self._poll)
        threads.shutdown(wait=False)

    def _poll(self) -> None:
        try:
            while not self._stop.is_set():
                for tp, records in self._consumer.poll(50).items():
                    self._taken += [(tp.partition, record.offset) for record in records]
        finally:
            self._consumer.close()

    @property
    def taken(self) -> Taken:
        """Raises what ended it."""
        if self._polling.done():
            self._polling.result()
        return list(self._taken)

    def close(self) -> None:
        """See `GroupMember`."""
        self._stop.set()
        self._polling.result(PATIENCE_S)


class Streamed:
    """A connector of the old high-level consumer's, with one stream."""

    def __init__(self, hosts: str, group: str, topic: str) -> None:
        self._connector = connector(hosts, group)
        self._worker = Worker(self._connector.create_message_streams({topic: 1})[topic][0])

    @property
    def taken(self) -> Taken:
        """Raises what ended its thread."""
        if self._worker.error is not None:
            raise self._worker.error
        return [(one.partition, one.offset) for one in list(self._worker.taken)]

    def close(self) -> None:
        """See `GroupMember`."""
        self._connector.shutdown()
        self._worker.thread.join(PATIENCE_S)


class Sparked:
    """A Spark application in its JVM; another one on the same folder goes on from its
    checkpoint.
    """

    def __init__(self, hosts: str, folder: Path, engine: str, group: str, topic: str) -> None:
        options = (f"engine={engine}",)
        self._application = Application(hosts, group, topic, folder, options=options)
        self._application.await_event("started", SPARK_PATIENCE_S)

    @property
    def taken(self) -> Taken:
        """What this run has written. Raises what ended it."""
        one = self._application
        assert not one.process.poll(), one.tail()
        lines = one.folder / f"batches-{one.process.pid}.jsonl"
        return [
            (int(partition), offset)
            for line in (lines.read_text(encoding="utf-8") if lines.exists() else "").splitlines()
            for partition, offsets in json.loads(line)["offsets"].items()
            for offset in offsets
        ]

    def close(self) -> None:
        """See `GroupMember`."""
        one = self._application
        try:
            assert one.ask(signal.SIGTERM) == 0, one.tail()
        finally:
            one.clean()


class GrowingTopic:
    """A topic of a group's own, and what is in it."""

    def __init__(self, at: Against) -> None:
        self._at = at
        self.name, self.group = create_topic(at.address, unique("grows"), FIRST), unique("group")
        self.ends = dict.fromkeys(range(FIRST), 0)

    def produce(self) -> None:
        """So many records more for each partition."""
        values = {
            n: [b"%d:%d" % (n, offset) for offset in range(end, end + EACH)]
            for n, end in self.ends.items()
        }
        produce(self._at.address, self.name, values)
        self.ends = {n: end + EACH for n, end in self.ends.items()}

    def grow(self) -> None:
        """More partitions."""
        add_partitions(self._at.address, self.name, GROWN)
        self.ends |= dict.fromkeys(range(FIRST, GROWN), 0)

    def shared(self, count: int) -> None:
        """Until so many members own all of it, evenly."""

        def is_shared() -> bool:
            owners = self._at.owners(self.group, self.name)
            sizes = Counter(owners.values()).values()
            return (
                owners.keys() == self.ends.keys()
                and len(sizes) == count
                and max(sizes) - min(sizes) <= 1
            )

        wait_until(is_shared, PATIENCE_S, f"{len(self.ends)} partitions owned by {count}")

    def all_taken(self, members: Iterable[GroupMember]) -> None:
        """Until each record was handed out, and none of them twice."""
        listed = list(members)
        every = {(n, offset) for n, end in self.ends.items() for offset in range(end)}

        def missing() -> set[tuple[int, int]]:
            return every.difference(*(one.taken for one in listed))

        wait_until(
            lambda: not missing(), PATIENCE_S, f"all of {len(every)} records to be handed out"
        )
        times = Counter(record for one in listed for record in one.taken)
        again = {record: count for record, count in times.items() if count > 1}
        assert not again, f"handed out more than once: {dict(list(again.items())[:SHOWN])}"
        assert times.keys() == every


def life(begin: Begin, at: Against, second: Begin | None = None) -> str:
    """Two members share a topic, which grows; one leaves, then the other one; a third goes on where
    they have ended. `second` begins the second one.
    """
    topic = GrowingTopic(at)
    topic.produce()
    members: list[GroupMember] = []
    with ExitStack() as ends:

        def join(how: Begin) -> ExitStack:
            members.append(how(topic.group, topic.name))
            leaving = ends.enter_context(ExitStack())
            leaving.callback(members[-1].close)
            return leaving

        first, other = join(begin), join(second or begin)
        topic.shared(2)
        topic.produce()
        topic.all_taken(members)
        topic.grow()
        topic.shared(2)
        topic.produce()
        topic.all_taken(members)
        other.close()
        topic.shared(1)
        topic.produce()
        topic.all_taken(members)
        first.close()
        assert at.stored(topic.group, topic.name) == topic.ends
        topic.produce()
        join(begin)
        topic.all_taken(members)
    assert at.stored(topic.group, topic.name) == topic.ends
    return f"{sum(topic.ends.values())} records"


def shim(client: str, at: Against) -> str:
    """Members of zkcoord's own, with this data client."""
    read = consume(client, at)
    with at.coordinator():
        lived = life(
            lambda group, topic: Polled(consumer(at.hosts, group, topic, data_client=client)), at
        )
    return f"{read}, {lived}"


def streams(at: Against) -> str:
    """Message streams; and a filter, which takes up a topic that is made meanwhile."""
    family = unique("family")
    before, after = (f"{family}-{name}" for name in ("before", "after"))
    with at.coordinator():
        lived = life(partial(Streamed, at.hosts), at)
        create_topic(at.address, before, 1)
        produce_numbered(at.address, before, 1, EACH)
        one = connector(at.hosts, family)
        try:
            (stream,) = one.create_message_streams_by_filter(WhiteList(f"{family}-.*"), 1)
            worker = Worker(stream)
            wanted = {(before, 0): list(range(EACH))}
            wait_until(lambda: worker.offsets() == wanted, PATIENCE_S, "the records of the first")
            create_topic(at.address, after, 1)
            produce_numbered(at.address, after, 1, EACH)
            wanted |= {(after, 0): list(range(EACH))}
            wait_until(lambda: worker.offsets() == wanted, PATIENCE_S, "those of the new one")
        finally:
            one.shutdown()
    return lived


def spark(engine: str, at: Against) -> str:
    """What the engine reads; and an application that shares a group with a shim, is stopped, and
    goes on from its checkpoint.
    """
    decoded = decode(engine, at)
    with at.coordinator():
        lived = life(
            partial(Sparked, at.hosts, at.folder / "application", engine),
            at,
            lambda group, topic: Polled(consumer(at.hosts, group, topic)),
        )
    return f"{decoded}; {lived}"
