"""Groups whose leader is a client, through a gateway: a real broker, real clients."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from kafka.protocol.consumer import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.gateway.wire.subscription import encode_subscription
from tests.bench.gateway_clients import (
    OWN,
    Client,
    command_of,
    options_of,
    running,
    shares,
    when,
)
from tests.gateway.clients import PATIENCE_S, V3, V4, GatewayProcess, Librdkafka, shared
from tests.gateway.connect_worker import ConnectWorker
from tests.gateway.own_assignor import OwnAssignor
from tests.gateway.raw_client import SESSION_MS, RawClient
from tests.gateway.test_failover import named
from tests.harness.command import Running
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.core.error_codes import WireCode
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 50
TASKS = 4
HERE = "is here"


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("led")
    create_topic(kafka_broker.address, name, PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


@pytest.fixture
def gateway(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[GatewayProcess]:
    """One beside a coordinator."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as one,
    ):
        yield one


def taken(clients: list[OwnAssignor]) -> set[tuple[int, int]]:
    """What they have got."""
    return {record for client in clients for record in client.taken}


def everything(each: int = EACH) -> set[tuple[int, int]]:
    """All records, with so many in each partition."""
    return {(n, offset) for n in range(PARTITIONS) for offset in range(each)}


def test_members_share_what_their_leader_assigns(
    gateway: GatewayProcess, topic: str, tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    group = unique("g")
    one, two, three = clients = [
        OwnAssignor(tmp_path / str(n), gateway.address, group, topic) for n in range(3)
    ]
    shared([one, two, three], PARTITIONS)
    wait_until(lambda: taken(clients) == everything(), PATIENCE_S, "all records")
    one.close()
    shared([two, three], PARTITIONS)
    two.kill()
    shared([three], PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    wait_until(lambda: taken(clients) == everything(2 * EACH), PATIENCE_S, "all records")
    three.close()


def test_another_coordinator_goes_on_with_a_group(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, topic: str, tmp_path: Path
) -> None:
    group = unique("g")
    asks = ("--zookeeper", kafka_zk_hosts)
    with (
        Running(tmp_path / "first", *asks) as first,
        GatewayProcess(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address) as gateway,
    ):
        first.ready("leading")
        clients = [OwnAssignor(tmp_path / str(n), gateway.address, group, topic) for n in range(2)]
        shared(clients, PARTITIONS)
        wait_until(lambda: taken(clients) == everything(), PATIENCE_S, "all records")
        calls = [list(client.calls) for client in clients]
        first.process.kill()
        clients.append(OwnAssignor(tmp_path / "2", gateway.address, group, topic))
        with Running(tmp_path / "second", *asks):
            shared(clients, PARTITIONS)
            produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
            wait_until(lambda: taken(clients) == everything(2 * EACH), PATIENCE_S, "all records")
            for client, before in zip(clients, calls, strict=False):
                more = [what for what, _ in client.calls[len(before) :]]
                assert more == ["revoked", "assigned"], "one rebalance: that of the new member"
            for client in clients:
                client.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_a_gateway_goes_its_clients_go_on_at_the_other_one(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    group = unique("g")
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "a", kafka_zk_hosts, kafka_broker.address) as one,
        GatewayProcess(tmp_path / "b", kafka_zk_hosts, kafka_broker.address) as other,
    ):
        for gateway in (one, other):
            wait_until(lambda: named(gateway) == 3, PATIENCE_S, "gateways that know each other")
        clients = [
            OwnAssignor(tmp_path / str(n), [one.address, other.address], group, topic)
            for n in range(3)
        ]
        shared(clients, PARTITIONS)
        wait_until(lambda: taken(clients) == everything(), PATIENCE_S, "all records")
        calls = [list(client.calls) for client in clients]
        served, left = (one, other) if HERE in one.log() else (other, one)
        assert served.log().count(HERE) + left.log().count(HERE) == 3
        served.process.send_signal(number)
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        wait_until(lambda: taken(clients) == everything(2 * EACH), PATIENCE_S, "all records")
        wait_until(lambda: left.log().count(HERE) == 3, PATIENCE_S, "all members at the other one")
        assert [client.calls for client in clients] == calls, "no callback"
        clients.pop().close()
        shared(clients, PARTITIONS)
        for client in clients:
            client.close()


def test_tools_see_and_delete_a_group_that_a_client_leads(
    gateway: GatewayProcess, topic: str, tmp_path: Path
) -> None:
    group = unique("g")
    clients = [OwnAssignor(tmp_path / str(n), gateway.address, group, topic) for n in range(2)]
    shared(clients, PARTITIONS)
    wait_until(lambda: taken(clients) == everything(), PATIENCE_S, "all records")
    admin = KafkaAdminClient(bootstrap_servers=gateway.address)

    def stored() -> list[int]:
        found = admin.list_group_offsets({group: None})[group]
        return [found[tp].offset for tp in sorted(found)]

    def listed() -> list[tuple[str, str]]:
        named = [one for one in admin.list_groups() if one["group_id"] == group]
        return [(one["protocol_type"], one["group_state"]) for one in named]

    wait_until(lambda: stored() == [EACH] * PARTITIONS, PATIENCE_S, "commits of the members")
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "dealt")
    assigned = [one["member_assignment"] for one in described["members"]]
    parts = [set(part["partitions"]) for one in assigned for part in one["assigned_partitions"]]
    assert sorted(map(sorted, parts)) == sorted(sorted(client.owned) for client in clients)
    assert listed() == [("consumer", "Stable")]
    beginning = {TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)}
    (refused,) = admin.alter_group_offsets(group, beginning).values()
    assert refused.__name__ == "UnknownMemberIdError"
    assert "NonEmptyGroupError" in str(admin.delete_groups([group]))
    for client in clients:
        client.close()
    wait_until(lambda: listed() == [("consumer", "Empty")], PATIENCE_S, "an empty group")
    (done,) = admin.alter_group_offsets(group, beginning).values()
    assert done.__name__ == "NoError"
    assert stored() == [0, *[EACH] * (PARTITIONS - 1)]
    assert str(admin.delete_groups([group])[group]) == "OK"
    assert listed() == []
    admin.close()


