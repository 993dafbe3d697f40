"""What can stop a range from being read, by name.

ConsumerError
└── ReadError                    a range cannot be read; the message is one sentence that names
                                 the partition
    ├── TopicUnknownError        the topic was deleted, or never was
    ├── OutOfRangeError          the range begins behind the end of the log: it was made again,
    │                            or cut
    ├── DataLossError            records of the range are gone before they were read: retention,
    │                            or a log that was cut
    ├── OpenTransactionError     the range ends behind the beginning of an open transaction,
    │                            with read_committed           (retriable)
    ├── CorruptRecordError       a record on the broker's disk is damaged, or cannot be
    │                            decompressed here
    ├── TimestampError           a record's time is no number of milliseconds that a timestamp can
    │                            hold
    ├── NotAllowedError          the broker refuses this user: credentials, TLS or permissions
    ├── NoBrokerError            no broker answers
    │                            (retriable)
    └── StalledError             the broker has the records and does not send them
                                 (retriable)
ConfigurationError
└── EngineUnavailableError       the engine that was asked for cannot be used here
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.errors import ConsumerError
from zkcoord.errors import ConfigurationError


class ReadError(ConsumerError):
    """A range cannot be read."""


class TopicUnknownError(ReadError):
    """The topic was deleted, or never was."""


class OutOfRangeError(ReadError):
    """The range begins behind the end of the log."""


class DataLossError(ReadError):
    """Records of the range are gone before they were read."""


class OpenTransactionError(ReadError):
    """The range ends where it is not decided yet what is to be read."""

    retriable = True


class CorruptRecordError(ReadError):
    """A record is damaged, or cannot be decompressed here."""


class TimestampError(ReadError):
    """A record's time is none."""


class NotAllowedError(ReadError):
    """The broker refuses this user."""


class NoBrokerError(ReadError):
    """No broker answers."""

    retriable = True


class StalledError(ReadError):
    """The broker has the records and does not send them."""

    retriable = True


class EngineUnavailableError(ConfigurationError):
    """The engine that was asked for cannot be used here."""


class PositionGoneError(ReadError):
    """The broker has nothing at the position: the bounds of the log say which error it is. Never
    leaves this package.
    """


# librdkafka's codes; what is not here is a ReadError with librdkafka's words.
BY_CODE: Mapping[int, type[ReadError]] = {
    -140: PositionGoneError,  # _AUTO_OFFSET_RESET
    1: PositionGoneError,  # OFFSET_OUT_OF_RANGE
    3: TopicUnknownError,
    -188: TopicUnknownError,
    -190: TopicUnknownError,  # _UNKNOWN_PARTITION
    -199: CorruptRecordError,  # _BAD_MSG
    -198: CorruptRecordError,  # _BAD_COMPRESSION
    2: CorruptRecordError,
    -169: NotAllowedError,  # _AUTHENTICATION
    -181: NotAllowedError,  # _SSL
    29: NotAllowedError,
    31: NotAllowedError,
    58: NotAllowedError,
    -187: NoBrokerError,  # _ALL_BROKERS_DOWN
    -195: NoBrokerError,  # _TRANSPORT
    -193: NoBrokerError,  # _RESOLVE
    -185: NoBrokerError,  # _TIMED_OUT
    -192: NoBrokerError,  # _MSG_TIMED_OUT
    5: NoBrokerError,  # LEADER_NOT_AVAILABLE
    6: NoBrokerError,  # NOT_LEADER_FOR_PARTITION
    7: NoBrokerError,
    8: NoBrokerError,
    78: NoBrokerError,  # OFFSET_NOT_AVAILABLE
}
ADVICE: Mapping[type[ReadError], str] = {
    TopicUnknownError: (
        "the topic does not exist (any more): make it again or take it out of the subscription"
    ),
    CorruptRecordError: (
        "a record cannot be decoded: look at the broker's log of this partition, or begin behind it"
    ),
    NotAllowedError: (
        "the broker refuses this client: correct the security settings or the permissions"
    ),
    NoBrokerError: "no broker answers: check the brokers and kafka.bootstrap.servers",
}
TROUBLE = frozenset({-169, -181, 58})
"""Events of a whole handle that no waiting cures."""


def read_error(code: int, said: str, where: str) -> ReadError:
    """librdkafka's error as one of this module's; `where` is topic-partition, or the brokers."""
    kind = BY_CODE.get(code, ReadError)
    advice = ADVICE.get(kind)
    return kind(f"{where}: {advice} ({said})" if advice else f"{where}: {said}")
