"""Options of TLS: what they make, and what is refused before anything is listened at."""

from __future__ import annotations

import json
import re
import ssl
from pathlib import Path

import pytest

from consumer.gateway.address import Address
from consumer.gateway.cli import gateway_options
from consumer.gateway.relay.tls import GatewayTls
from consumer.gateway.relay.tls_options import demands_login, gateway_tls, notes
from tests.guardian.test_tls import CERTIFICATE, KEY
from tests.harness.command import run
from zkcoord.config.kafka_security import security_options
from zkcoord.config.option_spec import Use
from zkcoord.config.sources import resolve
from zkcoord.errors import ConfigurationError

TESTS = Path(__file__).parents[2]
LOCKED = str(TESTS / "gateway" / "pem" / "locked.pem")
AUTHORITY = str(TESTS / "zk" / "pem" / "ca.pem")
NAMED = {"listen": "0.0.0.0:9192", "advertise": "gw1.example", "broker_hosts": "b{broker}.example"}
TLS = {"listen_tls": "on", "listen_tls_cert_file": CERTIFICATE, "listen_tls_key_file": KEY}


def made(**flags: str) -> GatewayTls:
    """What a gateway with these options has. Raises `ConfigurationError`."""
    settings = resolve(
        Use.GATEWAY, {"zookeeper": "z:1", "brokers": "b:1", "listen": "h:9192", **flags}, {}
    )
    gateway_options(settings)
    return gateway_tls(settings, security_options(settings.text("kafka_config")))


def context_of(tls: GatewayTls) -> ssl.SSLContext:
    """That for clients."""
    assert tls.clients is not None
    return tls.clients.context


def test_without_options_it_is_plain_text() -> None:
    assert made() == GatewayTls(None, None)
    assert made(listen_tls="off") == GatewayTls(None, None)


def test_clients_are_asked_for_certificates_where_there_are_authorities() -> None:
    wanted = {"listen_tls_ca_file": AUTHORITY}
    assert context_of(made(**TLS)).verify_mode is ssl.CERT_NONE
    assert context_of(made(**TLS, **wanted)).verify_mode is ssl.CERT_REQUIRED
    requested = made(**TLS, **wanted, listen_tls_client_auth="requested")
    assert context_of(requested).verify_mode is ssl.CERT_OPTIONAL
    context = context_of(made(**TLS))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert ssl.OP_NO_RENEGOTIATION in context.options


def test_a_key_with_a_password() -> None:
    own = {"listen_tls": "on", "listen_tls_cert_file": LOCKED}
    assert made(**own, listen_tls_key_password="locked").clients is not None
    for wrong in ({}, {"listen_tls_key_password": "guessed"}):
        with pytest.raises(ConfigurationError, match="password if it has one") as refused:
            made(**own, **wrong)
        assert "guessed" not in str(refused.value)


@pytest.mark.parametrize(
    ("protocol", "tls", "login"),
    [
        ("PLAINTEXT", False, False),
        ("SASL_PLAINTEXT", False, True),
        ("SSL", True, False),
        ("sasl_ssl", True, True),
    ],
)
def test_brokers_are_spoken_to_as_the_gateways_own_questions_are(
    tmp_path: Path, protocol: str, tls: bool, login: bool
) -> None:
    path = tmp_path / "kafka.json"
    path.write_text(json.dumps({"security_protocol": protocol, "ssl_cafile": CERTIFICATE}))
    assert (made(kafka_config=str(path)).to_brokers() is not None) == tls
    assert demands_login(security_options(str(path))) == login


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            {"listen_tls_cert_file": CERTIFICATE},
            "--listen-tls-cert-file is given, but listen_tls is",
        ),
        ({"listen_tls_client_auth": "requested"}, "add --listen-tls"),
        (NAMED, "--broker-hosts is given, but listen_tls is off"),
        ({"listen_tls": "on"}, "no certificate is named: give listen_tls_cert_file"),
        ({**TLS, "listen_tls_client_auth": "required"}, "give listen_tls_ca_file as well"),
        ({**TLS, "listen_tls_cert_file": "/nowhere"}, "listen_tls_cert_file is '/nowhere'"),
        ({**TLS, "listen_tls_cert_file": KEY}, "listen_tls_cert_file is .* with a certificate"),
        ({**TLS, "listen_tls_key_file": CERTIFICATE}, "listen_tls_key_file is .* private key"),
        ({**TLS, "listen_tls_ca_file": KEY}, "listen_tls_ca_file is .* file of certificates"),
        ({**TLS, "listen_tls_client_auth": "none"}, "write required or requested"),
        ({**TLS, **NAMED, "broker_ports": "1=9"}, "are both given: leave one of them out"),
        ({**TLS, **NAMED, "broker_hosts": "b.example"}, r"with \{broker\} once in it"),
        ({**TLS, **NAMED, "broker_hosts": "{broker}{broker}.x"}, r"with \{broker\} once in it"),
        ({**TLS, **NAMED, "broker_hosts": "b{broker}..x"}, r"with \{broker\} once in it"),
        ({**TLS, **NAMED, "broker_hosts": "b{broker}.x."}, r"with \{broker\} once in it"),
        ({**TLS, **NAMED, "broker_hosts": "b {broker}.x"}, r"with \{broker\} once in it"),
        ({**TLS, **NAMED, "broker_hosts": "b" * 54 + "{broker}"}, r"with \{broker\} once in it"),
        ({**TLS, **NAMED, "advertise": "10.0.0.1"}, "which is no host name, so no handshake"),
        ({**TLS, **NAMED, "advertise": "fe80::1"}, "which is no host name, so no handshake"),
        ({**TLS, **NAMED, "advertise": "B12.example"}, "which is a broker's name by"),
    ],
)
def test_what_cannot_be_is_one_sentence(flags: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as refused:
        made(**flags)
    assert "\n" not in str(refused.value)


def test_names_of_brokers() -> None:
    settings = resolve(Use.GATEWAY, {"zookeeper": "z:1", "brokers": "b:1", **TLS, **NAMED}, {})
    options = gateway_options(settings)
    assert options.broker_address(1001) == Address("b1001.example", 9192)
    assert gateway_tls(settings, {}).clients is not None


def test_one_certificate_for_all_clients_is_worth_a_warning() -> None:
    own = {"ssl_certfile": CERTIFICATE}
    assert re.search("every client", notes({"security_protocol": "SSL", **own})[0])
    assert notes({"security_protocol": "SASL_SSL", **own}) == notes({"security_protocol": "SSL"})


def test_the_command_says_it_before_it_reaches_for_anything(tmp_path: Path) -> None:
    """Neither ZooKeeper nor a broker is there."""
    config = tmp_path / "kafka.toml"
    config.write_text('security_protocol = "SSL"\nssl_cafile = "/nowhere/ca.pem"\n')
    begin = ("gateway", "--zookeeper", "127.0.0.1:1", "--brokers", "127.0.0.1:1")
    for more, words in (
        (["--listen-tls", "--listen-tls-cert-file", "/nowhere/cert.pem"], "/nowhere/cert.pem"),
        (["--kafka-config", str(config)], "/nowhere/ca.pem"),
    ):
        done = run(tmp_path, *begin, *more)
        assert done.returncode == 2, done.stderr
        assert words in done.stderr and "Traceback" not in done.stderr
