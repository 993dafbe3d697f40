"""The old high-level consumer's message streams on top of `KafkaConsumer`."""

from __future__ import annotations

from consumer.streams.connector import (
    BlackList,
    ConsumerRebalanceListener,
    KafkaStream,
    MessageAndMetadata,
    TopicFilter,
    WhiteList,
    ZookeeperConsumerConnector,
)

__all__ = [
    "BlackList",
    "ConsumerRebalanceListener",
    "KafkaStream",
    "MessageAndMetadata",
    "TopicFilter",
    "WhiteList",
    "ZookeeperConsumerConnector",
]
