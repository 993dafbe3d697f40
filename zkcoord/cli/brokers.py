"""Where a command finds the Kafka brokers, and how it speaks to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import registered_brokers
from zkcoord.config.kafka_security import PROTOCOL, listed_servers, security_options
from zkcoord.config.sources import Settings
from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.zk.listeners import ANSWER_S, PLAINTEXT, takes_connections
from zkcoord.zk.port import GetData, data_of
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.cluster_identity import IDENTITY_NODES, another_cluster, expected_cluster
from zkcoord.znodes.paths import Layout


@dataclass(frozen=True)
class Brokers:
    """Whom to ask, and kafka-python's options of security for it."""

    servers: tuple[str, ...] = ()
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)


def brokers(settings: Settings, reader: SyncClient, layout: Layout) -> Brokers:
    """The brokers to ask: those of --bootstrap-servers, else those in ZooKeeper. Raises
    `ConfigurationError` where --kafka-config cannot be used, `RefusedError` where those that are
    named are of another cluster.
    """
    given = settings.text("bootstrap_servers")
    security = security_options(settings.text("kafka_config"))
    if given:
        named = Brokers(listed_servers(settings), security)
        _refuse_another_cluster(named, reader)
        return named
    servers = registered_brokers(
        reader,
        layout,
        str(security.get(PROTOCOL, PLAINTEXT)),
        settings.text("bootstrap_listener"),
    )
    return Brokers(servers, security)


def _refuse_another_cluster(named: Brokers, reader: SyncClient) -> None:
    """What another cluster says of logs and groups is not of the groups here. Where no broker
    answers, whoever needs an answer says so.
    """
    nodes = [data_of(answer) for answer in reader.read([*map(GetData, IDENTITY_NODES)])]
    if not expected_cluster(nodes)[0] or not takes_connections(named.servers):
        return
    try:
        with KafkaGroups(named.servers, ANSWER_S, named.security) as asked:
            said = asked.cluster_id()
    except (UnavailableError, RefusedError):
        return
    if why := another_cluster(named.servers, said, "this ensemble", nodes):
        raise RefusedError(why)
