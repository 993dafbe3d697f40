"""kafka-python's options as librdkafka's: each is mapped, refused by name, taken elsewhere, or said
to be without effect; and librdkafka takes the result.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import Consumer

from consumer import librdkafka_settings as settings
from consumer.errors import ConsumerOptionError
from consumer.librdkafka_settings import (
    ELSEWHERE,
    INSTALL,
    MAPPED,
    REFUSED,
    WITHOUT_EFFECT,
    librdkafka_settings,
)
from consumer.options import check

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "consumer.md"
THEIRS = kafka.KafkaConsumer.DEFAULT_CONFIG
SERVER = {"bootstrap_servers": ["h:1", "i:2"]}


def settings_of(**configs: Any) -> dict[str, Any]:
    """What librdkafka gets where a consumer is made with these options."""
    return librdkafka_settings(
        check({**SERVER, "data_client": "librdkafka", **configs}).kafka_configs(
            SERVER["bootstrap_servers"]
        )
    )


def test_every_option_is_in_one_table() -> None:
    tables = (set(MAPPED), set(REFUSED), set(ELSEWHERE), set(WITHOUT_EFFECT))
    assert set().union(*tables) == set(THEIRS)
    assert sum(map(len, tables)) == len(THEIRS), "and in no other"


def test_what_is_refused_or_without_effect_is_in_the_guide() -> None:
    page = GUIDE.read_text(encoding="utf-8").partition("## A faster data path")[2]
    assert {name for name in (*REFUSED, *WITHOUT_EFFECT) if f"`{name}`" not in page} == set()


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {
            "isolation_level": "read_committed",
            "check_crcs": False,
            "client_id": "me",
            "client_rack": "r",
            "fetch_min_bytes": 0,
        },
        {"fetch_max_bytes": 2**31 - 1, "receive_message_max_bytes": 2**31 - 1},
        {"fetch_max_bytes": 1, "max_partition_fetch_bytes": 1},
        {"request_timeout_ms": 500_000, "fetch_max_wait_ms": 1, "retry_backoff_ms": 5_000},
        {
            "receive_buffer_bytes": 65_536,
            "send_buffer_bytes": 65_536,
            "connections_max_idle_ms": 540_000,
        },
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "u",
            "sasl_plain_password": "p",
        },
        {"security_protocol": "SSL", "ssl_check_hostname": False},
        {"group_id": "", "zookeeper_connect": "h:1"},
    ],
)
def test_librdkafka_takes_what_is_made_of(configs: dict[str, Any]) -> None:
    Consumer(settings_of(**configs), logger=Silent()).close()


class Silent:
    def log(self, *_: Any) -> None:
        """Nothing listens at the address."""


def test_values_keep_their_meaning() -> None:
    found = settings_of(
        fetch_max_wait_ms=7,
        check_crcs=True,
        isolation_level=1,
        ssl_check_hostname=False,
        group_id="g",
        zookeeper_connect="h:1",
    )
    assert (
        found["bootstrap.servers"],
        found["group.id"],
        found["fetch.wait.max.ms"],
        found["check.crcs"],
    ) == ("h:1,i:2", "g", 7, True)
    assert (found["isolation.level"], found["ssl.endpoint.identification.algorithm"]) == (
        "read_committed",
        "none",
    )
    assert (
        found["enable.auto.commit"],
        found["enable.auto.offset.store"],
        found["auto.offset.reset"],
    ) == (False, False, "error"), "librdkafka never decides about offsets"
    assert settings_of()["group.id"], "librdkafka ends the process where there is none"


def test_tls_and_logins_are_passed_on_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("consumer.options.broker_context", lambda config: None)  # no real ones
    for name in ("ca.pem", "c.pem", "k.pem", "crl.pem"):
        (tmp_path / name).touch()
    given = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "c.pem",
        "ssl_keyfile": "k.pem",
        "ssl_password": "of the key",
        "ssl_crlfile": "crl.pem",
        "ssl_ciphers": "HIGH",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
        "sasl_kerberos_service_name": "broker",
    }
    assert {
        name: value
        for name, value in settings_of(**given).items()
        if name.startswith(("ssl.", "sasl.", "security."))
    } == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "c.pem",
        "ssl.key.location": "k.pem",
        "ssl.key.password": "of the key",
        "ssl.crl.location": "crl.pem",
        "ssl.cipher.suites": "HIGH",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "sasl.kerberos.service.name": "broker",
    }


def test_a_certificate_with_its_key_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("both.pem", "c.pem", "k.pem"):
        (tmp_path / name).touch()
    assert settings_of(ssl_certfile="both.pem")["ssl.key.location"] == "both.pem"
    assert settings_of(ssl_certfile="c.pem", ssl_keyfile="k.pem")["ssl.key.location"] == "k.pem"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl_context", ssl.create_default_context()),
        ("socket_options", [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)]),
        ("selector", object),
        ("kafka_client", object),
        ("proxy_url", "socks5://h"),
        ("socks5_proxy", "socks5://h"),
        ("sasl_kerberos_name", "n"),
        ("sasl_kerberos_domain_name", "d"),
        ("sasl_oauth_token_provider", object()),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(name: str, value: Any) -> None:
    assert name in REFUSED
    with pytest.raises(ConsumerOptionError, match=f"{name} cannot be used with data_client"):
        check({**SERVER, "data_client": "librdkafka", name: value})
    check({**SERVER, name: value})


def test_without_confluent_kafka_the_command_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "available", lambda: False)
    with pytest.raises(ConsumerOptionError) as caught:
        check({**SERVER, "data_client": "librdkafka"})
    assert INSTALL in str(caught.value)
    check(SERVER)


def test_another_client_is_refused() -> None:
    with pytest.raises(ConsumerOptionError, match="'librdkafka' for a faster"):
        check({**SERVER, "data_client": "rust"})
