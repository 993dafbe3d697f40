"""What is set wrongly is said when a consumer is made, before anything is opened, by its own name;
and as an error that applications of kafka-python catch.
"""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kafka.errors import InvalidGroupIdError, KafkaError

from consumer import KafkaConsumer, ZookeeperConsumerConnector
from consumer.api import setup
from consumer.certificates import broker_context
from consumer.member.thread import zk_options
from consumer.options import DEFAULT_CONFIG, check
from zkcoord.errors import (
    ConfigurationError,
    InvalidConsumerIdError,
    InvalidGroupError,
    InvalidSubscriptionError,
)
from zkcoord.zk.port import OPEN_ACL, AclEntry

PEM = Path(__file__).parents[2] / "guardian" / "data"
CERTIFICATE, KEY = str(PEM / "cert.pem"), str(PEM / "key.pem")
GROUP: dict[str, Any] = {"group_id": "g", "zookeeper_connect": "127.0.0.1:1"}


@pytest.fixture(autouse=True)
def nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("something was opened")

    for name in ("find_listeners", "choose_client"):
        monkeypatch.setattr(setup, name, opened)


def refused(**configs: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        KafkaConsumer("t", **{**GROUP, **configs})
    assert isinstance(caught.value, KafkaError)
    message = str(caught.value.args[0])
    assert "\n" not in message
    return message


@pytest.fixture
def junk(tmp_path: Path) -> str:
    path = tmp_path / "junk.pem"
    path.write_text("no certificate", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("side", ["zookeeper_", ""])
def test_files_of_certificates_that_cannot_be_used(side: str, junk: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {} if side else {"security_protocol": "SSL"}
    missing = str(tmp_path / "missing.pem")
    ca, cert, key = (f"{side}ssl_{name}" for name in ("cafile", "certfile", "keyfile"))
    own = {cert: CERTIFICATE, key: KEY}
    for name in (ca, cert, key):
        said = refused(**more, **{**own, name: missing})
        assert said.startswith(name) and missing in said and "No such file" in said
        said = refused(**more, **{**own, name: junk})
        assert said.startswith(name) and junk in said
    assert refused(**more, **{cert: CERTIFICATE, key: CERTIFICATE}).startswith(key)
    assert "without a certificate" in refused(**more, **{key: KEY})


def test_revocation_lists_and_ciphers_are_loaded_or_refused(junk: str) -> None:
    """kafka-python leaves both out."""
    tls = {"security_protocol": "SSL", "ssl_cafile": CERTIFICATE}
    assert "ssl_crlfile" in refused(**tls, ssl_crlfile=junk)
    assert "ssl_ciphers" in refused(**tls, ssl_ciphers="none such")
    given = check({**GROUP, **tls, "ssl_ciphers": "ECDHE-RSA-AES128-GCM-SHA256"})
    context = given.kafka_configs("b:1")["ssl_context"]
    assert "ECDHE-RSA-AES128-GCM-SHA256" in {c["name"] for c in context.get_ciphers()}
    assert broker_context(given.config).verify_mode is ssl.CERT_REQUIRED


def test_an_acl_is_text_or_entries() -> None:
    assert zk_options(check({**GROUP, "zookeeper_acl": "open"})).acl == OPEN_ACL
    assert zk_options(check({**GROUP, "zookeeper_acl": "world:anyone:r,ip:10.0.0.0/8:rw"})).acl == (
        AclEntry(1, "world", "anyone"),
        AclEntry(3, "ip", "10.0.0.0/8"),
    )
    assert zk_options(check({**GROUP, "zookeeper_acl": OPEN_ACL})).acl == OPEN_ACL
    for wrong in ("opened", "world:anyone:x", 7, [("world", "anyone")]):
        assert "SCHEME:ID:PERMISSIONS" in refused(zookeeper_acl=wrong)


@pytest.mark.parametrize(
    ("connect", "says"),
    [
        ("h:1//", "not a chroot"),
        ("h:1//kafka", "not a chroot"),
        ("h:1/kafka//", "not a chroot"),
        ("zk://h:1", "no scheme belongs there"),
        ("zookeeper://h:1/kafka", "no scheme belongs there"),
        ("h:1/kafka,g:1", "before the last server"),
        ("", "no ZooKeeper server"),
    ],
)
def test_junk_in_the_connect_string(connect: str, says: str) -> None:
    assert says in refused(zookeeper_connect=connect)


@pytest.mark.parametrize(("connect", "chroot"), [("h:1/", ""), ("h:1/kafka/", "/kafka")])
def test_one_slash_at_the_end_says_nothing(connect: str, chroot: str) -> None:
    assert zk_options(check({**GROUP, "zookeeper_connect": connect})).chroot == chroot


def test_errors_of_configuration_are_those_of_kafka_python_too() -> None:
    """And what they were before: nobody's `except` clause misses them."""
    with pytest.raises(InvalidGroupIdError) as group:
        KafkaConsumer("t", **{**GROUP, "group_id": "a/b"})
    assert isinstance(group.value, InvalidGroupError)
    with pytest.raises(KafkaError) as consumer_id:
        KafkaConsumer("t", **{**GROUP, "consumer_id": "a/b"})
    assert isinstance(consumer_id.value, InvalidConsumerIdError)
    with pytest.raises(KafkaError) as properties:
        ZookeeperConsumerConnector({"zookeeper.connect": "h:1", "group.id": "a/b"})
    assert isinstance(properties.value, InvalidGroupError)
    assert issubclass(setup.ConsumerOptionError, KafkaError)


def test_subscriptions_that_are_refused_are_those_of_kafka_python_too() -> None:
    from consumer.assignment.subscription import subscription_of
    from consumer.errors import as_kafkas

    with pytest.raises(InvalidSubscriptionError) as caught:
        subscription_of((), "(")
    as_theirs = as_kafkas(caught.value)
    assert isinstance(as_theirs, KafkaError) and isinstance(as_theirs, InvalidSubscriptionError)


@pytest.mark.parametrize("name", ["gevent", "eventlet"])
def test_librdkafka_is_refused_where_threads_are_greenlets(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType(name)
    module.is_module_patched = module.is_monkey_patched = lambda what: True
    monkeypatch.setitem(
        sys.modules, {"gevent": "gevent.monkey", "eventlet": "eventlet.patcher"}[name], module
    )
    said = refused(data_client="librdkafka")
    assert name in said and "Leave data_client out" in said
    module.is_module_patched = module.is_monkey_patched = lambda what: False
    check({**GROUP, "data_client": "librdkafka"})


def test_defaults_are_untouched_by_what_is_given() -> None:
    check({**GROUP, "enable_auto_commit": "no"})
    assert DEFAULT_CONFIG["enable_auto_commit"] is True


def test_what_cannot_be_registered_is_refused_before_anything_is_opened() -> None:
    """By the name of what is too large; nothing ends later on a thread of its own."""
    assert refused(client_id="x" * 40_000).startswith("client_id")
    assert refused(assignment_user_data="\ud800").startswith("assignment_user_data")
    assert refused(assignment_user_data="\u20ac" * 16_384).startswith("assignment_user_data")
    strategies = refused(partition_assignment_strategy=[f"a{n}" for n in range(5_000)])
    assert strategies.startswith("partition_assignment_strategy")
    with pytest.raises(InvalidSubscriptionError, match="30000 topics") as caught:
        KafkaConsumer(*(f"topic{n}" for n in range(30_000)), **GROUP)
    assert isinstance(caught.value, KafkaError)
