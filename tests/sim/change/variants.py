"""Weakened gateways and coordinators of a group that changes from one kind to the other, as
`tests.sim.variants` has weakened members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from consumer.gateway.changing import to_clients, to_coordinator
from consumer.gateway.changing.to_coordinator import ToCoordinator
from consumer.gateway.client_led.entrance import MembersEntrance
from consumer.gateway.client_led.group import LedGroup, WaitingLed
from consumer.gateway.wire.requests import JoinRequest
from consumer.member.joining import whose_group
from consumer.offsets import memberless
from consumer.offsets.memberless import MemberlessCommits
from tests.sim.mixes import CHANGE
from tests.sim.weakened import Patch, Variant
from zkcoord.zk.classic.classic_groups import ClassicGroups
from zkcoord.zk.classic.edge import Edge

Original = Callable[..., Any]


def _never(original: Original) -> Original:
    return lambda *arguments: False


def _always(original: Original) -> Original:
    return lambda *arguments: True


def _no_reason(original: Original) -> Original:
    return lambda *arguments: ""


def _nobody(original: Original) -> Original:
    def look(self: Edge, group: str, then: Callable[[bool], None]) -> None:
        original(self, group, lambda others: then(False))

    return look


def _without_fence(original: Original) -> Original:
    def fence(self: MemberlessCommits, state: Any) -> Any:
        ops, members = original(self, state)
        return [replace(one, version=-1) for one in ops], members

    return fence


def _waits_for_nobody(original: Original) -> Original:
    def look(self: ToCoordinator, group: LedGroup) -> None:
        group.goes_over = False
        original(self, group)

    return look


def _to_the_wire(original: Original) -> Original:
    def serve(self: MembersEntrance, group: LedGroup, one: WaitingLed) -> None:
        request = one.request
        comes = isinstance(request, JoinRequest) and not request.member_id
        if comes and self._comes_over(group):
            return self._wire.request(one.ticket, one.caller, request)
        return original(self, group, one)

    return serve


CHANGE_VARIANTS = (
    Variant(
        "change_leads_at_once",
        "a client leads though others are registered whom the coordinator assigns",
        (
            Patch(ClassicGroups, "_will_be_free", _never),
            Patch(ClassicGroups, "_why_not", _no_reason),
            Patch(Edge, "look_for_others", _nobody),
        ),
        CHANGE,
        ("G1",),
    ),
    Variant(
        "change_with_full_hands",
        "a client goes over though it still owns something",
        (
            Patch(to_clients, "is_empty_handed", _always),
            Patch(to_coordinator, "is_empty_handed", _always),
        ),
        CHANGE,
        ("G1", "G4", "W2"),
    ),
    Variant(
        "change_joins_at_once",
        "the coordinator assigns while a leader has members",
        (
            Patch(ToCoordinator, "look", _waits_for_nobody),
            Patch(MembersEntrance, "_serve", _to_the_wire),
            Patch(whose_group, "led_by_clients", _no_reason),
            Patch(ClassicGroups, "may_lead", _never),
        ),
        CHANGE,
        ("G1",),
    ),
    Variant(
        "change_commits_unfenced",
        "what a gateway that hung took before is stored, whoever serves its member by now",
        (
            Patch(MemberlessCommits, "_fence", _without_fence),
            Patch(memberless, "_is_served", _always),
        ),
        CHANGE,
        ("G2", "I4"),
    ),
)
