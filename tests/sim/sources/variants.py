"""Weakened keepers of topics, and readers of their nodes, as `tests.sim.variants` has weakened
members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.sim.weakened import Patch, Variant
from zkcoord.topics.fenced_port import FencedPort
from zkcoord.topics.finding import FrozenTree
from zkcoord.topics.judging import KnownTopic, SaidTopic, TopicJudge, TopicNews
from zkcoord.zk.overlay import OverlaidPort
from zkcoord.zk.port import Check, Op, Rejected

SOURCES = "sources"
Original = Callable[..., Any]


def _always(original: Original) -> Original:
    return lambda *arguments: True


def _nothing(original: Original) -> Original:
    return lambda *arguments: None


def _as_said(original: Original) -> Original:
    def as_far(self: TopicJudge, name: str, known: KnownTopic, said: SaidTopic) -> TopicNews | None:
        new = replace(known, topic_id=said.topic_id, partitions=said.partitions)
        return None if new == known else self._believe(name, new)

    return as_far


def _unfenced(original: Original) -> Original:
    def write(self: FencedPort, ops: Sequence[Op], done: Callable[[Rejected | None], None]) -> None:
        self._fence = Check(self._fence.path, -1)
        original(self, ops, done)

    return write


SOURCE_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "source_first_word",
        "what may be of the past is believed when it is said once",
        (Patch(TopicJudge, "_confirmed", _always),),
        SOURCES,
        ("S1",),
    ),
    Variant(
        "source_shrinks",
        "partitions become as many as a broker says",
        (Patch(TopicJudge, "_as_far", _as_said),),
        SOURCES,
        ("S1",),
    ),
    Variant(
        "source_unfenced",
        "a coordinator writes topics whether it still leads or not",
        (Patch(FencedPort, "write", _unfenced),),
        SOURCES,
        ("I2",),
    ),
    Variant(
        "source_not_looked_for",
        "nobody looks whether Kafka's nodes are still written",
        (Patch(FrozenTree, "_question", _nothing),),
        SOURCES,
        ("I8",),
    ),
    Variant(
        "source_not_heard",
        "who reads Kafka's nodes does not hear that ours count",
        (Patch(OverlaidPort, "_turned", _nothing),),
        SOURCES,
        ("I8",),
    ),
)
