"""Weakened systems: what operators have the coordinator do (evictions, pauses) without a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from consumer.core.events import Ack, Store
from consumer.core.parts.sessions import Sessions
from consumer.member.driver import MemberDriver
from consumer.member.multis import MemberMulti
from tests.sim.weakened import Patch, Variant
from zkcoord.core.group import machine
from zkcoord.core.group.deadlines import Removals
from zkcoord.core.group.operator_requests import ModeSaid
from zkcoord.core.target import Prepared, TargetAssignment
from zkcoord.zk.port import Check

MIX = "operators"


def _nobody(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: ()


def _unchecked(original: Callable[..., MemberMulti]) -> Callable[..., MemberMulti]:
    def multi(self: MemberDriver, action: Any) -> MemberMulti:
        made = original(self, action)
        if not isinstance(action, (Ack, Store)):
            return made
        return replace(made, ops=(Check("/consumers", -1), *made.ops[1:]))

    return multi


def _all_that_is_held(
    original: Callable[[Prepared], TargetAssignment],
) -> Callable[[Prepared], TargetAssignment]:
    def keep(prepared: Prepared) -> TargetAssignment:
        names = {alias: name for name, alias in prepared.aliases.items()}
        held = {
            tp: thread._replace(member=names.get(thread.member, thread.member))
            for tp, thread in prepared.given.owners.items()
        }
        return replace(original(prepared), target=held)

    return keep


def _at_once(original: Callable[..., None]) -> Callable[..., None]:
    def evicted(self: Sessions, reason: str) -> None:
        self.options = replace(self.options, returns_with_poll=False)
        original(self, reason)

    return evicted


def _not_after_a_full_reading(original: Callable[..., bool]) -> Callable[..., bool]:
    def take(self: ModeSaid, read: Mapping[str, Any], full: bool) -> bool:
        return original(self, {"mode": None} if full else read, full)

    return take


def _never_again(original: Callable[..., bool]) -> Callable[..., bool]:
    def take(self: ModeSaid, read: Mapping[str, Any], full: bool) -> bool:
        return False if self.paused else original(self, read, full)

    return take


OPERATOR_VARIANTS = (
    Variant(
        "evicts_nobody",
        "a request to evict is taken up, and nobody is evicted",
        (Patch(Removals, "_asked_for", _nobody),),
        MIX,
        ("I23",),
    ),
    Variant(
        "evicted_goes_on",
        "acks and commits do not check the member's own registration",
        (Patch(MemberDriver, "_multi", _unchecked),),
        MIX,
        ("I23",),
    ),
    Variant(
        "evicted_returns_unpolled",
        "an evicted member comes back whether its application polls or not",
        (Patch(Sessions, "evicted", _at_once),),
        MIX,
        ("I25",),
    ),
    Variant(
        "pause_stops_nobody",
        "while a group is paused everybody keeps what it has",
        (Patch(machine, "hand_out_nothing", _all_that_is_held),),
        MIX,
        ("I24",),
    ),
    Variant(
        "pause_forgotten",
        "who reads a group as a whole does not look whether it is paused",
        (Patch(ModeSaid, "take", _not_after_a_full_reading),),
        MIX,
        ("I24",),
    ),
    Variant(
        "resumes_nobody",
        "a group that is resumed is handed out nothing",
        (Patch(ModeSaid, "take", _never_again),),
        MIX,
        ("I8",),
    ),
)
