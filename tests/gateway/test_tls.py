"""Clients reach the gateway by TLS, and it a broker that wants TLS and SASL."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer as KafkaPythonConsumer
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, UserScramCredentialUpsertion
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.guardian.test_tls import CERTIFICATE, KEY
from tests.harness.kafka import CHROOT, KEPT_FOR_EVER, create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = pytest.mark.kafka

NAMES = str(Path(__file__).parent / "pem" / "names.pem")
LOCKED = str(Path(__file__).parent / "pem" / "locked.pem")
PARTITIONS, EACH = 2, 5
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
MODULES = {
    "plain": 'plain.PlainLoginModule required user_app="secret"',
    "scram-sha-256": "scram.ScramLoginModule required",
    "oauthbearer": (
        "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker"
    ),
}


class Sealed:
    """A broker whose clients come by TLS and one of three ways to say who they are; its tests write
    and look in plain text.
    """

    def __init__(self, home: Path, zookeeper: str, java: Java) -> None:
        self.zookeeper = zookeeper
        self.inside, self.outside = free_port(), free_port()
        listeners = f"PLAINTEXT://{HOST}:{self.inside},SASL_SSL://{HOST}:{self.outside}"
        home.mkdir()
        own = home / "own.pem"
        own.write_text(Path(KEY).read_text() + Path(CERTIFICATE).read_text())
        security = "org.apache.kafka.common.security"
        self.broker = KafkaBroker(
            home / "broker",
            self.inside,
            zookeeper,
            java,
            owned=True,
            config={
                **KEPT_FOR_EVER,
                "listeners": listeners,
                "advertised.listeners": listeners,
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(own),
                **{
                    f"listener.name.sasl_ssl.{mechanism}.sasl.jaas.config": f"{security}.{module};"
                    for mechanism, module in MODULES.items()
                },
            },
        )
        self.broker.start()
        self.topic = create_topic(self.broker.address, unique("sealed"), PARTITIONS)
        produce_numbered(self.broker.address, self.topic, PARTITIONS, EACH)
        admin = KafkaAdminClient(bootstrap_servers=self.broker.address)
        user = UserScramCredentialUpsertion("app", MECHANISMS[1], "secret")
        assert admin.alter_user_scram_credentials([user]) == {"app": None}
        admin.close()


@pytest.fixture(scope="module")
def sealed(
    zk_server: ZooKeeperServer, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sealed]:
    home = tmp_path_factory.mktemp("sealed") / "home"
    found = Sealed(home, f"{zk_server.address}{CHROOT}-sealed", java)
    with coordinator(found.zookeeper):
        yield found
    found.broker.kill()


def gateway_of(sealed: Sealed, home: Path, *arguments: str, named: bool = False) -> GatewayProcess:
    """By TLS on both sides; its own questions use PLAIN."""
    home.mkdir()
    config = home / "kafka.toml"
    config.write_text(
        f'security_protocol = "SASL_SSL"\nssl_cafile = "{CERTIFICATE}"\nsasl_mechanism = "PLAIN"\n'
        'sasl_plain_username = "app"\nsasl_plain_password = "secret"\n'
    )
    return GatewayProcess(
        home,
        sealed.zookeeper,
        f"{HOST}:{sealed.outside}",
        "--kafka-config",
        str(config),
        "--listen-tls",
        # others of this file are there as well
        "--no-gateways-in-metadata",
        *arguments,
        named=named,
    )


@pytest.fixture(scope="module")
def gateway(sealed: Sealed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a port for each broker."""
    home = tmp_path_factory.mktemp("tls") / "gateway"
    locked = ("--listen-tls-cert-file", LOCKED, "--listen-tls-key-password", "locked")
    with gateway_of(sealed, home, *locked) as process:
        yield process


class UnsignedToken(AbstractTokenProvider):  # type: ignore[misc]
    """Which the broker believes, as in its own tests."""

    def token(self) -> str:
        """Of `app`, for an hour."""
        now = int(time.time())
        parts = ({"alg": "none"}, {"sub": "app", "iat": now, "exp": now + 3_600})
        coded = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts]
        return ".".join(part.decode().rstrip("=") for part in coded) + "."


def of_librdkafka(mechanism: str, password: str = "secret") -> dict[str, Any]:
    """A client's settings."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": NAMES,
        "sasl.mechanism": mechanism,
        **(
            {
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": "principal=app",
            }
            if mechanism == "OAUTHBEARER"
            else {"sasl.username": "app", "sasl.password": password}
        ),
    }


def of_kafka_python(mechanism: str) -> dict[str, Any]:
    """The same."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": NAMES,
        "sasl_mechanism": mechanism,
        **(
            {"sasl_oauth_token_provider": UnsignedToken()}
            if mechanism == "OAUTHBEARER"
            else {"sasl_plain_username": "app", "sasl_plain_password": "secret"}
        ),
    }


