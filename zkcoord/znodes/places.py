"""What a path of zkcoord is (`Layout.locate`)."""

from __future__ import annotations

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value


@value
class LeaderAt:
    """The coordinator's own node."""


@value
class EpochAt:
    """The groups' root, whose data is the epoch."""


@value
class AskAt:
    """A member asks for the nodes of a group."""

    group: str


@value
class GroupAt:
    """A group's node: its data is the metadata."""

    group: str


@value
class ModeAt:
    """A group's mode: whether it is shared with old consumers."""

    group: str


@value
class IdsAt:
    """The parent of a group's registrations."""

    group: str


@value
class RegistrationAt:
    """A member's registration."""

    group: str
    member: str


@value
class ChannelsAt:
    """The parent of a group's channels."""

    group: str


@value
class ChannelAt:
    """A member's channel."""

    group: str
    member: str


@value
class CommandAt:
    """A command in a member's channel."""

    group: str
    member: str
    node: str


@value
class RequestAt:
    """An operator's request."""

    group: str
    node: str


@value
class PublicationAt:
    """A batch of a sink that is committed, and whose files may still have to be moved."""

    group: str
    node: str


@value
class OwnersAt:
    """The parent of a group's owner nodes."""

    group: str


@value
class OwnerTopicAt:
    """The parent of a topic's owner nodes."""

    group: str
    topic: str


@value
class OwnerAt:
    """The owner of a partition."""

    group: str
    partition: TopicPartition


@value
class TopicsAt:
    """The parent of Kafka's topics."""


@value
class TopicAt:
    """A topic: its data is the map of partitions."""

    topic: str


@value
class BrokersAt:
    """The parent of Kafka's live brokers."""


@value
class BrokerAt:
    """A live broker."""

    id: str


@value
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
