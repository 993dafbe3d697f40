"""TLS to Kafka's brokers, made here instead of by kafka-python: the same, except that the broker's
name must be among a certificate's alternative names. A common name alone says nothing of that kind
(RFC 9525), and browsers and Java have long ceased to believe it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from zkcoord.errors import ConfigurationError

PROTOCOLS = ("SSL", "SASL_SSL")


def names_only(context: ssl.SSLContext) -> ssl.SSLContext:
    """The same context, which no longer believes a certificate's common name."""
    context.hostname_checks_common_name = False
    return context


def kafka_tls(config: Mapping[str, Any]) -> dict[str, Any]:
    """`ssl_context` for a client of kafka-python with these options; nothing where it does not
    speak TLS, or where the user gave one. Raises `ConfigurationError` for files that cannot be
    used.
    """
    if (
        str(config.get("security_protocol", "")).upper() not in PROTOCOLS
        or config.get("ssl_context") is not None
    ):
        return {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = bool(config.get("ssl_check_hostname", True))
    named = [config.get(f"ssl_{name}") for name in ("cafile", "certfile", "keyfile", "crlfile")]
    ca, certificate, key, revoked = named
    try:
        if ca:
            context.load_verify_locations(ca)
        else:
            context.load_default_certs()
        if certificate:
            context.load_cert_chain(certificate, key, config.get("ssl_password") or (lambda: ""))
        if revoked:
            context.load_verify_locations(revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if config.get("ssl_ciphers"):
            context.set_ciphers(config["ssl_ciphers"])
    except (OSError, ValueError) as error:
        files = ", ".join(str(name) for name in named if name)
        raise ConfigurationError(
            f"the TLS files for Kafka ({files or 'none is named'}) cannot be used: {error}; give"
            " readable PEM files, and the key's password if it has one"
        ) from error
    return {"ssl_context": names_only(context)}
