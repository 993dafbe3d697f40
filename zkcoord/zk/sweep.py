"""Reading whole groups, level by level, many groups at once.

Levels: the group's node; registrations, channels and requests; commands; owner nodes. Commands are read before owner nodes, and before the names above them: a decision must not see an ack's
owner nodes as they were before it and its command as it was after.

How many children a node has is asked before their names are (and names are asked for only where there are some): a list that somebody filled with millions of names would be larger than any
answer, and hold up every other group. A group that is larger than the limits is read no further.
10,000 groups of 3 members are some 250 requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TypeVar

from zkcoord.core.events import GroupDelta
from zkcoord.core.model import Command, GroupMetadata, Malformed, Member, Mode, Owner, Request, TopicPartition
from zkcoord.znodes import codec, names
from zkcoord.znodes.paths import Layout

from .port import READS_BYTES_MAX, Children, Denied, GetChildren, GetData, Missing, Node, Port, Read, ReadAnswer, ReadDone, ReadResult, read_bytes
from .wants import SizeLimits

BAD_NAME = "its name is not printable ASCII of a sensible length"

Take = Callable[[ReadAnswer], None]
K = TypeVar("K")
T = TypeVar("T")

REQUESTS_UNDER_WAY_MAX = 3
"""ZooKeeper reads the next ones while an answer is decoded."""


def decode(answer: ReadAnswer, what: str, name: str, value: Callable[[Node], T | Malformed]) -> T | Malformed | None:
    """A node's value, None where there is no node, `Malformed` where it cannot be read: what is there and hidden must not pass for absent."""
    if isinstance(answer, Node):
        return value(answer)
    if isinstance(answer, Denied):
        return Malformed(what, name, f"the coordinator may not read it ({answer.error.value})")
    return None


@dataclass(frozen=True, slots=True)
class GroupRead:
    """A group that was read: a full delta (None: it does not exist), and its size. `left_alone` says that it was not read to its end."""

    delta: GroupDelta | None
    registrations: int
    nodes: int
    left_alone: Malformed | None


class GroupDraft:
    """One group while it is being read. `filled` holds the paths that have children."""

    def __init__(self, name: str, limits: SizeLimits) -> None:
        self.name = name
        self.limits = limits
        self.exists = True
        self.registrations = 0
        self.nodes = 0
        self.left_alone: Malformed | None = None
        self.filled: set[str] = set()
        self.metadata: GroupMetadata | None = None
        self.members: dict[str, Member | Malformed | None] = {}
        self.channels: dict[str, bool] = {}
        self.commands: dict[tuple[str, str], Command | Malformed | None] = {}
        self.owners: dict[TopicPartition, Owner | Malformed | None] = {}
        self.requests: dict[str, Request | Malformed | None] = {}
        self.mode: dict[str, Mode | Malformed | None] = {}
        self.topics: list[str] = []

    def sized(self, path: str, children: int, registrations: bool) -> None:
        """A node of it has so many children."""
        if children:
            self.filled.add(path)
        self.nodes += children
        self.registrations += children if registrations else 0
        reason = self.limits.exceeded(self.registrations, self.nodes)
        if reason:
            self.left_alone = Malformed("group", self.name, reason)

    def elsewhere(self, layout: Layout) -> Take:
        """The parent of its registrations in the other layout: with any there it is not ours to move, since both have the same offsets."""
        def take(answer: ReadAnswer) -> None:
            if isinstance(answer, Node) and answer.stat.num_children:
                where = f"{answer.stat.num_children} registrations in the layout {layout.name} ({layout.ids(self.name)})"
                self.left_alone = Malformed("group", self.name, f"it has {where}, and both layouts share its offsets: stop those consumers, or run coordinator and consumers with that layout")
        return take

    def read(self) -> GroupRead:
        """Everything, as one full delta."""
        delta = GroupDelta(True, self.members, self.channels, self.commands, self.owners, self.requests, self.metadata, self.mode)
        return GroupRead(delta if self.exists and self.left_alone is None else None, self.registrations, self.nodes, self.left_alone)


