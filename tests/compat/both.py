"""The sides of every comparison (kafka-python's consumer; ours; ours with librdkafka underneath):
how each consumer is made, and what tests do with any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import TopicPartition

import consumer
from consumer.fetch.librdkafka.fetcher import LibrdkafkaFetcher
from tests.harness.kafka import unique
from tests.harness.wait import wait_until

PATIENCE_S = 90.0
SESSION_MS = 6_000
HEARTBEAT_MS = 100
KAFKA_PYTHON, ZKCOORD, LIBRDKAFKA = SIDES = ("kafka-python", "zkcoord", "librdkafka")
DIFFERED: dict[str, set[str]] = {}  # by test: the differences that it asked for


class Side:
    """One of the consumers, on a broker. `bare` makes one without a group, `member` one in a group;
    all are closed at the end of the test.
    """

    def __init__(self, name: str, broker: str, zookeeper: str, test: str) -> None:
        self.name = name
        self.test = test
        self.broker = broker
        self.zookeeper = zookeeper
        self.stack = ExitStack()

    @property
    def ours(self) -> bool:
        """Is this our consumer?"""
        return self.name != KAFKA_PYTHON

    @property
    def client(self) -> dict[str, Any]:
        """The option that makes the difference between our two sides."""
        return {"data_client": "librdkafka"} if self.name == LIBRDKAFKA else {}

    def differs(self, what: str) -> bool:
        """Is this the side that differs? `what` is the name of a line of the table of differences
        in docs/consumer.md.
        """
        DIFFERED.setdefault(self.test, set()).add(what)
        return self.ours

    @property
    def consumer_class(self) -> Any:
        """The class under test."""
        return consumer.KafkaConsumer if self.ours else kafka.KafkaConsumer

    def bare(self, *topics: str, **configs: Any) -> Any:
        """A consumer without a group, which begins at the first record."""
        return self._kept(
            self.consumer_class(
                *topics,
                **{
                    "bootstrap_servers": self.broker,
                    "auto_offset_reset": "earliest",
                    **self.client,
                    **configs,
                },
            )
        )

    def member(self, group: str, *topics: str, **configs: Any) -> Any:
        """A member of the group, which begins at the first record where nothing is committed. Both
        sides move only the partitions that have to move.
        """
        return self._kept(self.consumer_class(*topics, **{**self.group_configs(group), **configs}))

    def group_configs(self, group: str) -> dict[str, Any]:
        """The options of `member`."""
        shared = {
            "bootstrap_servers": self.broker,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": SESSION_MS,
            "partition_assignment_strategy": (CooperativeStickyAssignor,),
            "heartbeat_interval_ms": HEARTBEAT_MS,
        }
        return (
            {**shared, "zookeeper_connect": self.zookeeper, **self.client} if self.ours else shared
        )

    def _kept(self, made: Any) -> Any:
        self.stack.callback(made.close)
        return made


@contextmanager
def side_of(name: str, broker: str, zookeeper: str, test: str) -> Iterator[Side]:
    """A side whose consumers are closed at the end."""
    side = Side(name, broker, zookeeper, test)
    with side.stack:
        yield side


class Listener(consumer.ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes its calls as (name, numbers of the partitions), and may act in them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.act: Callable[[str, set[TopicPartition]], None] = lambda name, partitions: None

    def _note(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        listed = set(partitions)
        if listed:  # kafka-python also calls with nothing at all
            self.calls.append((name, tuple(sorted(tp.partition for tp in listed))))
            self.act(name, listed)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._note("revoked", revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._note("assigned", assigned)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._note("lost", lost)

    def names(self) -> list[str]:
        """The calls without their partitions."""
        return [name for name, _ in self.calls]


Taken = dict[TopicPartition, list[int]]


def take(one: Any, taken: Taken, timeout_ms: float | None = None) -> int:
    """One poll; its offsets go into `taken`."""
    batch = one.poll(turn_ms(one) if timeout_ms is None else timeout_ms)
    for tp, records in batch.items():
        taken.setdefault(tp, []).extend(r.offset for r in records)
    return sum(map(len, batch.values()))


def turn_ms(one: Any) -> int:
    """How long a poll that waits for a rebalance takes. kafka-python's join begins anew when it
    ends between two polls, so its polls are long; they return when there are records.
    """
    return 50 if isinstance(one, consumer.KafkaConsumer) else 1_000


def turn(consumers: Iterable[Any], taken: Taken) -> None:
    """One poll of each, all at once, as in processes of their own: a join of kafka-python's ends
    when all have come. The first is polled by this thread.
    """
    first, *others = consumers
    found: list[Taken] = [{} for _ in others]
    with ThreadPoolExecutor(max(1, len(others))) as pool:
        running = [pool.submit(take, other, into) for other, into in zip(others, found)]
        take(first, taken)
        for future in running:
            future.result()
    for into in found:
        for tp, offsets in into.items():
            taken.setdefault(tp, []).extend(offsets)


def drain(consumers: Iterable[Any], total: int, taken: Taken | None = None) -> Taken:
    """Poll all until `total` records are there."""
    into: Taken = {} if taken is None else taken
    listed = list(consumers)

    def enough() -> bool:
        turn(listed, into)
        return sum(map(len, into.values())) >= total

    wait_for_records(enough, listed, f"{total} records")
    return into


def wait_for_records(enough: Callable[[], bool], consumers: Iterable[Any], what: str) -> None:
    """Until there are enough; when there are not, says where each consumer of ours stands, and what
    the broker has.
    """
    try:
        wait_until(enough, PATIENCE_S, what)
    except AssertionError as e:
        raise AssertionError(
            "\n".join(
                [
                    str(e),
                    *(
                        line
                        for one in consumers
                        if isinstance(one, consumer.KafkaConsumer)
                        for line in where_it_stands(one)
                    ),
                ]
            )
        ) from None


def where_it_stands(one: consumer.KafkaConsumer) -> Iterator[str]:
    """What its fetching side believes."""
    data = one._data
    fetcher, cluster = data.partition_fetcher, data.kafka._cluster
    tasks = {
        name: task if task is None else (task.is_done, task.exception)
        for name, task in (
            ("reset", fetcher._reset_task),
            ("validation", fetcher._validation_task),
            ("refresh", cluster._refresh_loop_future),
        )
    }
    yield (
        f"{one.subscription()} {one._session.state.due_callbacks} done and failed: {tasks};"
        f" metadata of {sorted(cluster._topics)}, wanted {cluster.need_update}; out:"
        f" {fetcher._nodes_with_pending_fetch_requests}"
    )
    assigned = sorted(data.assigned())
    for tp in assigned:
        state = data.subscription.assignment[tp]
        yield (
            f"{tp.topic}-{tp.partition}: at {state.position}, reset {state.reset_strategy},"
            f" fetchable {state.is_fetchable()}, leader {cluster.leader_for_partition(tp)}, first"
            f" fetch {'to come' if tp in fetcher._unseen else 'was'}, asked"
            f" {fetcher._asked.get(tp)}, buffered {tp in fetcher._buffers}"
        )
    if isinstance(data.fetcher, LibrdkafkaFetcher):
        client = data.fetcher._client_side
        streams = {
            tp: (stream.begin, stream.end, stream.ready, stream.fault)
            for tp, stream in data.fetcher._streams.items()
        }
        yield (
            f"librdkafka: running {sorted(client.running)}, not started {data.fetcher._unstarted},"
            f" streams {streams}, unreachable {client.unreachable}, watching {client._watching},"
            f" caught {client._caught}"
        )
    yield (
        f"the broker has {data.kafka.beginning_offsets(assigned)} to"
        f" {data.kafka.end_offsets(assigned)}"
    )


def iterated(one: Any, total: int) -> list[Any]:
    """Iterate, again after each `consumer_timeout_ms`, until there are `total` records (or
    more).
    """
    found: list[Any] = []
    wait_until(lambda: found.extend(one) or len(found) >= total, PATIENCE_S, f"{total} records")
    return found


def following(one: Any) -> Any:
    """The next record of iteration, however often it ends by `consumer_timeout_ms` before."""
    return wait_until(lambda: next(one, None), PATIENCE_S, "the next record")


def settle(consumers: Iterable[Any], partitions: int, taken: Taken | None = None) -> None:
    """Poll all until they share so many partitions, each owned once and evenly."""
    into: Taken = {} if taken is None else taken
    listed = list(consumers)

    def shared() -> bool:
        turn(listed, into)
        owned = [one.assignment() for one in listed]
        sizes = sorted(map(len, owned))
        return len(set().union(*owned)) == sum(sizes) == partitions and sizes[-1] - sizes[0] <= 1

    wait_until(shared, PATIENCE_S, f"{partitions} partitions shared by {len(listed)} consumers")


def fresh(name: str) -> str:
    """A topic's or group's name that no other test uses."""
    return unique(f"compat-{name}")
