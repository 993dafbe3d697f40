"""What tests of whole groups share: a writer that never rests, and the demo's judge over what
processes have written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka import KafkaProducer

from tests.kafka.test_processes import Process
from zkcoord.verdict import lines
from zkcoord.verdict.engine import judge
from zkcoord.verdict.facts import Fact, OwnershipEnd, Partition, Produced, ProducerStopped, Released
from zkcoord.verdict.outcome import Verdict

PAUSE_S = 0.005
FLUSH_S = 30.0


class Writer:
    """Writes numbered records to all partitions of some topics, round after round. `ends` are the
    offsets after the last acknowledged ones.
    """

    def __init__(self, broker: str, topics: Mapping[str, int]) -> None:
        self.topics = topics
        self.rounds = 0
        self.ends: dict[Partition, int] = {}
        self._producer = KafkaProducer(bootstrap_servers=broker, acks="all", linger_ms=2)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            sent = [
                (
                    Partition(topic, p),
                    self._producer.send(topic, value=f"{p}:{self.rounds}".encode(), partition=p),
                )
                for topic, count in self.topics.items()
                for p in range(count)
            ]
            self.ends.update({at: future.get(FLUSH_S).offset + 1 for at, future in sent})
            self.rounds += 1
            self._stop.wait(PAUSE_S)

    def stop(self) -> None:
        """Write no more; everything is acknowledged then."""
        self._stop.set()
        self._thread.join(FLUSH_S)
        self._producer.close(timeout=FLUSH_S)


@contextmanager
def writing(broker: str, topics: Mapping[str, int]) -> Iterator[Writer]:
    """A writer that ends with the block, if it has not before."""
    writer = Writer(broker, topics)
    try:
        yield writer
    finally:
        writer.stop()


def delivered_all(processes: Mapping[str, Process], ends: Mapping[Partition, int]) -> bool:
    """Has every record been handed out by somebody?"""
    found: dict[str, set[int]] = {}
    for process in processes.values():
        for partition, offsets in process.delivered().items():
            found.setdefault(partition, set()).update(offsets)
    return all(len(found.get(str(at), ())) >= end for at, end in ends.items())


def judged(
    processes: Mapping[str, Process], ends: Mapping[Partition, int], killed: Mapping[str, int]
) -> Verdict:
    """The verdict over the processes' lines, by name. `killed`: wall-clock ns of the moment before
    kill -9.
    """
    facts: list[Fact] = [Produced(0, at, end) for at, end in ends.items()]
    facts += [
        fact
        for name, process in processes.items()
        for line in list(process.lines)
        for fact in lines.consumer(name, line)
    ]
    for name, t_ns in killed.items():
        last = max((int(line["t"]) for line in processes[name].lines), default=0)
        facts.append(Released(max(t_ns, last), None, name, OwnershipEnd.KILLED))
    facts.append(ProducerStopped(time.time_ns()))
    return judge(sorted(facts, key=lambda fact: fact.t_ns))
