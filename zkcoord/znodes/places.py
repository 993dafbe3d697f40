"""What a path of zkcoord is (`Layout.locate`)."""

from __future__ import annotations

from dataclasses import dataclass

from zkcoord.core.model import TopicPartition


@dataclass(frozen=True, slots=True)
class LeaderAt:
    """The coordinator's own node."""


@dataclass(frozen=True, slots=True)
class EpochAt:
    """The groups' root, whose data is the epoch."""


@dataclass(frozen=True, slots=True)
class AskAt:
    """A member asks for the nodes of a group."""

    group: str


@dataclass(frozen=True, slots=True)
class GroupAt:
    """A group's node: its data is the metadata."""

    group: str


@dataclass(frozen=True, slots=True)
class ModeAt:
    """A group's mode: whether it is shared with old consumers."""

    group: str


@dataclass(frozen=True, slots=True)
class IdsAt:
    """The parent of a group's registrations."""

    group: str


@dataclass(frozen=True, slots=True)
class RegistrationAt:
    """A member's registration."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class ChannelsAt:
    """The parent of a group's channels."""

    group: str


@dataclass(frozen=True, slots=True)
class ChannelAt:
    """A member's channel."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class CommandAt:
    """A command in a member's channel."""

    group: str
    member: str
    node: str


@dataclass(frozen=True, slots=True)
class RequestAt:
    """An operator's request."""

    group: str
    node: str


@dataclass(frozen=True, slots=True)
class PublicationAt:
    """A batch of a sink that is committed, and whose files may still have to be moved."""

    group: str
    node: str


@dataclass(frozen=True, slots=True)
class OwnersAt:
    """The parent of a group's owner nodes."""

    group: str


@dataclass(frozen=True, slots=True)
class OwnerTopicAt:
    """The parent of a topic's owner nodes."""

    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class OwnerAt:
    """The owner of a partition."""

    group: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class TopicsAt:
    """The parent of Kafka's topics."""


@dataclass(frozen=True, slots=True)
class TopicAt:
    """A topic: its data is the map of partitions."""

    topic: str


@dataclass(frozen=True, slots=True)
class BrokersAt:
    """The parent of Kafka's live brokers."""


@dataclass(frozen=True, slots=True)
class BrokerAt:
    """A live broker."""

    id: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Not ours, not of interest, or with a name that cannot be."""

    path: str


Where = (
    LeaderAt
    | AskAt
    | EpochAt
    | GroupAt
    | ModeAt
    | IdsAt
    | RegistrationAt
    | ChannelsAt
    | ChannelAt
    | CommandAt
    | RequestAt
    | PublicationAt
    | OwnersAt
    | OwnerTopicAt
    | OwnerAt
    | TopicsAt
    | TopicAt
    | BrokersAt
    | BrokerAt
    | Elsewhere
)
