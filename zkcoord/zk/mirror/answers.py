"""What the nodes of a group are as values, from the answers to reads of them.

Each gives the value, None where there is no node, and `Malformed` where it cannot be read: what is
there and hidden must not pass for absent.
"""

from __future__ import annotations

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import (
    Command,
    GroupMetadata,
    Malformed,
    Member,
    Mode,
    Owner,
    Request,
    Topic,
    TopicPartition,
)
from zkcoord.zk.port import Denied, Node, ReadAnswer
from zkcoord.znodes import codec, names, places


class Delta:
    """A group's delta being put together from the answers of one request."""

    def __init__(self) -> None:
        self.members: dict[str, Member | Malformed | None] = {}
        self.channels: dict[str, bool] = {}
        self.commands: dict[tuple[str, str], Command | Malformed | None] = {}
        self.owners: dict[TopicPartition, Owner | Malformed | None] = {}
        self.requests: dict[str, Request | Malformed | None] = {}
        self.mode: dict[str, Mode | Malformed | None] = {}

    def build(self, full: bool = False, metadata: GroupMetadata | None = None) -> GroupDelta:
        """As an immutable event part. `full`: whatever is not in it is gone."""
        return GroupDelta(
            full=full,
            metadata=metadata,
            members=self.members,
            channels=self.channels,
            commands=self.commands,
            owners=self.owners,
            requests=self.requests,
            mode=self.mode,
        )


def member_of(answer: ReadAnswer, name: str) -> Member | Malformed | None:
    """A registration."""
    return (
        codec.decode_registration(name, answer.data, answer.stat)
        if isinstance(answer, Node)
        else _hidden(answer, "registration", name)
    )


def command_of(answer: ReadAnswer, member: str, node: str) -> Command | Malformed | None:
    """A command in a member's channel."""
    return (
        codec.decode_command(member, node, answer.data)
        if isinstance(answer, Node)
        else _hidden(answer, "command", f"{member}/{node}")
    )


def owner_of(answer: ReadAnswer, tp: TopicPartition) -> Owner | Malformed | None:
    """An owner node."""
    return (
        codec.decode_owner(tp, answer.data, answer.stat)
        if isinstance(answer, Node)
        else _hidden(answer, "owner", str(tp))
    )


def request_of(answer: ReadAnswer, node: str) -> Request | Malformed | None:
    """An operator's request."""
    return (
        codec.decode_request(node, answer.data)
        if isinstance(answer, Node)
        else _hidden(answer, "request", node)
    )


def mode_of(answer: ReadAnswer) -> Mode | Malformed | None:
    """An operator's word on whose the group is."""
    return (
        codec.decode_mode(answer.data)
        if isinstance(answer, Node)
        else _hidden(answer, "mode", "mode")
    )


def topic_of(answer: ReadAnswer, name: str) -> Topic | Malformed | None:
    """A topic; a node without data is none yet: it exists before the broker writes the topic's
    partitions.
    """
    if isinstance(answer, Node):
        return codec.decode_topic(name, answer.data, answer.stat) if answer.data else None
    return _hidden(answer, "topic", name)


def can_be_read(where: places.Where) -> bool:
    """Whether a name can be what its place says."""
    if isinstance(where, (places.RegistrationAt, places.ChannelAt)):
        return names.is_member(where.member)
    if isinstance(where, places.CommandAt):
        return names.is_member(where.member) and names.is_node(where.node)
    return names.is_node(where.node) if isinstance(where, places.RequestAt) else True


def _hidden(answer: ReadAnswer, what: str, name: str) -> Malformed | None:
    return (
        Malformed(what, name, f"the coordinator may not read it ({answer.error.value})")
        if isinstance(answer, Denied)
        else None
    )
