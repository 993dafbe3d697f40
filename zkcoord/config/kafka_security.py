"""How Kafka's brokers are reached, where they want more than plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from zkcoord.config.files import refuse_pipe
from zkcoord.config.sources import Settings, read_table
from zkcoord.errors import ConfigurationError
from zkcoord.words import yes_or_no
from zkcoord.znodes.names import shown

PROTOCOL = "security_protocol"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OPEN: Mapping[str, Any] = MappingProxyType({})
PORT_MAX = 65_535
_HOST = re.compile(r"[^\s/,@?#]+")


def security_options(path: str) -> Mapping[str, Any]:
    """kafka-python's options of security in a file (--kafka-config; "": plain text). Values are
    never quoted: passwords are among them. Raises `ConfigurationError`.
    """
    if not path:
        return OPEN
    from kafka.admin import KafkaAdminClient

    found = read_table(path, '{"security_protocol": "SASL_SSL", ...}')
    known = KafkaAdminClient.DEFAULT_CONFIG
    for name, value in found.items():
        try:
            fits = name in known and name.startswith(("security_", "ssl_", "sasl_"))
            if fits and isinstance(known[name], bool):
                # text, too, says what it says: "false" is no True
                found[name] = value if isinstance(value, bool) else yes_or_no(str(value))
            elif not fits or not isinstance(value, str):
                raise ValueError
            elif name == PROTOCOL:
                # what kafka-python does not know (small letters, too) it takes for plain text
                found[name] = value.upper()
                if found[name] in PROTOCOLS:
                    continue
                raise ConfigurationError(
                    f"{PROTOCOL} in {path} is none of {', '.join(PROTOCOLS)}: write one of these"
                )
            elif name.endswith("file"):
                refuse_pipe(value)
        except ValueError:
            raise ConfigurationError(
                f"{shown(name)} in {path} is not an option of security with a text, true or false:"
                f" write {PROTOCOL}, ssl_... and sasl_... as kafka-python's clients have them"
            ) from None
        except OSError as error:
            raise ConfigurationError(
                f"{name} in {path} cannot be used ({error.strerror}): give a file that can be read"
            ) from error
    return found


def listed_servers(settings: Settings) -> tuple[str, ...]:
    """`HOST:PORT,...` of --bootstrap-servers. Raises `ConfigurationError`: an address that is none
    is not one that may answer later.
    """
    listed = settings.text("bootstrap_servers").split(",")
    servers = tuple(part.strip() for part in listed if part.strip())
    for server in servers:
        if not _is_server(server):
            # what has an @ in it may have a password
            quoted = "" if "@" in server else f" {shown(server)}"
            raise ConfigurationError(
                f"{settings.where('bootstrap_servers')} has{quoted or ' something'} in it, which is"
                " no server: write HOST:PORT,HOST:PORT"
            )
    return servers


def _is_server(text: str) -> bool:
    from kafka.cluster import get_ip_port_afi

    try:
        host, port, _ = get_ip_port_afi(re.sub("^.*://", "", text))
    except ValueError:
        return False
    return _HOST.fullmatch(host) is not None and 0 < port <= PORT_MAX
