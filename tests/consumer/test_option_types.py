"""The types of all options, kafka-python's included: no text is taken for what it does not say, and
what cannot be read is refused when the consumer is made, by the option's name.
"""

from __future__ import annotations

import enum
import math
import os
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import ConsumerOptionError
from consumer.observer import Observer
from consumer.option_types import OPTION_TYPES, read_option
from consumer.options import DEFAULT_CONFIG, check
from zkcoord.zk.port import AclEntry

GROUP: dict[str, Any] = {"group_id": "g", "zookeeper_connect": "h:2181/k"}
# what the options that take anything, or judge it themselves, are told apart by
FREE = {"partition_assignment_strategy", "sasl_kerberos_name", "assignment_user_data"}
# text that is as good as any other there
TEXTS = {
    "client_id",
    "client_rack",
    "group_id",
    "group_instance_id",
    "consumer_id",
    "metric_group_prefix",
    "bootstrap_servers",
    "bootstrap_listener",
    "zookeeper_connect",
    "ssl_password",
    "ssl_ciphers",
    "proxy_url",
    "socks5_proxy",
}


def is_text(name: str) -> bool:
    return name in TEXTS or (
        name.startswith(("sasl_", "zookeeper_sasl_", "zookeeper_acl_", "zookeeper_ssl_password"))
        and name != "sasl_oauth_token_provider"
    )


FLAGS = sorted(name for name, default in DEFAULT_CONFIG.items() if isinstance(default, bool))
NUMBERS = sorted(
    name
    for name, default in DEFAULT_CONFIG.items()
    if (isinstance(default, (int, float)) and not isinstance(default, bool))
    or name in ("session_timeout_ms", "rebalance_timeout_ms")
    or name.endswith("_buffer_bytes")
)


def refused(name: str, value: Any) -> str:
    with pytest.raises(ConsumerOptionError) as caught:
        check({**GROUP, name: value})
    message = str(caught.value.args[0])
    assert message.startswith(name) and "\n" not in message and ": " in message
    return message


def test_every_option_has_a_type_and_every_default_is_of_it() -> None:
    assert set(OPTION_TYPES) == set(DEFAULT_CONFIG)
    for name, default in DEFAULT_CONFIG.items():
        assert read_option(name, default) == (
            list(default) if name == "socket_options" else default
        ), name


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_what_the_text_says(name: str) -> None:
    for text in ("false", "False", " FALSE", "no", "off", "0", 0, False):
        assert read_option(name, text) is False
    for text in ("true", "TRUE", "yes ", "on", "1", 1, True):
        assert read_option(name, text) is True
    for junk in ("", "nope", "none", "2", 2, 1.5, None, b"true", [], object()):
        assert "write True or False" in refused(name, junk)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_what_the_text_says(name: str) -> None:
    assert read_option(name, "5000") == 5_000 and type(read_option(name, " 5000 ")) is int
    assert read_option(name, 5_000.0) == 5_000
    for junk in ("", "5 000", "5_000", "5s", "0x10", "five", True, False, math.nan, b"5", [5], -7):
        assert "give" in refused(name, junk)


@pytest.mark.parametrize("name", sorted(set(NUMBERS) - {"consumer_timeout_ms"}))
def test_a_number_has_an_end(name: str) -> None:
    for junk in (math.inf, "inf", "1e400", 2**31):
        assert "give" in refused(name, junk)


@pytest.mark.parametrize("name", [n for n in NUMBERS if not n.endswith("_ms")])
def test_a_count_is_whole(name: str) -> None:
    assert "whole" in refused(name, 1.5)


@pytest.mark.parametrize("name", sorted(set(OPTION_TYPES) - set(FLAGS) - set(NUMBERS) - FREE))
def test_what_is_no_text_is_refused_where_text_belongs_and_the_other_way(name: str) -> None:
    """Values of the wrong kind do not get as far as the clients that would fail over them."""
    if is_text(name):
        for junk in (7, True, b"x", object()):
            with pytest.raises(ConsumerOptionError):
                read_option(name, junk)
    else:
        assert refused(name, "no such value")


@pytest.mark.parametrize("name", sorted(name for name, kind in OPTION_TYPES.items() if kind.secret))
def test_a_secret_is_not_quoted(name: str) -> None:
    class Odd(enum.Enum):
        VALUE = "hunter2"

    with pytest.raises(ConsumerOptionError) as caught:
        read_option(name, Odd.VALUE)
    assert "hunter2" not in str(caught.value)


def test_the_options_of_security_are_read_in_any_case_and_never_ignored() -> None:
    """kafka-python takes 'ssl' for no TLS at all."""
    assert read_option("security_protocol", "sasl_ssl") == "SASL_SSL"
    assert "'PLAINTEXT', 'SSL'" in refused("security_protocol", "TLS")


@pytest.mark.parametrize(
    ("given", "version"), [("2.8", (2, 8)), ((0, 11), (0, 11)), ([3, 9, 2], (3, 9, 2))]
)
def test_a_version_is_a_tuple_or_its_text(given: Any, version: tuple[int, ...]) -> None:
    assert read_option("api_version", given) == version


@pytest.mark.parametrize(
    "junk", ["", "kafka1", "h:", "h:port", "h:0", "h:65536", "h 1:9092", ["h:9092", 7], [], 9092]
)
def test_junk_in_bootstrap_servers(junk: Any) -> None:
    if junk in ("kafka1",):
        assert read_option("bootstrap_servers", junk) == junk
    else:
        assert "host:port" in refused("bootstrap_servers", junk)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("client_id", "\ud800"),
        ("client_id", "a\0b"),
        ("client_rack", "\udfff"),
        ("bootstrap_servers", "h\ud800:9092"),
        ("zookeeper_acl", [AclEntry("r", "world", "anyone")]),  # type: ignore[arg-type]
        ("zookeeper_acl", [AclEntry(32, "world", "anyone")]),
        ("zookeeper_acl", [AclEntry(1, "world", "\ud800")]),
        ("socket_options", [("a", 1, 1)]),
        ("socket_options", [(1, 1, "on")]),
        ("socket_options", [(1, 9, 10**30)]),
        ("socket_options", [(1, 9, 1, 4)]),
        ("socket_options", [(1, 9, None)]),
        ("socket_options", [(1, 10**5_000)]),
        ("api_version", [10**5_000, "a"]),
        ("api_version", (10**5_000,)),
        ("max_poll_records", 10**400),
        ("max_poll_records", 10**5_000),
        ("max_poll_interval_ms", -(10**400)),
        ("observer", object()),
        ("observer", Observer),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_fail_far_inside_is_refused(name: str, given: Any) -> None:
    with pytest.raises(ConsumerOptionError, match=name) as caught:
        read_option(name, given)
    assert len(str(caught.value)) < 500


def test_socket_options_are_what_setsockopt_takes() -> None:
    given = [(6, 1, 1), (6, 1, bytearray(b"x")), (6, 1, memoryview(b"x")), (1, 9, None, 4)]
    assert read_option("socket_options", given) == given


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "it is no file" in refused("ssl_cafile", str(pipe))


def test_kafka_python_s_times_contradict_each_other() -> None:
    with pytest.raises(ConsumerOptionError, match="connections_max_idle_ms"):
        check({**GROUP, "request_timeout_ms": "600000"})


@pytest.mark.parametrize(
    "name",
    [n for n in OPTION_TYPES if n.endswith(("_cafile", "_certfile", "_keyfile", "_crlfile"))],
)
def test_a_file_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    assert "No such file" in refused(name, str(tmp_path / "missing.pem"))
    assert "Is a directory" in refused(name, tmp_path)
