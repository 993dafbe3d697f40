"""Who may use a group through the gateway: whoever may by the broker, as whom it takes them for."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)
from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kazoo.client import KazooClient

from consumer.gateway import frames
from tests.consumer.gateway.recordings import framed, requests
from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.gateway.raw_client import RawClient
from tests.gateway.test_order import COMMIT_V, FETCH_V, commit
from tests.harness.command import run
from tests.harness.kafka import (
    CHROOT,
    KEPT_FOR_EVER,
    create_topic,
    produce_numbered,
    unique,
)
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.core.error_codes import WireCode
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = pytest.mark.kafka

PARTITIONS = 2
USERS = ("app", "other")
MINE, THEIRS = "mine", "theirs"
DENIED = WireCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = WireCode.TOPIC_AUTHORIZATION_FAILED
LIST_V, METADATA_V = 4, 4
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


def login(user: str, password: str = "secret") -> dict[str, str]:
    """librdkafka's settings for a user."""
    return {**SASL, "sasl.username": user, "sasl.password": password}


class Guarded:
    """A broker that wants a password, on which `app` may use the group `mine`, and `other` the
    group `theirs`; both may read all topics but those that are `kept_from` one of them.
    """

    def __init__(self, home: Path, zookeeper: str, java: Java) -> None:
        self.zookeeper = zookeeper
        self.inside, self.outside = free_port(), free_port()
        listeners = f"PLAINTEXT://{HOST}:{self.inside},SASL_PLAINTEXT://{HOST}:{self.outside}"
        users = " ".join(f'user_{user}="secret"' for user in USERS)
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        self.broker = KafkaBroker(
            home,
            self.inside,
            zookeeper,
            java,
            owned=True,
            config={
                **KEPT_FOR_EVER,
                "listeners": listeners,
                "advertised.listeners": listeners,
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:ANONYMOUS",
            },
        )
        self.broker.start()
        self.topic = create_topic(self.broker.address, unique("guarded"), PARTITIONS)
        produce_numbered(self.broker.address, self.topic, PARTITIONS, 3)
        admin = KafkaAdminClient(bootstrap_servers=self.broker.address)
        allowed = [(user, ResourceType.TOPIC, "*") for user in USERS]
        allowed += [("app", ResourceType.GROUP, MINE), ("other", ResourceType.GROUP, THEIRS)]
        admin.create_acls(
            [
                ACL(
                    f"User:{user}",
                    "*",
                    operation,
                    ACLPermissionType.ALLOW,
                    ResourcePattern(kind, name),
                )
                for user, kind, name in allowed
                for operation in (ACLOperation.READ, ACLOperation.DESCRIBE)
            ]
        )
        deleting = ResourcePattern(ResourceType.GROUP, MINE)
        admin.create_acls(
            [ACL("User:app", "*", ACLOperation.DELETE, ACLPermissionType.ALLOW, deleting)]
        )
        admin.close()

    def kept_from(self, user: str, *operations: ACLOperation) -> str:
        """A topic with which this user may not do that (once the broker has heard of it)."""
        topic = create_topic(self.broker.address, unique("secret"), 1)
        admin = KafkaAdminClient(bootstrap_servers=self.broker.address)
        pattern = ResourcePattern(ResourceType.TOPIC, topic)
        admin.create_acls(
            [ACL(f"User:{user}", "*", one, ACLPermissionType.DENY, pattern) for one in operations]
        )
        admin.close()
        return topic


