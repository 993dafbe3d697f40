"""Consumers whose group zkcoord coordinates: `from consumer import KafkaConsumer` in the place of
`from kafka import KafkaConsumer`.

Nothing is imported before it is used, so that a process that only wants one part (the pure
core, say) does not load the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka.consumer.subscription_state import ConsumerRebalanceListener
    from kafka.structs import OffsetAndMetadata, TopicPartition

    from consumer.api.kafka_consumer import KafkaConsumer
    from consumer.errors import (
        CommitUnavailableError,
        ConsumerError,
        ConsumerOptionError,
        ConsumerRebalanceFailedException,
        ConsumerTimeoutError,
        FencedInstanceError,
        ForkedConsumerError,
        MembershipError,
        MessageStreamsExistError,
        NotOwnedError,
        RejectedError,
    )
    from consumer.observer import Observer
    from consumer.options import DEFAULT_CONFIG
    from consumer.streams.connector import (
        BlackList,
        KafkaStream,
        MessageAndMetadata,
        WhiteList,
        ZookeeperConsumerConnector,
    )

_FROM = {
    "KafkaConsumer": "consumer.api.kafka_consumer",
    "DEFAULT_CONFIG": "consumer.options",
    "Observer": "consumer.observer",
    "ConsumerRebalanceListener": "kafka.consumer.subscription_state",
    "OffsetAndMetadata": "kafka.structs",
    "TopicPartition": "kafka.structs",
    "CommitUnavailableError": "consumer.errors",
    "ConsumerError": "consumer.errors",
    "ConsumerOptionError": "consumer.errors",
    "ConsumerRebalanceFailedException": "consumer.errors",
    "FencedInstanceError": "consumer.errors",
    "ForkedConsumerError": "consumer.errors",
    "MembershipError": "consumer.errors",
    "NotOwnedError": "consumer.errors",
    "RejectedError": "consumer.errors",
    "BlackList": "consumer.streams.connector",
    "KafkaStream": "consumer.streams.connector",
    "MessageAndMetadata": "consumer.streams.connector",
    "WhiteList": "consumer.streams.connector",
    "ZookeeperConsumerConnector": "consumer.streams.connector",
    "ConsumerTimeoutError": "consumer.errors",
    "MessageStreamsExistError": "consumer.errors",
}

__all__ = [
    "DEFAULT_CONFIG",
    "BlackList",
    "CommitUnavailableError",
    "ConsumerError",
    "ConsumerOptionError",
    "ConsumerRebalanceFailedException",
    "ConsumerRebalanceListener",
    "ConsumerTimeoutError",
    "FencedInstanceError",
    "ForkedConsumerError",
    "KafkaConsumer",
    "KafkaStream",
    "MembershipError",
    "MessageAndMetadata",
    "MessageStreamsExistError",
    "NotOwnedError",
    "Observer",
    "OffsetAndMetadata",
    "RejectedError",
    "TopicPartition",
    "WhiteList",
    "ZookeeperConsumerConnector",
]


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module 'consumer' has no attribute {name!r}")
    return getattr(importlib.import_module(_FROM[name]), name)


def __dir__() -> list[str]:
    return __all__