def test_a_group_is_of_one_kind_while_it_has_members(
    gateway: GatewayProcess, topic: str, tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    """Clients with an assignor of their own, then others, then the first again; offsets stay."""
    group = unique("g")
    known = {"partition.assignment.strategy": "range", "auto.commit.interval.ms": 200}
    own = OwnAssignor(tmp_path / "own", gateway.address, group, topic)
    shared([own], PARTITIONS)
    wait_until(lambda: taken([own]) == everything(), PATIENCE_S, "all records")
    stranger = Librdkafka(gateway.address, group, topic, **known)
    wait_until(lambda: "nconsistent" in str(stranger.errors), PATIENCE_S, "a refusal")
    stranger.close()
    assert own.owned == set(range(PARTITIONS)) and stranger.calls == []
    own.close()

    other = Librdkafka(gateway.address, group, topic, **known)
    shared([other], PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    later = everything(2 * EACH) - everything()
    wait_until(lambda: set(other.taken) == later, PATIENCE_S, "what the first has left")
    refused = OwnAssignor(tmp_path / "refused", gateway.address, group, topic)
    assert refused.process.wait(PATIENCE_S) != 0
    assert "InconsistentGroupProtocol" in refused.log_path.read_text(encoding="utf-8")
    assert other.owned == set(range(PARTITIONS))
    other.close()

    again = OwnAssignor(tmp_path / "again", gateway.address, group, topic)
    shared([again], PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
    last = everything(3 * EACH) - everything(2 * EACH)
    wait_until(lambda: taken([again]) == last, PATIENCE_S, "what both have left")
    again.close()


def test_members_of_both_kinds_leave_in_one_request(
    gateway: GatewayProcess, topic: str, tmp_path: Path
) -> None:
    """A client was given an id, and before it came with that another one has led the group."""
    group, both = unique("g"), LeaveGroupRequest.MemberIdentity
    with RawClient(gateway.address) as raw:
        of = JoinGroupRequest.JoinGroupRequestProtocol
        asked = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[of(name="range", metadata=encode_subscription([topic]))],
        )
        given = raw.ask(asked, 5, JoinGroupResponse)
        assert given.error_code == WireCode.MEMBER_ID_REQUIRED
        own = OwnAssignor(tmp_path / "own", gateway.address, group, topic)
        shared([own], PARTITIONS)
        (line,) = [one for one in gateway.log().splitlines() if one.endswith(f'{HERE}"')]
        led = line.partition("member '")[2].partition("'")[0]
        named = [
            both(member_id=one, group_instance_id=None, reason=None)
            for one in (given.member_id, led, "nobody")
        ]
        left = raw.ask(
            LeaveGroupRequest(group_id=group, member_id="", members=named), 3, LeaveGroupResponse
        )
    assert left.error_code == WireCode.NONE
    unknown = WireCode.UNKNOWN_MEMBER_ID
    assert [one.error_code for one in left.members] == [WireCode.NONE, WireCode.NONE, unknown]
    own.close()


@pytest.mark.nightly
@pytest.mark.parametrize("version", [V3, V4])
def test_javas_clients_lead_their_group(
    gateway: GatewayProcess,
    kafka_broker: KafkaBroker,
    topic: str,
    java: Java,
    tmp_path: Path,
    version: str,
) -> None:
    kind, group = f"java {version}", unique("g")
    options = options_of(kind, OWN, gateway.address, group)
    options |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "500"}
    with running() as clients:
        for n in range(3):
            command = command_of(kind, java, topic, options)
            clients.append(Client(f"client-{n}", command, tmp_path))
        for client in clients:
            wait_until(client.is_ready, PATIENCE_S, "a client that is ready")
            client.say("join")
        when(shares(clients, PARTITIONS), 0.0, "three share")

        def took() -> list[tuple[int, int]]:
            return sorted(record for client in clients for record in client.took())

        wait_until(lambda: took() == sorted(everything()), PATIENCE_S, "all records, each once")
        clients[2].say("commit")
        wait_until(
            lambda: clients[2].said("committed") or clients[2].said("commit failed"),
            PATIENCE_S,
            "a commit",
        )
        assert clients[2].said("commit failed") is None
        clients[0].say("close")
        when(shares(clients[1:], PARTITIONS), 0.0, "two share")
        clients[1].kill()
        when(shares(clients[2:], PARTITIONS), 0.0, "one has all")
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        wait_until(lambda: set(took()) == everything(2 * EACH), PATIENCE_S, "all records")
        assert not [event for client in clients for event in client.events if event.kind == "lost"]


@pytest.mark.nightly
def test_kafka_connects_workers_share_their_tasks(
    gateway: GatewayProcess, kafka_broker: KafkaBroker, java: Java, tmp_path: Path
) -> None:
    """Two workers of one Connect cluster, whose group is of another protocol type: a connector's
    tasks are spread over both, and go to the other one when one is killed.
    """
    cluster = unique("connect")
    ports = [free_port(), free_port()]
    workers = [
        ConnectWorker(tmp_path / str(n), java, gateway.address, cluster, port)
        for n, port in enumerate(ports)
    ]
    try:
        for worker in workers:
            worker.listens()
        workers[0].create("source", TASKS, create_topic(kafka_broker.address, unique("to"), 1))
        both = {f"127.0.0.1:{port}" for port in ports}
        wait_until(lambda: workers[0].running("source", TASKS) == both, PATIENCE_S, "tasks on both")
        workers[0].kill()
        left = {f"127.0.0.1:{ports[1]}"}
        wait_until(lambda: workers[1].running("source", TASKS) == left, PATIENCE_S, "all on one")
        admin = KafkaAdminClient(bootstrap_servers=gateway.address)
        found = {one["group_id"]: one["protocol_type"] for one in admin.list_groups()}
        assert found[cluster] == "connect"
        admin.close()
    finally:
        for worker in workers:
            worker.kill()
