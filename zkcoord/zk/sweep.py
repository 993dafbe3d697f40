"""Reading whole groups, level by level, many groups at once.

Levels: (1) the group's node and the names below ids and channel; (2) registrations, and the names below each channel; (3) commands, and the topics below owners; (4) the
partitions below each owned topic; (5) owner nodes. Commands are read before owner nodes, and before the names above them: a decision must not see an ack's owner nodes as they
were before it and its command as it was after.
10,000 groups of 3 members are some 100 requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import Command, GroupMetadata, Malformed, Member, Owner, TopicPartition
from zkcoord.znodes import codec, names
from zkcoord.znodes.paths import Layout

from .port import READS_PER_REQUEST_MAX, Children, Denied, GetChildren, GetData, Missing, Node, Port, Read, ReadAnswer, ReadDone, ReadResult

Take = Callable[[ReadAnswer], None]
K = TypeVar("K")
T = TypeVar("T")


def decode(answer: ReadAnswer, what: str, name: str, value: Callable[[Node], T | Malformed]) -> T | Malformed | None:
    """A node's value, None where there is no node, `Malformed` where it cannot be read: what is there and hidden must not pass for absent."""
    if isinstance(answer, Node):
        return value(answer)
    if isinstance(answer, Denied):
        return Malformed(what, name, f"the coordinator may not read it ({answer.error.value})")
    return None


class GroupDraft:
    """One group while it is being read."""

    def __init__(self) -> None:
        self.exists = True
        self.metadata: GroupMetadata | None = None
        self.members: dict[str, Member | Malformed | None] = {}
        self.channels: dict[str, bool] = {}
        self.commands: dict[tuple[str, str], Command | Malformed | None] = {}
        self.owners: dict[TopicPartition, Owner | Malformed | None] = {}
        self.topics: list[str] = []

    def delta(self) -> GroupDelta:
        """Everything, as one full delta."""
        return GroupDelta(True, self.members, self.channels, self.commands, self.owners, self.metadata)


class Sweep:
    """Reads `groups`, then calls `done` with a full delta per group (None: the group does not exist). On a lost connection it simply never ends."""

    def __init__(self, port: Port, layout: Layout, groups: Sequence[str], done: Callable[[Mapping[str, GroupDelta | None]], None]) -> None:
        self.port = port
        self.layout = layout
        self.drafts = {g: GroupDraft() for g in groups}
        self.done = done
        self.levels = [self._names, self._members, self._commands, self._owned, self._owners]
        self.queue: list[tuple[Read, Take]] = []

    def begin(self) -> None:
        """Sync, then read."""
        self.port.sync(self._synced)

    def _synced(self, result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            self._next()

    def _next(self) -> None:
        while not self.queue:
            if not self.levels:
                self.done({g: d.delta() if d.exists else None for g, d in self.drafts.items()})
                return
            self.queue = list(self.levels.pop(0)())
        batch, self.queue = self.queue[:READS_PER_REQUEST_MAX], self.queue[READS_PER_REQUEST_MAX:]
        self.port.read([read for read, _ in batch], lambda result: self._answered(batch, result))

    def _answered(self, batch: Sequence[tuple[Read, Take]], result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        for (_, take), answer in zip(batch, result.answers):
            take(answer)
        self._next()

    def _names(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self.drafts.items():
            yield GetData(self.layout.group(group)), _metadata(draft, group)
            yield GetChildren(self.layout.ids(group)), _names_into(draft.members)
            yield GetChildren(self.layout.channels(group)), _channels_into(draft)

    def _members(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self.drafts.items():
            for member in list(draft.members):
                yield GetData(self.layout.registration(group, member)), _member_into(draft, member)
            for member in list(draft.channels):
                yield GetChildren(self.layout.channel(group, member)), _nodes_into(draft, member)

    def _commands(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self.drafts.items():
            for member, node in list(draft.commands):
                yield GetData(self.layout.command(group, member, node)), _command_into(draft, member, node)
        for group, draft in self.drafts.items():  # not earlier: an ack may make a topic's first owner node
            yield GetChildren(self.layout.owners(group)), _topics_into(draft)

    def _owned(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self.drafts.items():
            for topic in draft.topics:
                yield GetChildren(self.layout.owner_topic(group, topic)), _partitions_into(draft, topic)

    def _owners(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self.drafts.items():
            for tp in list(draft.owners):
                yield GetData(self.layout.owner(group, tp)), _owner_into(draft, tp)


def _metadata(draft: GroupDraft, group: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        draft.exists = not isinstance(answer, Missing)
        if isinstance(answer, Node) and answer.data:
            value = codec.decode_metadata(group, answer.data)
            draft.metadata = value if isinstance(value, GroupMetadata) else None
    return take


def _names_into(members: dict[str, Member | Malformed | None]) -> Take:
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Children):
            members.update(dict.fromkeys(answer.names))
    return take


def _channels_into(draft: GroupDraft) -> Take:
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Children):
            draft.channels.update(dict.fromkeys(answer.names, True))
    return take


def _topics_into(draft: GroupDraft) -> Take:
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Children):
            draft.topics.extend(n for n in answer.names if names.is_topic(n))
    return take


def _member_into(draft: GroupDraft, member: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        value = decode(answer, "registration", member, lambda n: codec.decode_registration(member, n.data, n.stat))
        _keep(draft.members, member, value)
    return take


def _nodes_into(draft: GroupDraft, member: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Children):
            draft.commands.update(dict.fromkeys((member, node) for node in answer.names))
        else:
            draft.channels.pop(member, None)
    return take


def _command_into(draft: GroupDraft, member: str, node: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        value = decode(answer, "command", f"{member}/{node}", lambda n: codec.decode_command(member, node, n.data))
        _keep(draft.commands, (member, node), value)
    return take


def _partitions_into(draft: GroupDraft, topic: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        for name in answer.names if isinstance(answer, Children) else ():
            if names.is_partition(topic, name):
                draft.owners[TopicPartition(topic, int(name))] = None
    return take


def _owner_into(draft: GroupDraft, tp: TopicPartition) -> Take:
    def take(answer: ReadAnswer) -> None:
        value = decode(answer, "owner", str(tp), lambda n: codec.decode_owner(str(tp), n.data, n.stat))
        _keep(draft.owners, tp, value)
    return take


def _keep(part: dict[K, T | None], key: K, value: T | None) -> None:
    """What was read; a node that went since its name was read is not there."""
    if value is None:
        part.pop(key, None)
    else:
        part[key] = value
