"""Requests of one connection are served in the order in which they come, also those of which the
broker is asked first whether they may be.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from tests.gateway.clients import PATIENCE_S, GatewayProcess
from tests.gateway.raw_client import RawClient
from tests.gateway.test_operation import Watched
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

RECORDS = 50
COMMITS = 200
EARLIER, LATER = 5, 7
HEARTBEAT_V, COMMIT_V, FETCH_V = 3, 7, 5
PARKED = 'zkcoord_gateway_parked{kind="heartbeat"}'


def commit(
    group: str, topic: str, member: str, generation: int, offset: int
) -> OffsetCommitRequest:
    """Of partition 0."""
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    part = of_topic.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=None,
        topics=[of_topic(name=topic, partitions=[part])],
    )


def test_a_commit_overtakes_none_that_waits_for_a_permission(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """A heartbeat and a commit come on a connection that is new, so that the broker is asked; while
    the heartbeat is parked, if it is, another commit comes.
    """
    group, topic = unique("g"), create_topic(kafka_broker.address, unique("wire"), 1)
    produce_numbered(kafka_broker.address, topic, 1, RECORDS)
    watched = Watched(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address)
    with (
        coordinator(kafka_zk_hosts),
        watched.process as gateway,
        RawClient(gateway.address) as first,
        RawClient(gateway.address) as client,
    ):
        member, generation = first.join(group, topic)
        beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        client.send(beat, HEARTBEAT_V)
        client.send(commit(group, topic, member, generation, EARLIER), COMMIT_V)
        wait_until(
            lambda: client.is_answered() or watched.sample(PARKED),
            PATIENCE_S,
            "a heartbeat that is parked or answered",
        )
        client.send(commit(group, topic, member, generation, LATER), COMMIT_V)
        assert client.receive(HeartbeatResponse, HEARTBEAT_V).error_code == 0
        for _ in (EARLIER, LATER):
            answer = client.receive(OffsetCommitResponse, COMMIT_V)
            assert [p.error_code for t in answer.topics for p in t.partitions] == [0]
        assert stored(client, group, topic) == LATER


def test_what_is_stored_is_asked_after_the_commits_that_came_before(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """A member commits so much that it takes a while, and asks at once."""
    partitions = 200
    group, topic = unique("g"), create_topic(kafka_broker.address, unique("wide"), partitions)
    of = OffsetCommitRequest.OffsetCommitRequestTopic
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
        RawClient(gateway.address) as client,
    ):
        member, generation = client.join(group, topic)
        for offset in range(1, 6):
            parts = [
                of.OffsetCommitRequestPartition(
                    partition_index=n,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    committed_metadata="x" * 3_000,
                )
                for n in range(partitions)
            ]
            asked = commit(group, topic, member, generation, offset)
            asked.topics = [of(name=topic, partitions=parts)]
            client.send(asked, COMMIT_V)
            client.send(fetch(group, topic, partitions - 1), FETCH_V)
            answer = client.receive(OffsetCommitResponse, COMMIT_V)
            assert {p.error_code for p in answer.topics[0].partitions} == {0}
            assert offset_in(client.receive(OffsetFetchResponse, FETCH_V)) == offset


def stored(client: RawClient, group: str, topic: str) -> int:
    """The group's next offset of partition 0."""
    return offset_in(client.ask(fetch(group, topic), FETCH_V, OffsetFetchResponse))


def fetch(group: str, topic: str, partition: int = 0) -> OffsetFetchRequest:
    """Of one partition."""
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
    return OffsetFetchRequest(
        group_id=group, topics=[of_topic(name=topic, partition_indexes=[partition])]
    )


def offset_in(answer: OffsetFetchResponse) -> int:
    """Of the one partition."""
    ((offset,),) = [[p.committed_offset for p in t.partitions] for t in answer.topics]
    return int(offset)


def test_commits_without_a_member_do_not_overtake_each_other(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """As a client sends them that assigns partitions to itself and does not wait for answers."""
    group, topic = unique("g"), create_topic(kafka_broker.address, unique("wire"), 1)
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
        RawClient(gateway.address) as client,
    ):
        for offset in range(COMMITS):
            client.send(commit(group, topic, "", -1, offset), COMMIT_V)
        for _ in range(COMMITS):
            answer = client.receive(OffsetCommitResponse, COMMIT_V)
            assert [p.error_code for t in answer.topics for p in t.partitions] == [0]
        assert stored(client, group, topic) == COMMITS - 1
