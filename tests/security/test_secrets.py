"""No secret comes out: not in a log at any level, a journal, a recorded input, a node, an answer
over HTTP, an error or a `repr`.
"""

from __future__ import annotations

import logging
from pathlib import Path

import psutil
import pytest

from consumer import KafkaConsumer
from consumer.options import check
from consumer.spark.options import stream_options
from tests.harness.command import Running
from tests.harness.zookeeper import disconnect
from tests.security.principals import PASSWORDS, client_as, flags, hashed
from zkcoord.cli.main import main
from zkcoord.config.option_spec import Use
from zkcoord.config.options import TABLE
from zkcoord.config.settings import coordinator_settings
from zkcoord.config.sources import resolve
from zkcoord.errors import ConfigurationError
from zkcoord.znodes.paths import Layout

HASHES = [hashed(user).partition(":")[2] for user in PASSWORDS]
KAFKA = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "u",
    "sasl_plain_password": "pw-of-kafka",
    "ssl_password": "pw-of-key",
}


def everything(client: object, path: str = "/") -> str:
    """All data below a node."""
    data, _ = client.get(path)  # type: ignore[attr-defined]
    names = client.get_children(path)  # type: ignore[attr-defined]
    return data.decode("latin-1") + "".join(
        everything(client, f"{path.rstrip('/')}/{name}") for name in names
    )


def test_a_coordinator_tells_nobody(tmp_path: Path, zk_hosts: str) -> None:
    """At the lowest level, with a journal and recorded inputs, and a group that it serves. The
    password comes from the environment, and no process has it on its command line.
    """
    arguments = (
        "--zookeeper",
        zk_hosts,
        "--zookeeper-user",
        "coord",
        *flags(),
        "--log-level",
        "debug",
    )
    with Running(
        tmp_path / "c", *arguments, ZKCOORD_ZOOKEEPER_PASSWORD=PASSWORDS["coord"]
    ) as process:
        process.ready("leading")
        client = client_as(zk_hosts, "coord")
        try:
            client.create(Layout.DRAFT.ids("g"), makepath=True)
            told = everything(client) + "".join(
                process.get(path)[1] for path in ("/live", "/ready", "/metrics", "/groups", "/x")
            )
        finally:
            disconnect(client)
        commands = [
            word
            for found in psutil.process_iter(["cmdline"])
            for word in found.info["cmdline"] or ()
        ]
        assert process.signal() == 0
        told += process.log + "".join(
            path.read_text(encoding="utf-8") for path in process.journal.iterdir()
        )
    for secret in (PASSWORDS["coord"], *HASHES):
        assert secret not in told
    assert not any(PASSWORDS["coord"] in word for word in commands)


def test_no_repr_has_one(tmp_path: Path) -> None:
    secrets = {option.name: f"pw-of-{option.name}" for option in TABLE.values() if option.secret}
    given = {"zookeeper": "h:1", "zookeeper_user": "u", "tls": True, **secrets}
    settings = resolve(Use.COORDINATOR, given, {})
    settled = coordinator_settings(
        settings, ("range", "roundrobin", "sticky"), {"HOME": str(tmp_path)}
    )
    consumer = check(
        {
            "group_id": "g",
            "zookeeper_connect": "h:1",
            "zookeeper_auth": ("u", "pw-of-digest"),
            "zookeeper_ssl_password": "pw-of-tls",
            **KAFKA,
        }
    )
    spark = stream_options(
        {
            "zookeeperConnect": "h:1",
            "groupId": "g",
            "subscribe": "t",
            "zookeeperAuth": "u:pw-of-digest",
            "kafka.sasl.password": "pw-of-kafka",
            "kafka.sasl.username": "u",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
        }
    )
    assert len(secrets) >= 2
    assert "pw-of" not in repr(settings) + repr(settled) + repr(consumer) + repr(spark)


def test_a_consumer_tells_nobody(zk_hosts: str, caplog: pytest.LogCaptureFixture) -> None:
    """All loggers at the lowest level, kafka-python's too: wrong credentials for ZooKeeper, then
    brokers that are not there.
    """
    caplog.set_level(1)
    for name in ("kafka", "kazoo", "zkcoord", "consumer"):
        logging.getLogger(name).setLevel(1)
    texts = []
    with pytest.raises(Exception) as caught:  # whichever says first that there is no broker
        KafkaConsumer(
            "t",
            group_id="g",
            zookeeper_connect=zk_hosts,
            zookeeper_auth=("app", "pw-of-app"),
            **KAFKA,
        )
    texts.append(repr(caught.value) + str(caught.value))
    with pytest.raises(Exception) as caught:
        KafkaConsumer(bootstrap_servers="localhost:1", bootstrap_timeout_ms=300, **KAFKA)
    texts.append(repr(caught.value) + str(caught.value))
    assert "pw-of" not in caplog.text + "".join(texts)


@pytest.mark.parametrize(
    "servers",
    [
        "user:hunter2@zk1:2181/kafka",
        "zk1:2181,user:hunter2@zk2:2181",
        "user:hunt,er2@zk1:2181",
        "user:hunt/er2@@zk1:x",
        "zk://user:hunter2@zk1:2181",
        "digest:user:hunter2@zk1",
    ],
)
def test_a_list_of_servers_with_a_password_is_not_quoted(
    servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By no command, no consumer and no Spark source."""
    for command in (["groups", "list"], ["check"], ["offsets", "show", "g"], ["acl", "audit"]):
        assert main([*command, "--zookeeper", servers]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "options of their own" in said, said
        assert not any(part in said for part in ("hunt", "er2", "user:")), said
    with pytest.raises(ConfigurationError) as caught:
        KafkaConsumer("t", group_id="g", zookeeper_connect=servers)
    assert "hunt" not in str(caught.value) and "er2" not in str(caught.value)


def test_an_option_of_another_type_is_not_quoted() -> None:
    for name in ("zookeeper_connect", "zookeeper_acl_members"):
        with pytest.raises(ConfigurationError, match="of the type list") as caught:
            check({"group_id": "g", "zookeeper_connect": "h:1", name: ["user:hunter2@h:1"]})
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "flags_given",
    [
        ["--acl", "digest:user:hunter2hash=:zz"],
        ["--acl", "digest:user:hunter2hash=:cdrwa:"],
        ["--acl-coordinators", "digest :user:hunter2hash=", "--acl-members", "sasl:app"],
        ["--acl-coordinators", "digest:user:", "--acl-members", "di gest:user:hunter2hash="],
    ],
)
def test_an_acl_with_a_hash_is_not_quoted(
    flags_given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["offsets", "reset", "g", "--all-topics", "--to-earliest", "--zookeeper", "h:1"]
    assert main([*command, *flags_given]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "hunter2" not in said and "write SCHEME:ID" in said
