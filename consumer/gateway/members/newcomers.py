"""Who a client is that joins: one that is known, or a new member, or one that is given an id first.

Which codes are answered, and in which order it is looked: as Kafka's GroupMetadataManager (3.9)
does for classic groups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from consumer.gateway.members.wire_group import AgentWishes, ServedMember, WireGroup
from consumer.gateway.wire.actions import GroupLimits, WireTimes
from consumer.gateway.wire.member import WireMember
from consumer.gateway.wire.requests import Answer, Caller, JoinAnswer, JoinRequest
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.classic.consumer_blobs import OURS
from zkcoord.znodes.gateway_nodes import RememberedClient, instance_of_client
from zkcoord.znodes.names import shown
from zkcoord.znodes.registration import topics_fit

log = logging.getLogger(__name__)

PENDING_MAX = 10_000
AWAY_MS = 10_000

Serve = Callable[[WireMember, AgentWishes], ServedMember]


class Newcomers:
    """See the module. `serve` makes a member's agent. With `remembers`, each member's registration
    names an instance, so that its place waits for it.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        groups: dict[str, WireGroup],
        serve: Serve,
        answer: Callable[[int, Answer], None],
        new_id: Callable[[], str],
        limits: GroupLimits,
        times: WireTimes,
        remembers: bool,
    ) -> None:
        self.clock = clock
        self.groups = groups
        self.serve = serve
        self.answer = answer
        self.new_id = new_id
        self.limits = limits
        self.times = times
        self.remembers = remembers
        self._pending: dict[tuple[str, str], None] = {}
        self._sent_away: dict[tuple[str, str], int] = {}

    def who_joins(
        self,
        ticket: int,
        caller: Caller,
        request: JoinRequest,
        group: WireGroup,
        assignors: tuple[str, ...],
    ) -> ServedMember | None:
        """The member that joins; None where it was answered."""
        member_id, instance = request.member_id, request.instance
        if self.clock() < self._sent_away.get((group.name, member_id), 0):
            self.answer(ticket, JoinAnswer(WireCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
            return None
        if instance is not None and not member_id:
            served = group.of_instance(instance)
            if served is None:
                drawn = self._draw(instance)
                return self._if_room(ticket, caller, request, group, drawn, assignors)
            group.rename(served, self._draw(instance))
            return served
        if not member_id:
            drawn = self._draw(caller.client_id)
            if not request.named_first:
                return self._if_room(ticket, caller, request, group, drawn, assignors)
            group.pending[drawn] = self.clock() + request.session_timeout_ms
            self._bound_pending(group, drawn)
            self.answer(ticket, JoinAnswer(WireCode.MEMBER_ID_REQUIRED, drawn))
            return None
        code = group.known(member_id, instance)
        if code is not WireCode.NONE:
            if code is WireCode.UNKNOWN_MEMBER_ID and member_id in group.pending:
                return self._if_room(ticket, caller, request, group, member_id, assignors)
            self.answer(ticket, JoinAnswer(code, member_id))
            return None
        return group.members[member_id]

    def send_away(self, group: str, member_id: str) -> None:
        """The coordinator has sent a member away that shares no assignor with its group: for a
        while its client is told so when it joins.
        """
        self._sent_away[group, member_id] = self.clock() + AWAY_MS
        while len(self._sent_away) > PENDING_MAX:
            del self._sent_away[next(iter(self._sent_away))]

    def _bound_pending(self, group: WireGroup, member_id: str) -> None:
        """Of ids that were given and not used the oldest are forgotten: who was given one and comes
        late is given another.
        """
        self._pending[group.name, member_id] = None
        while len(self._pending) > PENDING_MAX:
            name, oldest = next(iter(self._pending))
            del self._pending[name, oldest]
            found = self.groups.get(name)
            if found is None or oldest not in found.pending:
                continue
            del found.pending[oldest]
            if found.is_empty:
                del self.groups[name]

    def is_room(self, group: WireGroup) -> bool:
        """Whether one more member may be here."""
        here = sum(len(one.members) for one in self.groups.values())
        return len(group.members) < self.limits.max_size and here < self.limits.members_max

    def _if_room(
        self,
        ticket: int,
        caller: Caller,
        request: JoinRequest,
        group: WireGroup,
        member_id: str,
        assignors: tuple[str, ...],
    ) -> ServedMember | None:
        if not self.is_room(group):
            self.answer(ticket, JoinAnswer(WireCode.GROUP_MAX_SIZE_REACHED, member_id))
            return None
        return self._new(caller, request, group, member_id, assignors)

    def _new(
        self,
        caller: Caller,
        request: JoinRequest,
        group: WireGroup,
        member_id: str,
        assignors: tuple[str, ...],
    ) -> ServedMember:
        generation = max((one.wire.generation for one in group.members.values()), default=0)
        wire = WireMember(member_id, request.instance, self.times, generation)
        instance, grace_ms = self._instance(member_id, request.instance, request.session_timeout_ms)
        wishes = AgentWishes(
            request.group,
            caller.client_id,
            caller.host,
            instance,
            grace_ms,
            assignors,
            max(request.rebalance_timeout_ms, request.session_timeout_ms),
            alone=request.instance is None,
            library=caller.library,
        )
        served = self.serve(wire, wishes)
        group.add(member_id, served)
        log.info(
            "member %s (client %s on %s) joins group %s",
            shown(member_id),
            shown(caller.client_id),
            caller.host,
            shown(request.group),
        )
        return served

    def begin_anew(
        self,
        served: ServedMember,
        caller: Caller,
        request: JoinRequest,
        group: WireGroup,
        assignors: tuple[str, ...],
    ) -> ServedMember:
        """The same member under another registration, because that names the assignors. The one
        before is over.
        """
        new = self._new(caller, request, group, served.wire.member_id, assignors)
        new.wire.generation = max(new.wire.generation, served.wire.generation)
        if served.renamed:
            new.renamed = True
            new.wire.succeeded(new.wire.member_id)
        return new

    def restore(self, group: WireGroup, client: RememberedClient) -> ServedMember | None:
        """A client that another gateway served; None where there is no room, where it is here
        already, or where what is remembered is nothing that a gateway writes.
        """
        here = client.member_id in group.members or client.instance in group.instances
        known = topics_fit(client.topics) and set(client.assignors) <= set(OURS.values())
        if here or not known or not self.is_room(group):
            return None
        wire = WireMember(client.member_id, client.instance, self.times)
        instance, grace_ms = self._instance(
            client.member_id, client.instance, client.session_timeout_ms
        )
        wishes = AgentWishes(
            group.name,
            client.client_id,
            client.host,
            instance,
            grace_ms,
            client.assignors,
            client.rebalance_timeout_ms,
            library=client.library,
        )
        served = self.serve(wire, wishes)
        group.add(client.member_id, served)
        wire.restore(self.clock(), client)
        log.info(
            "member %s (client %s on %s) of group %s comes from another gateway",
            shown(client.member_id),
            shown(client.client_id),
            shown(client.host),
            shown(group.name),
        )
        return served

    def _instance(
        self, member_id: str, instance: str | None, session_timeout_ms: int
    ) -> tuple[str | None, int]:
        """Under which instance the registration is, and how long its place waits, in ms."""
        if instance is not None:
            return instance, session_timeout_ms
        if self.remembers:
            return instance_of_client(member_id), self.times.member_grace_ms
        return None, 0

    def _draw(self, prefix: str) -> str:
        return f"{prefix[:200]}-{self.new_id()}"