@pytest.fixture(scope="module")
def guarded(
    zk_server: ZooKeeperServer, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    found = Guarded(
        tmp_path_factory.mktemp("guarded") / "broker",
        f"{zk_server.address}{CHROOT}-guarded",
        java,
    )
    yield found
    found.broker.kill()


@pytest.fixture
def gateway(guarded: Guarded, tmp_path: Path) -> Iterator[GatewayProcess]:
    """In front of the listener that wants a password; it has `app`'s itself."""
    config = tmp_path / "kafka.toml"
    config.write_text(
        'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\n'
        'sasl_plain_username = "app"\nsasl_plain_password = "secret"\n'
    )
    with (
        coordinator(guarded.zookeeper),
        GatewayProcess(
            tmp_path / "gateway",
            guarded.zookeeper,
            f"{HOST}:{guarded.outside}",
            "--kafka-config",
            str(config),
        ) as process,
    ):
        yield process


def test_a_client_uses_the_groups_that_its_user_may(
    gateway: GatewayProcess, guarded: Guarded, tmp_path: Path
) -> None:
    allowed = Librdkafka(gateway.address, MINE, guarded.topic, **login("app"))
    shared([allowed], PARTITIONS)
    refused = Librdkafka(gateway.address, MINE, guarded.topic, **login("other"))
    wait_until(
        lambda: any("roup authorization failed" in error for error in refused.errors),
        PATIENCE_S,
        "a refusal",
    )
    wrong = Librdkafka(gateway.address, MINE, guarded.topic, **login("app", "guessed"))
    wait_until(
        lambda: any("uthentication" in event for event in wrong.events), PATIENCE_S, "a refusal"
    )
    shared([allowed], PARTITIONS)
    assert not refused.taken and not wrong.taken
    for client in (refused, wrong, allowed):
        client.close()
    text = run(tmp_path, "groups", "list", "--json", "--zookeeper", guarded.zookeeper).stdout
    assert text.count('"group"') == 1, "nobody else's group was made"


def test_who_has_given_no_password_is_closed_whatever_it_asks(
    gateway: GatewayProcess, guarded: Guarded, tmp_path: Path
) -> None:
    """Each request of a group, at each version, as the first of a connection. (Offsets within a
    transaction are refused to everybody.)
    """
    with contextlib.ExitStack() as clients:
        asked = []
        for key, version, request in requests():
            if key in frames.TRANSACTIONS:
                continue
            address = (HOST, gateway.broker_port)
            client = clients.enter_context(socket.create_connection(address, PATIENCE_S))
            client.sendall(framed(version, request))
            asked.append((client, f"API {key} version {version}"))
        assert asked
        for client, what in asked:
            assert client.recv(4) == b"", f"{what} was answered"
    text = run(tmp_path, "groups", "list", "--json", "--zookeeper", guarded.zookeeper).stdout
    assert '"g"' not in text


def log_in(client: RawClient, user: str) -> None:
    """By SASL PLAIN."""
    shaken = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    assert shaken.error_code == 0
    token = f"\0{user}\0secret".encode()
    found = client.ask(SaslAuthenticateRequest(auth_bytes=token), 0, SaslAuthenticateResponse)
    assert found.error_code == 0


def offsets_code(client: RawClient, *groups: str) -> list[int]:
    """What OffsetFetch answers of each of these groups."""
    of = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = [of(group_id=g, member_id=None, member_epoch=-1, topics=None) for g in groups]
    request = OffsetFetchRequest(groups=asked, require_stable=False)
    return [g.error_code for g in client.ask(request, 8, OffsetFetchResponse).groups]


def described(client: RawClient, *groups: str) -> list[int]:
    """What DescribeGroups answers of each of these groups."""
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
    return [g.error_code for g in client.ask(request, 4, DescribeGroupsResponse).groups]


def test_who_may_describe_one_group_learns_nothing_of_another(
    gateway: GatewayProcess, guarded: Guarded
) -> None:
    """`app` may use the group `mine` only."""
    with RawClient(gateway.address) as client:
        log_in(client, "app")
        assert described(client, THEIRS) == [DENIED]
        assert offsets_code(client, THEIRS) == [DENIED]
        assert described(client, MINE, THEIRS) == [DENIED, DENIED]
        assert described(client, THEIRS) == [DENIED], "the broker has permitted another one"
        assert offsets_code(client, THEIRS) == [DENIED], "the broker has permitted another one"


def committed(
    client: RawClient, topics: list[str], group: str = MINE, **member: object
) -> list[int]:
    """The codes of a commit of partition 0 of each topic, by nobody or by a member."""
    whole = commit(group, topics[0], "", -1, 1_000)
    for topic in topics[1:]:
        whole.topics += commit(group, topic, "", -1, 1_000).topics
    for name, value in member.items():
        setattr(whole, name, value)
    answer = client.ask(whole, COMMIT_V, OffsetCommitResponse)
    return [part.error_code for topic in answer.topics for part in topic.partitions]


def fetched(client: RawClient, *topics: str) -> dict[str, tuple[int, int]]:
    """Of each topic of which OffsetFetch says something (without any: it asks for all) the offset
    of partition 0 and the code.
    """
    of = OffsetFetchRequest.OffsetFetchRequestTopic
    asked = [of(name=topic, partition_indexes=[0]) for topic in topics] if topics else None
    answer = client.ask(
        OffsetFetchRequest(group_id=MINE, topics=asked), FETCH_V, OffsetFetchResponse
    )
    assert answer.error_code == 0
    return {
        t.name: (p.committed_offset, p.error_code)
        for t in answer.topics
        for p in t.partitions
        if p.partition_index == 0
    }


def await_denied(client: RawClient, topic: str) -> None:
    """Until the broker has heard of a rule: it says so itself, through the gateway."""
    asked = MetadataRequest.MetadataRequestTopic(name=topic)

    def is_denied() -> bool:
        request = MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        (found,) = client.ask(request, METADATA_V, MetadataResponse).topics
        return bool(found.error_code == TOPIC_DENIED)

    wait_until(is_denied, PATIENCE_S, "the broker's refusal of the topic")


def test_offsets_are_stored_of_topics_that_a_user_may_read(
    gateway: GatewayProcess, guarded: Guarded
) -> None:
    """A broker wants READ of each topic, whoever may use the group: a tool's commit, and a
    member's, of one topic alone and of one beside others.
    """
    secret = guarded.kept_from("app", ACLOperation.READ, ACLOperation.DESCRIBE)
    free, mixed = guarded.topic, [secret, guarded.topic]
    with RawClient(f"{HOST}:{guarded.outside}") as client:
        log_in(client, "app")
        # who is Kafka's own coordinator has to be found first
        find = FindCoordinatorRequest(key=MINE, key_type=0)
        wait_until(lambda: client.ask(find, 2, FindCoordinatorResponse).error_code == 0, 60, "it")
        await_denied(client, secret)
        of_broker = wait_until(lambda: settled(committed(client, mixed)), PATIENCE_S, "a commit")
        assert of_broker == [TOPIC_DENIED, 0]
    with RawClient(gateway.address) as client:
        log_in(client, "app")
        assert committed(client, [secret]) == [TOPIC_DENIED]
        assert committed(client, mixed) == [TOPIC_DENIED, 0]
        assert committed(client, mixed) == [TOPIC_DENIED, 0], "the other is known by now"
        assert fetched(client, free) == {free: (1_000, 0)}
        member, generation = client.join(MINE, free)
        me = {"member_id": member, "generation_id_or_member_epoch": generation}
        assert committed(client, [secret], **me) == [TOPIC_DENIED]
        assert committed(client, mixed, **me) == [TOPIC_DENIED, 0]
        me["generation_id_or_member_epoch"] = generation + 7
        assert committed(client, mixed, **me) == [TOPIC_DENIED, WireCode.ILLEGAL_GENERATION]


def settled(codes: list[int]) -> list[int] | None:
    """Codes of a commit, unless the coordinator has still to begin."""
    return None if {14, 15, 16} & set(codes) else codes


def test_what_is_stored_is_told_of_topics_that_a_user_may_describe(
    gateway: GatewayProcess, guarded: Guarded
) -> None:
    """By name, and among all; whoever may describe them is told of all."""
    secret = guarded.kept_from("app", ACLOperation.READ, ACLOperation.DESCRIBE)
    unread = guarded.kept_from("app", ACLOperation.READ)
    with RawClient(gateway.address) as client:
        log_in(client, "app")
        await_denied(client, secret)
        assert committed(client, [guarded.topic, unread]) == [0, TOPIC_DENIED]
    for topic in (secret, unread):
        where = ("--zookeeper", guarded.zookeeper, "--bootstrap-servers", guarded.broker.address)
        done = run(
            gateway.home,
            *("offsets", "reset", MINE, "--topic", topic, "--to-earliest", "--execute", *where),
        )
        assert done.returncode == 0, done.stderr
    with RawClient(gateway.address) as client:
        log_in(client, "app")
        denied = (-1, int(TOPIC_DENIED))
        told = {secret: denied, guarded.topic: (1_000, 0)}
        assert fetched(client, secret, guarded.topic) == told
        everything = fetched(client)
        assert secret not in everything, "who asks for all is told of it"
        assert everything[guarded.topic] == (1_000, 0) and everything[unread] == (0, 0)


def test_offsets_are_deleted_of_topics_that_a_user_may_read(
    gateway: GatewayProcess, guarded: Guarded
) -> None:
    """DELETE of the group is not enough."""
    unread = guarded.kept_from("app", ACLOperation.READ)
    of = OffsetDeleteRequest.OffsetDeleteRequestTopic
    with RawClient(gateway.address) as client:
        log_in(client, "app")
        assert committed(client, [guarded.topic]) == [0]
        wait_until(
            lambda: settled(committed(client, [unread])) == [TOPIC_DENIED], PATIENCE_S, "a refusal"
        )
        part = of.OffsetDeleteRequestPartition(partition_index=0)
        topics = [of(name=topic, partitions=[part]) for topic in (unread, guarded.topic)]
        asked = OffsetDeleteRequest(group_id=MINE, topics=topics)
        answer = client.ask(asked, 0, OffsetDeleteResponse)
        found = [(t.name, p.error_code) for t in answer.topics for p in t.partitions]
        assert found == [(unread, TOPIC_DENIED), (guarded.topic, 0)]
        assert fetched(client, guarded.topic) == {guarded.topic: (-1, 0)}


def listed(client: RawClient) -> set[str]:
    """The groups that ListGroups names."""
    answer = client.ask(ListGroupsRequest(states_filter=[]), LIST_V, ListGroupsResponse)
    assert answer.error_code == 0
    return {group.group_id for group in answer.groups}


def test_groups_are_listed_to_whom_may_describe_them(
    gateway: GatewayProcess, guarded: Guarded
) -> None:
    """And a request that comes behind is answered behind, also where a heartbeat is parked."""
    with RawClient(gateway.address) as app, RawClient(gateway.address) as other:
        log_in(app, "app")
        log_in(other, "other")
        app.join(MINE, guarded.topic)
        other.join(THEIRS, guarded.topic)
        with RawClient(f"{HOST}:{gateway.broker_port}") as client:
            log_in(client, "app")
            assert listed(client) == {MINE}
        with RawClient(f"{HOST}:{gateway.broker_port}") as client:
            log_in(client, "other")
            client.send(ListGroupsRequest(states_filter=[]), LIST_V)
            client.send(MetadataRequest(topics=[], allow_auto_topic_creation=False), METADATA_V)
            answer = client.receive(ListGroupsResponse, LIST_V)
            assert [group.group_id for group in answer.groups] == [THEIRS]
            assert client.receive(MetadataResponse, METADATA_V).brokers


def limited(guarded: Guarded, user: str, consumer_byte_rate: int | None) -> None:
    """Let the broker give so many bytes of records a second to a user (None: as many as it can)."""
    limits = {} if consumer_byte_rate is None else {"consumer_byte_rate": str(consumer_byte_rate)}
    client = KazooClient(guarded.zookeeper)
    client.start()
    try:
        path = f"/config/users/{user}"
        client.ensure_path(path)
        client.set(path, json.dumps({"version": 1, "config": limits}).encode())
        told = json.dumps({"version": 2, "entity_path": f"users/{user}"}).encode()
        client.create("/config/changes/config_change_", told, sequence=True)
    finally:
        client.stop()
        client.close()


def throttle_ms(client: RawClient, topic: str) -> int:
    """How long the broker makes a client wait that has read some records."""
    of = FetchRequest.FetchTopic
    part = of.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        isolation_level=0,
        topics=[of(topic=topic, partitions=[part])],
    )
    return int(client.ask(request, 4, FetchResponse).throttle_time_ms)


