"""Weakened systems: each takes exactly one rule out of the production code, to show that the rule is needed and that the checkers see it.

A variant replaces one named hook of the production code for as long as it is applied. It says which rule it removes in the words of docs/protocol.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import consumer.driver
from consumer.core.agent import Agent
from consumer.core.events import Ending, PartitionsRead, Store, Whose, Wrote
from consumer.core.membership import Membership
from consumer.driver import AgentDriver
from zkcoord.core.model import TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.view import GroupView, Place
from zkcoord.zk import writer
from zkcoord.zk.port import Check, GetData, Node, Op, Port, ReadDone, ReadResult, SetData


@dataclass(frozen=True, slots=True)
class Patch:
    """Replace attribute `name` of `owner` by what `make` makes of the original."""

    owner: Any
    name: str
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """A system without one rule."""

    name: str
    removes: str
    patches: tuple[Patch, ...]

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The rule is gone inside this block."""
        originals = [vars(p.owner)[p.name] for p in self.patches]
        for patch, original in zip(self.patches, originals):
            setattr(patch.owner, patch.name, patch.make(original))
        try:
            yield
        finally:
            for patch, original in zip(self.patches, originals):
                setattr(patch.owner, patch.name, original)


FOREVER_MS = 10**12


def _lease_never_ends(original: Callable[[Membership, int], int]) -> Callable[[Membership, int], int]:
    def lease_until(self: Membership, era: int) -> int:
        return FOREVER_MS

    return lease_until


def _read_renews(original: Callable[..., None]) -> Callable[..., None]:
    def write(self: AgentDriver, port: Port, action: Any) -> None:
        if not isinstance(action, Store) or action.values:
            original(self, port, action)
            return
        path, sent, token = self.layout.registration(self.options.group, self.name), self.clock(), action.token

        def answered(result: ReadResult) -> None:
            there = isinstance(result, ReadDone) and isinstance(result.answers[0], Node)
            ending = Ending.OK if there else Ending.EVICTED if isinstance(result, ReadDone) else Ending.UNKNOWN
            self._feed(Wrote(self.clock(), token, ending, sent))

        port.read([GetData(path)], self._when(port, answered))

    return write


def _no_wait(original: property) -> property:
    return property(lambda self: 0)


def _any_version(original: type[SetData]) -> Callable[[str, bytes, int], SetData]:
    return lambda path, data, version: SetData(path, data, -1 if "/offsets/" in path else version)


def _nothing_adopted(original: Callable[[Agent, PartitionsRead], None]) -> Callable[[Agent, PartitionsRead], None]:
    def judge_start(self: Agent, e: PartitionsRead) -> None:
        original(self, replace(e, holdings={tp: h for tp, h in e.holdings.items() if h.whose is not Whose.MINE}))

    return judge_start


def _not_resumed(original: Callable[[Agent, Any], None]) -> Callable[[Agent, Any], None]:
    def withdraw(self: Agent, current: Any) -> None:
        self._drop_current()

    return withdraw


def _ack_unchecked(original: Callable[..., None]) -> Callable[..., None]:
    def ack_ops(self: AgentDriver, ack: Any, ops: list[Op], stores: Any) -> None:
        ops[0] = Check("/consumers", -1)
        original(self, ack, ops, stores)

    return ack_ops


def _unfenced(original: type[Check]) -> Callable[[str, int], Check]:
    return lambda path, version: Check(path, -1)


def _started_at_once(original: Callable[[GroupView, TopicPartition], tuple[Place, str]]) -> Callable[[GroupView, TopicPartition], tuple[Place, str]]:
    def judge(self: GroupView, tp: TopicPartition) -> tuple[Place, str]:
        place, member = original(self, tp)
        want = self.target.get(tp)
        if place is Place.WRONG and want is not None and want.member in self.members and want.member != member and tp not in self.starting:
            return Place.READY, want.member
        return place, member

    return judge


_ALL = (
    Variant("no_lease", "a member hands records out whatever its lease says", (Patch(Membership, "lease_until", _lease_never_ends),)),
    Variant("lease_by_read", "an idle member renews its lease by reading its registration", (Patch(AgentDriver, "_write", _read_renews),)),
    Variant("no_eviction_wait", "owner nodes without a registration are removed at once", (Patch(CoordinatorOptions, "orphan_wait_ms", _no_wait),)),
    Variant("no_version_fence", "offsets are written whatever their version", (Patch(consumer.driver, "SetData", _any_version),)),
    Variant("no_adoption", "after an unknown start, owner nodes of one's own are not adopted", (Patch(Agent, "_judge_start", _nothing_adopted),)),
    Variant("no_resume", "a stop that was withdrawn is not resumed", (Patch(Agent, "_withdraw", _not_resumed),)),
    Variant("no_ack_check", "an ack does not check the member's own registration", (Patch(AgentDriver, "_ack_ops", _ack_unchecked),)),
    Variant("no_epoch_fence", "the coordinator's writes do not check the epoch", (Patch(writer, "Check", _unfenced),)),
    Variant("no_stop_barrier", "a partition is started elsewhere before its stop was acked", (Patch(GroupView, "_judge", _started_at_once),)),
)
VARIANTS: dict[str, Variant] = {v.name: v for v in _ALL}
