"""Where a coordinator gets topics and brokers from."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class TopicSourceKind(enum.Enum):
    """`AUTO`: Kafka's nodes in ZooKeeper for as long as there are any that brokers write."""

    AUTO = "auto"
    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """How often brokers are asked, and with which security protocol clients reach them."""

    source: TopicSourceKind = TopicSourceKind.AUTO
    refresh_ms: int = 1_000
    protocol: str = "PLAINTEXT"
