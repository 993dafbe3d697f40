"""Where a member's request goes: to the groups whose members the coordinator assigns, or to those
whose leader is a client. A group is one or the other, as its members are; a group without any is
what the first one wants, but where its name says that clients lead it (`always_led`).

What is not known of a group is read first, once for all requests that wait for it; requests keep
their order. Everything here runs on the members' loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from consumer.gateway.changing.parted_leaves import PartedLeaves
from consumer.gateway.changing.to_clients import GoingOver
from consumer.gateway.changing.to_coordinator import ToCoordinator, can_come_over
from consumer.gateway.client_led.group import LedGroup, WaitingLed
from consumer.gateway.client_led.groups import LedGroups
from consumer.gateway.client_led.translating import is_of_clients
from consumer.gateway.client_led.waiting import WaitingLine
from consumer.gateway.client_led.watching import LedSeen
from consumer.gateway.members.groups import WireGroups
from consumer.gateway.members.recalls import WaitingRequest
from consumer.gateway.wire.requests import (
    Caller,
    JoinRequest,
    LeaveRequest,
    Request,
    refusal,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.classic.pin import Machine
from zkcoord.znodes.names import is_group, shown

log = logging.getLogger(__name__)

REFUSED_MAX = 100
COORDINATED = (
    "group %s is pinned coordinated (zkcoord groups machine), and client %s of %s, which lists no"
    " assignor that is known, is refused: have it list one, or change the pin"
)
IN_KAFKA = (
    "group %s is pinned coordinated (zkcoord groups machine), but its offsets are in Kafka"
    " (--offsets-in-kafka), so that only clients may lead it; client %s of %s is refused: take the"
    " pin back (auto), or begin all gateways without that option for it"
)


class MembersEntrance:
    """See the module."""

    def __init__(
        self,
        wire: WireGroups,
        led: LedGroups,
        always_led: Callable[[str], bool] = lambda group: False,
    ) -> None:
        self._wire = wire
        self._led = led
        self._always_led = always_led
        self._looking = WaitingLine()
        self._refused: set[str] = set()
        self._to_clients = GoingOver(wire)
        self._to_coordinator = ToCoordinator(led, self._serve)
        wire.not_here = self._not_remembered
        self._parted = PartedLeaves(wire.answer)
        wire.answer = led.answer = self._parted.answered
        led.serve, led.looked = self._serve, self._looked_at
        led.watching.pins.told = self._pinned

    def request(self, ticket: int, caller: Caller, request: Request) -> None:
        """Answer a request, now or later."""
        self.another_request(caller.connection)
        name = request.group
        if self._wire.closing or not is_group(name):
            return self._wire.request(ticket, caller, request)
        if self._always_led(name):
            return self._led.when_seen(self._led.open(name), ticket, caller, request)
        if isinstance(request, LeaveRequest):
            known = [self._knows(name, *one) for one in request.members]
            if any(known) and not all(known):
                for part, leave in self._parted.part(ticket, request, known):
                    self._route(part, caller, leave)
                return None
        return self._route(ticket, caller, request)

    def _route(self, ticket: int, caller: Caller, request: Request) -> None:
        name = request.group
        goes_over = self._led.watching.pins.of(name) is Machine.CLIENT_LED
        if self._is_known(request) and not goes_over:
            self._to_clients.take_back(name)
            return self._wire.request(ticket, caller, request)
        if self._is_known(request):
            self._to_clients.begin(name)
            if not isinstance(request, JoinRequest):
                return self._wire.request(ticket, caller, request)
            if self._to_clients.takes(ticket, caller, request):
                return None
            new = request.as_new()
            if new is None:
                code = WireCode.UNKNOWN_MEMBER_ID
                return self.answer(WaitingLed(ticket, caller, request, 0), code)
            return self._led.when_seen(self._led.open(name), ticket, caller, new)
        group = self._led.groups.get(name)
        of_clients = isinstance(request, JoinRequest) and is_of_clients(request)
        if isinstance(request, JoinRequest) and not self._led.watching.pins.are_known:
            code = WireCode.COORDINATOR_NOT_AVAILABLE
            return self.answer(WaitingLed(ticket, caller, request, 0), code)
        if group is None and of_clients and not self._looking.of(name):
            group = self._led.open(name)
        if group is not None:
            return self._led.when_seen(group, ticket, caller, request)
        waiting = WaitingLed(ticket, caller, request, 0)
        is_looked_at = bool(self._looking.of(name))
        if not self._looking.add(name, waiting):
            return self.answer(waiting, WireCode.COORDINATOR_LOAD_IN_PROGRESS)
        return None if is_looked_at else self._led.watching.look(name, self._looked(name))

    def _looked(self, name: str) -> Callable[[LedSeen | None], None]:
        def looked(seen: LedSeen | None) -> None:
            for one in tuple(self._looking.all_of(name)):
                self._go_on(one, seen)

        return looked

    def _go_on(self, one: WaitingLed, seen: LedSeen | None) -> None:
        """It is known what its group is."""
        request = one.request
        is_join = isinstance(request, JoinRequest)
        if self._wire.closing:
            self.answer(one, WireCode.NOT_COORDINATOR)
        elif seen is None and is_join:
            self.answer(one, WireCode.COORDINATOR_NOT_AVAILABLE)
        elif seen is not None and (seen.view.state.members or self._would_lead(request)):
            group = self._led.open(request.group)
            self._led.when_seen(group, one.ticket, one.caller, request)
        else:
            self._wire.request(one.ticket, one.caller, request)

    def _pinned(self, name: str) -> None:
        """Who is to run a group may be another than who does."""
        if self._led.watching.pins.of(name) is Machine.CLIENT_LED:
            self._to_clients.begin(name)
        else:
            self._to_clients.take_back(name)
        group = self._led.groups.get(name)
        if group is not None:
            group.goes_over = self._comes_over(group)
            self._led.watching.read_again(name)

    def _comes_over(self, group: LedGroup) -> bool:
        """Whether a group that a client leads is to be the coordinator's."""
        pinned = self._led.watching.pins.of(group.name) is Machine.COORDINATED
        return (
            pinned
            and bool(group.view.state.members)
            and can_come_over(group.view.state)
            and not self._always_led(group.name)
        )

    def _looked_at(self, group: LedGroup) -> None:
        """It was read."""
        group.goes_over = self._comes_over(group)
        self._to_coordinator.look(group)

    def _serve(self, group: LedGroup, one: WaitingLed) -> None:
        """It is known what was decided of a group that is served here, or was to be."""
        request = one.request
        is_led, always = group.is_led, self._always_led(group.name)
        joins = isinstance(request, JoinRequest)
        if not always and self._may_be_assigned(group, request):
            return self._wire.request(one.ticket, one.caller, request)
        if group.goes_over and self._to_coordinator.takes(group, one):
            return None
        if not is_led and (self._would_lead(request) or (always and joins)):
            pin = self._led.watching.pins.of(group.name)
            if pin is Machine.COORDINATED:
                return self._refuse(one)
            if pin is None and self._wire.is_leaving(group.name):
                return self.answer(one, WireCode.COORDINATOR_LOAD_IN_PROGRESS)
            is_led = True
        if is_led or always:
            self._led.request(group, one)
        else:
            self._wire.request(one.ticket, one.caller, request)

    def _may_be_assigned(self, group: LedGroup, request: Request) -> bool:
        """Whether who has an id may have it of the coordinator's, at another gateway, which is
        written down: a group that clients lead would fence an instance, whoever it is, and of
        another client it would say that it is nobody, so that it loses what it has.
        """
        if not isinstance(request, JoinRequest) or request.is_nobodys:
            return False
        is_named = bool(request.member_id) and not is_of_clients(request)
        return is_named and not group.view.state.members

    def _not_remembered(self, waiting: WaitingRequest) -> bool:
        """Who is at no gateway has its id of the group that its clients lead, or are about to. An
        instance may be one that has been forgotten since, and is told that.
        """
        request = waiting.request
        if not isinstance(request, JoinRequest) or request.instance is not None:
            return False
        if not self._would_lead(request):
            return False
        group, nobodys = self._led.open(request.group), replace(request, is_nobodys=True)
        self._led.when_seen(group, waiting.ticket, waiting.caller, nobodys)
        return True

    def _would_lead(self, request: Request) -> bool:
        """Whether this makes a group that has no members one that clients lead."""
        if not isinstance(request, JoinRequest):
            return False
        pinned = self._led.watching.pins.of(request.group) is Machine.CLIENT_LED
        return pinned or is_of_clients(request)

    def _refuse(self, one: WaitingLed) -> None:
        """An operator has said that no client leads this group."""
        group = one.request.group
        why = IN_KAFKA if self._always_led(group) else COORDINATED
        if group not in self._refused and len(self._refused) < REFUSED_MAX:
            self._refused.add(group)
            log.warning(why, shown(group), shown(one.caller.client_id), one.caller.host)
        self.answer(one, WireCode.INCONSISTENT_GROUP_PROTOCOL)

    def _is_known(self, request: Request) -> bool:
        """Whether the members named are those of a group that the coordinator assigns. Who would be
        a new one is looked at, unless others are here.
        """
        group = self._wire.groups.get(request.group)
        if group is None:
            return False
        if isinstance(request, JoinRequest):
            return bool(group.members) or request.member_id in group.pending
        if isinstance(request, LeaveRequest):
            return any(self._knows(request.group, *one) for one in request.members)
        return self._knows(request.group, request.member_id, request.instance)

    def _knows(self, name: str, member_id: str, instance: str | None) -> bool:
        """The same of one member."""
        group = self._wire.groups.get(name)
        return group is not None and (
            member_id in group.members
            or member_id in group.pending
            or (instance is not None and instance in group.instances)
        )

    def answer(self, one: WaitingLed, code: WireCode) -> None:
        """Refuse a request."""
        self._led.answer(one.ticket, refusal(one.request, code))

    def another_request(self, connection: int) -> None:
        """A request has come on this connection: what is parked there stands in its way."""
        self._wire.another_request(connection)
        self._led.another_request(connection)

    def disconnected(self, connection: int) -> None:
        """A client's connection is gone: what it asked last must not be begun for it any more."""
        for _, one in self._looking.gone(connection):
            self.answer(one, WireCode.NOT_COORDINATOR)
        self._to_coordinator.disconnected(connection)
        self._wire.disconnected(connection)
        self._led.disconnected(connection)

    def close(self) -> None:
        """The gateway ends: clients find another one."""
        self._to_coordinator.close()
        self._led.close()
