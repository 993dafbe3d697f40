"""Options of security for Kafka's brokers, in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zkcoord.config.kafka_security import PROTOCOLS, listed_servers, security_options
from zkcoord.config.option_spec import Use
from zkcoord.config.sources import resolve
from zkcoord.errors import ConfigurationError


def written(folder: Path, **options: object) -> str:
    """A file of them."""
    path = folder / "kafka.json"
    path.write_text(json.dumps(options))
    return str(path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_protocols_that_kafka_has(tmp_path: Path, protocol: str) -> None:
    for text in protocol, protocol.lower():
        path = written(tmp_path, security_protocol=text)
        assert security_options(path) == {"security_protocol": protocol}


@pytest.mark.parametrize("protocol", ["SASL-SSL", "TLS", "", "SSL "])
def test_a_protocol_that_kafka_does_not_have_is_no_plain_text(
    tmp_path: Path, protocol: str
) -> None:
    """Who writes SASL-SSL means to be safe: kafka-python would connect without TLS."""
    path = written(tmp_path, security_protocol=protocol, sasl_plain_password="of-nobody")
    with pytest.raises(ConfigurationError, match="is none of PLAINTEXT, SSL") as refused:
        security_options(path)
    assert "of-nobody" not in str(refused.value)


def test_no_value_is_quoted(tmp_path: Path) -> None:
    for options in ({"sasl_plain_password": ["hidden"]}, {"nope": "hidden"}):
        with pytest.raises(ConfigurationError) as refused:
            security_options(written(tmp_path, **options))
        assert "hidden" not in str(refused.value)


def servers(text: str) -> tuple[str, ...]:
    """What a command goes to that was given this."""
    return listed_servers(resolve(Use.GROUPS, {"bootstrap_servers": text}, {}))


def test_addresses_as_kafka_writes_them() -> None:
    given = "k1:9092, k2 ,[::1]:9093,PLAINTEXT://k3:1,"
    assert servers(given) == ("k1:9092", "k2", "[::1]:9093", "PLAINTEXT://k3:1")


@pytest.mark.parametrize("text", ["foo:bar", "foo:", "foo:0", "foo:70000", ":9092", "a b:1", "k/x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """It is none later either: a coordinator waited for it, as for a broker that is down."""
    with pytest.raises(ConfigurationError) as refused:
        servers(f"k1:9092,{text}")
    assert f"--bootstrap-servers has '{text}' in it" in str(refused.value)
    assert "write HOST:PORT" in str(refused.value)


def test_an_address_that_may_have_a_password_is_not_quoted() -> None:
    with pytest.raises(ConfigurationError, match="has something in it") as refused:
        servers("user:hidden@k1:9092")
    assert "hidden" not in str(refused.value)
