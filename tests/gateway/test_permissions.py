"""Who may use a group through the gateway: whoever may by the broker, as whom it takes them for."""

from __future__ import annotations

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
from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from consumer.gateway import frames
from consumer.gateway.wire.requests import WireCode
from tests.consumer.gateway.recordings import framed, requests
from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.gateway.raw_client import RawClient
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
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = pytest.mark.kafka

PARTITIONS = 2
USERS = ("app", "other")
MINE, THEIRS = "mine", "theirs"
DENIED = WireCode.GROUP_AUTHORIZATION_FAILED
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


def login(user: str, password: str = "secret") -> dict[str, str]:
    """librdkafka's settings for a user."""
    return {**SASL, "sasl.username": user, "sasl.password": password}


class Guarded:
    """A broker that wants a password, on which `app` may use the group `mine`, and `other` none;
    both may read all topics.
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
        allowed += [("app", ResourceType.GROUP, MINE)]
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
        admin.close()


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
    for key, version, request in requests():
        if key in frames.TRANSACTIONS:
            continue
        with socket.create_connection((HOST, gateway.broker_port), PATIENCE_S) as client:
            client.sendall(framed(version, request))
            client.settimeout(PATIENCE_S)
            assert client.recv(4) == b"", f"API {key} version {version} was answered"
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
