"""What a consumer raises, as branches of zkcoord's tree that kafka-python's users already catch.

    ZkcoordError
    ├── ConfigurationError
    │   ├── ConsumerOptionError                  (also KafkaConfigurationError)
    │   │       an option or a combination of options is refused
    │   ├── InvalidGroupError ── GroupNameError  (also InvalidGroupIdError)
    │   ├── InvalidConsumerIdError ── ConsumerIdError (also KafkaConfigurationError)
    │   └── InvalidSubscriptionError ── SubscriptionError (also KafkaConfigurationError)
    │       └── InvalidPatternError (also re.error)
    │               a pattern is no regular expression, or none of RE2's
    ├── ForkedProcessError ── ForkedConsumerError (also IllegalStateError)
    │               used in a forked child of the process that made it
    └── ConsumerError
        ├── MembershipError                      (also KafkaError)
        │           the member cannot go on; poll raises it for ever
        │   ├── RejectedError
        │   │       the coordinator does not take this member; the message begins with its code
        │   │   ├── InconsistentProtocolError    (also InconsistentGroupProtocolError)
        │   │   └── GroupFullError               (also GroupMaxSizeReachedError)
        │   ├── ConsumerIdInUseError
        │   ├── FencedInstanceError              (also FencedInstanceIdError)
        │   ├── OtherClusterError
        │   ├── OtherLayoutError
        │   ├── SessionRefusedError
        │   ├── StartRefusedError                (also NoOffsetForPartitionError)
        │   │       nothing says where a partition of a Spark query begins
        │   ├── KafkaGroupActiveError            (also NonEmptyGroupError)
        │   │       members of Kafka's own protocol hold the group
        │   ├── KafkaGroupDeniedError            (also GroupAuthorizationFailedError)
        │   │       what the group has committed in Kafka may not be read
        │   └── AgentFailedError
        │           the thread that keeps the membership ended by a defect
        ├── NoStoredOffsetError                  (also NoOffsetForPartitionError)
        │           names the partitions of which nothing says where they begin; poll raises it
        │           until the application has sought
        ├── ConsumerRebalanceFailedException     (also KafkaError)
        │           raised once per quarantine, with raise_on_rebalance_failure
        ├── UnreadableOffsetError                (also KafkaError)
        │           what is stored for a partition is no offset; once, the others go on
        ├── ListenerError                        (also KafkaError)
        │           a rebalance listener raised; the cause is its error
        ├── NotOwnedError                        (also CommitFailedError)
        │           names the partitions that are not this member's
        ├── OffsetResetError                     (also CommitFailedError)
        │           names the partitions whose offsets an operator reset meanwhile
        ├── ConsumerTimeoutError                 (also TimeoutError)
        │           nothing came to a message stream for consumer.timeout.ms
        ├── MessageStreamsExistError             (also IllegalStateError)
        │           a connector makes message streams once
        ├── CommitRefusedError                   (also CommitFailedError)
        │           a commit that cannot be stored as it is, in ZooKeeper or in Kafka
        ├── CommitUnavailableError               (also KafkaTimeoutError, retriable)
        │           ZooKeeper did not answer in time
        ├── ZooKeeperDeniedError                 (also GroupAuthorizationFailedError)
        │           what the group has stored may not be read by this consumer
        ├── UnknownPartitionError                (also UnknownTopicOrPartitionError and
        │           KafkaTimeoutError) offsets of a topic or partition that is not there
        └── BrokersUnreachableError              (also KafkaTimeoutError, retriable)
                    no broker answered when the consumer was made

Each keeps the class that kafka-python raises in the same situation as a second base, so that
`except CommitFailedError` goes on working after the import is changed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import kafka.errors as kafka_errors

from consumer.core.messages import Failed, FailureCode
from consumer.interruptions import say_interruption
from zkcoord.core.error_codes import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
)
from zkcoord.errors import (
    ConfigurationError,
    ForkedProcessError,
    InvalidConsumerIdError,
    InvalidGroupError,
    InvalidSubscriptionError,
    ZkcoordError,
)

Function = TypeVar("Function", bound=Callable[..., Any])


class ConsumerOptionError(ConfigurationError, kafka_errors.KafkaConfigurationError):
    """An option, or a combination of options, that cannot be used."""


class GroupNameError(InvalidGroupError, kafka_errors.InvalidGroupIdError):
    """A group name that is refused."""


class ConsumerIdError(InvalidConsumerIdError, kafka_errors.KafkaConfigurationError):
    """A chosen consumer id that is refused."""


class SubscriptionError(InvalidSubscriptionError, kafka_errors.KafkaConfigurationError):
    """A subscription that is refused."""


class ForkedConsumerError(ForkedProcessError, kafka_errors.IllegalStateError):
    """A consumer was used in a forked child: its connections belong to the parent."""


class ConsumerError(ZkcoordError):
    """Root of what happens while consuming."""

    def __reduce__(self) -> tuple[Any, ...]:
        """So that another process can be sent it, whatever its constructor takes."""
        return _again, (type(self), self.args, self.__dict__)


def _again(
    kind: type[ConsumerError], args: tuple[Any, ...], state: dict[str, Any]
) -> ConsumerError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class MembershipError(ConsumerError, kafka_errors.KafkaError):
    """The member cannot go on."""

    fatal = True


class RejectedError(MembershipError):
    """The coordinator does not take this member into the group."""


class InconsistentProtocolError(RejectedError, kafka_errors.InconsistentGroupProtocolError):
    """No assignor, or no form of rebalance, in common with the members that were there before."""


class GroupFullError(RejectedError, kafka_errors.GroupMaxSizeReachedError):
    """The group has as many members as the coordinator allows."""


class ConsumerIdInUseError(MembershipError):
    """Another live process uses the chosen consumer id."""


class FencedInstanceError(MembershipError, kafka_errors.FencedInstanceIdError):
    """Another process took over this group_instance_id."""


class OtherLayoutError(MembershipError):
    """The ensemble, or the group in it, is used with the other layout."""


class OtherClusterError(MembershipError):
    """The brokers of `bootstrap_servers` are of another cluster than the group."""


class SessionRefusedError(MembershipError):
    """ZooKeeper cannot be used as configured."""


class StartRefusedError(MembershipError, kafka_errors.NoOffsetForPartitionError):
    """No offset is stored, and the options give none, of a member that has no application which
    could seek.
    """


class KafkaGroupActiveError(MembershipError, kafka_errors.NonEmptyGroupError):
    """Live members of Kafka's own protocol hold this group id."""


