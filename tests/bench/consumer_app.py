"""An application as its author would write it, on zkcoord's consumer or kafka-python's: `python -m
tests.bench.consumer_app ORDER`, where ORDER is a JSON object.

    {"kind": "zkcoord" | "kafka-python", "topic": "t", "configs": {..}, "way": "poll" | "iterate",
        "warm": 0, "total": 0, "idle_s": 0}

It prints JSON lines {"event", "t" (wall-clock ns), ..}: begun (its first statement), imported, made
(constructed and subscribed), session, registered, command, assigned and first_fetch (zkcoord's
only), called {callback, partitions}, first {partition} (each partition's first record is handed
out). What else it does depends on the order:

    total     hand out so many records, then: done {records, seconds, cpu_s} of those after the
              first `warm`
    idle_s    once nothing has happened for `SETTLE_S`, wait for records in vain for so long:
              resting {cpu_s, requests} when that begins and rested {..} when it ends; `requests` is
              what it sent to brokers
    neither   hand out records until SIGTERM

and then it ends with closing and closed. Before `begun` only what the interpreter needs itself is
imported.
"""

from __future__ import annotations

import time

BEGUN_NS = time.time_ns()

import json
import resource
import signal
import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

POLL_MS = 500
SETTLE_S = 3.0


def tell(event: str, t_ns: int | None = None, **fields: Any) -> None:
    """One line."""
    sys.stdout.write(
        json.dumps(
            {"event": event, "t": time.time_ns() if t_ns is None else t_ns, **fields},
            separators=(",", ":"),
        )
        + "\n"
    )
    sys.stdout.flush()


def cpu_s() -> float:
    """Processor time of this process so far, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Requests:
    """A statistic of kafka-python's sensor of what its connections send: one record is one
    request.
    """

    def __init__(self, made: Any) -> None:
        self.count = 0
        inner = made._data.kafka if hasattr(made, "_data") else made
        inner._metrics.get_sensor("bytes-sent")._stats.append(self)

    def record(self, _config: Any, _value: float, _time_ms: float) -> None:
        """Something was sent."""
        self.count += 1


def numbers(partitions: Iterable[Any]) -> list[int]:
    """Partition numbers, sorted."""
    return sorted(tp.partition for tp in partitions)


class Marks:
    """zkcoord's `observer`: when what happened inside."""

    def on_assigned(self, offsets: Mapping[Any, int], now_ns: int) -> None:
        """See the module."""
        tell("assigned", now_ns, partitions=numbers(offsets))

    def on_revoke(self, partitions: Iterable[Any], now_ns: int) -> None:
        """Not reported."""

    def on_revoked(self, positions: Mapping[Any, int], now_ns: int) -> None:
        """Not reported."""

    def on_lost(self, partitions: Iterable[Any], reason: str, now_ns: int) -> None:
        """See the module."""
        tell("lost", now_ns, partitions=numbers(partitions), reason=reason)

    def on_first_fetch(self, partition: Any, now_ns: int) -> None:
        """See the module."""
        tell("first_fetch", now_ns, partition=partition.partition)

    def on_notice(self, notice: Any, now_ns: int) -> None:
        """See the module."""
        tell(notice.kind.value, now_ns)


class App:
    """The work. `seen` counts records handed out."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.order = order
        self.seen = 0
        self.fresh: set[Any] = set()
        self.stopping = False
        self.warm: tuple[int, float, float] | None = None

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """SIGTERM: close after this poll."""
        self.stopping = True

    def make(self) -> Any:
        """Import, construct, subscribe."""
        theirs = self.order["kind"] == "kafka-python"
        if theirs:
            from kafka import ConsumerRebalanceListener, KafkaConsumer
        else:
            from consumer import ConsumerRebalanceListener, KafkaConsumer
        tell("imported")

        class Callbacks(ConsumerRebalanceListener):
            """The application's listener."""

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                """Report it."""
                tell("called", callback="revoked", partitions=numbers(revoked))

            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                """Report it."""
                tell("called", callback="assigned", partitions=numbers(assigned))

            def on_partitions_lost(self, lost: Iterable[Any]) -> None:
                """Report it."""
                tell("called", callback="lost", partitions=numbers(lost))

        made = KafkaConsumer(**self.order["configs"], **({} if theirs else {"observer": Marks()}))
        made.subscribe([self.order["topic"]], listener=Callbacks())
        tell("made")
        return made

    def run(self) -> int:
        """Everything; the exit status."""
        tell("begun", BEGUN_NS)
        made = self.make()
        if self.order.get("total"):
            self.drain(made)
        elif self.order.get("idle_s"):
            self.rest(made, self.order["idle_s"])
        else:
            while not self.stopping:
                self.note(made.poll(POLL_MS))
        tell("closing")
        made.close()
        tell("closed")
        return 0

    def note(self, batch: Mapping[Any, Any]) -> None:
        """Report each partition's first record."""
        for tp in batch.keys() - self.fresh:
            self.fresh.add(tp)
            tell("first", partition=tp.partition)

    def drain(self, made: Any) -> None:
        """Hand records out to a handler that does nothing, as fast as they come."""
        warm, total = self.order["warm"], self.order["total"]
        count = 0
        begun: tuple[int, float, float] | None = None
        if self.order["way"] == "iterate":
            for _ in made:
                count += 1
                if count == warm:
                    begun = (count, time.monotonic(), cpu_s())
                elif count == total:
                    break
        else:
            while count < total:
                for records in made.poll(POLL_MS).values():
                    for _ in records:
                        count += 1
                if begun is None and count >= warm:
                    begun = (count, time.monotonic(), cpu_s())
        assert begun is not None, "`warm` is less than `total`"
        tell(
            "done",
            records=count - begun[0],
            seconds=time.monotonic() - begun[1],
            cpu_s=cpu_s() - begun[2],
        )

    def rest(self, made: Any, seconds: float) -> None:
        """Wait for records that do not come."""
        sent = Requests(made)
        while not made.assignment():
            made.poll(POLL_MS)
        for event, wait_s in (("resting", SETTLE_S), ("rested", seconds)):
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline:
                made.poll(POLL_MS)
            tell(event, cpu_s=cpu_s(), requests=sent.count)


def main() -> int:
    """Run; the exit status."""
    app = App(json.loads(sys.argv[1]))
    signal.signal(signal.SIGTERM, app.stop)
    return app.run()


if __name__ == "__main__":
    raise SystemExit(main())
