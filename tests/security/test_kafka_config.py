"""The tools' options of security for brokers, from a file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from zkcoord.cli.brokers import Brokers, brokers
from zkcoord.config.option_spec import Use
from zkcoord.config.sources import resolve
from zkcoord.errors import ConfigurationError
from zkcoord.zk.port import Missing, Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

GOOD = {
    "security_protocol": "SASL_SSL",
    "ssl_cafile": "/etc/ca.pem",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "u",
    "sasl_plain_password": "pw-of-kafka",
}


class Empty:
    """An ensemble that has never heard of a cluster."""

    def read(self, reads: Sequence[Read]) -> tuple[ReadAnswer, ...]:
        """Nothing is there."""
        return (Missing(),) * len(reads)


def asked(tmp_path: Path, options: object) -> Brokers:
    """With brokers named, ZooKeeper is asked only of which cluster it is."""
    path = tmp_path / "kafka.json"
    path.write_text(json.dumps(options), encoding="utf-8")
    settings = resolve(
        Use.GROUPS,
        {"zookeeper": "h:1", "bootstrap_servers": "a:1, b:2", "kafka_config": str(path)},
        {},
    )
    return brokers(settings, cast(SyncClient, Empty()), Layout.DRAFT)


def test_a_file_gives_them(tmp_path: Path) -> None:
    found = asked(tmp_path, GOOD)
    assert (
        found.servers == ("a:1", "b:2")
        and dict(found.security) == GOOD
        and "pw-of" not in repr(found)
    )


@pytest.mark.parametrize("text", ["false", "no", "off", False])
def test_a_switch_is_what_its_text_says(tmp_path: Path, text: object) -> None:
    found = asked(tmp_path, {**GOOD, "ssl_check_hostname": text})
    assert found.security["ssl_check_hostname"] is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap_servers": "x:1"},
        {"ssl_unknown": "x"},
        {"ssl_check_hostname": "perhaps"},
        {"sasl_plain_password": 4711},
        {"group_id": "pw-of-kafka"},
        ["security_protocol"],
    ],
)
def test_what_is_not_one_is_refused_in_one_sentence_without_its_value(
    tmp_path: Path, wrong: object
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        asked(tmp_path, wrong)
    assert (
        "kafka.json" in str(caught.value)
        and "\n" not in str(caught.value)
        and "pw-of" not in str(caught.value)
        and "4711" not in str(caught.value)
    )


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"])
def test_a_pipe_is_no_certificate(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match=f"{name} in .*it is no file"):
        asked(tmp_path, {**GOOD, name: str(tmp_path / "pipe")})
