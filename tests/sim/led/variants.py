"""Weakened coordinators of client-led groups, as `tests.sim.variants` has weakened members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.sim.weakened import Patch, Variant
from zkcoord.core.classic.joining import Joining
from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import Persisted
from zkcoord.core.classic.requests import ClassicJoin
from zkcoord.core.classic.state import ClassicState
from zkcoord.zk.classic.classic_groups import ClassicGroups
from zkcoord.zk.classic.edge import Edge
from zkcoord.zk.classic.served_group import ServedClassicGroup

Original = Callable[..., Any]
MIX = "led"


def _answered_first(original: Original) -> Original:
    def persist(self: ServedClassicGroup, token: int, state: ClassicState | None) -> None:
        self._act(self._machine.step(self._edge.clock(), Persisted(token)))
        original(self, token, state)

    return persist


def _named_never(original: Original) -> Original:
    def join(self: Joining, now_ms: int, ticket: int, request: ClassicJoin) -> None:
        original(self, now_ms, ticket, replace(request, named_first=False))

    return join


def _one_back(original: Original) -> Original:
    def restore(self: ClassicGroup, now_ms: int, state: ClassicState) -> Any:
        return original(self, now_ms, replace(state, generation=max(state.generation - 1, 0)))

    return restore


def _always(original: Original) -> Original:
    return lambda *arguments: True


def _never(original: Original) -> Original:
    return lambda *arguments: False


def _without_fence(original: Original) -> Original:
    def write(self: Edge, ops: Sequence[Any], done: Callable[[Any], None]) -> None:
        fence, self.fence = self.fence, replace(self.fence, version=-1)
        original(self, ops, done)
        self.fence = fence

    return write


LED_VARIANTS = (
    Variant(
        "led_answered_first",
        "what is decided is answered before it is written",
        (Patch(ServedClassicGroup, "_persist", _answered_first),),
        MIX,
        ("L1", "L2", "L3"),
    ),
    Variant(
        "led_no_pending_members",
        "who joins without an id is a member before it was told its id (KIP-394)",
        (Patch(Joining, "join", _named_never),),
        MIX,
        ("L4",),
    ),
    Variant(
        "led_generation_reused",
        "another coordinator begins with the number of the generation that it finds",
        (Patch(ClassicGroup, "restore", _one_back),),
        MIX,
        ("L1", "L2", "L3"),
    ),
    Variant(
        "led_always_heard",
        "who has no gateway is heard of all the same",
        (Patch(ServedClassicGroup, "_is_heard", _always),),
        MIX,
        ("L5",),
    ),
    Variant(
        "led_not_fenced",
        "a coordinator that was replaced decides on",
        (Patch(Edge, "write", _without_fence),),
        MIX,
        ("L1", "L2", "L3"),
    ),
    Variant(
        "led_assigned_beside",
        "whoever registers beside clients that lead is assigned what these have",
        (Patch(ClassicGroups, "may_lead", _never),),
        MIX,
        ("L6",),
    ),
)
