"""All wire members of one gateway: which request is whose, and the agent of each.

Everything here runs on one loop's thread. A member is a `WireMember` (what its client hears) and an
agent (`MemberDriver`, as every member has one): messages go from one to the other through the
loop's queue, never from within a call. What does not concern a member, a tool's requests, is not
here (`admin.py`).

Which codes are answered, and in which order it is looked: as Kafka's GroupMetadataManager (3.9)
does for classic groups.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterator

from consumer.core import messages as msg
from consumer.gateway.wire.actions import Begin, Gone, GroupLimits, Reply, Tell, WireTimes
from consumer.gateway.wire.judging import CONSUMER, judge
from consumer.gateway.wire.member import WireMember
from consumer.gateway.wire.requests import (
    Answer,
    BeatAnswer,
    Caller,
    CommitAnswer,
    CommitRequest,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    Request,
    SyncAnswer,
    SyncRequest,
    WireCode,
)
from consumer.gateway.wire_group import (
    Agent,
    AgentWishes,
    MakeAgent,
    Moves,
    ServedMember,
    WireGroup,
)
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.names import is_group, shown

log = logging.getLogger(__name__)

PENDING_MAX = 10_000


class WireGroups:
    """See the module. `answer` takes each answer with its ticket, once; `begin` is asked where
    partitions begin, and answers by `resolved`; `new_id` makes a member id's random part.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        post: Callable[[Callable[[], None]], None],
        make_agent: MakeAgent,
        answer: Callable[[int, Answer], None],
        begin: Callable[[str, msg.Resolve, Callable[[msg.Resolved], None]], None],
        new_id: Callable[[], str],
        limits: GroupLimits,
        times: WireTimes,
    ) -> None:
        self.clock = clock
        self.post = post
        self.make_agent = make_agent
        self.answer = answer
        self.begin = begin
        self.new_id = new_id
        self.limits = limits
        self.times = times
        self.groups: dict[str, WireGroup] = {}
        self.leaving: set[int] = set()
        self._of_connection: dict[int, dict[int, ServedMember]] = {}
        self._pending: dict[tuple[str, str], None] = {}
        self._wakes: list[tuple[int, int, ServedMember]] = []
        self._wake_number = 0
        self._closing: dict[int, ServedMember] = {}

    # requests

    def request(self, ticket: int, caller: Caller, request: Request) -> None:
        """Answer a request, now or later."""
        self.another_request(caller.connection)
        match request:
            case JoinRequest():
                self._join(ticket, caller, request)
            case SyncRequest():
                self._sync(ticket, caller, request)
            case HeartbeatRequest():
                self._heartbeat(ticket, caller, request)
            case CommitRequest():
                self._commit(ticket, caller, request)
            case LeaveRequest():
                self._leave(ticket, request)

    def another_request(self, connection: int) -> None:
        """A request has come on this connection: what waits there stands in its way."""
        for served in self._on(connection):
            served.wire.another_request(connection)
            self._touched(served)

    def disconnected(self, connection: int) -> None:
        """A client's connection is gone."""
        for served in self._on(connection):
            served.wire.disconnected(self.clock(), connection)
            self._touched(served)
        self._of_connection.pop(connection, None)

    def has_members(self, group: str) -> bool:
        """Whether a group has members here."""
        found = self.groups.get(group)
        return found is not None and bool(found.members)

    def held(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        """Next offsets, and what stands beside them, of all that members of a group hold here."""
        found = self.groups.get(group)
        served = found.members.values() if found is not None else ()
        return {tp: value for one in served for tp, value in one.wire.held.items()}

    def agents(self, group: str) -> list[tuple[WireMember, Agent]]:
        """The members of a group here, with their agents."""
        found = self.groups.get(group)
        return [(one.wire, one.agent) for one in found.members.values()] if found else []

    def close(self) -> None:
        """Everybody leaves: their sessions are closed, and their clients find another gateway."""
        for group in list(self.groups.values()):
            for served in list(group.members.values()):
                served.wire.leave("the gateway ends")
                self._touched(served)

    @property
    def finished(self) -> bool:
        """Whether no session is left."""
        return not self._closing and not any(g.members for g in self.groups.values())

    # JoinGroup

    def _join(self, ticket: int, caller: Caller, request: JoinRequest) -> None:
        wishes = judge(request, self.limits)
        if isinstance(wishes, WireCode):
            return self.answer(ticket, JoinAnswer(wishes, request.member_id))
        group = self.groups.setdefault(request.group, self._group(request.group))
        group.forget_pending(self.clock())
        assignors = wishes.assignors
        served = self._who_joins(ticket, caller, request, group, assignors)
        if served is None:
            self._drop_if_empty(group)
            return None
        if served.assignors != assignors:
            # its registration names them: it begins anew under another one
            served = self._begin_anew(served, caller, request, group, assignors)
        served.wire.client_id, served.wire.host = caller.client_id, caller.host
        served.wire.join(self.clock(), ticket, caller.connection, request, wishes, group.is_forming)
        self._attach(served, caller.connection)
        return self._touched(served)

    def _who_joins(
        self,
        ticket: int,
        caller: Caller,
        request: JoinRequest,
        group: WireGroup,
        assignors: tuple[str, ...],
    ) -> ServedMember | None:
        """The member that joins; None where it was answered."""
        member_id, instance = request.member_id, request.instance
        if instance is not None and not member_id:
            served = group.of_instance(instance)
            if served is None:
                drawn = self._draw(instance)
                return self._new_if_room(ticket, caller, request, group, drawn, assignors)
            group.rename(served, self._draw(instance))
            return served
        if not member_id:
            if request.named_first:
                member_id = self._draw(caller.client_id)
                group.pending[member_id] = self.clock() + request.session_timeout_ms
                self._bound_pending(group, member_id)
                self.answer(ticket, JoinAnswer(WireCode.MEMBER_ID_REQUIRED, member_id))
                return None
            return self._new_if_room(
                ticket, caller, request, group, self._draw(caller.client_id), assignors
            )
        code = group.known(member_id, instance)
        if code is not WireCode.NONE:
            if code is WireCode.UNKNOWN_MEMBER_ID and member_id in group.pending:
                return self._new_if_room(ticket, caller, request, group, member_id, assignors)
            self.answer(ticket, JoinAnswer(code, member_id))
            return None
        return group.members[member_id]

    def _bound_pending(self, group: WireGroup, member_id: str) -> None:
        """Of ids that were given and not used the oldest are forgotten: who was given one and comes
        late is given another.
        """
        self._pending[group.name, member_id] = None
        while len(self._pending) > PENDING_MAX:
            name, oldest = next(iter(self._pending))
            del self._pending[name, oldest]
            found = self.groups.get(name)
            if found is not None and found.pending.pop(oldest, None) is not None:
                self._drop_if_empty(found)

    def _new_if_room(
        self,
        ticket: int,
        caller: Caller,
        request: JoinRequest,
        group: WireGroup,
        member_id: str,
        assignors: tuple[str, ...],
    ) -> ServedMember | None:
        here = sum(len(one.members) for one in self.groups.values())
        if len(group.members) >= self.limits.max_size or here >= self.limits.members_max:
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
        wishes = AgentWishes(
            request.group,
            caller.client_id,
            caller.host,
            request.instance,
            request.session_timeout_ms,
            assignors,
            max(request.rebalance_timeout_ms, request.session_timeout_ms),
        )
        holder: list[ServedMember] = []

        def told(message: msg.ToFetcher) -> None:
            self.post(lambda: self._told(holder[0], message))

        def after() -> None:
            if holder:
                self._touched(holder[0])

        served = ServedMember(request.group, wire, self.make_agent(wishes, told, after), assignors)
        holder.append(served)
        group.add(member_id, served)
        log.info(
            "member %s (client %s on %s) joins group %s",
            shown(member_id),
            shown(caller.client_id),
            caller.host,
            shown(request.group),
        )
        return served

    def _begin_anew(
        self,
        served: ServedMember,
        caller: Caller,
        request: JoinRequest,
        group: WireGroup,
        assignors: tuple[str, ...],
    ) -> ServedMember:
        member_id, generation = served.wire.member_id, served.wire.generation
        served.wire.leave("it names other assignors now")
        self._touched(served)
        new = self._new(caller, request, group, member_id, assignors)
        new.wire.generation = max(new.wire.generation, generation)
        return new

    def _draw(self, prefix: str) -> str:
        return f"{prefix[:200]}-{self.new_id()}"

    # the others

    def _sync(self, ticket: int, caller: Caller, request: SyncRequest) -> None:
        served, code = self._member(request.group, request.member_id, request.instance)
        if served is None:
            return self.answer(ticket, SyncAnswer(code))
        if request.protocol_type not in ("", CONSUMER):
            return self.answer(ticket, SyncAnswer(WireCode.INCONSISTENT_GROUP_PROTOCOL))
        served.wire.others_move(self.clock(), self.groups[served.group].moves.until_ms)
        served.wire.sync(self.clock(), ticket, caller.connection, request)
        self._attach(served, caller.connection)
        return self._touched(served)

    def _heartbeat(self, ticket: int, caller: Caller, request: HeartbeatRequest) -> None:
        served, code = self._member(request.group, request.member_id, request.instance)
        if served is None:
            return self.answer(ticket, BeatAnswer(code))
        served.wire.heartbeat(self.clock(), ticket, caller.connection, request)
        self._attach(served, caller.connection)
        return self._touched(served)

    def _commit(self, ticket: int, caller: Caller, request: CommitRequest) -> None:
        served, code = self._member(request.group, request.member_id, request.instance)
        if served is None:
            return self.answer(ticket, CommitAnswer(code))
        served.wire.commit(self.clock(), ticket, caller.connection, request)
        self._attach(served, caller.connection)
        return self._touched(served)

    def _leave(self, ticket: int, request: LeaveRequest) -> None:
        if not is_group(request.group):
            return self.answer(ticket, LeaveAnswer(WireCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group, self._group(request.group))
        codes = []
        for member_id, instance in request.members:
            named = member_id
            if not named and instance is not None:
                named = group.instances.get(instance, "")
            code = group.known(named, instance)
            codes.append(code)
            if code is WireCode.NONE:
                served = group.members[named]
                served.wire.leave("its client left")
                self._touched(served)
            elif named in group.pending:
                del group.pending[named]
                codes[-1] = WireCode.NONE
        self._drop_if_empty(group)
        first = codes[0] if codes and not request.batch else WireCode.NONE
        return self.answer(ticket, LeaveAnswer(first, tuple(codes)))

    def _member(
        self, name: str, member_id: str, instance: str | None
    ) -> tuple[ServedMember | None, WireCode]:
        if not is_group(name):
            return None, WireCode.INVALID_GROUP_ID
        group = self.groups.get(name)
        if group is None:
            return None, WireCode.UNKNOWN_MEMBER_ID
        code = group.known(member_id, instance)
        return (group.members[member_id], code) if code is WireCode.NONE else (None, code)

    # what happens

    def _told(self, served: ServedMember, message: msg.ToFetcher) -> None:
        served.wire.told(self.clock(), message)
        self._touched(served)

    def _touched(self, served: ServedMember) -> None:
        """Do what it wants done, and note when it is due again."""
        for action in served.wire.take():
            match action:
                case Reply():
                    self.answer(action.ticket, action.answer)
                case Tell():
                    self._tell(served, action.message)
                case Begin():
                    self._begin(served, action.ask)
                case Gone():
                    self._gone(served, action.reason)
        if served.closing and served.agent.finished:
            self._closing.pop(id(served), None)
        self._note_wake(served)
        self._note_moves(served)

    def _note_moves(self, served: ServedMember) -> None:
        """Who waits for an assignment hears how long what others give up is worth waiting for."""
        group = self.groups.get(served.group)
        if group is None or not group.moves.note(self.clock(), served):
            return
        until = group.moves.until_ms
        for one in tuple(group.members.values()):
            if one.wire.waits_for_sync:
                one.wire.others_move(self.clock(), until)
                self._touched(one)

    def _tell(self, served: ServedMember, message: msg.FromFetcher) -> None:
        def tell() -> None:
            served.agent.receive(message)
            self._touched(served)

        self.post(tell)

    def _begin(self, served: ServedMember, ask: msg.Resolve) -> None:
        self.begin(served.group, ask, lambda answer: self._tell(served, answer))

    def _gone(self, served: ServedMember, reason: str) -> None:
        served.closing = True
        self._closing[id(served)] = served
        group = self.groups.get(served.group)
        if group is not None:
            group.forget(served)
            self._drop_if_empty(group)
        log.info(
            "member %s leaves group %s: %s",
            shown(served.wire.member_id),
            shown(served.group),
            reason,
        )

    def _group(self, name: str) -> WireGroup:
        return WireGroup(name, Moves(self.times.flux_ms))

    def _drop_if_empty(self, group: WireGroup) -> None:
        if group.is_empty:
            self.groups.pop(group.name, None)

    # connections

    def _attach(self, served: ServedMember, connection: int) -> None:
        self._of_connection.setdefault(connection, {})[id(served)] = served

    def _on(self, connection: int) -> Iterator[ServedMember]:
        yield from tuple(self._of_connection.get(connection, {}).values())

    # time

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        while self._wakes and self._wakes[0][2].wake_ms != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def tick(self) -> None:
        """Do what is due."""
        now = self.clock()
        while (wake := self.next_wake_ms()) is not None and wake <= now:
            served = heapq.heappop(self._wakes)[2]
            served.wake_ms = None
            served.wire.tick(now)
            agent_ms = served.agent.next_wake_ms()
            if agent_ms is not None and agent_ms <= now:
                served.agent.tick()
            self._touched(served)

    def _note_wake(self, served: ServedMember) -> None:
        times = [served.wire.next_wake_ms(), served.agent.next_wake_ms()]
        due = [ms for ms in times if ms is not None]
        wake = min(due) if due else None
        if wake != served.wake_ms:
            served.wake_ms = wake
            if wake is not None:
                self._wake_number += 1
                heapq.heappush(self._wakes, (wake, self._wake_number, served))
