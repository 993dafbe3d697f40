"""Reading what the old consumers of a shared group look at: all registrations of the group, and the
topics of one subscription with their partitions.

It watches first: a change after the answer is an event. What was read is told as two short texts,
of which only equality counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from consumer.core.events import LegacyGroupRead, ReadLegacyGroup
from zkcoord.core.model import Member, Subscription, Topic
from zkcoord.core.shared import mark_of
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    Children,
    GetChildren,
    GetData,
    Node,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
    WatchMode,
)
from zkcoord.znodes import codec, names
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.patterns import match_patterns


class LegacyGroupReader:
    """Answers one `ReadLegacyGroup`; `done` is called once, or never when cut off."""

    def __init__(
        self,
        port: Port,
        layout: Layout,
        group: str,
        ask: ReadLegacyGroup,
        clock: Callable[[], int],
        done: Callable[[LegacyGroupRead], None],
    ) -> None:
        self.port = port
        self.layout = layout
        self.group = group
        self.ask = ask
        self.clock = clock
        self.done = done

    def read(self) -> None:
        """Watch, sync, list, read."""
        heads = [self.layout.ids(self.group)] + (
            [self.layout.topics_root] if self.ask.subscription.pattern is not None else []
        )
        for path in heads:
            self.port.watch(path, WatchMode.PERSISTENT, _ignore)
        self.port.sync(
            lambda result: (
                self.port.read([GetChildren(path) for path in heads], self._listed)
                if isinstance(result, ReadDone)
                else None
            )
        )

    def _listed(self, result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return
        ids, *root = (
            answer.names if isinstance(answer, Children) else () for answer in result.answers
        )
        topics = _topics(self.ask.subscription, root[0] if root else ())
        for topic in topics:
            self.port.watch(self.layout.topic(topic), WatchMode.PERSISTENT, _ignore)
        self._read([name for name in ids if names.is_member(name)], topics, [])

    def _read(
        self, members: Sequence[str], topics: Sequence[str], answers: list[ReadAnswer]
    ) -> None:
        reads = [
            *(GetData(self.layout.registration(self.group, name)) for name in members),
            *(GetData(self.layout.topic(topic)) for topic in topics),
        ]
        part = reads[len(answers) : len(answers) + READS_PER_REQUEST_MAX]
        if not part:
            return self._answered(members, topics, answers)

        def answered(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                self._read(members, topics, answers + list(result.answers))

        self.port.read(part, answered)

    def _answered(
        self, members: Sequence[str], topics: Sequence[str], answers: Sequence[ReadAnswer]
    ) -> None:
        found = [
            codec.decode_registration(name, a.data, a.stat)
            for name, a in zip(members, answers, strict=False)
            if isinstance(a, Node)
        ]
        seen = [
            codec.decode_topic(topic, a.data, a.stat)
            for topic, a in zip(topics, answers[len(members) :], strict=False)
            if isinstance(a, Node) and a.data
        ]
        text = " ".join(
            f"{t.name}@{t.created}:{','.join(map(str, t.partitions))}"
            for t in seen
            if isinstance(t, Topic)
        )
        self.done(
            LegacyGroupRead(
                self.clock(),
                self.ask.token,
                mark_of(m for m in found if isinstance(m, Member)),
                hashlib.sha256(text.encode()).hexdigest(),
            )
        )


def _topics(subscription: Subscription, existing: Sequence[str]) -> list[str]:
    """The topics of a subscription, those that do not exist (yet) included where they are named."""
    if subscription.pattern is None:
        return sorted(subscription.topics)
    matched = match_patterns(
        [subscription.pattern], [name for name in existing if names.is_topic(name)]
    )[subscription.pattern]
    return sorted(matched)


def _ignore(_result: ReadResult) -> None:
    """A watch that was not set means that the connection is gone, which is heard elsewhere."""
