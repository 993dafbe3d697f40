"""Options of security for Kafka's brokers, in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zkcoord.config.kafka_security import PROTOCOLS, security_options
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
