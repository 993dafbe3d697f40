"""Where a coordinator gets topics and brokers from."""

from __future__ import annotations

import enum

from zkcoord.core.value_type import value


class TopicSourceKind(enum.Enum):
    """`AUTO`: Kafka's nodes in ZooKeeper for as long as there are any that brokers write."""

    AUTO = "auto"
    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


@value
class TopicOptions:
    """How often brokers are asked, and with which security protocol clients reach them."""

    source: TopicSourceKind = TopicSourceKind.AUTO
    refresh_ms: int = 1_000
    protocol: str = "PLAINTEXT"
