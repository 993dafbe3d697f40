"""What stands beside each other, each with the options that it ships with unless its label says
otherwise, and how its members are started.

A `System` gives a `Crew`: processes ("houses") that hold members, of which the rest of the
benchmark knows only `join`, `leave`, `block` and `kill`. Everything that members hand out comes to
`Flow` as the same lines, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.bench.rig import Worker
from tests.bench.side.flow import Flow, Line
from tests.bench.side.ground import HEARTBEAT_MS_MIN, SESSION_MS_MIN, Cluster, ask
from tests.bench.side.rig import SideRig
from tests.bench.worker import COOPERATIVE
from tests.legacy.consumers import LegacyConsumer, LegacyProcess
from tests.legacy.jars import V1_1

JOIN, LEAVE, CRASH, SLOW, COORDINATOR = EVENTS = ("join", "leave", "crash", "slow", "coordinator")
COMMIT_INTERVAL_MS = 5_000
HEAP_MB, HEAP_PER_MEMBER_MB = 192, 16


@dataclass(frozen=True)
class System:
    """One way to share partitions. `kind`: a worker's (zkcoord, kafka, librdkafka) or old;
    `configs` are the client's own, `group_configs` those of a group of Kafka 4; `events` those that
    are asked of it.
    """

    name: str
    label: str
    kind: str
    configs: Mapping[str, Any] = field(default_factory=dict)
    modern: bool = False
    group_configs: Mapping[str, int] = field(default_factory=dict)
    events: tuple[str, ...] = EVENTS

    @property
    def asks_zookeeper(self) -> bool:
        """Do its members talk to ZooKeeper?"""
        return self.kind in ("zkcoord", "old")


RANGE = {"partition.assignment.strategy": "range"}
STICKY = {"partition.assignment.strategy": COOPERATIVE}
NEXT = {"group.protocol": "consumer"}
PYTHON_6S = {"session_timeout_ms": SESSION_MS_MIN, "heartbeat_interval_ms": 2_000}
RDKAFKA_6S = {"session.timeout.ms": SESSION_MS_MIN}
CALM = (JOIN, LEAVE, SLOW, COORDINATOR)
SYSTEMS = (
    System("zkcoord", "zkcoord", "zkcoord"),
    System("zkcoord-eager", "zkcoord, eager", "zkcoord", {"rebalance_protocol": "eager"}),
    System(
        "zkcoord-unguarded",
        "zkcoord without guardian, session 6 s",
        "zkcoord",
        {"guardian": False, "zookeeper_session_timeout_ms": SESSION_MS_MIN},
        events=(CRASH,),
    ),
    System("kafka-python-range", "kafka-python, range", "kafka", events=CALM),
    System(
        "kafka-python-range-6s",
        "kafka-python, range, session 6 s",
        "kafka",
        PYTHON_6S,
        events=(CRASH,),
    ),
    System(
        "kafka-python-sticky",
        "kafka-python, cooperative-sticky",
        "kafka",
        {"partition_assignment_strategy": COOPERATIVE},
        events=CALM,
    ),
    System(
        "kafka-python-sticky-6s",
        "kafka-python, cooperative-sticky, session 6 s",
        "kafka",
        {"partition_assignment_strategy": COOPERATIVE, **PYTHON_6S},
        events=(CRASH,),
    ),
    System("librdkafka-range", "librdkafka, range", "librdkafka", RANGE, events=CALM),
    System(
        "librdkafka-range-6s",
        "librdkafka, range, session 6 s",
        "librdkafka",
        {**RANGE, **RDKAFKA_6S},
        events=(CRASH,),
    ),
    System(
        "librdkafka-sticky", "librdkafka, cooperative-sticky", "librdkafka", STICKY, events=CALM
    ),
    System(
        "librdkafka-sticky-6s",
        "librdkafka, cooperative-sticky, session 6 s",
        "librdkafka",
        {**STICKY, **RDKAFKA_6S},
        events=(CRASH,),
    ),
    System("kip848", "KIP-848, as Kafka 4 ships", "librdkafka", NEXT, modern=True),
    System(
        "kip848-tuned",
        f"KIP-848, heartbeat {HEARTBEAT_MS_MIN} ms, session 6 s",
        "librdkafka",
        NEXT,
        modern=True,
        group_configs={
            "consumer.heartbeat.interval.ms": HEARTBEAT_MS_MIN,
            "consumer.session.timeout.ms": SESSION_MS_MIN,
            "consumer.assignment.interval.ms": 0,
        },
    ),
    System("zkcoord-kafka-4", "zkcoord, beside Kafka 4", "zkcoord", modern=True),
    System("old", "old consumer 1.1.1", "old", events=(JOIN, LEAVE, CRASH, SLOW)),
)
OURS = "zkcoord"


class House(Protocol):
    """A process with members."""

    def join(self) -> str:
        """Construct one more, who subscribes and polls; its name. Returns at once."""

    def leave(self, who: str, at_ns: int) -> None:
        """Close a member, at that moment."""

    def block(self, who: str, seconds: float) -> None:
        """Its next records take so long in the application."""

    def kill(self) -> int:
        """kill -9; the time just before it. Its members are gone."""

    def end(self) -> None:
        """All members leave, and the process ends."""


class WorkerHouse:
    """One `tests.bench.worker`."""

    def __init__(self, rig: SideRig, flow: Flow, order: Mapping[str, Any]) -> None:
        self.rig, self.flow, self.order = rig, flow, order
        self.worker: Worker = rig.worker()
        rig.wait_ready(self.worker)

    def join(self) -> str:
        return self.rig.join(self.flow, self.worker, self.order)

    def leave(self, who: str, at_ns: int) -> None:
        self.rig.leave(who, at_ns)

    def block(self, who: str, seconds: float) -> None:
        self.worker.order(do="block", who=who, s=seconds)

    def kill(self) -> int:
        return self.rig.kill(self.worker)

    def end(self) -> None:
        self.rig.dismiss(self.worker)


class OldHouse:
    """One Java virtual machine with old consumers. They store offsets as often as the others do,
    not once a minute: after a crash they would hand out all of that again.
    """

    def __init__(self, rig: SideRig, flow: Flow, group: str, topic: str, room: int) -> None:
        self.rig, self.flow, self.group, self.topic = rig, flow, group, topic
        self.name = rig.unique("old-")
        self.process = LegacyProcess(
            rig.folder / "old" / self.name,
            V1_1,
            rig.zookeeper,
            rig.java,
            HEAP_MB + HEAP_PER_MEMBER_MB * room,
            "warn",
        )
        self.members: dict[str, LegacyConsumer] = {}
        self.names: dict[str, str] = {}
        self.process.start()
        rig.follow_old(self.name, self.process.home, self.line)

    def line(self, line: Line) -> None:
        """In a worker's words."""
        found = self.names.get(line["consumer"])
        if found is None:
            return
        if line["event"] == "records":
            self.flow.line(
                found,
                {
                    "event": "records",
                    "t": line["t"],
                    "partitions": [int(name.rpartition("-")[2]) for name in line["ranges"]],
                },
            )
        elif line["event"] == "failed":
            self.flow.line(
                found,
                {"event": "error", "t": line["t"], "message": f"{line['type']}: {line['message']}"},
            )
        else:
            self.flow.line(
                found,
                {"event": {"opening": "new"}.get(line["event"], line["event"]), "t": line["t"]},
            )

    def join(self) -> str:
        who = self.rig.unique("m")
        with self.rig.children.lock:
            self.flow.expect(who)
            member = self.process.consumer(
                self.group,
                {self.topic: 1},
                name=who,
                wait=False,
                auto_commit_interval_ms=COMMIT_INTERVAL_MS,
                auto_offset_reset="largest",
            )
            self.members[who], self.names[member.key] = member, who
        return who

    def leave(self, who: str, at_ns: int) -> None:
        self.rig.sleep_until(at_ns)
        self.members[who].ask_to_close()

    def block(self, who: str, seconds: float) -> None:
        self.process.tell("block", self.members[who].key, str(int(seconds * 1_000)))

    def kill(self) -> int:
        killed_ns = self.rig.now_ns()
        self.process.kill()
        with self.rig.children.lock:
            for who in self.members:
                self.flow.gone(who)
        return killed_ns

    def end(self) -> None:
        if self.process.alive():
            self.kill()


