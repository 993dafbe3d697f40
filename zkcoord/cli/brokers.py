"""Where a command finds the Kafka brokers, and how it speaks to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zkcoord.admin.offsets.log_offsets import OPEN, PROTOCOL, registered_brokers
from zkcoord.config.files import refuse_pipe
from zkcoord.config.sources import Settings, read_table
from zkcoord.errors import ConfigurationError
from zkcoord.words import yes_or_no
from zkcoord.zk.listeners import PLAINTEXT
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout


@dataclass(frozen=True)
class Brokers:
    """Whom to ask, and kafka-python's options of security for it."""

    servers: tuple[str, ...] = ()
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)


def brokers(settings: Settings, reader: SyncClient, layout: Layout) -> Brokers:
    """The brokers to ask: those of --bootstrap-servers, else those in ZooKeeper. Raises
    `ConfigurationError` where --kafka-config cannot be used.
    """
    given = settings.text("bootstrap_servers")
    security = security_options(settings.text("kafka_config"))
    servers = (
        tuple(part.strip() for part in given.split(",") if part.strip())
        if given
        else registered_brokers(
            reader,
            layout,
            str(security.get(PROTOCOL, PLAINTEXT)),
            settings.text("bootstrap_listener"),
        )
    )
    return Brokers(servers, security)


def security_options(path: str) -> Mapping[str, Any]:
    """kafka-python's options of security in a file (--kafka-config; "": plain text). Values are
    never quoted: passwords are among them. Raises `ConfigurationError`.
    """
    if not path:
        return OPEN
    from kafka.admin import KafkaAdminClient

    found = read_table(path)
    known = KafkaAdminClient.DEFAULT_CONFIG
    for name, value in found.items():
        try:
            fits = name in known and name.startswith(("security_", "ssl_", "sasl_"))
            if fits and isinstance(known[name], bool):
                # text, too, says what it says: "false" is no True
                found[name] = value if isinstance(value, bool) else yes_or_no(str(value))
            elif not fits or not isinstance(value, str):
                raise ValueError
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
