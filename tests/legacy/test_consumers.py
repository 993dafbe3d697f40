"""The harness shows what a real old consumer does: who owns what, which records, which commits, a
pause, a kill.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.kafka import add_partitions, admin, create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.legacy.consumers import LegacyProcess
from tests.legacy.jars import RELEASES, V0_8, V1_1
from tests.legacy.looking import owners, registered, stored_offsets
from zkcoord.core.model import TopicPartition
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker
from zkcoord.verdict import lines as verdict_lines
from zkcoord.verdict.facts import Delivered, PartitionAssigned, Released

WAIT_S = 120.0
PARTITIONS, RECORDS = 4, 50
NOBODY = b'{"version":1,"subscription":{},"pattern":"static","timestamp":"1"}'
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize(
    "version",
    [
        V1_1,
        *(
            pytest.param(version, marks=pytest.mark.nightly)
            for version in RELEASES
            if version != V1_1
        ),
    ],
)
def test_a_group_of_old_consumers(
    version: str,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    looking: KazooClient,
    java: Java,
    tmp_path: Path,
) -> None:
    """Two members in processes of their own: registrations, owners, every record once, a commit,
    then a kill whose partitions the other takes over.
    """
    topic = create_topic(kafka_broker.address, unique("old"), PARTITIONS)
    group = unique("group")
    produce_numbered(kafka_broker.address, topic, PARTITIONS, RECORDS)
    every = {TopicPartition(topic, number) for number in range(PARTITIONS)}
    half = {
        TopicPartition(topic, number): f"{group}_{'A' if number < PARTITIONS // 2 else 'B'}-0"
        for number in range(PARTITIONS)
    }
    with LegacyProcess(tmp_path / "one", version, kafka_zk_hosts, java) as one:
        first = one.consumer(group, {topic: 1}, name="A", auto_commit_enable="false")
        wait_until(
            lambda: all(
                first.records.get(partition) == list(range(RECORDS)) for partition in every
            ),
            WAIT_S,
            "every record at the only member",
        )
        told = first.commit()
        assert stored_offsets(looking, group) == dict.fromkeys(every, RECORDS)
        with LegacyProcess(tmp_path / "other", version, kafka_zk_hosts, java) as other:
            second = other.consumer(
                group,
                {topic: 1},
                name="B",
                auto_commit_enable="false",
                zookeeper_session_timeout_ms=6_000,
            )
            wait_until(
                lambda: owners(looking, group) == half,
                WAIT_S,
                "half of the partitions at each member",
            )
            found = {name: json.loads(data) for name, data in registered(looking, group).items()}
            assert set(found) == {first.id, second.id} and all(
                member["subscription"] == {topic: 1} and member["pattern"] == "static"
                for member in found.values()
            )
            if version != V0_8:  # which tells nobody what it owns
                wait_until(
                    lambda: (
                        first.owned
                        == {
                            str(partition)
                            for partition, thread in half.items()
                            if thread.endswith("A-0")
                        }
                    ),
                    WAIT_S,
                    "what the first member says itself",
                )
                assert second.wait("assigned")["offsets"] == {
                    str(partition): RECORDS
                    for partition, thread in half.items()
                    if thread.endswith("B-0")
                }
                assert told == {str(partition): RECORDS for partition in every}
            other.kill()
        wait_until(
            lambda: owners(looking, group) == dict.fromkeys(every, f"{first.id}-0"),
            WAIT_S,
            "everything at the member that is left",
        )
        first.close()
        assert owners(looking, group) == registered(looking, group) == {}
    facts = [fact for line in first.lines for fact in verdict_lines.consumer("A", line)]
    assert sum(isinstance(fact, Delivered) for fact in facts) == PARTITIONS * RECORDS
    assert version == V0_8 or (
        any(isinstance(fact, PartitionAssigned) and fact.offset == RECORDS for fact in facts)
        and any(isinstance(fact, Released) for fact in facts)
    )


@pytest.mark.nightly
def test_its_own_broker(zk_hosts: str, java: Java, tmp_path: Path) -> None:
    """A broker of 1.1.1: records of today's producer, and offsets in both stores."""
    broker = KafkaBroker(
        tmp_path / "broker", free_port(), zk_hosts, java, owned=True, artifact=RELEASES[V1_1]
    )
    broker.start()
    try:
        topic, group = create_topic(broker.address, unique("old"), 1), unique("group")
        produce_numbered(broker.address, topic, 1, RECORDS)
        with LegacyProcess(tmp_path / "legacy", V1_1, zk_hosts, java) as process:
            member = process.consumer(
                group,
                {topic: 1},
                auto_commit_enable="false",
                offsets_storage="kafka",
                dual_commit_enabled="true",
            )
            wait_until(
                lambda: member.records == {TopicPartition(topic, 0): list(range(RECORDS))},
                WAIT_S,
                "every record",
            )
            assert member.commit() == {f"{topic}-0": RECORDS}
        with admin(broker.address) as client:
            assert {
                (at.topic, at.partition): stored.offset
                for at, stored in client.list_group_offsets([group])[group].items()
            } == {(topic, 0): RECORDS}
    finally:
        broker.kill()


def test_a_member_that_gives_up(
    kafka_broker: KafkaBroker, legacy: LegacyProcess, looking: KazooClient
) -> None:
    """Somebody holds a partition that comes to it, for longer than four attempts: it says so, stays
    registered and owns nothing. A change of the group's registrations wakes it.

    (The partition is a new one: owner nodes where it believes to own something already it deletes,
    whosever they are.)
    """
    topic = create_topic(kafka_broker.address, unique("old"), 1)
    group = unique("group")
    member = legacy.consumer(group, {topic: 1}, name="A", rebalance_backoff_ms=200)
    obstacle = f"/consumers/{group}/owners/{topic}/1"
    looking.create(obstacle, b"somebody-0", ephemeral=True)
    assert not member.gave_up()
    add_partitions(kafka_broker.address, topic, 2)
    wait_until(lambda: len(member.gave_up()) == 1, WAIT_S, "the member to give up")
    assert owners(looking, group) == {TopicPartition(topic, 1): "somebody-0"} and set(
        registered(looking, group)
    ) == {member.id}
    assert member.owned == set()
    looking.delete(obstacle)
    looking.create(f"/consumers/{group}/ids/change", NOBODY, ephemeral=True)
    wait_until(
        lambda: (
            owners(looking, group)
            == {TopicPartition(topic, number): f"{member.id}-0" for number in range(2)}
            and len(member.owned) == 2
        ),
        WAIT_S,
        "everything at the member again",
    )
