"""Groups that are well and change all the time: nothing is found in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.api.kafka_consumer import KafkaConsumer
from tests.harness.command import Running
from tests.harness.wait import wait_until
from tests.health.trouble.stage import Member, Stage, records, stage
from tests.kafka.groups import PATIENCE_S
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PARTITIONS = 6
WAIT_MS = 300
"""Of a poll: twenty groups of this process must not keep each other from their sessions."""

Consumer = tuple[KafkaConsumer, Callable[[], None]]


class Healthy:
    """A group of two consumers of this process and one process; `step` changes it once."""

    def __init__(self, here: Stage, number: int) -> None:
        self.here = here
        self.name = here.topic(f"well{number}", PARTITIONS)
        self.members: list[Consumer] = [self.another(n) for n in range(2)]
        self.process: Member = here.member(self.name, client_id="c2")

    def another(self, number: int) -> Consumer:
        """A consumer in this place."""
        return self.here.polling(self.name, client_id=f"c{number}", wait_ms=WAIT_MS)

    def settled(self) -> None:
        """Wait until the consumers here share all partitions with the process."""
        wait_until(
            lambda: all(len(one.assignment()) == PARTITIONS // 3 for one, _ in self.members),
            PATIENCE_S,
            f"{self.name} to be shared by three: {[o.assignment() for o, _ in self.members]}",
        )

    def joins_and_leaves(self) -> None:
        """A fourth one."""
        one, close = self.another(3)
        wait_until(one.assignment, PATIENCE_S, f"the fourth of {self.name} to have some")
        close()

    def rolls(self) -> None:
        """Each is closed and begun again."""
        for number, (_, close) in enumerate(self.members):
            close()
            self.members[number] = self.another(number)
            one, _ = self.members[number]
            wait_until(one.assignment, PATIENCE_S, f"c{number} of {self.name} to have some")
        self.process.leave()
        self.process.begin()

    def is_killed(self) -> None:
        """One, and it comes again."""
        self.process.kill()
        self.process.begin()


def quiet_under_churn(here: Stage, groups: list[Healthy], seed: int) -> None:
    """Each has its share of everything, in another order."""
    chance = random.Random(seed)
    for group in groups:
        group.settled()
    steps = [
        (group, step)
        for group in groups
        for step in (Healthy.joins_and_leaves, Healthy.rolls, Healthy.is_killed)
    ]
    chance.shuffle(steps)
    names = [group.name for group in groups]
    for number, (group, step) in enumerate(steps):
        group.settled()
        step(group)
        if number % 3 == 2:
            found = here.judged(*names)
            assert all(not troubles for troubles in found.values()), found
    for group in groups:
        group.settled()
    found = here.judged(*names, looks=10)
    assert found.keys() == set(names) and all(not one for one in found.values()), found
    assert here.coordinator.records("trouble") == []
    assert_counts_nothing(here.coordinator)


def assert_counts_nothing(coordinator: Running) -> None:
    lines = coordinator.get("/metrics")[1].splitlines()
    counts = [line for line in lines if line.startswith("zkcoord_group_troubles{")]
    assert counts and all(line.endswith(" 0.0") for line in counts), counts


def test_a_group_that_changes(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    with stage(tmp_path, kafka_broker, kafka_zk_hosts) as here:
        groups = [Healthy(here, number) for number in range(1)]
        with records(here, groups[0].name, PARTITIONS):
            quiet_under_churn(here, groups, 1)


@pytest.mark.nightly
@pytest.mark.timeout(1_200)
def test_twenty_groups_that_change(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    with stage(tmp_path, kafka_broker, kafka_zk_hosts) as here:
        groups = [Healthy(here, number) for number in range(20)]
        with records(here, groups[0].name, PARTITIONS):
            quiet_under_churn(here, groups, 20)
