"""Requests that name coordinated groups and groups of Kafka's own at once: each is answered by who
has it. Admin clients put into one request all groups that one broker coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kazoo.client import KazooClient

from tests.gateway.clients import PATIENCE_S, GatewayProcess
from tests.gateway.raw_client import NOT_YET, RawClient
from tests.gateway.test_order import COMMIT_V, commit
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.ports import HOST
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

OURS, THEIRS = 1_000, 7
FETCH_V, DESCRIBE_V, DELETE_V = 8, 4, 1


@pytest.fixture
def gateway(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[GatewayProcess]:
    """One that coordinates some groups."""
    arguments = kafka_zk_hosts, kafka_broker.address, "--coordinated-groups", "ours-.*"
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", *arguments) as process,
    ):
        yield process


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[RawClient]:
    """At a broker's port."""
    with RawClient(f"{HOST}:{gateway.broker_port}") as found:
        yield found


def stored(client: RawClient, group: str, topic: str, offset: int) -> str:
    """The group, with an offset. Kafka's own coordinator begins when it is asked for."""
    find = FindCoordinatorRequest(key=group, key_type=0)
    wait_until(
        lambda: client.ask(find, 2, FindCoordinatorResponse).error_code == 0,
        PATIENCE_S,
        "a coordinator",
    )

    def is_stored() -> bool:
        request = commit(group, topic, "", -1, offset)
        answer = client.ask(request, COMMIT_V, OffsetCommitResponse)
        (code,) = [p.error_code for t in answer.topics for p in t.partitions]
        assert code == 0 or code in NOT_YET
        return bool(code == 0)

    wait_until(is_stored, PATIENCE_S, "a commit")
    return group


def fetched(client: RawClient, topic: str, groups: list[str], all_of: str = "") -> dict[str, int]:
    """The offsets of partition 0 by an OffsetFetch of these groups; of `all_of` everything."""
    of = OffsetFetchRequest.OffsetFetchRequestGroup
    named = of.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    asked = [
        of(
            group_id=g,
            member_id=None,
            member_epoch=-1,
            topics=None if g == all_of else [named],
        )
        for g in groups
    ]
    request = OffsetFetchRequest(groups=asked, require_stable=False)
    answer = client.ask(request, FETCH_V, OffsetFetchResponse)
    assert all(group.error_code == 0 for group in answer.groups)
    return {
        group.group_id: part.committed_offset
        for group in answer.groups
        for t in group.topics
        for part in t.partitions
        if part.partition_index == 0
    }


def test_each_is_answered_by_who_has_it(client: RawClient, kafka_broker: KafkaBroker) -> None:
    topic = create_topic(kafka_broker.address, unique("both"), 1)
    ours = stored(client, unique("ours-"), topic, OURS)
    theirs = stored(client, unique("theirs-"), topic, THEIRS)
    for groups in ([ours, theirs], [theirs, ours]):
        assert fetched(client, topic, groups) == {ours: OURS, theirs: THEIRS}
        everything = fetched(client, topic, groups, all_of=ours)
        assert everything == {ours: OURS, theirs: THEIRS}
        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=False)
        described = client.ask(request, DESCRIBE_V, DescribeGroupsResponse).groups
        assert {g.group_id: g.group_state for g in described} == dict.fromkeys(groups, "Empty")
    deletion = DeleteGroupsRequest(groups_names=[ours, theirs])
    for code in (0, 69):
        results = client.ask(deletion, DELETE_V, DeleteGroupsResponse).results
        assert {r.group_id: r.error_code for r in results} == {ours: code, theirs: code}


def test_what_is_asked_behind_is_answered_behind(
    client: RawClient, kafka_broker: KafkaBroker
) -> None:
    """Also where the client is held up meanwhile."""
    topic = create_topic(kafka_broker.address, unique("both"), 1)
    ours = stored(client, unique("ours-"), topic, OURS)
    theirs = stored(client, unique("theirs-"), topic, THEIRS)
    of = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = [of(group_id=g, member_id=None, member_epoch=-1, topics=None) for g in (ours, theirs)]
    client.send(OffsetFetchRequest(groups=asked, require_stable=False), FETCH_V)
    client.send(ListGroupsRequest(states_filter=[]), 4)
    client.send(DescribeGroupsRequest(groups=[theirs, ours]), DESCRIBE_V)
    found = client.receive(OffsetFetchResponse, FETCH_V).groups
    assert {g.group_id: g.topics[0].partitions[0].committed_offset for g in found} == {
        ours: OURS,
        theirs: THEIRS,
    }
    assert theirs in {g.group_id for g in client.receive(ListGroupsResponse, 4).groups}
    described = client.receive(DescribeGroupsResponse, DESCRIBE_V).groups
    assert [g.group_state for g in described] == ["Empty", "Empty"]


def test_a_group_that_is_not_the_gateways_is_not_listed_as_one(
    client: RawClient, kafka_zk_hosts: str
) -> None:
    """One of a shim, of which Kafka's coordinator, whom its name leads to, knows nothing."""
    names = {unique("ours-"), unique("theirs-")}
    zookeeper = KazooClient(kafka_zk_hosts)
    zookeeper.start()
    for name in names:
        zookeeper.ensure_path(f"/consumers/groups/{name}")
    zookeeper.stop()
    zookeeper.close()
    found = client.ask(ListGroupsRequest(states_filter=[]), 4, ListGroupsResponse).groups
    listed = names & {group.group_id for group in found}
    assert [name[:5] for name in listed] == ["ours-"]


def test_an_admin_client_asks_about_all_groups_at_once(client: RawClient) -> None:
    """`--describe --all-groups` does, however many there are: 3 requests about 1,500 of ours."""
    groups = [f"ours-{number}" for number in range(1_500)]
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
    found = client.ask(find, 4, FindCoordinatorResponse).coordinators
    assert [one.key for one in found if one.error_code == 0] == groups
    describe = DescribeGroupsRequest(groups=groups, include_authorized_operations=False)
    described = client.ask(describe, DESCRIBE_V, DescribeGroupsResponse).groups
    assert {(g.group_id, g.group_state) for g in described} == {(g, "Dead") for g in groups}
    assert fetched(client, "none", groups) == dict.fromkeys(groups, -1)


def test_who_deletes_many_groups_may_ask_more_behind(client: RawClient) -> None:
    """What the gateway asks the broker for it is not counted as its own requests."""
    deletion = DeleteGroupsRequest(groups_names=[f"ours-{number}" for number in range(1_000)])
    client.send(deletion, DELETE_V)
    client.send(ListGroupsRequest(states_filter=[]), 4)
    results = client.receive(DeleteGroupsResponse, DELETE_V).results
    assert len(results) == 1_000 and {r.error_code for r in results} == {69}
    assert client.receive(ListGroupsResponse, 4).error_code == 0
