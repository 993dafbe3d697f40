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
from types import MappingProxyType
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.zk.port import (
    Denied,
    GetChildren,
    GetData,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    reads_that_fit,
)
from zkcoord.znodes import names
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout

from .group_acls import GroupJudge
from .group_draft import (
    GroupDraft,
    GroupRead,
    take_channel,
    take_channel_names,
    take_command,
    take_command_names,
    take_elsewhere,
    take_led,
    take_member,
    take_member_names,
    take_metadata,
    take_mode,
    take_names_elsewhere,
    take_owner,
    take_partition_numbers,
    take_registered_elsewhere,
    take_registrations,
    take_request,
    take_request_names,
    take_size,
    take_topic_names,
)
from .pending_reads import SizeLimits

BAD_NAME = "its name is not printable, or too long"

REQUESTS_UNDER_WAY_MAX = 3
"""ZooKeeper reads the next ones while an answer is decoded."""

Take = Callable[[GroupDraft, Any, ReadAnswer], None]
Question = tuple[Read, Take, GroupDraft, Any]
"""What to read, and what takes the answer: for which group, and for which part of it. (A takeover
has hundreds of thousands, so these are plain tuples and functions.)
"""


class FullRead:
    """Reads `groups`, then calls `done` with what was read of each. On a lost connection it simply
    never ends. `works_for` is told where an answer is of one group alone; `may_be_led` says whether
    what is written of a group's clients may be true. Of those in `ahead`, which were read before
    and not changed since, only that is read of which nobody hears when it changes.
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
        ahead: Mapping[str, GroupDraft] = MappingProxyType({}),
    ) -> None:
        self.port = port
        self.layout = layout
        self.drafts = {g: ahead.get(g) or GroupDraft(g, limits) for g in groups}
        self.ahead = ahead
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

    def cancel(self) -> None:
        """What was read is not wanted any more."""
        self.levels, self.questions, self.done = [], iter(()), lambda read: None

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
            if isinstance(answer, Denied):
                draft.hides_some = True
            take(draft, key, answer)
        self.works_for("")
        self._next()

    def _fitting(self) -> Iterable[tuple[str, GroupDraft]]:
        return (
            (group, draft)
            for group, draft in self.drafts.items()
            if draft.exists and draft.left_alone is None
        )

    def _unread(self) -> Iterable[tuple[str, GroupDraft]]:
        ahead = self.ahead
        return (found for found in self._fitting() if found[0] not in ahead)

    def _groups(self) -> Iterable[Question]:
        layout, other = self.layout, self.layout.other_profile()
        for group, draft in self._fitting():
            yield GetData(other.ids(group)), take_elsewhere, draft, other
        for group, draft in self._unread():
            yield GetData(layout.group(group)), take_metadata, draft, layout.group(group)
            yield GetData(layout.mode(group)), take_mode, draft, None
            for path, take in (
                (layout.ids(group), take_registrations),
                (layout.channels(group), take_size),
                (layout.requests(group), take_size),
            ):
                yield GetData(path), take, draft, path

    def _names(self) -> Iterable[Question]:
        for group, draft in self._unread():
            yield from _list(draft, self.layout.ids(group), take_member_names)
            yield from _list(draft, self.layout.channels(group), take_channel_names)
            yield from _list(draft, self.layout.requests(group), take_request_names)
        for group, draft in self._fitting():
            if self.layout.ids(group) in draft.filled:
                key = self.layout, self.may_be_led
                yield GetData(ClassicPaths(self.layout).state(group)), take_led, draft, key
            yield from _list(draft, self.layout.other_profile().ids(group), take_names_elsewhere)

    def _members(self) -> Iterable[Question]:
        layout, other = self.layout, self.layout.other_profile()
        for group, draft in self._fitting():
            for name in draft.elsewhere:
                path = other.registration(group, name)
                yield GetData(path), take_registered_elsewhere, draft, other
        for group, draft in self._unread():
            for member, known in list(draft.delta.members.items()):
                if known is not None:
                    continue  # of the other layout
                if names.is_member(member):
                    yield GetData(layout.registration(group, member)), take_member, draft, member
                else:
                    draft.delta.members[member] = Malformed("registration", member, BAD_NAME)
            for member in list(draft.delta.channels):
                yield GetData(layout.channel(group, member)), take_channel, draft, member
            for node in list(draft.delta.requests):
                if names.is_node(node):
                    yield GetData(layout.request(group, node)), take_request, draft, node
                else:
                    draft.delta.requests[node] = Malformed("request", node, BAD_NAME)

    def _nodes(self) -> Iterable[Question]:
        for group, draft in self._unread():
            for member in draft.commanded:
                path = self.layout.channel(group, member)
                yield GetChildren(path), take_command_names, draft, member

    def _commands(self) -> Iterable[Question]:
        for group, draft in self._unread():
            for member, node in list(draft.delta.commands):
                if names.is_node(node):
                    yield (
                        GetData(self.layout.command(group, member, node)),
                        take_command,
                        draft,
                        (member, node),
                    )
                else:
                    draft.delta.commands[(member, node)] = Malformed(
                        "command", f"{member}/{node}", BAD_NAME
                    )
        # not earlier: an ack may make a topic's first owner node
        for group, draft in self._unread():
            path = self.layout.owners(group)
            yield GetData(path), take_size, draft, path

    def _topics(self) -> Iterable[Question]:
        for group, draft in self._unread():
            yield from _list(draft, self.layout.owners(group), take_topic_names)

    def _owned(self) -> Iterable[Question]:
        for group, draft in self._unread():
            for topic in draft.topics:
                path = self.layout.owner_topic(group, topic)
                yield GetData(path), take_size, draft, path

    def _partitions(self) -> Iterable[Question]:
        for group, draft in self._unread():
            for topic in draft.topics:
                yield from _list(
                    draft, self.layout.owner_topic(group, topic), take_partition_numbers, topic
                )

    def _owners(self) -> Iterable[Question]:
        path_of = self.layout.owner_topic
        for group, draft in self._unread():
            above = {topic: path_of(group, topic) for topic in draft.topics}
            for tp in list(draft.delta.owners):
                yield GetData(f"{above[tp.topic]}/{tp.partition}"), take_owner, draft, tp


def _list(draft: GroupDraft, path: str, take: Take, key: object = None) -> Iterable[Question]:
    """Ask for the names of the children, where there are some."""
    return ((GetChildren(path), take, draft, key or path),) if path in draft.filled else ()
