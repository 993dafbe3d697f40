"""Real Spark applications that share a group: JVMs, their source processes, signals; real broker,
ZooKeeper and coordinator.

What a plain sink may have twice is one planned batch for each crash, and nothing for a move.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kafka import produce_numbered
from tests.harness.wait import wait_until
from tests.spark.applications import PATIENCE_S, START_S, Application, cleaned, written
from tests.spark.conftest import PARTITIONS
from zkcoord.stack.servers import KafkaBroker

# Spark gives a Python process ten seconds to start, which a machine that many suites share does not
# keep
pytestmark = [pytest.mark.kafka, pytest.mark.nightly]
OPTIONS = ("maxOffsetsPerTrigger=80", "zookeeperSessionTimeoutMs=6000")


class World:
    """A group, and what is produced for it."""

    def __init__(
        self,
        broker: KafkaBroker,
        hosts: str,
        group: str,
        topic: str,
        folder: Path,
        applications: list[Application],
    ) -> None:
        self.broker, self.hosts, self.group, self.topic, self.folder, self.applications = (
            broker,
            hosts,
            group,
            topic,
            folder,
            applications,
        )
        self.produced = 0

    def start(self, name: str, *arguments: str, options: tuple[str, ...] = OPTIONS) -> Application:
        self.applications.append(
            Application(
                self.hosts, self.group, self.topic, self.folder / name, *arguments, options=options
            )
        )
        return self.applications[-1]

    def produce(self, each: int) -> None:
        produce_numbered(self.broker.address, self.topic, PARTITIONS, each, self.produced)
        self.produced += each

    def all_written(self) -> None:
        """Until each record is written at least once."""
        wait_until(
            lambda: len(written(self.applications)) == PARTITIONS * self.produced,
            PATIENCE_S,
            f"{PARTITIONS * self.produced} records",
        )

    def shared(self, *running: Application) -> None:
        """Until these own everything, evenly. They say so with each batch, so there are batches."""

        def evenly() -> bool:
            self.produce(2)
            owned = [application.said().get("owned", 0) for application in running]
            return sum(owned) == PARTITIONS and max(owned) - min(owned) <= 1

        wait_until(evenly, START_S, f"{len(running)} applications that share everything")

    def again(self) -> int:
        return sum(times - 1 for times in written(self.applications).values())


@pytest.fixture
def world(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, group: str, topic: str, tmp_path: Path
) -> Iterator[World]:
    with cleaned() as applications:
        yield World(kafka_broker, kafka_zk_hosts, group, topic, tmp_path, applications)


def test_applications_share_a_group_one_jvm_is_killed_and_comes_back_the_others_leave_cleanly(
    world: World,
) -> None:
    one, two = world.start("one"), world.start("two")
    for application in (one, two):
        application.await_event("started")
    world.shared(one, two)
    world.produce(300)
    wait_until(
        lambda: len(one.batches()) >= 3, PATIENCE_S, "some batches of the one that is killed"
    )
    one.kill()
    world.all_written()
    lost = one.plan(one.logged("offsets"))["ranges"]
    planned = sum(end - start for start, end, _, _ in lost.values())
    assert world.again() <= planned, "at most the batch that it had"
    before = world.again()
    back = world.start("one")
    back.await_event("started")
    world.shared(back, two)
    world.produce(100)
    world.all_written()
    assert two.ask(signal.SIGTERM) == 0, two.tail()
    world.produce(100)
    world.all_written()
    assert back.ask(signal.SIGTERM) == 0, back.tail()
    assert world.again() == before, "nothing comes again with a move, a start or a clean end"
    for application in (two, back):
        assert [e["error"] for e in application.events if e["event"] == "stopped"] == [""]


def test_a_third_application_joins_and_leaves_and_no_record_comes_twice(world: World) -> None:
    one, two = world.start("one"), world.start("two")
    world.shared(one, two)
    for _ in range(3):
        three = world.start("three")
        three.await_event("started")
        world.shared(one, two, three)
        world.produce(100)
        assert three.ask(signal.SIGTERM) == 0, three.tail()
        world.produce(50)
        world.shared(one, two)
    world.all_written()
    for application in (one, two):
        assert application.ask(signal.SIGTERM) == 0, application.tail()
    assert world.again() == 0


def test_a_crash_between_sparks_commit_and_the_groups(world: World) -> None:
    """The trigger is so long that the JVM is killed after Spark's commit and before it asks for the
    next batch. Alone, the application knows what it had written.
    """
    world.produce(20)
    one = world.start("one", "--trigger", "40 seconds")
    one.await_event("started")
    wait_until(
        lambda: sum(written([one]).values()) > 0 and one.logged("commits") == one.logged("offsets"),
        START_S,
        "a batch that is committed",
    )
    had = sum(written([one]).values())
    one.kill()
    assert sum(written([one]).values()) == had
    world.produce(20)
    back = world.start("one")
    world.all_written()
    assert world.again() == 0
    assert back.ask(signal.SIGTERM) == 0, back.tail()


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_source_process_that_is_gone_or_silent_while_its_jvm_goes_on(
    world: World, how: str
) -> None:
    """The JVM finishes its batch, which is written; then the query ends with an error. Others take
    over when the session is over, and have that one batch again.
    """
    one, two = world.start("one", "--batch-s", "12"), world.start("two")
    one.await_event("started")
    two.await_event("started")
    world.shared(one, two)
    before = len(one.batches())
    world.produce(100)
    wait_until(
        lambda: (
            one.logged("offsets") > one.logged("commits")
            and one.plan(one.logged("offsets"))["ranges"]
        ),
        PATIENCE_S,
        "a batch under way",
    )
    number = one.logged("offsets")
    planned = sum(end - start for start, end, _, _ in one.plan(number)["ranges"].values())
    source = one.source
    source.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    world.all_written()
    wait_until(lambda: len(one.batches()) > before, PATIENCE_S, "the zombie's batch")
    if how == "stopped":
        source.send_signal(signal.SIGCONT)
    else:
        one.await_event("stopped", PATIENCE_S)
    assert two.ask(signal.SIGTERM) == 0, two.tail()
    assert world.again() <= planned
