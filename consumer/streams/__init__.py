"""The old high-level consumer's message streams on top of `KafkaConsumer`."""

from __future__ import annotations

from consumer.errors import ConsumerTimeoutError, ForkedConsumerError, MessageStreamsExistError
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
    "ConsumerTimeoutError",
    "ForkedConsumerError",
    "KafkaStream",
    "MessageAndMetadata",
    "MessageStreamsExistError",
    "TopicFilter",
    "WhiteList",
    "ZookeeperConsumerConnector",
]
