"""A consumer whose group its clients lead: kafka-python's, with an assignor that no server knows.

    python -m tests.gateway.own_assignor TOPIC name=value ...      (values are JSON)

With cooperative=true it lists a cooperative one beside Kafka's own cooperative-sticky instead.

It says what happens, a line of JSON each, until it is told "close" on its standard input, or is
killed. Used from a test as `OwnAssignor`, a process with what it has said.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

from tests.harness.command import environment

PATIENCE_S = 90.0
PROJECT = Path(__file__).parents[2]


class OwnAssignor:
    """The process. `owned` is what it has now, `taken` (partition, offset) of what it got, `calls`
    its callbacks, `brokers` how many it knows,
    `generation` of which it believes to be a member.
    """

    def __init__(
        self, home: Path, bootstrap: str | list[str], group: str, topic: str, **more: Any
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.owned: set[int] = set()
        self.cooperative = bool(more.get("cooperative"))
        self.brokers, self.generation = 0, -1
        self.taken: list[tuple[int, int]] = []
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        configs = {"bootstrap_servers": bootstrap, "group_id": group, **more}
        self.log_path = home / "client.log"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.gateway.own_assignor",
                    topic,
                    *(f"{name}={json.dumps(value)}" for name, value in configs.items()),
                ],
                env=environment(home),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=PROJECT,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            what, value = json.loads(line)
            if what == "knows":
                self.brokers, self.generation = value
            elif what == "records":
                self.taken += [(partition, offset) for partition, offset in value]
            else:
                self.calls.append((what, tuple(value)))
                before = self.owned if what != "assigned" or self.cooperative else set()
                self.owned = before | set(value) if what == "assigned" else before - set(value)

    def close(self) -> None:
        """Leave the group."""
        assert self.process.stdin is not None
        self.process.stdin.write("close\n")
        self.process.stdin.flush()
        assert self.process.wait(PATIENCE_S) == 0, self.log_path.read_text(encoding="utf-8")

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()


def main(topic: str, *options: str) -> int:
    """Consume."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaConnectionError

    class Dealt(RoundRobinPartitionAssignor):
        """Round robin, under a name of its own."""

        name = "dealt"

    class Known(CooperativeStickyAssignor):
        """Kafka's own. What is owned is known to all of a consumer's, as in Java: kafka-python's
        name what each was told itself, which may be of long ago, and withhold that from others.
        """

        owned: ClassVar[list[Any]] = []

        def metadata(self, topics: Any) -> Any:
            """See the base."""
            self.member_assignment = list(self.owned)
            return super().metadata(topics)

        def on_assignment(self, assignment: Any, generation: Any) -> None:
            """See the base."""
            super().on_assignment(assignment, generation)
            self.owned[:] = self.member_assignment

    class Kept(Known):
        """Cooperative, under a name of its own."""

        name = "kept"

    class Told(ConsumerRebalanceListener):
        """Says what it is told."""

        def on_partitions_revoked(self, revoked: Any) -> None:
            """See the base."""
            say("revoked", sorted(tp.partition for tp in revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            """See the base."""
            say("assigned", sorted(tp.partition for tp in assigned))

    class ToldMore(Told):
        """The same, of a cooperative one: what is assigned comes to what it has."""

        def on_partitions_lost(self, lost: Any) -> None:
            """See the base."""
            say("lost", sorted(tp.partition for tp in lost))

    def say(what: str, value: Any) -> None:
        print(json.dumps([what, value]), flush=True)

    closing = threading.Event()
    threading.Thread(target=lambda: sys.stdin.readline() and closing.set(), daemon=True).start()
    configs = {name: json.loads(value) for name, _, value in (o.partition("=") for o in options)}
    cooperative = configs.pop("cooperative", False)
    consumer = KafkaConsumer(
        partition_assignment_strategy=[Kept, Known] if cooperative else [Dealt],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        **{"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000, **configs},
    )
    consumer.subscribe([topic], listener=ToldMore() if cooperative else Told())
    known: list[int] = []
    while not closing.is_set():
        brokers, generation = consumer._cluster.brokers(), consumer._coordinator._generation
        if known != (now := [len(brokers), generation.generation_id]):
            known = now
            say("knows", known)
        try:
            records = consumer.poll(100)
        except KafkaConnectionError:
            continue  # its poll raises that while nobody of those that it knows is there
        found = [(tp.partition, one.offset) for tp, part in records.items() for one in part]
        if found:
            say("records", found)
    consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
