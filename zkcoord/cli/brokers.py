"""Where a command finds the Kafka brokers, and how it speaks to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zkcoord.admin.offsets.log_offsets import registered_brokers
from zkcoord.config.kafka_security import PROTOCOL, listed_servers, security_options
from zkcoord.config.sources import Settings
from zkcoord.zk.listeners import PLAINTEXT
from zkcoord.zk.sync.client import SyncClient
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
        listed_servers(given)
        if given
        else registered_brokers(
            reader,
            layout,
            str(security.get(PROTOCOL, PLAINTEXT)),
            settings.text("bootstrap_listener"),
        )
    )
    return Brokers(servers, security)