class KafkaGroupDeniedError(MembershipError, kafka_errors.GroupAuthorizationFailedError):
    """What the group has committed in Kafka may not be read by this client."""


class AgentFailedError(MembershipError):
    """The member's thread ended by a defect; the log has the traceback."""


class NoStoredOffsetError(ConsumerError, kafka_errors.NoOffsetForPartitionError):
    """No offset is stored for `partitions`, and auto_offset_reset is 'none' or initial_offsets
    'refuse'. They stay assigned, and go on once the application has sought.
    """

    def __init__(self, partitions: Iterable[tuple[str, int]], why: str) -> None:
        self.partitions = tuple(sorted(partitions))
        named = ", ".join(f"{topic}-{number}" for topic, number in self.partitions)
        super().__init__(f"no offset is stored for {named}, and {why}")


class InvalidPatternError(InvalidSubscriptionError, kafka_errors.KafkaError, re.error):
    """A pattern that cannot be used; the message is one sentence for the user."""


class ConsumerRebalanceFailedException(ConsumerError, kafka_errors.KafkaError):
    """The coordinator gave up rebalancing the group for a while; this member keeps what it has, and
    the coordinator tries again by itself.
    """

    def __init__(self, message: str) -> None:
        # a coordinator's words begin with the name, which is a part of an error's text anyway
        super().__init__(message.removeprefix(f"{type(self).__name__}: "))


class ListenerError(ConsumerError, kafka_errors.KafkaError):
    """A rebalance listener raised; the cause has its error."""


class UnreadableOffsetError(ConsumerError, kafka_errors.KafkaError):
    """What is stored for a partition is no offset: `partition` (topic, number), `node`. It is not
    consumed until somebody corrects the node; poll says so once and goes on with the others.
    """

    def __init__(self, partition: tuple[str, int], node: str, why: str) -> None:
        self.partition = partition
        self.node = node
        super().__init__(
            f"what is stored in {node} is no offset ({why}), so {partition[0]}-{partition[1]} is"
            " not consumed: set it with zkcoord offsets reset, or delete the node to begin where"
            " auto_offset_reset says"
        )


class NotOwnedError(ConsumerError, kafka_errors.CommitFailedError):
    """A commit names partitions that this member does not own; `partitions` has them."""

    def __init__(self, partitions: Iterable[tuple[str, int]], why: str) -> None:
        self.partitions = tuple(sorted(partitions))
        named = ", ".join(f"{topic}-{number}" for topic, number in self.partitions)
        super().__init__(f"the commit was refused for {named}: {why}")


class OffsetResetError(ConsumerError, kafka_errors.CommitFailedError):
    """An operator reset offsets that a commit names, before this consumer had heard of it;
    `partitions` has them. They go on where the operator set them; the others are stored.
    """

    def __init__(self, partitions: Iterable[tuple[str, int]]) -> None:
        self.partitions = tuple(sorted(partitions))
        named = ", ".join(f"{topic}-{number}" for topic, number in self.partitions)
        super().__init__(
            f"the offsets of {named} were reset by somebody else, and are not overwritten: the next"
            " poll goes on from there"
        )


