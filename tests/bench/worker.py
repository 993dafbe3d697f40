"""A process that consumers live in: loaded and warm before a clock starts, one or many members,
zkcoord's consumer, or the group consumer of kafka-python or of librdkafka.

    python -m tests.bench.worker CONTROL          (a FIFO with one JSON object per line)

    {"do": "new", "who": "m1", "kind": "zkcoord" | "kafka" | "librdkafka", "topic": "t", "records":
        true, "configs": {...}}
        construct, subscribe and poll on a thread of its own
    {"do": "close", "who": "m1", "at": 1700000000000000000}
        close it there, at that moment (wall-clock ns; without `at`: as soon as `poll` returns)
    {"do": "block", "who": "m1", "s": 15}
        spend so long in the handler of the next records
    {"do": "commit", "who": "m1", "s": 5, "from": 1}
        commit all that it owns, again and again for so long, each commit one offset further, the
        first at `from`

It prints JSON lines {"event", "t" (wall-clock ns), "who", ...}; `t` is the moment at which the
thing happened on the thread where it happened:

    new             just before the constructor                                    made
                    subscribed
    registered {name}, command {option, partitions: count}
        zkcoord only: what the member's agent did and heard
    assigned {partitions}, revoke {partitions}, revoked {partitions}, lost {..}
        zkcoord: internal threads; kafka: `assigned` and `revoked` when its callbacks ran;
        librdkafka: not told
    called {callback, partitions}
        the application's callback ran
    first_fetch {partition}
        first fetch response since the partition was assigned
    records {partitions, ages}
        handed out (only with "records": true); ages: of the oldest record of each partition, in ms
        since it was produced
    blocked, unblocked
        the handler that was told to take long
    committed {s, us, last}
        the commits that it was told to do: for how long, how long each took (microseconds), the
        last offset
    retried {message}
        kafka-python raised because a broker was away, and is called again
    closing, closed, error {message}

Partitions are numbers: a member has one topic. The first fetch of kafka-python's consumer is seen
by a hook in the same place as in zkcoord's, and only counts, as there, where the fetch was for the
position that the partition has now. SIGTERM closes every member.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FrameType
from typing import Any

import kafka
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaConnectionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.core.messages import Notice, NoticeKind
from consumer.observer import Observer

POLL_MS = 200
CLOSE_TIMEOUT_S = 10.0
RETRY_S = 0.1
COOPERATIVE = "cooperative-sticky"

_lock = threading.Lock()


def tell(who: str, event: str, t_ns: int | None = None, **fields: Any) -> None:
    """One line, whole, from any thread."""
    line = json.dumps(
        {"event": event, "t": time.time_ns() if t_ns is None else t_ns, "who": who, **fields},
        separators=(",", ":"),
    )
    with _lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    """Partition numbers, sorted."""
    return sorted(tp.partition for tp in partitions)


class Reporter(Observer):
    """What zkcoord's consumer does inside."""

    def __init__(self, who: str) -> None:
        self.who = who

    def on_assigned(self, offsets: Mapping[TopicPartition, int], now_ns: int) -> None:
        tell(self.who, "assigned", now_ns, partitions=numbers(offsets))

    def on_revoke(self, partitions: Iterable[TopicPartition], now_ns: int) -> None:
        tell(self.who, "revoke", now_ns, partitions=numbers(partitions))

    def on_revoked(self, positions: Mapping[TopicPartition, int], now_ns: int) -> None:
        tell(self.who, "revoked", now_ns, partitions=numbers(positions))

    def on_lost(self, partitions: Iterable[TopicPartition], reason: str, now_ns: int) -> None:
        tell(self.who, "lost", now_ns, partitions=numbers(partitions), reason=reason)

    def on_first_fetch(self, partition: TopicPartition, now_ns: int) -> None:
        tell(self.who, "first_fetch", now_ns, partition=partition.partition)

    def on_notice(self, notice: Notice, now_ns: int) -> None:
        name = (
            notice.kind.value
            if notice.kind in (NoticeKind.REGISTERED, NoticeKind.COMMAND)
            else "notice"
        )
        tell(
            self.who,
            name,
            now_ns,
            **{**notice.detail, **({"kind": notice.kind.value} if name == "notice" else {})},
        )


