"""What is listed can be described, and the reverse, whoever a group belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from tests.gateway.clients import GatewayProcess, Librdkafka, shared
from tests.gateway.raw_client import RawClient
from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import consumer as shim
from tests.kafka.groups import coordinator, take
from zkcoord.core.error_codes import WireCode
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 2
STORED = 1


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic without records."""
    return create_topic(kafka_broker.address, unique("listing"), PARTITIONS)


@contextmanager
def gateway_for(
    folder: Path, broker: KafkaBroker, zookeeper: str, *arguments: str
) -> Iterator[GatewayProcess]:
    """A gateway beside a coordinator."""
    with (
        coordinator(zookeeper),
        GatewayProcess(folder / "gateway", zookeeper, broker.address, *arguments) as process,
    ):
        yield process


def stored(address: str, group: str, topic: str) -> None:
    """An offset of a group without members."""
    client = Consumer({"bootstrap.servers": address, "group.id": group})
    client.assign([Partition(topic, 0, 0)])
    client.commit(offsets=[Partition(topic, 0, STORED)], asynchronous=False)
    client.close()


def listed(address: str) -> dict[str, str]:
    """Group -> state, of all that a client is told of."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        found = {group["group_id"]: group["group_state"] for group in admin.list_groups()}
        said = admin.describe_groups(list(found)) if found else {}
    finally:
        admin.close()
    assert {name: said[name]["group_state"] for name in found} == found
    return found


def listed_in(address: str, *states: str) -> set[str]:
    """Groups that are listed of these states."""
    with RawClient(address) as client:
        asked = ListGroupsRequest(states_filter=list(states))
        answer = client.ask(asked, 4, ListGroupsResponse)
    assert answer.error_code == 0
    return {group.group_id for group in answer.groups}


def test_kafkas_own_groups_whose_names_are_coordinated_are_not_listed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str
) -> None:
    """Neither those that have members nor those of which there are offsets alone."""
    live, alone, here = unique("live"), unique("alone"), unique("here")
    stored(kafka_broker.address, alone, topic)
    with ExitStack() as ends, gateway_for(tmp_path, kafka_broker, kafka_zk_hosts) as gateway:
        for address, group in ((kafka_broker.address, live), (gateway.address, here)):
            client = Librdkafka(address, group, topic)
            ends.callback(client.close)
            shared([client], PARTITIONS)
        assert {live, alone} <= listed(kafka_broker.address).keys()
        for address in (gateway.address, f"127.0.0.1:{gateway.broker_port}"):
            found = listed(address)
            assert found[here] == "Stable" and not {live, alone} & found.keys()


def test_others_of_kafkas_own_are_listed_and_groups_of_theirs_that_are_only_here_are_not(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str
) -> None:
    ours, theirs, shims = unique("ours"), unique("theirs"), unique("shims")
    stored(kafka_broker.address, unique("ours"), topic)
    stored(kafka_broker.address, theirs, topic)
    selected = ("--coordinated-groups", "ours-.*")
    with gateway_for(tmp_path, kafka_broker, kafka_zk_hosts, *selected) as gateway:
        one = shim(kafka_zk_hosts, shims, topic, bootstrap_servers=kafka_broker.address)
        client = Librdkafka(gateway.address, ours, topic)
        shared([client], PARTITIONS)
        take(one, {})
        found = listed(gateway.address)
        kafkas = {name for name in listed(kafka_broker.address) if not name.startswith("ours-")}
        assert theirs in kafkas and found.keys() == {ours, *kafkas}
        client.close()
        one.close()


def test_who_asks_about_groups_of_both_kinds_at_once_is_told_of_both(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str
) -> None:
    """Each is named its own coordinator, and where both have the same one each is asked."""
    ours, theirs, none = unique("ours"), unique("theirs"), unique("none")
    stored(kafka_broker.address, theirs, topic)
    selected = ("--coordinated-groups", "ours-.*")
    with (
        gateway_for(tmp_path, kafka_broker, kafka_zk_hosts, *selected) as gateway,
        RawClient(gateway.address) as client,
    ):
        stored(gateway.address, ours, topic)
        found = client.ask(
            FindCoordinatorRequest(key_type=0, coordinator_keys=[theirs, ours]),
            4,
            FindCoordinatorResponse,
        )
        assert {one.key: (one.host, one.port, one.error_code) for one in found.coordinators} == {
            ours: ("127.0.0.1", gateway.port, 0),
            theirs: ("127.0.0.1", gateway.broker_port, 0),
        }
        described = client.ask(
            DescribeGroupsRequest(groups=[theirs, ours, none]), 5, DescribeGroupsResponse
        )
        assert {one.group_id: one.group_state for one in described.groups} == {
            ours: "Empty",
            theirs: "Empty",
            none: "Dead",
        }
        of = OffsetFetchRequest.OffsetFetchRequestGroup
        wanted = [of(group_id=g, topics=None) for g in (ours, theirs)]
        fetched = client.ask(
            OffsetFetchRequest(groups=wanted, require_stable=False), 8, OffsetFetchResponse
        )
        assert {
            group.group_id: [p.committed_offset for t in group.topics for p in t.partitions]
            for group in fetched.groups
        } == {ours: [STORED], theirs: [STORED]}
        deleted = client.ask(
            DeleteGroupsRequest(groups_names=[ours, none, theirs]),
            2,
            DeleteGroupsResponse,
        )
        assert {one.group_id: one.error_code for one in deleted.results} == {
            ours: 0,
            theirs: 0,
            none: WireCode.GROUP_ID_NOT_FOUND,
        }
    assert theirs not in listed(kafka_broker.address)


def test_a_group_of_which_there_are_offsets_alone_is_listed(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str
) -> None:
    group = unique("alone")
    with gateway_for(tmp_path, kafka_broker, kafka_zk_hosts) as gateway:
        stored(gateway.address, group, topic)
        port = f"127.0.0.1:{gateway.broker_port}"
        assert listed(gateway.address)[group] == "Empty"
        assert group in listed_in(port, "Empty")
        assert group not in listed_in(port, "Stable", "Dead")
        admin = KafkaAdminClient(bootstrap_servers=gateway.address)
        assert set(map(str, admin.delete_groups([group]).values())) == {"OK"}
        admin.close()
        assert group not in listed(gateway.address)
