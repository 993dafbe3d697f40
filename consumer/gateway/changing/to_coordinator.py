"""Members of a group that the coordinator is to assign from now on, though a client leads it: they
come over one by one, without being stopped.

All are told to join again. One that comes with nothing in its hands leaves the client-led group,
and its JoinGroup waits here until nobody is left in that; then it joins as somebody new. An eager
client has stopped whenever it joins; a cooperative one that still owns something is answered, here,
in the generation that it is in and with an empty assignment, so that it gives up everything as it
always does: it may commit what it gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from consumer.gateway.changing.to_clients import is_empty_handed
from consumer.gateway.client_led.group import Emptied, LedGroup, WaitingLed
from consumer.gateway.client_led.groups import LedGroups
from consumer.gateway.client_led.translating import is_of_clients
from consumer.gateway.client_led.waiting import WaitingLine
from consumer.gateway.wire.requests import (
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
    refusal,
)
from zkcoord.core.classic.state import ClassicState
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.classic.consumer_blobs import CONSUMER, OURS, known_assignors

TOLD_MAX = 3
"""So often a member is told in a generation that it has nothing: a client gives up all at once."""

LATER = WireCode.COORDINATOR_LOAD_IN_PROGRESS
WHY = "its group is the coordinator's from now on"


class ToCoordinator:
    """See the module. `go_on` takes a request that has waited."""

    def __init__(self, led: LedGroups, go_on: Callable[[LedGroup, WaitingLed], None]) -> None:
        self._led = led
        self._go_on = go_on
        self._held = WaitingLine()

    def takes(self, group: LedGroup, one: WaitingLed) -> bool:
        """Whether a request of a group that comes over is answered here, or waits."""
        request = one.request
        if isinstance(request, SyncRequest):
            return self._sync(group, one, request)
        if not isinstance(request, JoinRequest):
            return False
        knows = group.view.knows(request.member_id, request.instance)
        is_member = bool(request.member_id) and knows is WireCode.NONE
        if is_of_clients(request):
            if is_member:
                return False
            self._led.answer(one.ticket, refusal(request, WireCode.INCONSISTENT_GROUP_PROTOCOL))
        elif is_member and self._has_to_give_up(group, request):
            self._empty(group, one, request)
        elif request.member_id and not is_member:
            self._led.answer(one.ticket, JoinAnswer(knows, request.member_id))
        else:
            self._comes(group, one, request)
        return True

    def _empty(self, group: LedGroup, one: WaitingLed, request: JoinRequest) -> None:
        """It goes on in its generation, in which it will be told that it has nothing."""
        generation = group.view.state.generation
        protocol = next(name for name, _ in request.protocols if name in OURS)
        emptied = group.emptied.get(request.member_id)
        if emptied is None or emptied.generation != generation:
            emptied = group.emptied[request.member_id] = Emptied(generation, protocol)
        emptied.is_due, emptied.protocol = True, protocol
        answer = JoinAnswer(WireCode.NONE, request.member_id, generation, protocol, CONSUMER)
        self._led.answer(one.ticket, answer)

    def _sync(self, group: LedGroup, one: WaitingLed, request: SyncRequest) -> bool:
        emptied = group.emptied.get(request.member_id)
        if emptied is None or not emptied.is_due or emptied.generation != request.generation:
            return False
        emptied.is_due = False
        emptied.told += 1
        answer = SyncAnswer(WireCode.NONE, (), emptied.protocol, protocol_type=CONSUMER)
        self._led.answer(one.ticket, answer)
        return True

    def _has_to_give_up(self, group: LedGroup, request: JoinRequest) -> bool:
        """Whether a member owns something, and is told (once more) that it has nothing. One that
        does not listen is out, or the others would wait for as long as it likes.
        """
        emptied, state = group.emptied.get(request.member_id), group.view.state
        if emptied is None or emptied.generation != state.generation:
            return not is_empty_handed(request, state.protocol)
        return emptied.told < TOLD_MAX and not is_empty_handed(
            request, emptied.protocol if emptied.told else state.protocol
        )

    def _comes(self, group: LedGroup, one: WaitingLed, request: JoinRequest) -> None:
        """It leaves, and comes again as somebody new, who waits."""
        named = request.member_id
        if not named and request.instance is not None:
            named = group.view.of_instance(request.instance) or ""
        group.emptied.pop(named, None)
        if named:
            self._led.dismiss(group.name, named, WHY)
        new = request.as_new()
        if new is None:
            return self._led.answer(one.ticket, refusal(request, WireCode.UNKNOWN_MEMBER_ID))
        if not self._held.add(group.name, replace(one, request=new)):
            return self._led.answer(one.ticket, refusal(request, LATER))
        group.held += 1
        return None

    def look(self, group: LedGroup) -> None:
        """It was read: those that have waited for its last member go on."""
        if not group.goes_over or not group.view.state.members:
            for one in tuple(self._held.all_of(group.name)):
                group.held -= 1
                self._go_on(group, one)

    def disconnected(self, connection: int) -> None:
        """A client's connection is gone: it waits no more."""
        for name, one in self._held.gone(connection):
            self._end(name, one)

    def close(self) -> None:
        """The gateway ends."""
        for name in self._held.groups:
            for one in self._held.all_of(name):
                self._end(name, one)

    def _end(self, name: str, one: WaitingLed) -> None:
        group = self._led.groups[name]
        group.held -= 1
        self._led.answer(one.ticket, refusal(one.request, WireCode.NOT_COORDINATOR))
        self._led.drop_if_idle(group)


def can_come_over(state: ClassicState) -> bool:
    """Whether the coordinator knows how to assign to all members of a group that a client leads."""
    known = [
        known_assignors(state.protocol_type, (name for name, _ in one.protocols))
        for one in state.members
    ]
    return bool(known and frozenset.intersection(*known))
