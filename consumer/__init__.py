"""Consumers whose group zkcoord coordinates: `from zkcoord.consumer import KafkaConsumer` in the
place of `from kafka import KafkaConsumer`. (`from consumer import ...` names the same modules,
where no module of the application has that name.)

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
    # below this package, under whichever name it was imported (`zkcoord.beside`)
    module = _FROM[name].removeprefix("consumer") if _FROM[name][:9] == "consumer." else _FROM[name]
    return getattr(importlib.import_module(module, __name__), name)


def __dir__() -> list[str]:
    return __all__