class Sweep:
    """Reads `groups`, then calls `done` with what was read of each. On a lost connection it simply never ends."""

    def __init__(self, port: Port, layout: Layout, groups: Sequence[str], limits: SizeLimits, reads_max: int, done: Callable[[Mapping[str, GroupRead]], None]) -> None:
        self.port = port
        self.layout = layout
        self.drafts = {g: GroupDraft(g, limits) for g in groups}
        self.reads_max = reads_max
        self.done = done
        self.levels = [self._groups, self._names, self._members, self._nodes, self._commands, self._topics, self._owned, self._partitions, self._owners]
        self.reads: Iterator[tuple[Read, Take]] = iter(())
        self.under_way = 0

    def begin(self) -> None:
        """Sync, then read."""
        self.port.sync(self._synced)

    def _synced(self, result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            self._next()

    def _next(self) -> None:
        """Keep some requests under way; a level begins when the one before it is answered to its end."""
        while self.under_way < REQUESTS_UNDER_WAY_MAX:
            batch = self._batch()
            if batch:
                self.under_way += 1
                self.port.read([read for read, _ in batch], partial(self._answered, batch))
            elif self.under_way:
                return
            elif self.levels:
                self.reads = iter(self.levels.pop(0)())
            else:
                self.done({g: d.read() for g, d in self.drafts.items()})
                return

    def _batch(self) -> list[tuple[Read, Take]]:
        """The next reads that fit one request."""
        batch: list[tuple[Read, Take]] = []
        size = 0
        for pair in islice(self.reads, self.reads_max):
            size += read_bytes(pair[0])
            if batch and size > READS_BYTES_MAX:
                self.reads = chain((pair,), self.reads)
                break
            batch.append(pair)
        return batch

    def _answered(self, batch: Sequence[tuple[Read, Take]], result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        self.under_way -= 1
        for (_, take), answer in zip(batch, result.answers):
            take(answer)
        self._next()

    def _fitting(self) -> Iterable[tuple[str, GroupDraft]]:
        return ((group, draft) for group, draft in self.drafts.items() if draft.exists and draft.left_alone is None)

    def _groups(self) -> Iterable[tuple[Read, Take]]:
        other = self.layout.other_profile()
        for group, draft in self._fitting():
            yield GetData(self.layout.group(group)), _metadata(draft, group)
            yield GetData(self.layout.mode(group)), _mode_into(draft)
            yield GetData(other.ids(group)), draft.elsewhere(other)
            yield _size(draft, self.layout.ids(group), registrations=True)
            yield _size(draft, self.layout.channels(group))
            yield _size(draft, self.layout.requests(group))

    def _names(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            yield from _list(draft, self.layout.ids(group), _names_into(draft.members))
            yield from _list(draft, self.layout.channels(group), _channels_into(draft))
            yield from _list(draft, self.layout.requests(group), _names_into(draft.requests))

    def _members(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            for member in list(draft.members):
                if not names.is_member(member):
                    draft.members[member] = Malformed("registration", member, BAD_NAME)
                    continue
                yield GetData(self.layout.registration(group, member)), _member_into(draft, member)
            for member in list(draft.channels):
                path = self.layout.channel(group, member)
                yield GetData(path), _channel_into(draft, member, _size(draft, path)[1])
            for node in list(draft.requests):
                if not names.is_node(node):
                    draft.requests[node] = Malformed("request", node, BAD_NAME)
                    continue
                yield GetData(self.layout.request(group, node)), _request_into(draft, node)

    def _nodes(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            for member in draft.channels:
                yield from _list(draft, self.layout.channel(group, member), _nodes_into(draft, member))

    def _commands(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            for member, node in list(draft.commands):
                if not names.is_node(node):
                    draft.commands[(member, node)] = Malformed("command", f"{member}/{node}", BAD_NAME)
                    continue
                yield GetData(self.layout.command(group, member, node)), _command_into(draft, member, node)
        for group, draft in self._fitting():  # not earlier: an ack may make a topic's first owner node
            yield _size(draft, self.layout.owners(group))

    def _topics(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            yield from _list(draft, self.layout.owners(group), _topics_into(draft))

    def _owned(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            for topic in draft.topics:
                yield _size(draft, self.layout.owner_topic(group, topic))

    def _partitions(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            for topic in draft.topics:
                yield from _list(draft, self.layout.owner_topic(group, topic), _partitions_into(draft, topic))

    def _owners(self) -> Iterable[tuple[Read, Take]]:
        for group, draft in self._fitting():
            for tp in list(draft.owners):
                yield GetData(self.layout.owner(group, tp)), _owner_into(draft, tp)


def _size(draft: GroupDraft, path: str, registrations: bool = False) -> tuple[Read, Take]:
    """Ask how many children a node has."""
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Node):
            draft.sized(path, answer.stat.num_children, registrations)
    return GetData(path), take


def _list(draft: GroupDraft, path: str, take: Take) -> Iterable[tuple[Read, Take]]:
    """Ask for the names of the children, where there are some."""
    if path in draft.filled:
        yield GetChildren(path), take


def _metadata(draft: GroupDraft, group: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        draft.exists = not isinstance(answer, Missing)
        if isinstance(answer, Node) and answer.data:
            value = codec.decode_metadata(group, answer.data)
            draft.metadata = value if isinstance(value, GroupMetadata) else None
    return take


def _mode_into(draft: GroupDraft) -> Take:
    def take(answer: ReadAnswer) -> None:
        _keep(draft.mode, "mode", decode(answer, "mode", "mode", lambda n: codec.decode_mode(n.data)))
    return take


def _names_into(part: dict[str, T | None]) -> Take:
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Children):
            part.update(dict.fromkeys(answer.names))
    return take


def _channels_into(draft: GroupDraft) -> Take:
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Children):
            draft.channels.update(dict.fromkeys(filter(names.is_member, answer.names), True))
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


def _channel_into(draft: GroupDraft, member: str, size: Take) -> Take:
    def take(answer: ReadAnswer) -> None:
        if not isinstance(answer, Node):
            del draft.channels[member]
        size(answer)
    return take


def _nodes_into(draft: GroupDraft, member: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        if isinstance(answer, Children):
            draft.commands.update(dict.fromkeys((member, node) for node in answer.names))
    return take


def _command_into(draft: GroupDraft, member: str, node: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        value = decode(answer, "command", f"{member}/{node}", lambda n: codec.decode_command(member, node, n.data))
        _keep(draft.commands, (member, node), value)
    return take


def _request_into(draft: GroupDraft, node: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        _keep(draft.requests, node, decode(answer, "request", node, lambda n: codec.decode_request(node, n.data)))
    return take


def _partitions_into(draft: GroupDraft, topic: str) -> Take:
    def take(answer: ReadAnswer) -> None:
        for name in answer.names if isinstance(answer, Children) else ():
            if names.is_number(name):
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
