"""All wire members of one gateway: which request is whose, and the agent of each.

Everything here runs on one loop's thread. A member is a `WireMember` (what its client hears) and an
agent (`MemberDriver`, as every member has one): messages go from one to the other through the
loop's queue, never from within a call. Of a client that is unknown it is looked whether another
gateway remembers it (`Recalls`). What does not concern a member, a tool's requests, is not here
(`tooling/`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from consumer.core import messages as msg
from consumer.gateway.members.leaving import Leaving
from consumer.gateway.members.memory import Memory
from consumer.gateway.members.newcomers import Newcomers
from consumer.gateway.members.recalls import Recalls, WaitingRequest, unknown
from consumer.gateway.members.remembering import Remembering
from consumer.gateway.members.wire_group import (
    Agent,
    AgentWishes,
    MakeAgent,
    Moves,
    ServedMember,
    WireGroup,
)
from consumer.gateway.wire.actions import (
    Begin,
    Gone,
    GroupLimits,
    Remember,
    Reply,
    Tell,
    WireTimes,
)
from consumer.gateway.wire.judging import WAITING, judge
from consumer.gateway.wire.member import WireMember
from consumer.gateway.wire.parking import MovesPace
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
    MayCommitRequest,
    Request,
    SyncAnswer,
    SyncRequest,
    refusal,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.zk.wakes import Wakes
from zkcoord.znodes.classic.consumer_blobs import CONSUMER
from zkcoord.znodes.gateway_nodes import RememberedClient
from zkcoord.znodes.names import is_group, shown

log = logging.getLogger(__name__)

ANEW_MS = 5_000
"""A member names other assignors at most once in this time: each time is a session, and a thread.
"""


class WireGroups:
    """See the module. `answer` takes each answer with its ticket, once; `begin` is asked where
    partitions begin, and answers by `resolved`; `new_id` makes a member id's random part. Without
    `memory` a client's place is lost with its gateway. `not_here` takes requests of who is nowhere
    (False: it is answered here).
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
        memory: Memory | None = None,
    ) -> None:
        self.clock = clock
        self.post = post
        self.make_agent = make_agent
        self.answer = answer
        self.begin = begin
        self.limits = limits
        self.times = times
        self._pace = MovesPace(times)
        self.memory = memory
        self.closing = False
        self.taken_over = 0
        self.not_here: Callable[[WaitingRequest], bool] = lambda waiting: False
        self.groups: dict[str, WireGroup] = {}
        back = self._restore, self._recalled, self._refuse_recalled, self._is_none
        self.recalls = None if memory is None else Recalls(memory, self.groups, *back)
        self.newcomers = Newcomers(
            clock, self.groups, self._serve, answer, new_id, limits, times, memory is not None
        )
        self._of_connection: dict[int, dict[int, ServedMember]] = {}
        self._wakes: Wakes[ServedMember] = Wakes()
        self._remembering = Remembering(memory, clock, post, self.touched)
        self._leaving = Leaving(clock, times, memory, self.tell, self.touched)

    # requests

    def request(self, ticket: int, caller: Caller, request: Request) -> None:
        """Answer a request, now or later."""
        self.another_request(caller.connection)
        if self.closing:
            return self.answer(ticket, refusal(request, WireCode.NOT_COORDINATOR))
        if self.recalls is not None:
            keys = unknown(request, self.groups.get(request.group))
            # what comes behind one that waits must not overtake it
            if keys or self.recalls.holds(caller.connection):
                return self.recalls.wait(WaitingRequest(ticket, caller, request, keys))
        return self._serve_request(ticket, caller, request)

    def _serve_request(self, ticket: int, caller: Caller, request: Request) -> None:
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
            case MayCommitRequest():  # no member of a group whose offsets are in Kafka is here
                self.answer(ticket, refusal(request, WireCode.UNKNOWN_MEMBER_ID))

    def another_request(self, connection: int) -> None:
        """A request has come on this connection: what waits there stands in its way."""
        if self.recalls is not None:
            self.recalls.another_request(connection)
        self._make_way(connection)

    def _make_way(self, connection: int) -> None:
        for served in self._on(connection):
            served.wire.another_request(self.clock(), connection)
            self.touched(served)

    def disconnected(self, connection: int) -> None:
        """A client's connection is gone."""
        for served in self._on(connection):
            served.connections.discard(connection)
            served.wire.disconnected(self.clock(), connection)
            self.touched(served)
        self._of_connection.pop(connection, None)
        if self.recalls is not None:
            self.recalls.disconnected(connection)

    def agents(self, group: str) -> list[tuple[WireMember, Agent]]:
        """The members of a group here, with their agents."""
        found = self.groups.get(group)
        return [(one.wire, one.agent) for one in found.members.values()] if found else []

    def close(self) -> None:
        """The gateway ends: its clients find another one, for which their places wait; without
        memory they leave.
        """
        self.closing = True
        for group in list(self.groups.values()):
            for served in list(group.members.values()):
                served.wire.hand_over("the gateway ends")
                self.touched(served)
        self._leaving.cut_short()

    @property
    def leaving(self) -> int:
        """How many members are over whose session is not yet."""
        return len(self._leaving)

    def is_leaving(self, group: str) -> bool:
        """Whether members of a group are on their way out here."""
        return self._leaving.is_any_of(group)

    @property
    def finished(self) -> bool:
        """Whether no session is left."""
        return not self._leaving and not any(g.members for g in self.groups.values())

    # clients of other gateways

    def _restore(self, name: str, client: RememberedClient) -> None:
        if self.closing:
            return
        group = self.groups.setdefault(name, self._group(name))
        here = group.members.get(client.member_id)
        other = group.of_instance(client.instance) if client.instance is not None else None
        if here is not None and here.wire.is_behind(client.generation):
            self._give_way(group, here, "another gateway has served its client since")
        elif other is not None and not other.is_after(client, group.fenced):
            self._give_way(group, other, "another client has its instance, at another gateway")
        served = self.newcomers.restore(group, client)
        if served is not None:
            served.remembered = True
            self.taken_over += 1
            if self.memory is not None:
                self.memory.claim(name, client, lambda: self._too_late(served))
            self.touched(served)
        self._drop_if_empty(group)

    def _too_late(self, served: ServedMember) -> None:
        served.wire.leave("the gateway before has taken it for gone")
        self.touched(served)

    def _give_way(self, group: WireGroup, served: ServedMember, why: str) -> None:
        """What is known of it here is void."""
        served.wire.hand_over(why)
        self.touched(served)
        self.groups[group.name] = group

    def _recalled(self, waiting: WaitingRequest) -> None:
        if self.closing:
            return self._refuse_recalled(waiting, WireCode.NOT_COORDINATOR)
        is_nobody = unknown(waiting.request, self.groups.get(waiting.request.group))
        if is_nobody and self.not_here(waiting):
            return None
        self._serve_request(waiting.ticket, waiting.caller, waiting.request)
        if waiting.overtaken:
            self._make_way(waiting.caller.connection)
        return None

    def _is_none(self, rival: ServedMember) -> None:
        if (group := self.groups.get(rival.group)) is not None and not rival.closing:
            self._give_way(group, rival, "its registration is gone")
            self._drop_if_empty(group)

    def _refuse_recalled(self, waiting: WaitingRequest, code: WireCode) -> None:
        self.answer(waiting.ticket, refusal(waiting.request, code))

    # JoinGroup

    def _join(self, ticket: int, caller: Caller, request: JoinRequest) -> None:
        wishes = judge(request, self.limits)
        if isinstance(wishes, WireCode):
            return self.answer(ticket, JoinAnswer(wishes, request.member_id))
        group = self.groups.setdefault(request.group, self._group(request.group))
        group.forget_pending(self.clock())
        assignors = wishes.assignors
        served = self.newcomers.who_joins(ticket, caller, request, group, assignors)
        if served is None:
            self._drop_if_empty(group)
            return None
        if served.wishes.assignors != assignors:
            if served.begun_anew_ms is not None and self.clock() < served.begun_anew_ms + ANEW_MS:
                busy = JoinAnswer(WireCode.REBALANCE_IN_PROGRESS, served.wire.member_id)
                return self.answer(ticket, busy)
            served.wire.hand_over("it names other assignors now")
            self.touched(served)
            self.groups[request.group] = group
            served = self.newcomers.begin_anew(served, caller, request, group, assignors)
            served.begun_anew_ms = self.clock()
        served.wire.client_id, served.wire.host = caller.client_id, caller.host
        served.wire.join(self.clock(), ticket, caller.connection, request, wishes, group.is_forming)
        self._attach(served, caller.connection)
        return self.touched(served)

    def _serve(self, wire: WireMember, wishes: AgentWishes) -> ServedMember:
        holder: list[ServedMember] = []

        def told(message: msg.ToFetcher) -> None:
            self.post(lambda: self._told(holder[0], message))

        def after() -> None:
            if holder:
                self.touched(holder[0])

        served = ServedMember(wishes.group, wire, self.make_agent(wishes, told, after), wishes)
        holder.append(served)
        return served

    # the others

    def _sync(self, ticket: int, caller: Caller, request: SyncRequest) -> None:
        served, code = self._member(request.group, request.member_id, request.instance)
        if served is None:
            return self.answer(ticket, SyncAnswer(code))
        if request.protocol_type not in ("", CONSUMER):
            return self.answer(ticket, SyncAnswer(WireCode.INCONSISTENT_GROUP_PROTOCOL))
        is_patient = caller.is_shared or served.wire.protocol in WAITING
        served.patient_since_ms = self.clock() if is_patient else None
        served.wire.others_move(self.clock(), self.groups[served.group].moves.until_ms(served))
        served.wire.sync(self.clock(), ticket, caller.connection, request)
        self._attach(served, caller.connection)
        return self.touched(served)

    def _heartbeat(self, ticket: int, caller: Caller, request: HeartbeatRequest) -> None:
        served, code = self._member(request.group, request.member_id, request.instance)
        if served is None:
            return self.answer(ticket, BeatAnswer(code))
        ask_again = self.groups[served.group].has_news_for(served)
        served.wire.heartbeat(self.clock(), ticket, caller, request, ask_again)
        self._attach(served, caller.connection)
        return self.touched(served)

    def _commit(self, ticket: int, caller: Caller, request: CommitRequest) -> None:
        served, code = self._member(request.group, request.member_id, request.instance)
        if served is None:
            return self.answer(ticket, CommitAnswer(code))
        served.wire.commit(self.clock(), ticket, caller.connection, request)
        self._attach(served, caller.connection)
        return self.touched(served)

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
                self.touched(served)
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
        if served.drain is not None:
            for answer in served.drain.told(self.clock(), message):
                self.tell(served, answer)
        else:
            if isinstance(message, msg.Assigned):
                self._remembering.again(served)
            elif isinstance(message, msg.Starting):
                self._remembering.foresee(served, message.partitions)
            served.wire.told(self.clock(), message)
            alone = self.memory is not None and served.wire.presence.gone_ms is not None
            if isinstance(message, msg.Lost) and alone and not served.wire.held:
                # it may be at another gateway, which has taken it over: this one must not do so
                served.wire.hand_over("its membership is lost, and its client is not here")
        self.touched(served)
        if isinstance(message, msg.Assigned):
            self._remembering.forget(served)

    def touched(self, served: ServedMember) -> None:
        """Do what it wants done, and note when it is due again."""
        for action in served.wire.take():
            match action:
                case Reply():
                    self.answer(action.ticket, action.answer)
                case Tell():
                    self.tell(served, action.message)
                case Begin():
                    self.begin(served.group, action.ask, lambda answer: self.tell(served, answer))
                case Remember():
                    self._remembering.remember(served, action.ticket)
                case Gone():
                    self._gone(served, action)
        while served.unwritten and served.agent.registered:
            self._remembering.remember(served, served.unwritten.pop())
        if served.closing and served.agent.finished:
            self._leaving.ended(served)
        self._note_wake(served)
        self._note_moves(served)

    def _note_moves(self, served: ServedMember) -> None:
        """Who waits for an assignment hears how long what others give up is worth waiting for."""
        group = self.groups.get(served.group)
        if group is None or not group.moves.note(self.clock(), served):
            return
        for one in tuple(group.members.values()):
            if one.wire.parked_sync is not None:
                one.wire.others_move(self.clock(), group.moves.until_ms(one))
                self.touched(one)

    def tell(self, served: ServedMember, message: msg.FromFetcher) -> None:
        """Tell its agent, soon."""

        def tell() -> None:
            served.agent.receive(message)
            self.touched(served)

        self.post(tell)

    def _gone(self, served: ServedMember, gone: Gone) -> None:
        group = self.groups.get(served.group)
        if group is not None:
            group.forget(served)
            self._drop_if_empty(group)
        for connection in served.connections:
            self._of_connection.get(connection, {}).pop(id(served), None)
        self._remembering.forget(served)
        self._leaving.begin(served, gone.ending)
        inconsistent = gone.code is WireCode.INCONSISTENT_GROUP_PROTOCOL
        if inconsistent:
            self.newcomers.send_away(served.group, served.wire.member_id)
        log.log(
            logging.WARNING if inconsistent else logging.INFO,
            "member %s leaves group %s: %s",
            shown(served.wire.member_id),
            shown(served.group),
            gone.reason,
        )

    def _group(self, name: str) -> WireGroup:
        return WireGroup(name, Moves(self.times, self._pace))

    def _drop_if_empty(self, group: WireGroup) -> None:
        if group.is_empty:
            self.groups.pop(group.name, None)

    # connections

    def _attach(self, served: ServedMember, connection: int) -> None:
        if not served.closing:
            served.connections.add(connection)
            self._of_connection.setdefault(connection, {})[id(served)] = served

    def _on(self, connection: int) -> Iterator[ServedMember]:
        yield from tuple(self._of_connection.get(connection, {}).values())

    # time

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._wakes.next_ms()

    def tick(self) -> None:
        """Do what is due."""
        now = self.clock()
        while (served := self._wakes.pop(now)) is not None:
            served.wire.tick(now)
            if served.drain is not None:
                for message in served.drain.tick(now):
                    self.tell(served, message)
            agent_ms = served.agent.next_wake_ms()
            if agent_ms is not None and agent_ms <= now:
                served.agent.tick()
            self.touched(served)

    def _note_wake(self, served: ServedMember) -> None:
        drain_ms = served.drain.next_wake_ms() if served.drain is not None else None
        times = [served.wire.next_wake_ms(), drain_ms, served.agent.next_wake_ms()]
        due = [ms for ms in times if ms is not None]
        self._wakes.note(served, min(due) if due else None)
