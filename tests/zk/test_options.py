"""Options of the edge: what is parsed, and that every wrong value is one sentence that says what to
do.
"""

from __future__ import annotations

import pytest

from zkcoord.errors import ConfigurationError
from zkcoord.zk.options import Digest, Sasl, Tls, ZkOptions, parse_hosts


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("localhost", [("localhost", 2181)], ""),
        ("a:1,b:2", [("a", 1), ("b", 2)], ""),
        (" a:1 , b:2 /kafka ", [("a", 1), ("b", 2)], "/kafka"),
        ("a:1/kafka/one/", [("a", 1)], "/kafka/one"),
        ("a:1/", [("a", 1)], ""),
        ("a:1,a:1,", [("a", 1)], ""),
        ("[::1]:2182,[fe80::2]", [("::1", 2182), ("fe80::2", 2181)], ""),
    ],
)
def test_hosts_are_parsed(text: str, servers: list[tuple[str, int]], chroot: str) -> None:
    assert parse_hosts(text) == (tuple(servers), chroot)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ",",
        "/kafka",
        "a:b",
        "a:0",
        "a:65536",
        "a:99999999999999999999",
        "a:000001000000000",
        "a:1:2",
        "::1",
        "[::1",
        "[]:1",
        "[::1]x",
        ":2181",
        "a b:1",
        "zk://a:1",
        "a:1/x,b:2/x",
        "a:1//x",
        "a:1/x/../y",
        "a:1/\0",
        "u@h:1",
        "a:\u0661",
    ],
)
def test_wrong_hosts_are_one_sentence(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_hosts(text)
    message = str(caught.value)
    assert "\n" not in message and ("write" in message or "name" in message)


def test_too_many_hosts_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="65 ZooKeeper servers"):
        parse_hosts(",".join(f"h{i}:1" for i in range(65)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_timeout_ms": 0},
        {"session_timeout_ms": 3_600_001},
        {"connect_timeout_ms": -1},
        {"request_deadline_ms": -1},
        {"close_deadline_ms": 0},
        {"acl": ()},
        {"digest": Digest("", "x")},
        {"digest": Digest("a:b", "x")},
        {"sasl": Sasl("PLAIN", "u", "p")},
        {"sasl": Sasl("DIGEST-MD5", "u", "")},
    ],
)
def test_wrong_options_are_one_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ZkOptions("a:1", **wrong)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value) and ": " in str(caught.value)


def test_sasl_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install pure-sasl"):
        ZkOptions("a:1", sasl=Sasl("DIGEST-MD5", "u", "p"))


def test_no_secret_is_printed() -> None:
    options = ZkOptions("a:1", digest=Digest("user", "hunter2"), tls=Tls(key_password="hunter2"))
    assert "hunter2" not in repr(options) + repr(options.tls) + repr(
        Sasl("DIGEST-MD5", "u", "hunter2")
    ) and "user" in repr(options)


def test_an_address_is_what_a_message_shows() -> None:
    assert ZkOptions("a:1,[::1]:2/k").address == "a:1,[::1]:2/k"


@pytest.mark.parametrize(
    "tls",
    [Tls(ca="/nonexistent/ca.pem"), Tls(cert="/nonexistent/c.pem"), Tls(key="/nonexistent/k.pem")],
)
def test_unusable_tls_files_are_one_sentence(tls: Tls) -> None:
    with pytest.raises(ConfigurationError, match="give") as caught:
        tls.context()
    assert "\n" not in str(caught.value)


def test_tls_always_verifies() -> None:
    context = Tls().context()
    assert context.check_hostname and context.verify_mode.name == "CERT_REQUIRED"