class CommitRefusedError(ConsumerError, kafka_errors.CommitFailedError):
    """A commit that cannot be stored as it is, however often it is tried: ZooKeeper does not let
    this consumer, nobody makes what the group consists of, or, where offsets are kept there, Kafka
    refused it. `partitions` are those that it names.
    """

    def __init__(self, partitions: Iterable[tuple[str, int]], why: str) -> None:
        self.partitions = tuple(sorted(partitions))
        named = ", ".join(f"{topic}-{number}" for topic, number in self.partitions)
        super().__init__(f"the commit was refused for {named}: {why}")


def kafka_refused(error: BaseException) -> str:
    """Why Kafka did not store offsets that it keeps, and will not."""
    return (
        f"Kafka refused to store them ({described(error)}): see that the group has no members of"
        " Kafka's own protocol, and that this client may read the group (ACLs)"
    )


def kafka_away(error: BaseException) -> str:
    """Why Kafka did not store offsets that it keeps, and may yet."""
    return f"Kafka did not store the offsets ({described(error)})"


def not_let(path: str, does: str = "read") -> str:
    """The sentence for a node with which this consumer may not do that."""
    return (
        f"ZooKeeper does not let this consumer {does} {path} (NoAuth): give it credentials that may"
    )


class ZooKeeperDeniedError(ConsumerError, kafka_errors.GroupAuthorizationFailedError):
    """What the group has stored may not be read by this consumer: `node`. What may be read goes on;
    so does this once it may.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(not_let(node))


class CommitUnavailableError(ConsumerError, kafka_errors.KafkaTimeoutError):
    """ZooKeeper did not answer in time; the commit may have happened and may be tried again."""

    retriable: ClassVar[bool] = True


class ConsumerTimeoutError(ConsumerError, TimeoutError):
    """Nothing came to a message stream for `consumer.timeout.ms`; it may be asked again."""


class MessageStreamsExistError(ConsumerError, kafka_errors.IllegalStateError):
    """A connector makes its message streams once, and knows its listener before."""


class UnknownPartitionError(
    ConsumerError, kafka_errors.UnknownTopicOrPartitionError, kafka_errors.KafkaTimeoutError
):
    """Offsets were asked for of a topic or partition that is not there. kafka-python's consumer
    waits for it, and raises `KafkaTimeoutError` in the end.
    """


class BrokersUnreachableError(ConsumerError, kafka_errors.KafkaTimeoutError):
    """No broker answered within bootstrap_timeout_ms when the consumer was made."""

    retriable: ClassVar[bool] = True


_BY_CODE: dict[FailureCode, type[MembershipError]] = {
    FailureCode.REJECTED: RejectedError,
    FailureCode.DUPLICATE_CONSUMER_ID: ConsumerIdInUseError,
    FailureCode.FENCED_INSTANCE_ID: FencedInstanceError,
    FailureCode.OTHER_LAYOUT: OtherLayoutError,
    FailureCode.REFUSED: SessionRefusedError,
    FailureCode.RESET_POLICY: StartRefusedError,
    FailureCode.KAFKA_GROUP_ACTIVE: KafkaGroupActiveError,
    FailureCode.KAFKA_GROUP_DENIED: KafkaGroupDeniedError,
}

_BY_REJECTION: dict[str, type[MembershipError]] = {
    INCONSISTENT_GROUP_PROTOCOL: InconsistentProtocolError,
    GROUP_MAX_SIZE_REACHED: GroupFullError,
    FENCED_INSTANCE_ID: FencedInstanceError,
}


def described(error: BaseException) -> str:
    """An error in one line, its class named once: the text of kafka-python's errors names it, that
    of others does not.
    """
    name, text = type(error).__name__, str(error)
    return text if name in text else f"{name}: {text}".removesuffix(": ")


def failure(message: Failed) -> MembershipError:
    """The exception of a member's failure."""
    return _BY_REJECTION.get(message.rejection, _BY_CODE[message.code])(message.message)


_AS_KAFKAS: dict[type[ConfigurationError], type[ConfigurationError]] = {
    InvalidGroupError: GroupNameError,
    InvalidConsumerIdError: ConsumerIdError,
    InvalidSubscriptionError: SubscriptionError,
}


def as_kafkas(error: ConfigurationError) -> ConfigurationError:
    """This error as one that is kafka-python's, too: what zkcoord refuses below a consumer knows
    nothing of kafka-python.
    """
    if issubclass(type(error), kafka_errors.KafkaError):
        return error
    kind: type[ConfigurationError] = _AS_KAFKAS.get(type(error), ConsumerOptionError)
    return kind(*error.args)


def raises_kafkas(function: Function) -> Function:
    """Errors of configuration that leave this function are kafka-python's, too, and what a signal
    handler raises leaves it as it is.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except ConfigurationError as e:
            raise as_kafkas(e) from e.__cause__
        except RuntimeError as e:
            say_interruption(e)
            raise

    return call  # type: ignore[return-value]  # as `function`
