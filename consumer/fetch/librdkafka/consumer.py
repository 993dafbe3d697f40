"""librdkafka's consumer in manual assignment: partitions are started and stopped one by one,
messages are taken without waiting, and a thread waits where there are none.

**Who takes messages.** librdkafka has one queue for all partitions, and its order counts. So at any
time one thread may take from it: the application's (`drain`, which never waits), or, while the
application has nothing to do, the watcher, which takes one message, keeps it for the next `drain`
and rings. Nobody waits while holding the lock, and the application's thread takes no turns with
another while there is a backlog.

**Which assignment a message is of.** librdkafka drops what it has queued of a partition that was
stopped, so what `drain` takes is of the assignment that holds. Only the watcher's one message can
have been taken before a stop or start that another thread did meanwhile: it carries the count of
changes from before it was taken (`Caught`), and the reader judges.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message
from kafka.structs import TopicPartition

from consumer.errors import ConsumerOptionError
from zkcoord.zk.bell import Bell

log = logging.getLogger(__name__)

POLL_S = 0.1
BROKER = re.compile(r"(?:\w+://)?(?P<address>[^/ ]+:\d+)/(?P<number>\d+): (?P<why>.*)", re.DOTALL)
LATE = re.compile(
    r"\]: (?:\w+://)?(?P<address>[^/ ]+:\d+)/(?P<number>\d+): (?P<why>Timed out \d+ in-flight)"
)
WORTH_A_WARNING = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._FATAL})


class Caught(NamedTuple):
    """A message that the watcher took, and how many changes of the assignment there had been before
    it began to wait.
    """

    message: Message
    changes: int


class _Log:
    """librdkafka's own log lines: kafka-python, which keeps the connections for everything else,
    reports the same troubles. That a broker takes connections and does not answer is said nowhere
    else: `late` hears of it.
    """

    def __init__(self, late: Callable[[int, str, str], None]) -> None:
        self._late = late

    def log(self, level: int, text: str, *arguments: Any) -> None:
        log.debug(text, *arguments)
        broker = LATE.search(text % arguments) if level >= logging.WARNING else None
        if broker is not None:
            self._late(int(broker["number"]), broker["address"], broker["why"])


class QueueConsumer:
    """One librdkafka consumer. `ring` is called when `drain` may find something, `broker_failed`
    with a broker's number, address and trouble. All methods but `close` are called under `lock`.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        lock: Any,
        ring: Callable[[], None],
        broker_failed: Callable[[int, str, str], None],
    ) -> None:
        self._ring = ring
        self._broker_failed = broker_failed
        self._lock = lock
        self.running: set[TopicPartition] = set()
        self.changes = 0
        self.started_at: dict[TopicPartition, int] = {}
        self.stopped_at: dict[TopicPartition, int] = {}
        self.unreachable = False
        self._caught: Caught | None = None
        self._watching = False
        self._closed = False
        self._wanted = Bell()
        self._warned = ""
        try:
            self._consumer = confluent_kafka.Consumer(
                {**settings, "error_cb": self._error, "logger": _Log(self._failed)}
            )
        except (KafkaException, TypeError, ValueError) as e:
            raise ConsumerOptionError(
                f"librdkafka refuses an option: {_said(e)}; correct it, or leave data_client out"
            ) from None
        self._watcher = threading.Thread(target=self._watch, name="zkcoord-librdkafka", daemon=True)
        self._watcher.start()

    # partitions

    def start(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Fetch these from there. None of them is running."""
        if offsets and not self._closed:
            self.changes += 1
            self.started_at.update(dict.fromkeys(offsets, self.changes))
            self._consumer.incremental_assign(
                [
                    confluent_kafka.TopicPartition(tp.topic, tp.partition, offset)
                    for tp, offset in offsets.items()
                ]
            )
            self.running.update(offsets)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these no more, and forget what is queued of them."""
        gone = self.running.intersection(partitions)
        if gone and not self._closed:
            self.changes += 1
            self.stopped_at.update(dict.fromkeys(gone, self.changes))
            self._consumer.incremental_unassign(
                [confluent_kafka.TopicPartition(tp.topic, tp.partition) for tp in gone]
            )
            self.running -= gone

    def highwater(self, tp: TopicPartition) -> int | None:
        """Offset of the next record that will be written, as of the last fetch; None while there
        was none.
        """
        if tp not in self.running or self._closed:
            return None
        found = self._consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition(tp.topic, tp.partition), cached=True
        )
        return None if found is None or found[1] < 0 else int(found[1])

    # messages

    def caught(self) -> Caught | None:
        """What the watcher took; it comes before what `drain` gives."""
        caught, self._caught = self._caught, None
        return caught

    def drain(self, count: int) -> list[Message]:
        """Up to `count` messages and events that are queued. Does not wait."""
        if self._watching or self._closed:
            return []
        messages: list[Message] = self._consumer.consume(count, 0)
        return messages

    def watch(self) -> None:
        """Ring when something comes."""
        if self._caught is not None:
            self._ring()
        elif not self._watching and not self._closed:
            self._watching = True
            self._wanted.set()

    def _watch(self) -> None:
        while True:
            self._wanted.wait()
            changes = self.changes
            message = None if self._closed else self._consumer.poll(POLL_S)
            with self._lock:
                if self._closed:
                    return
                if message is not None:
                    self._caught = Caught(message, changes)
                    self._watching = False
                    self._wanted.clear()
                    self._ring()

    def _error(self, error: KafkaError) -> None:
        """On whichever thread takes messages."""
        said = error.str()
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.unreachable = True
            self._ring()
        broker = (
            BROKER.match(said)
            if error.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
            else None
        )
        if broker is not None:
            self._failed(int(broker["number"]), broker["address"], broker["why"])
        if error.code() in WORTH_A_WARNING and said != self._warned:
            self._warned = said
            log.warning("librdkafka: %s", said)
        else:
            log.debug("librdkafka: %s", said)

    def _failed(self, broker: int, address: str, why: str) -> None:
        self._broker_failed(broker, address, why)
        self._ring()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed = True
            self._wanted.set()
        self._watcher.join()
        self._consumer.close()


def _said(error: BaseException) -> str:
    said = error.args[0]
    return str(said.str() if isinstance(said, KafkaError) else said).strip()
