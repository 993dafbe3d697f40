"""A broker that compacts at once, and topics with everything that a log can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from consumer.spark.decode.reader import close_idle
from tests.harness.kafka import unique
from tests.spark.decode.written import Log, write_all
from zkcoord.stack.java import Java
from zkcoord.stack.ports import HOST, free_ports
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

USER, PASSWORD = "reader", "secret"


class DecodeBroker(KafkaBroker):
    """With a second listener that wants a password."""

    protected = ""


@pytest.fixture(scope="package")
def broker(
    zk_server: ZooKeeperServer, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DecodeBroker]:
    """For the tests of this folder."""
    port, protected = free_ports(2)
    addresses = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{protected}"
    jaas = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin"'
        f' password="admin" user_admin="admin" user_{USER}="{PASSWORD}";'
    )
    config = {
        "log.cleaner.backoff.ms": "100",
        "listeners": addresses,
        "advertised.listeners": addresses,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    started = DecodeBroker(
        tmp_path_factory.mktemp("decode-kafka"),
        port,
        zk_server.address + "/" + unique("decode"),
        java,
        owned=True,
        config=config,
    )
    started.protected = f"{HOST}:{protected}"
    started.start()
    yield started
    close_idle()  # or they would look for it until the process ends
    started.kill()


@pytest.fixture(scope="package")
def logs(broker: DecodeBroker) -> Mapping[str, Log]:
    """What `write_all` wrote."""
    return write_all(broker.address)
