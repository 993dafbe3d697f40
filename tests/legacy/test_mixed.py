"""Real old consumers and ours in one group. The long run, with its control, is `make
legacy-mixed`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from consumer.api.kafka_consumer import KafkaConsumer
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import Taken, consumer, coordinator, take
from tests.legacy.consumers import LegacyConsumer, LegacyProcess
from tests.legacy.looking import owners, registered
from tests.legacy.mixed import Outcome, Run, Subject, judge
from tests.legacy.revival import share
from tests.sim.legacy import range_owners
from zkcoord.core.model import TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

WAIT_S = 120.0
PARTITIONS, RECORDS = 6, 20
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def owned_as_the_maths_says(
    looking: KazooClient,
    group: str,
    topic: str,
    members: int,
    ours: list[KafkaConsumer],
    taken: Taken,
) -> None:
    """Wait until every partition is owned by whom old consumers think."""

    def as_computed() -> bool:
        for one in ours:
            take(one, taken, 20)
        names = registered(looking, group)
        return len(names) == members and owners(looking, group) == range_owners(
            {name: {topic: 1} for name in names}, {topic: range(PARTITIONS)}
        )

    wait_until(as_computed, WAIT_S, f"the owners that the maths says for {members} members")


def test_both_share_a_group_and_one_that_gave_up_is_revived(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, looking: KazooClient, legacy: LegacyProcess
) -> None:
    """Joins and leaves of both kinds, every record once; then a foreign node makes an old consumer
    give up, and as soon as it is gone zkcoord has it try again.
    """
    topic, group = create_topic(kafka_broker.address, unique("shared"), PARTITIONS), unique("group")
    share(looking, group)
    taken: Taken = {}
    with (
        coordinator(kafka_zk_hosts, CoordinatorOptions(legacy_attempts_ms=9_000), Layout.ISOLATED),
        ExitStack() as running,
    ):
        old = legacy.consumer(
            group,
            {topic: 1},
            name="A",
            auto_commit_interval_ms=200,
            rebalance_backoff_ms=300,
            rebalance_max_retries=10,
        )
        ours = [
            running.enter_context(
                consumer(kafka_zk_hosts, group, topic, zookeeper_layout="isolated")
            )
        ]
        owned_as_the_maths_says(looking, group, topic, 2, ours, taken)
        produce_numbered(kafka_broker.address, topic, PARTITIONS, RECORDS)
        wait_until(
            lambda: len(everything(taken, old, ours, topic)) == PARTITIONS * RECORDS,
            WAIT_S,
            "every record at somebody",
        )
        ours.append(
            running.enter_context(
                consumer(kafka_zk_hosts, group, topic, zookeeper_layout="isolated")
            )
        )
        owned_as_the_maths_says(looking, group, topic, 3, ours, taken)
        ours.pop().close()
        owned_as_the_maths_says(looking, group, topic, 2, ours, taken)
        assert (
            sorted(delivered(taken, old, topic)) == sorted(set(delivered(taken, old, topic)))
            and not old.gave_up()
        )
        # of its own it deletes by path, whoever made it
        of_ours = min(
            partition
            for partition, thread in owners(looking, group).items()
            if not thread.startswith(old.id)
        )
        path = f"/consumers/{group}/owners/{topic}/{of_ours.partition}"
        replaced = looking.transaction()
        replaced.delete(path)
        replaced.create(path, b"somebody-0")
        assert not [result for result in replaced.commit() if isinstance(result, Exception)]
        ours.pop().close()
        wait_until(old.gave_up, WAIT_S, "the old consumer to give up")
        assert set(owners(looking, group)) == {of_ours}
        looking.delete(path)
        owned_as_the_maths_says(looking, group, topic, 1, ours, taken)
        assert len(old.gave_up()) == 1


def delivered(taken: Taken, old: LegacyConsumer, topic: str) -> list[tuple[int, int]]:
    """(partition, offset) of every delivery to either kind."""
    of_old = [
        (partition.partition, offset)
        for partition, offsets in old.records.items()
        for offset in offsets
    ]
    return of_old + [
        (partition, offset) for (_, partition), offsets in taken.items() for offset in offsets
    ]


def everything(
    taken: Taken, old: LegacyConsumer, ours: list[KafkaConsumer], topic: str
) -> set[tuple[int, int]]:
    """What has been delivered by now, after one more poll of ours."""
    for one in ours:
        take(one, taken, 20)
    return set(delivered(taken, old, topic))


@pytest.mark.nightly
def test_a_run_of_joins_leaves_and_kills(
    kafka_broker: KafkaBroker, looking: KazooClient, tmp_path: Path
) -> None:
    """As `make legacy-mixed`, shorter and without its control. What an old consumer delivers after
    it has begun to give a partition up is its own (`Outcome.stale`).
    """
    found = Run(tmp_path, kafka_broker, looking, mixed=True, seed=3, events=8, partitions=12).play()
    assert found.lost == 0 and not found.doubles and not found.blocked, found


@dataclass
class Told:
    """A member that delivered this, and gave up before these threads."""

    old: bool
    delivered_records: list[tuple[int, int, int]]
    killed_ns: int | None = None
    before: list[str] = field(default_factory=list)
    gives_up_at: int | None = None
    stored: int = 0

    def delivered(self) -> list[tuple[int, int, int]]:
        return self.delivered_records

    def gave_up(self) -> list[str]:
        return self.before

    def held(self, partition: int, when_ns: int) -> bool:
        return self.gives_up_at is None or when_ns < self.gives_up_at

    def began_before(self, partition: int, offset: int, when_ns: int) -> bool:
        return self.stored > offset

    def leave(self) -> None:
        """Nothing runs."""

    def kill(self) -> None:
        """Nothing runs."""

    def failed(self) -> bool:
        return False


@pytest.mark.parametrize(
    "killed_ns, others, doubles",
    [
        (None, [(0, 7, 20)], 1),
        (15, [(0, 7, 20)], 0),
        (25, [(0, 7, 20)], 1),
        (15, [(0, 7, 20), (0, 7, 30)], 1),
        (15, [(1, 7, 20)], 0),
    ],
    ids=[
        "of one that lives",
        "of one that was killed",
        "before it was killed",
        "of its successor",
        "of another partition",
    ],
)
def test_a_record_again_is_forgiven_once_and_only_after_the_kill(
    killed_ns: int | None, others: list[tuple[int, int, int]], doubles: int
) -> None:
    """(partition, offset, when) of one member at 10, and of others later."""
    found = Outcome()
    everybody: list[Subject] = [
        Told(True, [(0, 7, 10)], killed_ns),
        *(Told(False, [record]) for record in others),
    ]
    judge(found, everybody, [8], ())
    assert len(found.doubles) == doubles and found.lost == 8 - len(
        {record[:2] for record in others} | {(0, 7)}
    )


@pytest.mark.parametrize(
    "gives_up_at, of_old, of_ours",
    [(10, 10, 20), (15, 20, 10)],
    ids=["before ours got it", "after ours had it"],
)
def test_a_record_that_an_old_consumer_delivers_while_it_gives_up_is_its_own(
    gives_up_at: int, of_old: int, of_ours: int
) -> None:
    found = Outcome()
    everybody: list[Subject] = [
        Told(True, [(0, 7, of_old)], gives_up_at=gives_up_at),
        Told(False, [(0, 7, of_ours)]),
    ]
    judge(found, everybody, [8], ())
    assert len(found.stale) == 1 and not found.doubles and found.again == 1


def test_what_an_old_consumer_delivers_while_it_owns_it_is_no_excuse() -> None:
    found = Outcome()
    everybody: list[Subject] = [
        Told(True, [(0, 7, 20)], gives_up_at=25),
        Told(False, [(0, 7, 10)]),
    ]
    judge(found, everybody, [8], ())
    assert len(found.doubles) == 1 and not found.stale


@pytest.mark.parametrize("stored, doubles", [(8, 0), (7, 1), (0, 1)])
def test_an_old_consumer_that_begins_before_what_is_stored_has_read_it_too_early(
    stored: int, doubles: int
) -> None:
    """It reads offsets, and claims the partitions then."""
    found = Outcome()
    everybody: list[Subject] = [
        Told(False, [(0, 7, 10)]),
        Told(True, [(0, 7, 20)], stored=stored),
    ]
    judge(found, everybody, [8], ())
    assert len(found.doubles) == doubles and len(found.early) == 1 - doubles


def test_whose_node_was_in_the_way() -> None:
    found = Outcome()
    judge(found, [Told(True, [], None, ["g_o1-0", "g_host-1-aa-0", ""])], [0], {"g_o1"})
    assert found.gave_up == 3 and found.blocked == ["g_host-1-aa-0"]


def test_the_maths_of_the_simulators_old_consumers() -> None:
    """The rule that this suite compares with is written twice, in the product and here; a case by
    hand.
    """
    topics = {f"g_{name}": {"t": streams} for name, streams in (("B", 1), ("A", 2))}
    assert range_owners(topics, {"t": range(5)}) == {
        TopicPartition("t", n): thread
        for n, thread in enumerate(("g_A-0", "g_A-0", "g_A-1", "g_A-1", "g_B-0"))
    }
