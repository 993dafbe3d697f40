"""TLS to the brokers, tried when a consumer is made: what is wrong with a file is said by the name
of its option, and not as a broker that does not answer.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from consumer.errors import ConsumerOptionError
from zkcoord.errors import ConfigurationError
from zkcoord.zk.options import Tls

TLS_PROTOCOLS = ("SSL", "SASL_SSL")


def broker_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """What the options say; kafka-python, told the same, leaves revocation lists and ciphers out.
    Raises `ConsumerOptionError`.
    """
    given = (config["ssl_cafile"], config["ssl_certfile"], config["ssl_keyfile"])
    try:
        context = Tls(*given, config["ssl_password"]).context(
            ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
        )
    except ConfigurationError as e:
        raise ConsumerOptionError(*e.args) from e
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = config["ssl_check_hostname"]
    if config["ssl_crlfile"] is not None:
        try:
            context.load_verify_locations(config["ssl_crlfile"])
        except OSError as e:
            raise ConsumerOptionError(
                f"ssl_crlfile is {config['ssl_crlfile']!r}, which cannot be used ({e}): name a"
                " certificate revocation list in PEM form"
            ) from e
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if config["ssl_ciphers"] is not None:
        try:
            context.set_ciphers(config["ssl_ciphers"])
        except ssl.SSLError as e:
            raise ConsumerOptionError(
                f"ssl_ciphers is {config['ssl_ciphers']!r}: write a cipher list of OpenSSL that"
                " names at least one"
            ) from e
    return context