def consumed(bootstrap: str, topic: str, **settings: Any) -> set[tuple[int, int]]:
    """All records of a topic, read by kafka-python as the only member of a group."""
    consumer = KafkaPythonConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=unique("g"),
        auto_offset_reset="earliest",
        **settings,
    )
    found: set[tuple[int, int]] = set()

    def all_there() -> bool:
        for records in consumer.poll(200).values():
            found.update((record.partition, record.offset) for record in records)
        return len(found) >= PARTITIONS * EACH

    wait_until(all_there, PATIENCE_S, "all records")
    consumer.close()
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_of_librdkafka(gateway: GatewayProcess, sealed: Sealed, mechanism: str) -> None:
    group, settings = unique("g"), of_librdkafka(mechanism)
    clients = [Librdkafka(gateway.address, group, sealed.topic, **settings) for _ in range(2)]
    shared(clients, PARTITIONS)
    wait_until(
        lambda: len({tp for one in clients for tp in one.taken}) >= PARTITIONS * EACH,
        PATIENCE_S,
        "all records",
    )
    for one in clients:
        one.close()
        assert not one.errors


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_of_kafka_python(gateway: GatewayProcess, sealed: Sealed, mechanism: str) -> None:
    settings = of_kafka_python(mechanism)
    producer = KafkaProducer(bootstrap_servers=gateway.address, **settings)
    topic = create_topic(sealed.broker.address, unique("written"), PARTITIONS)
    large = bytes(900_000)
    for n in range(PARTITIONS * EACH):
        producer.send(topic, large, partition=n % PARTITIONS)
    producer.close()
    found = consumed(gateway.address, topic, **settings)
    assert found == {(n, offset) for n in range(PARTITIONS) for offset in range(EACH)}


def test_a_wrong_password_and_a_wrong_authority(gateway: GatewayProcess, sealed: Sealed) -> None:
    """The first is refused by the broker, the second by the client."""
    group = unique("g")
    for settings, words in (
        (of_librdkafka("SCRAM-SHA-256", "guessed"), "uthentication"),
        ({**of_librdkafka("PLAIN"), "ssl.ca.location": CERTIFICATE}, "certificate verify failed"),
    ):
        client = Librdkafka(gateway.address, group, sealed.topic, **settings)
        wait_until(
            lambda: any(words in event for event in client.events), PATIENCE_S, f"a word of {words}"
        )
        assert not client.owned
        client.close()
    said = "its TLS handshake failed (TLSV1_ALERT_UNKNOWN_CA)"
    wait_until(lambda: said in gateway.log(), PATIENCE_S, "a line of the gateway's log")


def certificate_at(port: int) -> bytes:
    """What a new client sees."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((HOST, port), PATIENCE_S) as plain,
        context.wrap_socket(plain) as found,
    ):
        certificate = found.getpeercert(True)
    assert certificate is not None
    return certificate


def test_another_certificate_drops_nobody(sealed: Sealed, tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    shutil.copy(NAMES, own)
    (tmp_path / "next.pem").write_text(Path(KEY).read_text() + Path(CERTIFICATE).read_text())
    with gateway_of(sealed, tmp_path / "gateway", "--listen-tls-cert-file", str(own)) as gateway:
        client = Librdkafka(gateway.address, unique("g"), sealed.topic, **of_librdkafka("PLAIN"))
        shared([client], PARTITIONS)
        before = certificate_at(gateway.port)
        os.replace(tmp_path / "next.pem", own)
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: certificate_at(gateway.port) != before, PATIENCE_S, "the new one")
        own.write_text("nothing")  # which it sees by itself
        wait_until(lambda: "stay in use" in gateway.log(), PATIENCE_S, "a warning")
        assert certificate_at(gateway.broker_port) != before
        taken = len(client.taken)
        produce_numbered(sealed.broker.address, sealed.topic, PARTITIONS, 1)
        wait_until(lambda: len(client.taken) > taken, PATIENCE_S, "more records")
        assert client.events == []
        client.close()
        assert gateway.stop() == 0


def test_one_port_and_a_name_for_each_broker(
    sealed: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, asked = socket.getaddrinfo, set()

    def resolved(host: Any, *arguments: Any, **more: Any) -> Any:
        asked.add(host)
        is_ours = isinstance(host, str) and host.endswith("gw.test")
        return resolve(HOST if is_ours else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with gateway_of(
        sealed,
        tmp_path / "gateway",
        "--listen-tls-cert-file",
        NAMES,
        "--advertise",
        "gw.test",
        "--broker-hosts",
        "b{broker}.gw.test",
        named=True,
    ) as gateway:
        topic = create_topic(sealed.broker.address, unique("named"), PARTITIONS)
        produce_numbered(sealed.broker.address, topic, PARTITIONS, EACH)
        settings = of_kafka_python("SCRAM-SHA-256")
        assert len(consumed(f"gw.test:{gateway.port}", topic, **settings)) == PARTITIONS * EACH
        assert {"gw.test", "b0.gw.test"} <= asked
        assert "turned away" not in gateway.log()
        stranger = Librdkafka(gateway.address, unique("g"), topic, **of_librdkafka("PLAIN"))
        wait_until(lambda: "it names no host" in gateway.log(), PATIENCE_S, "a refusal")
        stranger.close()
