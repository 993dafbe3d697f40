"""Random walks: queries of one group that plan, read, write, die at any step, come back, are
evicted, and share what they have, while records come.

A query lets others go on between any two of its steps. Whatever happens: no record is lost; and a
record comes again only with an event that may make it do so, one planned batch for each at most.
`SPARK_WALK_SEEDS=FROM:TO` walks other seeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from kazoo.exceptions import NoNodeError

from tests.harness.kafka import produce_numbered
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.spark.conftest import PARTITIONS, Start
from tests.spark.engine import PATIENCE_S, Checkpoint, Crash, Query, Sink
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka
LIMIT = 40
ROUNDS = 120
FIRST, LAST = (int(n) for n in os.environ.get("SPARK_WALK_SEEDS", "0:12").split(":"))


class Application:
    """One query after the other on one checkpoint."""

    def __init__(self, start: Start, sink: Sink) -> None:
        self.start, self.sink, self.checkpoint = start, sink, Checkpoint()
        self.query: Query | None = None
        self.under_way: Iterator[Crash] | None = None

    def step(self) -> None:
        """Start, or go on to the next step."""
        if self.query is None:
            self.query = self.start(self.checkpoint, self.sink, maxOffsetsPerTrigger=str(LIMIT))
        if self.under_way is None:
            self.under_way = self.query.steps()
        if next(self.under_way, None) is None:
            self.under_way = None

    def die(self) -> None:
        """Where it is."""
        if self.query is not None:
            self.query.die()
        self.query = self.under_way = None

    def idle(self) -> bool:
        """Is no batch under way, all stored, and nothing left of what it owns?"""
        query = self.query
        if self.under_way is not None or query is None:
            return False
        member = query.reader._membership()
        return not member.assignment.uncommitted and query.trigger() == 0


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[pytest.mark.nightly] if seed else [])
        for seed in range(FIRST, LAST)
    ],
)
def test_walk(
    start: Start, kafka_broker: KafkaBroker, kafka_zk_hosts: str, group: str, topic: str, seed: int
) -> None:
    draw, sink = random.Random(seed), Sink()
    applications = [Application(start, sink) for _ in range(3)]
    client = connect(kafka_zk_hosts)
    produced, forgiven = 0, 0
    try:
        for number in range(ROUNDS):
            if number % 12 == 0:
                produce_numbered(kafka_broker.address, topic, PARTITIONS, 30, produced)
                produced += 30
            one, dice = draw.choice(applications), draw.random()
            if dice < 0.06 and one.query is not None:
                one.die()
                forgiven += 1
            elif dice < 0.10 and one.query is not None and one.query.begun:
                try:
                    client.delete(
                        Layout.DRAFT.registration(
                            group, one.query.reader._membership().session.thread.member_name
                        )
                    )
                    forgiven += 1
                except NoNodeError:
                    continue
            else:
                for _ in range(draw.randrange(1, 8)):
                    one.step()

        def all_there() -> bool:
            for application in applications:
                application.step()
            return len(sink) == PARTITIONS * produced and all(
                application.under_way is None for application in applications
            )

        wait_until(all_there, PATIENCE_S, f"{PARTITIONS * produced} records, seed {seed}")
    finally:
        disconnect(client)
    assert set(sink) == {
        (topic, n, offset) for n in range(PARTITIONS) for offset in range(produced)
    }
    again = sum(times - 1 for times in sink.values())
    assert again <= forgiven * (LIMIT + PARTITIONS), (
        f"{again} records came again, {forgiven} events"
    )
