"""A real consumer that goes round and round through all it can be killed in: construct, join, poll,
fork, change of session, clean close.

    python -m tests.guardian.nemesis_consumer ZOOKEEPER BROKERS TOPIC GROUP SESSION_TIMEOUT_MS SEED

Standard output has one word per phase entered; the last one says in which it died.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable

from kazoo.client import KazooClient

from consumer.api.kafka_consumer import KafkaConsumer
from tests.guardian.nemesis_app import CHILD_LIFE_S, FORK_SHARE, phase

POLL_MS = 20
HOLD_S_MAX = 0.2
CHANGE_SHARE = 0.5
JOINED_WITHIN_S = 30.0


class Nemesis:
    """The rounds of one process."""

    def __init__(
        self, zookeeper: str, brokers: str, topic: str, group: str, session_ms: int, seed: int
    ) -> None:
        self.hosts = zookeeper.partition("/")[0]
        self.topic = topic
        self.configs = {
            "zookeeper_connect": zookeeper,
            "bootstrap_servers": brokers,
            "group_id": group,
            "zookeeper_session_timeout_ms": session_ms,
        }
        self.random = random.Random(seed)

    def run(self) -> None:
        """Until somebody kills us."""
        while True:
            phase("connect")
            consumer = KafkaConsumer(self.topic, **self.configs)
            phase("join")
            self.poll_until(consumer, lambda: bool(consumer.assignment()))
            phase("hold")
            self.hold(consumer)
            if self.random.random() < FORK_SHARE:
                phase("fork")
                if os.fork() == 0:
                    os.close(1)
                    time.sleep(CHILD_LIFE_S)
                    os._exit(0)
                self.hold(consumer)
            if self.random.random() < CHANGE_SHARE:
                phase("change")
                self.end_session(consumer)
                phase("hold")
                self.hold(consumer)
            phase("close")
            consumer.close()

    def hold(self, consumer: KafkaConsumer) -> None:
        """Poll for a while."""
        until = time.monotonic() + self.random.uniform(0, HOLD_S_MAX)
        while time.monotonic() < until:
            consumer.poll(POLL_MS)

    def end_session(self, consumer: KafkaConsumer) -> None:
        """ZooKeeper ends the session, as by its timeout, and the member comes back with another."""
        joined = consumer._session.joined
        assert joined is not None
        thread = joined.thread
        port = thread.driver.port
        name = thread.member_name
        other = KazooClient(self.hosts, client_id=(port.session_id, port.password), timeout=10.0)
        other.start()
        other.stop()
        other.close()
        self.poll_until(
            consumer, lambda: thread.member_name not in ("", name) and bool(consumer.assignment())
        )

    @staticmethod
    def poll_until(consumer: KafkaConsumer, condition: Callable[[], bool]) -> None:
        """Poll until it holds."""
        until = time.monotonic() + JOINED_WITHIN_S
        while not condition():
            if time.monotonic() > until:
                raise SystemExit("waited in vain")
            consumer.poll(POLL_MS)


if __name__ == "__main__":
    Nemesis(*sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6])).run()
