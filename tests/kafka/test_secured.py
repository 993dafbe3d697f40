"""A broker that wants TLS and a password: both data paths are let in with the same options, and
neither without them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from consumer import KafkaConsumer
from consumer.errors import BrokersUnreachableError
from consumer.fetch.fetcher import PartitionFetcher
from tests.harness.kafka import CHROOT, KEPT_FOR_EVER, create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.cli.brokers import brokers
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import resolve
from zkcoord.core import model as ours
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

PATIENCE_S = 60.0
RECORDS = 5
PEM = Path(__file__).parents[1] / "guardian" / "data"
LOGIN = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "app", "sasl_plain_password": "secret"}
CLIENTS = ("kafka-python", "librdkafka")


class Secured:
    """A broker with a listener for each protocol; `topic` holds numbered records. Written to, and
    asked for, in plain text.
    """

    def __init__(self, home: Path, zookeeper: str, java: Java) -> None:
        self.ports = {
            "PLAINTEXT": free_port(),
            "SASL_SSL": free_port(),
            "SASL_PLAINTEXT": free_port(),
            "SSL": free_port(),
        }
        both = home / "both.pem"
        home.mkdir()
        both.write_text((PEM / "key.pem").read_text() + (PEM / "cert.pem").read_text())
        listeners = ",".join(f"{protocol}://{HOST}:{port}" for protocol, port in self.ports.items())
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_app="secret";'
        self.broker = KafkaBroker(
            home / "broker",
            self.ports["PLAINTEXT"],
            zookeeper,
            java,
            owned=True,
            config={
                **KEPT_FOR_EVER,
                "listeners": listeners,
                "advertised.listeners": listeners,
                "sasl.enabled.mechanisms": "PLAIN",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(both),
                **{
                    f"listener.name.{protocol}.plain.sasl.jaas.config": jaas
                    for protocol in ("sasl_ssl", "sasl_plaintext")
                },
            },
        )
        self.broker.start()
        self.topic = create_topic(self.broker.address, unique("secured"), 1)
        produce_numbered(self.broker.address, self.topic, 1, RECORDS)

    def consumer(self, protocol: str, **configs: Any) -> KafkaConsumer:
        """Without a group, from the first record."""
        return KafkaConsumer(
            bootstrap_servers=f"{HOST}:{self.ports[protocol]}",
            security_protocol=protocol,
            auto_offset_reset="earliest",
            **configs,
        )


@pytest.fixture(scope="module")
def secured(
    zk_server: ZooKeeperServer, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    found = Secured(
        tmp_path_factory.mktemp("secured") / "home", f"{zk_server.address}{CHROOT}-secured", java
    )
    yield found
    found.broker.kill()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where librdkafka is asked for, kafka-python fetches nothing."""
    monkeypatch.setattr(PartitionFetcher, "_send_side_async", lambda self, partitions: [])


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("protocol", "configs"),
    [
        ("SASL_SSL", {"ssl_cafile": str(PEM / "cert.pem"), **LOGIN}),
        ("SSL", {"ssl_cafile": str(PEM / "cert.pem")}),
        ("SASL_PLAINTEXT", LOGIN),
    ],
)
def test_who_has_the_password_is_served(
    secured: Secured, alone: None, client: str, protocol: str, configs: dict[str, Any]
) -> None:
    with secured.consumer(protocol, data_client=client, **configs) as one:
        one.assign([TopicPartition(secured.topic, 0)])
        found: list[int] = []
        wait_until(
            lambda: (
                found.extend(r.offset for records in one.poll(200).values() for r in records)
                or len(found) >= RECORDS
            ),
            PATIENCE_S,
            "the records",
        )
    assert found == list(range(RECORDS))


def test_tools_are_let_in_with_the_same_options_from_a_file(
    secured: Secured, tmp_path: Path
) -> None:
    path = tmp_path / "kafka.json"
    path.write_text(
        json.dumps({"security_protocol": "SASL_SSL", "ssl_cafile": str(PEM / "cert.pem"), **LOGIN}),
        encoding="utf-8",
    )
    settings = resolve(
        Use.GROUPS, {"zookeeper": secured.broker.zookeeper, "kafka_config": str(path)}, {}
    )
    with SyncClient(zk_options(settings)) as reader:
        asked = brokers(settings, reader, Layout.DRAFT)
    assert asked.servers == (f"{HOST}:{secured.ports['SASL_SSL']}",) and "secret" not in repr(asked)
    with (
        LogOffsets(asked.servers, asked.security) as ends,
        KafkaGroups(asked.servers, security=asked.security) as groups,
    ):
        assert (
            ends.of([ours.TopicPartition(secured.topic, 0)]) == {(secured.topic, 0): RECORDS}
            and ends.warning == ""
        )
        groups.commit("moved", {ours.TopicPartition(secured.topic, 0): 3})
        assert groups.committed(["moved"]) == {"moved": {(secured.topic, 0): 3}}


def test_wrong_credentials_are_said_by_name(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """With the options to look at; authorities that did not sign are not tried again."""
    tls = {"ssl_cafile": str(PEM / "cert.pem")}
    wrong = {**LOGIN, "sasl_plain_password": "wrong"}
    with pytest.raises(KafkaError, match="sasl_plain_password"):
        secured.consumer("SASL_SSL", **tls, **wrong, bootstrap_timeout_ms=3_000)
    assert any("sasl_plain_password" in record.getMessage() for record in caplog.records)
    others = str(Path(__file__).parents[1] / "zk" / "pem" / "ca.pem")
    with pytest.raises(BrokersUnreachableError, match="CERTIFICATE_VERIFY_FAILED.*ssl_cafile"):
        secured.consumer("SSL", ssl_cafile=others)


def test_librdkafka_with_a_wrong_password_says_so(
    secured: Secured, alone: None, caplog: pytest.LogCaptureFixture
) -> None:
    """kafka-python's side, which is asked first, is given the right one here."""
    with (
        secured.consumer(
            "SASL_SSL", data_client="librdkafka", ssl_cafile=str(PEM / "cert.pem"), **LOGIN
        ) as one,
        caplog.at_level(logging.WARNING),
    ):
        fetcher: Any = one._data.fetcher
        fetcher._settings["sasl.password"] = "wrong"
        fetcher.use_brokers([f"{HOST}:{secured.ports['SASL_SSL']}"])
        one.assign([TopicPartition(secured.topic, 0)])
        wait_until(
            lambda: one.poll(200) == {} and "uthentication" in caplog.text, PATIENCE_S, "a warning"
        )
        assert "secret" not in caplog.text and "wrong" not in caplog.text
