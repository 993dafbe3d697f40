"""From options to TLS on both sides of a gateway, and to the names of brokers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from consumer.gateway.options import BROKER_MARK, ID_DIGITS_MAX, id_in
from consumer.gateway.relay.tls import GatewayTls, TlsFiles
from zkcoord.config.settings import needs
from zkcoord.config.sources import Settings
from zkcoord.errors import ConfigurationError
from zkcoord.tls import PROTOCOLS, kafka_tls
from zkcoord.zk.options import Tls
from zkcoord.znodes.names import shown

TLS_FILES = ("listen_tls_ca_file", "listen_tls_cert_file", "listen_tls_key_file")
TLS_PARTS = (*TLS_FILES, "listen_tls_key_password", "listen_tls_client_auth", "broker_hosts")
BROKER_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(\.{LABEL})*", re.ASCII)


def demands_login(security: Mapping[str, Any]) -> bool:
    """Whether brokers want SASL on the listener that these options of kafka-python are for."""
    return _protocol(security).startswith("SASL_")


def notes(security: Mapping[str, Any]) -> tuple[str, ...]:
    """What is worth a warning."""
    if _protocol(security) != "SSL" or not security.get("ssl_certfile"):
        return ()
    note = (
        "to brokers every client of this gateway is whom ssl_certfile of --kafka-config names: let"
        " in only who may be that, or have brokers ask for SASL"
    )
    return (note,)


def _protocol(security: Mapping[str, Any]) -> str:
    return str(security.get("security_protocol", "")).upper()


def gateway_tls(settings: Settings, security: Mapping[str, Any]) -> GatewayTls:
    """TLS towards clients, and towards brokers for them as kafka-python's options of security say.
    Raises `ConfigurationError`.
    """
    needs(settings, "listen_tls", TLS_PARTS)
    brokers = None
    if _protocol(security) in PROTOCOLS:
        brokers = TlsFiles(
            lambda: kafka_tls(security)["ssl_context"], [security.get(f) for f in BROKER_FILES]
        )
    if not settings.switch("listen_tls"):
        return GatewayTls(None, brokers)
    ca, cert, key = (settings.optional(name) for name in TLS_FILES)
    if cert is None:
        raise ConfigurationError(
            f"{settings.where('listen_tls')} is on, and no certificate is named: give"
            " listen_tls_cert_file as well"
        )
    if ca is None and settings.given("listen_tls_client_auth"):
        raise ConfigurationError(
            f"{settings.where('listen_tls_client_auth')} is given, and nothing says whose"
            " certificates are good: give listen_tls_ca_file as well"
        )
    own = Tls(ca, cert, key, settings.optional("listen_tls_key_password"))
    required = settings.text("listen_tls_client_auth") == "required"
    clients = TlsFiles(lambda: own.server_context(cert, TLS_FILES, required), (ca, cert, key))
    return GatewayTls(clients, brokers)


def check_names(settings: Settings, begin: str) -> None:
    """Whether the name of where clients begin and those of brokers can be told apart. Raises
    `ConfigurationError`.
    """
    hosts = settings.text("broker_hosts")
    if not hosts:
        return
    where, example = settings.where("broker_hosts"), f"b{BROKER_MARK}.gw1.example"
    longest = hosts.replace(BROKER_MARK, "9" * ID_DIGITS_MAX).lower()
    if hosts.count(BROKER_MARK) != 1 or not HOST_NAME.fullmatch(longest):
        raise ConfigurationError(
            f"{where} is {shown(hosts)}, which is no host name with {BROKER_MARK} once in it:"
            f" write it like {example}"
        )
    if settings.given("broker_ports"):
        raise ConfigurationError(
            f"{where} and {settings.where('broker_ports')} are both given: leave one of them out,"
            " since brokers have a name or a port of their own"
        )
    if not HOST_NAME.fullmatch(begin.lower()) or _is_address(begin):
        raise ConfigurationError(
            f"{where} is given, and clients begin at {shown(begin)}, which is no host name, so no"
            " handshake names it: name a host with --advertise"
        )
    if id_in(begin.lower(), hosts.lower()) is not None:
        raise ConfigurationError(
            f"clients begin at {shown(begin)}, which is a broker's name by {where}: give one of"
            " them another"
        )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
