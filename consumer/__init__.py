"""Consumers whose group zkcoord coordinates: `from zkcoord.consumer import KafkaConsumer` in the
place of `from kafka import KafkaConsumer`. (`from consumer import ...` names the same modules,
where no module of the application has that name.)

Nothing is imported before it is used, so that a process that only wants one part (the pure
core, say) does not load the others.
"""

from __future__ import annotations

import gc
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka.consumer.subscription_state import ConsumerRebalanceListener
    from kafka.structs import OffsetAndMetadata, TopicPartition

    from consumer.api.kafka_consumer import KafkaConsumer
    from consumer.errors import (
        AgentFailedError,
        BrokersUnreachableError,
        CommitRefusedError,
        CommitUnavailableError,
        ConsumerError,
        ConsumerIdError,
        ConsumerIdInUseError,
        ConsumerOptionError,
        ConsumerRebalanceFailedException,
        ConsumerTimeoutError,
        FencedInstanceError,
        ForkedConsumerError,
        GroupFullError,
        GroupNameError,
        InconsistentProtocolError,
        InvalidPatternError,
        KafkaGroupActiveError,
        KafkaGroupDeniedError,
        ListenerError,
        MembershipError,
        MessageStreamsExistError,
        NoStoredOffsetError,
        NotOwnedError,
        OffsetResetError,
        OtherClusterError,
        OtherLayoutError,
        RejectedError,
        SessionRefusedError,
        StartRefusedError,
        SubscriptionError,
        UnknownPartitionError,
        UnreadableOffsetError,
        ZooKeeperDeniedError,
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
    "BlackList": "consumer.streams.connector",
    "KafkaStream": "consumer.streams.connector",
    "MessageAndMetadata": "consumer.streams.connector",
    "WhiteList": "consumer.streams.connector",
    "ZookeeperConsumerConnector": "consumer.streams.connector",
    "AgentFailedError": "consumer.errors",
    "BrokersUnreachableError": "consumer.errors",
    "CommitRefusedError": "consumer.errors",
    "CommitUnavailableError": "consumer.errors",
    "ConsumerError": "consumer.errors",
    "ConsumerIdError": "consumer.errors",
    "ConsumerIdInUseError": "consumer.errors",
    "ConsumerOptionError": "consumer.errors",
    "ConsumerRebalanceFailedException": "consumer.errors",
    "ConsumerTimeoutError": "consumer.errors",
    "FencedInstanceError": "consumer.errors",
    "ForkedConsumerError": "consumer.errors",
    "GroupFullError": "consumer.errors",
    "GroupNameError": "consumer.errors",
    "InconsistentProtocolError": "consumer.errors",
    "InvalidPatternError": "consumer.errors",
    "KafkaGroupActiveError": "consumer.errors",
    "KafkaGroupDeniedError": "consumer.errors",
    "ListenerError": "consumer.errors",
    "MembershipError": "consumer.errors",
    "MessageStreamsExistError": "consumer.errors",
    "NoStoredOffsetError": "consumer.errors",
    "NotOwnedError": "consumer.errors",
    "OffsetResetError": "consumer.errors",
    "OtherClusterError": "consumer.errors",
    "OtherLayoutError": "consumer.errors",
    "RejectedError": "consumer.errors",
    "SessionRefusedError": "consumer.errors",
    "StartRefusedError": "consumer.errors",
    "SubscriptionError": "consumer.errors",
    "UnknownPartitionError": "consumer.errors",
    "UnreadableOffsetError": "consumer.errors",
    "ZooKeeperDeniedError": "consumer.errors",
}

__all__ = [
    "DEFAULT_CONFIG",
    "AgentFailedError",
    "BlackList",
    "BrokersUnreachableError",
    "CommitRefusedError",
    "CommitUnavailableError",
    "ConsumerError",
    "ConsumerIdError",
    "ConsumerIdInUseError",
    "ConsumerOptionError",
    "ConsumerRebalanceFailedException",
    "ConsumerRebalanceListener",
    "ConsumerTimeoutError",
    "FencedInstanceError",
    "ForkedConsumerError",
    "GroupFullError",
    "GroupNameError",
    "InconsistentProtocolError",
    "InvalidPatternError",
    "KafkaConsumer",
    "KafkaGroupActiveError",
    "KafkaGroupDeniedError",
    "KafkaStream",
    "ListenerError",
    "MembershipError",
    "MessageAndMetadata",
    "MessageStreamsExistError",
    "NoStoredOffsetError",
    "NotOwnedError",
    "Observer",
    "OffsetAndMetadata",
    "OffsetResetError",
    "OtherClusterError",
    "OtherLayoutError",
    "RejectedError",
    "SessionRefusedError",
    "StartRefusedError",
    "SubscriptionError",
    "TopicPartition",
    "UnknownPartitionError",
    "UnreadableOffsetError",
    "WhiteList",
    "ZooKeeperDeniedError",
    "ZookeeperConsumerConnector",
]


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module 'consumer' has no attribute {name!r}")
    # below this package, under whichever name it was imported (`zkcoord.beside`)
    module = _FROM[name].removeprefix("consumer") if _FROM[name][:9] == "consumer." else _FROM[name]
    found = globals()[name] = getattr(_imported(module), name)  # asked once: see `_imported`
    return found


def _imported(module: str) -> ModuleType:
    """What an import makes stays. To look through it for garbage again and again takes longer than
    a session with ZooKeeper, so it is not done meanwhile, nor at once when that is over: all of it
    is as old then as what is never looked at (`gc.freeze`, and back).
    """
    if not gc.isenabled() or not hasattr(gc, "freeze") or gc.get_freeze_count():
        return importlib.import_module(module, __name__)
    gc.disable()
    try:
        return importlib.import_module(module, __name__)
    finally:
        gc.freeze()
        gc.unfreeze()
        gc.enable()


def __dir__() -> list[str]:
    return __all__