def test_who_has_read_more_than_its_quota_may_still_commit(
    gateway: GatewayProcess, guarded: Guarded
) -> None:
    """A broker that throttles a client answers its Fetch without a word of any topic."""
    with RawClient(f"{HOST}:{guarded.outside}") as reader, RawClient(gateway.address) as client:
        log_in(reader, "app")
        log_in(client, "app")
        limited(guarded, "app", 2)
        try:
            wait_until(lambda: throttle_ms(reader, guarded.topic), PATIENCE_S, "a quota")
            assert committed(client, [guarded.topic]) == [0]
        finally:
            limited(guarded, "app", None)


def test_what_a_client_asks_itself_is_no_answer_to_what_is_asked_for_it(
    gateway: GatewayProcess, guarded: Guarded
) -> None:
    """Who asks for all offsets is held up until it is known which it may be told of, also where
    something else that it asked before is answered meanwhile.
    """
    everything = OffsetFetchRequest(group_id=MINE, topics=None)
    metadata = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with RawClient(gateway.address) as client:
        log_in(client, "app")
        client.send(commit(MINE, guarded.topic, "", -1, 1_000), COMMIT_V)
        client.send(everything, FETCH_V)
        client.send(metadata, METADATA_V)
        answer = client.receive(OffsetCommitResponse, COMMIT_V)
        assert [p.error_code for t in answer.topics for p in t.partitions] == [0]
        told = {topic.name for topic in client.receive(OffsetFetchResponse, FETCH_V).topics}
        assert guarded.topic in told
        assert client.receive(MetadataResponse, METADATA_V).brokers
