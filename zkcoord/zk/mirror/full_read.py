"""Reading whole groups, level by level, many groups at once.

Levels: the group's node; registrations, channels and requests; commands; owner nodes. Commands are
read before owner nodes, and before the names above them: a decision must not see an ack's owner
nodes as they were before it and its command as it was after.

How many children a node has is asked before their names are (and names are asked for only where
there are some): a list that somebody filled with millions of names would be larger than any answer,
and hold up every other group. A group that is larger than the limits is read no further. 10,000
groups of 3 members are some 250 requests.

What a group consists of and may not be read must not pass for absent: such a group is left alone.
With roles, who may write its nodes is asked last (`group_acls`), of the groups that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from zkcoord.core.classic.state import ClassicState
from zkcoord.core.events import GroupDelta
from zkcoord.core.model import GroupMetadata, Malformed, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.zk.port import (
    Children,
    Denied,
    GetChildren,
    GetData,
    Missing,
    Node,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    ZkError,
    reads_that_fit,
)
from zkcoord.znodes import codec, names
from zkcoord.znodes.classic.documents import decode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.registration import is_somebodys

from .answers import Delta, command_of, member_of, mode_of, owner_of, request_of
from .group_acls import GroupJudge
from .pending_reads import SizeLimits

BAD_NAME = "its name is not printable, or too long"

K = TypeVar("K")
T = TypeVar("T")

REQUESTS_UNDER_WAY_MAX = 3
"""ZooKeeper reads the next ones while an answer is decoded."""


@value
class GroupRead:
    """A group that was read: a full delta (None: it does not exist), and its size. `left_alone`
    says that it was not read to its end.
    """

    delta: GroupDelta | None
    registrations: int
    nodes: int
    left_alone: Malformed | None


class GroupDraft:
    """One group while it is being read. `filled` holds the paths that have children, of the
    channels' (`commanded`) their members.
    """

    def __init__(self, name: str, limits: SizeLimits) -> None:
        self.delta = Delta()
        self.name = name
        self.limits = limits
        self.exists = True
        self.registrations = 0
        self.nodes = 0
        self.left_alone: Malformed | None = None
        self.filled: set[str] = set()
        self.commanded: list[str] = []
        self.metadata: GroupMetadata | None = None
        self.topics: list[str] = []
        self.elsewhere: tuple[str, ...] = ()
        self.live_elsewhere = self.dead_elsewhere = 0

    def counted(self, children: int, registrations: bool = False) -> None:
        """A node of it has so many children."""
        self.nodes += children
        self.registrations += children if registrations else 0
        reason = self.limits.exceeded(self.registrations, self.nodes)
        if reason:
            self.left_alone = Malformed("group", self.name, reason)

    def leave_alone(self, reason: str) -> None:
        """It is not to be followed."""
        self.left_alone = Malformed("group", self.name, reason)

    def hidden(self, path: str, answer: ReadAnswer) -> None:
        """A node of it was read, perhaps in vain."""
        if isinstance(answer, Denied) and answer.error is ZkError.TOO_LARGE:
            self.leave_alone(
                f"what {path} holds, or the names below it, are larger than any answer that is"
                " taken: delete what is no member's or coordinator's there"
            )
        elif isinstance(answer, Denied):
            self.leave_alone(
                f"the coordinator may not read {path} ({answer.error.value}), and cannot tell what"
                " the group is: give it credentials that may, or delete that node with those that"
                " may (ZooKeeper's superuser always may)"
            )

    def read(self) -> GroupRead:
        """Everything, as one full delta."""
        delta = self.delta.build(full=True, metadata=self.metadata)
        return GroupRead(
            delta if self.exists and self.left_alone is None else None,
            self.registrations,
            self.nodes,
            self.left_alone,
        )


Take = Callable[[GroupDraft, Any, ReadAnswer], None]
Question = tuple[Read, Take, GroupDraft, Any]
"""What to read, and what takes the answer: for which group, and for which part of it. (A takeover
has hundreds of thousands, so these are plain tuples and functions.)
"""


class FullRead:
    """Reads `groups`, then calls `done` with what was read of each. On a lost connection it simply
    never ends. `works_for` is told where an answer is of one group alone; `may_be_led` says whether
    what is written of a group's clients may be true.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        groups: Sequence[str],
        limits: SizeLimits,
        reads_max: int,
        done: Callable[[Mapping[str, GroupRead]], None],
        judge: GroupJudge | None = None,
        works_for: Callable[[str], None] = lambda group: None,
        may_be_led: Callable[[str], bool] = lambda group: False,
    ) -> None:
        self.port = port
        self.layout = layout
        self.drafts = {g: GroupDraft(g, limits) for g in groups}
        self.reads_max = reads_max
        self.done = done
        self.judge = judge
        self.works_for = works_for
        self.may_be_led = may_be_led
        self.levels = [
            self._groups,
            self._names,
            self._members,
            self._nodes,
            self._commands,
            self._topics,
            self._owned,
            self._partitions,
            self._owners,
        ]
        self.questions: Iterator[Question] = iter(())
        self.under_way = 0

    def begin(self) -> None:
        """Sync, then read."""
        self.port.sync(self._synced)

    def _synced(self, result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            self._next()

    def _next(self) -> None:
        """Keep some requests under way; a level begins when the one before it is answered to its
        end.
        """
        while self.under_way < REQUESTS_UNDER_WAY_MAX:
            batch = list(islice(self.questions, self.reads_max))
            if batch:
                self._ask(batch)
            elif self.under_way:
                return
            elif self.levels:
                self.questions = iter(self.levels.pop(0)())
            elif self.judge is None:
                return self._end()
            else:
                return self.judge.judge([draft for _, draft in self._fitting()], self._end)

    def _end(self) -> None:
        self.done({g: d.read() for g, d in self.drafts.items()})

    def _ask(self, batch: list[Question]) -> None:
        """One request with as many of these as fit."""
        reads = [question[0] for question in batch]
        count = reads_that_fit(reads, self.reads_max)
        if count < len(batch):
            self.questions = chain(batch[count:], self.questions)
        self.under_way += 1
        self.port.read(reads[:count], partial(self._answered, batch[:count]))

    def _answered(self, batch: Sequence[Question], result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        self.under_way -= 1
        first, last = batch[0][2], batch[-1][2]
        self.works_for(first.name if first is last else "")
        for (_, take, draft, key), answer in zip(batch, result.answers, strict=False):
            take(draft, key, answer)
        self.works_for("")
        self._next()

    def _fitting(self) -> Iterable[tuple[str, GroupDraft]]:
        return (
            (group, draft)
            for group, draft in self.drafts.items()
            if draft.exists and draft.left_alone is None
        )

    def _groups(self) -> Iterable[Question]:
        layout, other = self.layout, self.layout.other_profile()
        for group, draft in self._fitting():
            yield GetData(layout.group(group)), _metadata, draft, layout.group(group)
            yield GetData(layout.mode(group)), _mode, draft, None
            yield GetData(other.ids(group)), _elsewhere, draft, other
            for path, take in (
                (layout.ids(group), _size_of_registrations),
                (layout.channels(group), _size),
                (layout.requests(group), _size),
            ):
                yield GetData(path), take, draft, path

    def _names(self) -> Iterable[Question]:
        for group, draft in self._fitting():
            yield from _list(draft, self.layout.ids(group), _member_names)
            yield from _list(draft, self.layout.channels(group), _channel_names)
            yield from _list(draft, self.layout.requests(group), _request_names)
            if self.layout.ids(group) in draft.filled:
                key = self.layout, self.may_be_led
                yield GetData(ClassicPaths(self.layout).state(group)), _led, draft, key
            yield from _list(draft, self.layout.other_profile().ids(group), _names_elsewhere)

    def _members(self) -> Iterable[Question]:
        layout, other = self.layout, self.layout.other_profile()
        for group, draft in self._fitting():
            for name in draft.elsewhere:
                yield GetData(other.registration(group, name)), _registered_elsewhere, draft, other
            for member, known in list(draft.delta.members.items()):
                if known is not None:
                    continue  # of the other layout
                if names.is_member(member):
                    yield GetData(layout.registration(group, member)), _member, draft, member
                else:
                    draft.delta.members[member] = Malformed("registration", member, BAD_NAME)
            for member in list(draft.delta.channels):
                yield GetData(layout.channel(group, member)), _channel, draft, member
            for node in list(draft.delta.requests):
                if names.is_node(node):
                    yield GetData(layout.request(group, node)), _request, draft, node
                else:
                    draft.delta.requests[node] = Malformed("request", node, BAD_NAME)

    def _nodes(self) -> Iterable[Question]:
        for group, draft in self._fitting():
            for member in draft.commanded:
                yield GetChildren(self.layout.channel(group, member)), _command_names, draft, member

    def _commands(self) -> Iterable[Question]:
        for group, draft in self._fitting():
            for member, node in list(draft.delta.commands):
                if names.is_node(node):
                    yield (
                        GetData(self.layout.command(group, member, node)),
                        _command,
                        draft,
                        (member, node),
                    )
                else:
                    draft.delta.commands[(member, node)] = Malformed(
                        "command", f"{member}/{node}", BAD_NAME
                    )
        # not earlier: an ack may make a topic's first owner node
        for group, draft in self._fitting():
            path = self.layout.owners(group)
            yield GetData(path), _size, draft, path

    def _topics(self) -> Iterable[Question]:
        for group, draft in self._fitting():
            yield from _list(draft, self.layout.owners(group), _topic_names)

    def _owned(self) -> Iterable[Question]:
        for group, draft in self._fitting():
            for topic in draft.topics:
                path = self.layout.owner_topic(group, topic)
                yield GetData(path), _size, draft, path

    def _partitions(self) -> Iterable[Question]:
        for group, draft in self._fitting():
            for topic in draft.topics:
                yield from _list(
                    draft, self.layout.owner_topic(group, topic), _partition_numbers, topic
                )

    def _owners(self) -> Iterable[Question]:
        path_of = self.layout.owner_topic
        for group, draft in self._fitting():
            above = {topic: path_of(group, topic) for topic in draft.topics}
            for tp in list(draft.delta.owners):
                yield GetData(f"{above[tp.topic]}/{tp.partition}"), _owner, draft, tp


def _list(draft: GroupDraft, path: str, take: Take, key: object = None) -> Iterable[Question]:
    """Ask for the names of the children, where there are some."""
    return ((GetChildren(path), take, draft, key or path),) if path in draft.filled else ()


def _size(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    """How many children a node has."""
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.stat.num_children:
        draft.filled.add(path)
        draft.counted(answer.stat.num_children)


def _size_of_registrations(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.stat.num_children:
        draft.filled.add(path)
        draft.counted(answer.stat.num_children, registrations=True)


def _elsewhere(draft: GroupDraft, other: Layout, answer: ReadAnswer) -> None:
    """The parent of its registrations in the other layout: with any there that live it is not ours
    to move, since both have the same offsets.
    """
    path = other.ids(draft.name)
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.stat.num_children > draft.limits.registrations_max:
        draft.live_elsewhere = answer.stat.num_children
        draft.leave_alone(_lives_elsewhere(draft, other))
    elif isinstance(answer, Node) and answer.stat.num_children:
        draft.filled.add(path)


def _names_elsewhere(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    draft.elsewhere = answer.names if isinstance(answer, Children) else ()


def _registered_elsewhere(draft: GroupDraft, other: Layout, answer: ReadAnswer) -> None:
    """One of them. A persistent one outlives whoever made it, and is no member; one that may not be
    read may be.
    """
    if isinstance(answer, Missing):
        return
    if isinstance(answer, Node) and not answer.stat.ephemeral_owner:
        draft.dead_elsewhere += 1
        path = other.ids(draft.name)
        draft.delta.members[path] = Malformed(
            "registration",
            path,
            f"{draft.dead_elsewhere} nodes in the layout {other.name} are persistent: they are no"
            " consumers' and do not count, delete them",
        )
        return
    draft.live_elsewhere += 1
    draft.leave_alone(_lives_elsewhere(draft, other))


def _lives_elsewhere(draft: GroupDraft, other: Layout) -> str:
    return (
        f"it has {draft.live_elsewhere} registrations in the layout {other.name}"
        f" ({other.ids(draft.name)}), and both layouts share its offsets: stop those consumers, or"
        " run coordinator and consumers with that layout"
    )


def _led(draft: GroupDraft, key: tuple[Layout, Callable[[str], bool]], answer: ReadAnswer) -> None:
    """What was decided of its clients, if one of them leads it, while others are registered:
    whoever came without looking (members of before there were such groups), or between two looks.
    Both would own everything.
    """
    layout, may_be_led = key
    draft.hidden(ClassicPaths(layout).state(draft.name), answer)
    if not isinstance(answer, Node) or not may_be_led(draft.name):
        return
    led = decode_state(draft.name, answer.data)
    if (
        isinstance(led, ClassicState)
        and led.members
        and any(map(is_somebodys, draft.delta.members))
    ):
        draft.leave_alone(
            f"one of its {len(led.members)} clients leads it, and others are registered, to whom"
            " nothing is assigned: stop those of one kind"
        )


def _metadata(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.exists = not isinstance(answer, Missing)
    draft.hidden(path, answer)
    if isinstance(answer, Node) and answer.data:
        value = codec.decode_metadata(draft.name, answer.data)
        draft.metadata = value if isinstance(value, GroupMetadata) else None


def _mode(draft: GroupDraft, _: None, answer: ReadAnswer) -> None:
    _keep(draft.delta.mode, "mode", mode_of(answer))


def _member_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.delta.members.update(dict.fromkeys(map(names.kept, answer.names)))


def _request_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.delta.requests.update(dict.fromkeys(map(names.kept, answer.names)))


def _channel_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.delta.channels.update(dict.fromkeys(filter(names.is_member, answer.names), True))


def _command_names(draft: GroupDraft, member: str, answer: ReadAnswer) -> None:
    if isinstance(answer, Children):
        draft.delta.commands.update(dict.fromkeys((member, node) for node in answer.names))
    else:
        draft.delta.channels.pop(member, None)  # gone, or no command in it can be known


def _topic_names(draft: GroupDraft, path: str, answer: ReadAnswer) -> None:
    draft.hidden(path, answer)
    if isinstance(answer, Children):
        draft.topics.extend(n for n in answer.names if names.is_topic(n))


def _partition_numbers(draft: GroupDraft, topic: str, answer: ReadAnswer) -> None:
    draft.hidden(f"the owner nodes of {topic}", answer)
    if isinstance(answer, Children):
        draft.delta.owners.update(
            dict.fromkeys(
                [TopicPartition(topic, int(name)) for name in answer.names if names.is_number(name)]
            )
        )


def _member(draft: GroupDraft, name: str, answer: ReadAnswer) -> None:
    _keep(draft.delta.members, name, member_of(answer, name))


def _channel(draft: GroupDraft, member: str, answer: ReadAnswer) -> None:
    if not isinstance(answer, Node):
        del draft.delta.channels[member]
    elif answer.stat.num_children:
        draft.counted(answer.stat.num_children)
        draft.commanded.append(member)


def _command(draft: GroupDraft, key: tuple[str, str], answer: ReadAnswer) -> None:
    _keep(draft.delta.commands, key, command_of(answer, *key))


def _request(draft: GroupDraft, node: str, answer: ReadAnswer) -> None:
    _keep(draft.delta.requests, node, request_of(answer, node))


def _owner(draft: GroupDraft, tp: TopicPartition, answer: ReadAnswer) -> None:
    owner = owner_of(answer, tp)
    if owner is not None:
        draft.delta.owners[tp] = owner
    else:
        del draft.delta.owners[tp]


def _keep(part: dict[K, Any], key: K, value: object) -> None:
    """What was read; a node that went since its name was read is not there."""
    if value is None:
        part.pop(key, None)
    else:
        part[key] = value