class Callbacks(ConsumerRebalanceListener):
    """The application's listener."""

    def __init__(self, who: str) -> None:
        self.who = who

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        tell(self.who, "called", callback="revoked", partitions=numbers(revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        tell(self.who, "called", callback="assigned", partitions=numbers(assigned))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        tell(self.who, "called", callback="lost", partitions=numbers(lost))


class KafkaCallbacks(Callbacks):
    """The same for kafka-python's consumer, whose callbacks are all that is to be seen of its
    assignments. Eager: each assignment is whole, so what was held before it is not held any more,
    and each partition's first fetch is awaited anew.
    """

    def __init__(self, who: str, unseen: set[TopicPartition]) -> None:
        super().__init__(who)
        self.unseen = unseen
        self.held: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        super().on_partitions_revoked(revoked)
        self._drop("revoked")

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        super().on_partitions_lost(lost)
        self._drop("lost")

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        super().on_partitions_assigned(assigned)
        if self.held:
            self._drop("revoked")
        self.held.update(assigned)
        tell(self.who, "assigned", partitions=numbers(self.held))
        self.unseen.update(self.held)

    def _drop(self, event: str) -> None:
        self.unseen.clear()
        tell(self.who, event, partitions=numbers(self.held))
        self.held.clear()


def kafka_python(who: str, topic: str, configs: Mapping[str, Any]) -> Any:
    """kafka-python's group consumer, subscribed, with the hook on its fetcher. The one strategy
    that an order can name is `cooperative-sticky`; what is held then is not told, nor when it is
    fetched first.
    """
    cooperative = configs.get("partition_assignment_strategy") == COOPERATIVE
    made = kafka.KafkaConsumer(
        **{
            **configs,
            **(
                {"partition_assignment_strategy": (CooperativeStickyAssignor,)}
                if cooperative
                else {}
            ),
        }
    )
    unseen: set[TopicPartition] = set()
    fetcher, inner = made._fetcher, made._fetcher._handle_fetch_response

    def hooked(
        node_id: Any, offsets: Mapping[TopicPartition, int], send_time: float, response: Any
    ) -> None:
        inner(node_id, offsets, send_time, response)
        now_ns = time.time_ns()
        for tp in unseen.intersection(offsets):
            state = made._subscription.assignment.get(tp)
            if (
                state is not None
                and state.position is not None
                and state.position.offset == offsets[tp]
            ):
                unseen.discard(tp)
                tell(who, "first_fetch", now_ns, partition=tp.partition)

    fetcher._handle_fetch_response = hooked
    made.subscribe([topic], listener=Callbacks(who) if cooperative else KafkaCallbacks(who, unseen))
    return made


class Member(threading.Thread):
    """One consumer and its application's thread."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        super().__init__(name=str(order["who"]), daemon=True)
        self.who = str(order["who"])
        self.order = order
        self.close_at_ns: int | None = None
        self.block_s = 0.0
        self.commits: Mapping[str, Any] = {}

    def run(self) -> None:
        """Construct, poll, close."""
        try:
            self.consume()
        except Exception as error:  # thread main
            tell(self.who, "error", message=f"{type(error).__name__}: {error}")

    def consume(self) -> None:
        tell(self.who, "new")
        made = self.patient(self.make)
        tell(self.who, "made")
        while (timeout_ms := self.timeout_ms()) > 0:
            batch = self.patient(partial(made.poll, timeout_ms))
            if batch and self.order.get("records"):
                now_ns = time.time_ns()
                found = sorted(
                    (tp.partition, now_ns // 1_000_000 - records[0].timestamp)
                    for tp, records in batch.items()
                )
                tell(
                    self.who,
                    "records",
                    now_ns,
                    partitions=[number for number, _ in found],
                    ages=[age for _, age in found],
                )
            if batch and self.block_s:
                tell(self.who, "blocked")
                time.sleep(self.block_s)
                self.block_s = 0.0
                tell(self.who, "unblocked")
            if self.commits:
                self.commit(made, self.commits["s"], self.commits["from"])
                self.commits = {}
        tell(self.who, "closing")
        made.close()
        tell(self.who, "closed")

    def timeout_ms(self) -> float:
        """For how long to poll: not beyond the moment at which it shall close; not more than
        nothing: that is now.
        """
        return (
            POLL_MS
            if self.close_at_ns is None
            else min(POLL_MS, (self.close_at_ns - time.time_ns()) / 1e6)
        )

    def patient(self, act: Callable[[], Any]) -> Any:
        """What it gives. Of kafka-python's consumer also when a broker that is away makes it raise,
        in the constructor or in `poll`: an application that wants to go on calls again.
        """
        while True:
            try:
                return act()
            except KafkaConnectionError as error:
                if self.order["kind"] != "kafka":
                    raise
                tell(self.who, "retried", message=str(error))
                time.sleep(RETRY_S)

    def commit(self, made: Any, seconds: float, offset: int) -> None:
        """Commit and wait for the answer, again and again."""
        owned = sorted(made.assignment())
        took_us: list[int] = []
        began = before = time.monotonic()
        while before - began < seconds:
            made.commit({tp: OffsetAndMetadata(offset, "", -1) for tp in owned})
            now = time.monotonic()
            took_us.append(round((now - before) * 1e6))
            before = now
            offset += 1
        tell(self.who, "committed", s=before - began, us=took_us, last=offset - 1)

    def make(self) -> Any:
        configs = dict(self.order["configs"])
        if self.order["kind"] == "kafka":
            return kafka_python(self.who, self.order["topic"], configs)
        if self.order["kind"] == "librdkafka":
            from tests.bench.side import librdkafka  # nobody else's processes carry it

            return librdkafka.Member(self.order["topic"], configs)
        made = KafkaConsumer(**configs, observer=Reporter(self.who))
        made.subscribe([self.order["topic"]], listener=Callbacks(self.who))
        return made


def leave(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM."""
    raise SystemExit(0)


def main() -> int:
    """Obey until the end."""
    signal.signal(signal.SIGTERM, leave)
    members: dict[str, Member] = {}
    try:
        with open(sys.argv[1], encoding="utf-8") as control:
            tell("", "ready")
            for line in control:
                order = json.loads(line)
                if order["do"] == "new":
                    members[order["who"]] = Member(order)
                    members[order["who"]].start()
                elif order["do"] == "block":
                    members[order["who"]].block_s = order["s"]
                elif order["do"] == "commit":
                    members[order["who"]].commits = order
                else:
                    members.pop(order["who"]).close_at_ns = order.get("at", 0)
    finally:
        for member in members.values():
            member.close_at_ns = 0
        for member in members.values():
            member.join(CLOSE_TIMEOUT_S)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
