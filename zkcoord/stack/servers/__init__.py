"""One ZooKeeper server, three of them, one Kafka broker: configuration, start, readiness, faults,
stop.

Readiness is a condition, never a time: ZooKeeper answers `srvr` with its mode (a member of an
ensemble that has no quorum answers too, but without one), Kafka has created a NEW `brokers/ids/N`.
New matters: after a kill the old broker's node lives on until its session ends, and Kafka refuses
to start while it is there; so `start` first waits until it is gone.

Everything of a server is in its own folder: configuration, data, transaction log, `server.log`.
Addresses are loopback only.
"""

from __future__ import annotations

from zkcoord.stack.servers.java_process import (
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    JavaProcess,
    ServerControls,
    accepts,
    write_properties,
)
from zkcoord.stack.servers.kafka import KAFKA_HEAP_MB, OFFSETS_TOPIC_PARTITIONS, KafkaBroker
from zkcoord.stack.servers.kraft import CONTROLLER, KRaftNode, new_cluster_id
from zkcoord.stack.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperOptions, ZooKeeperServer

__all__ = [
    "CONTROLLER",
    "KAFKA_HEAP_MB",
    "OFFSETS_TOPIC_PARTITIONS",
    "START_TIMEOUT_S",
    "STOP_TIMEOUT_S",
    "JavaProcess",
    "KRaftNode",
    "KafkaBroker",
    "ServerControls",
    "ZooKeeperEnsemble",
    "ZooKeeperOptions",
    "ZooKeeperServer",
    "accepts",
    "new_cluster_id",
    "write_properties",
]