class Crew:
    """A group of a system on a topic of its own."""

    def __init__(self, rig: SideRig, system: System, partitions: int, beat_ms: int) -> None:
        self.rig = rig
        self.system = system
        self.flow = Flow(partitions, beat_ms)
        self.cluster: Cluster = rig.ground.modern if system.modern else rig.ground.classic
        self.topic = self.cluster.topic(rig.unique("side-"), partitions)
        self.group = ""
        self.houses: list[House] = []

    def new_group(self) -> None:
        """Under another name than before."""
        self.group = self.cluster.group(lambda: self.rig.unique("group-"))
        if self.system.group_configs:
            ask(self.cluster.bootstrap, self.group, self.system.group_configs)

    def house(self, room: int = 1) -> House:
        """A process that is ready for `room` members."""
        if self.system.kind == "old":
            found: House = OldHouse(self.rig, self.flow, self.group, self.topic, room)
        else:
            found = WorkerHouse(self.rig, self.flow, self._order())
        self.houses.append(found)
        return found

    def _order(self) -> dict[str, Any]:
        """What a worker is told."""
        configs = {
            "zkcoord": {
                "zookeeper_connect": self.rig.zookeeper,
                "bootstrap_servers": self.cluster.bootstrap,
                "group_id": self.group,
            },
            "kafka": {"bootstrap_servers": self.cluster.bootstrap, "group_id": self.group},
            "librdkafka": {"bootstrap.servers": self.cluster.bootstrap, "group.id": self.group},
        }[self.system.kind]
        return {
            "kind": self.system.kind,
            "topic": self.topic,
            "records": True,
            "configs": {**configs, **self.system.configs},
        }

    def dismiss(self) -> None:
        """End all processes."""
        for house in self.houses:
            house.end()
        self.houses.clear()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """What members need is there inside the block: records, and coordinators where they are
        processes of their own.
        """
        rate = self.flow.partitions * 1_000 // self.flow.beat_ms
        with (
            self.rig.brokers(self.cluster.data.address),
            self.rig.producer(self.topic, self.flow.partitions, rate),
        ):
            try:
                if self.system.kind == "zkcoord":
                    with self.rig.coordinators():
                        yield
                        self.dismiss()
                else:
                    yield
            finally:
                self.dismiss()


def spread_over(members: int, houses: int) -> list[int]:
    """How many members each process gets."""
    return [len(range(number, members, houses)) for number in range(min(houses, members))]


def named(names: tuple[str, ...]) -> tuple[System, ...]:
    """These systems, in the order of `SYSTEMS`; all without a name."""
    return tuple(system for system in SYSTEMS if not names or system.name in names)
