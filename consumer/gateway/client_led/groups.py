"""All members of client-led groups that this gateway serves. The elected coordinator decides; here
is asked, answered from what was decided, and watched over the clients.

Everything here runs on the members' loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from consumer.gateway.client_led.asking import Asking
from consumer.gateway.client_led.commits import LedCommits, Storing
from consumer.gateway.client_led.group import LedAsk, LedGroup, WaitingLed
from consumer.gateway.client_led.member import LedMember
from consumer.gateway.client_led.presences import Presences
from consumer.gateway.client_led.translating import (
    drawn_id,
    joined,
    left,
    refs_of,
    synced,
    to_beat,
    to_join,
    to_leave,
    to_sync,
)
from consumer.gateway.client_led.waiting import WaitingForGroups
from consumer.gateway.client_led.watching import LedSeen, Watching
from consumer.gateway.operation.led.owners import CommitsOfOthers
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.actions import GroupLimits, WireTimes
from consumer.gateway.wire.requests import (
    Answer,
    BeatAnswer,
    Caller,
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
from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicDelete,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicSync,
    ClassicSynced,
    Leaver,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.zk.port import AclEntry, Fired, Port
from zkcoord.zk.wakes import Wakes
from zkcoord.znodes.classic.documents import ClassicAsk
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

ASK_MS = 10_000
"""What the coordinator has for an answer; clients that wait for others have it besides."""


class LedGroups:
    """See the module. `answer` takes each answer with its ticket, once; `new_id` makes a member
    id's random part; `gateway` is where clients find it; `serve` takes requests that have waited
    until their group was read, `looked` each group that was read. A driver of the members' loop,
    and a user of the gateway's own session.
    """

    def __init__(
        self,
        session: OwnSession,
        layout: Layout,
        acl: tuple[AclEntry, ...],
        storing: Storing,
        clock: Callable[[], int],
        answer: Callable[[int, Answer], None],
        new_id: Callable[[], str],
        limits: GroupLimits,
        times: WireTimes,
        gateway: str = "",
    ) -> None:
        self.clock = clock
        self.answer = answer
        self.limits = limits
        self.times = times
        self.groups: dict[str, LedGroup] = {}
        self.serve: Callable[[LedGroup, WaitingLed], None] = self.request
        self.looked: Callable[[LedGroup], None] = lambda group: None
        self._session = session
        session.use(self)
        self._new_id = new_id
        paths = ClassicPaths(layout)
        self.asking = Asking(paths, acl, clock)
        self.watching = Watching(paths, self._seen)
        self._presences = Presences(paths, acl, self._moved, gateway)
        self._commits = LedCommits(storing, self.watching, answer, session, clock)
        self.of_others = CommitsOfOthers(self.watching.blobs)
        self._wakes: Wakes[LedMember] = Wakes()
        self._waiting = WaitingForGroups(clock)
        self._members_of: dict[int, dict[int, LedMember]] = {}  # of connections
        self._asks_of: dict[int, set[LedAsk]] = {}

    # the session

    def connected(self, port: Port, new: bool) -> None:
        """See `UsesSession`."""
        self.watching.connected(port, new)
        self._presences.connected(port, self._session.session_id, new)
        self.asking.connected(port, new)

    def fired(self, event: Fired) -> None:
        """See `UsesSession`."""
        if not self.asking.fired(event):
            self.watching.fired(event)
            self._presences.fired(event)

    # groups

    def open(self, name: str) -> LedGroup:
        """A group that is served here from now on, as long as anything concerns it."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = LedGroup(name)
            self.watching.watch(name)
        return group

    def when_seen(self, group: LedGroup, ticket: int, caller: Caller, request: Request) -> None:
        """`serve` a request once what was decided of its group is known."""
        if not group.waiting and self.watching.is_current(group.name):
            self.serve(group, WaitingLed(ticket, caller, request, 0))
            self.drop_if_idle(group)
        elif not self._waiting.add(group, ticket, caller, request):
            self.answer(ticket, refusal(request, WireCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self.watching.ask_again(group.name)

    def drop_if_idle(self, group: LedGroup) -> None:
        """Nothing of it is kept once nothing concerns it."""
        if group.is_idle and self.groups.get(group.name) is group:
            del self.groups[group.name]
            self.watching.forget(group.name)
            self.of_others.forget(group.name)

    def _seen(self, name: str, seen: LedSeen) -> None:
        group = self.groups[name]
        for member, code in tuple(group.look(seen)):
            if group.is_over(member):
                self._forget(group, member, code)
            else:
                member.end_beat(self.clock(), code)
                self._touched(member)
        for member in tuple(group.members.values()):
            self._commits.go_on(group, member)
        self.looked(group)
        while group.waiting and self.watching.is_current(name):
            self.serve(group, self._waiting.next_of(group))
        self.drop_if_idle(group)

    # requests

    def request(self, group: LedGroup, waiting: WaitingLed) -> None:
        """Answer a request, now or later."""
        ticket, caller, request = waiting.ticket, waiting.caller, waiting.request
        match request:
            case JoinRequest():
                self._join(group, ticket, caller, request)
            case SyncRequest():
                self._sync(group, ticket, caller, request)
            case HeartbeatRequest():
                self._heartbeat(group, ticket, caller, request)
            case LeaveRequest():
                self._leave(group, ticket, request)
            case CommitRequest():
                member = self._served(group, caller, request.member_id, request.instance)
                if self._commits.commit(group, member, ticket, caller, request) and member:
                    self._heard(member, caller)
                    state, version = group.view.state, group.seen.version
                    self.of_others.committed(
                        group.name, state, version, member.member_id, request.offsets
                    )
            case MayCommitRequest():
                may = self._commits.may_commit(group, ticket, request)
                if may and not request.in_transaction:  # those come from its producer
                    member = self._served(group, caller, request.member_id, request.instance)
                    if member is not None:
                        self._heard(member, caller)

    def _join(self, group: LedGroup, ticket: int, caller: Caller, request: JoinRequest) -> None:
        fresh = drawn_id(request, caller, self._new_id())
        join = to_join(request, caller, fresh, self.limits)
        if isinstance(join, WireCode):
            return self.answer(ticket, JoinAnswer(join, request.member_id))
        refused = JoinAnswer(WireCode.NOT_COORDINATOR, request.member_id)
        member = self._served(group, caller, request.member_id, request.instance)
        ask = LedAsk(group, ticket, caller.connection, refused, member, join, caller.library)
        longest = max(request.rebalance_timeout_ms, request.session_timeout_ms)
        return self._ask(ask, caller, join, longest, self._joined)

    def _sync(self, group: LedGroup, ticket: int, caller: Caller, request: SyncRequest) -> None:
        sync = to_sync(request)
        if isinstance(sync, WireCode):
            return self.answer(ticket, SyncAnswer(sync))
        code = group.view.knows(request.member_id, request.instance)
        member = self._served(group, caller, request.member_id, request.instance)
        if code is not WireCode.NONE or member is None:
            return self.answer(ticket, SyncAnswer(code))
        current = group.view.member(request.member_id)
        longest = current.rebalance_timeout_ms if current is not None else 0
        refused = SyncAnswer(WireCode.NOT_COORDINATOR)
        ask = LedAsk(group, ticket, caller.connection, refused, member)
        return self._ask(ask, caller, sync, longest, self._synced)

    def _heartbeat(
        self, group: LedGroup, ticket: int, caller: Caller, request: HeartbeatRequest
    ) -> None:
        beats = to_beat(request)
        code = group.beat(beats)
        member = self._served(group, caller, request.member_id, request.instance)
        if member is None or code not in (WireCode.NONE, WireCode.REBALANCE_IN_PROGRESS):
            return self.answer(ticket, BeatAnswer(code))
        self._attach(member, caller.connection)
        member.heartbeat(self.clock(), ticket, caller, beats, code)
        return self._touched(member)

    def _leave(self, group: LedGroup, ticket: int, request: LeaveRequest) -> None:
        leave = to_leave(request)
        if isinstance(leave, WireCode):
            codes = tuple(leave for _ in request.members)
            return self.answer(ticket, LeaveAnswer(leave, codes))

        def answered(answer: ClassicAnswer) -> None:
            if isinstance(answer, ClassicLeft):
                self._have_left(group, leave.members, answer)
                self.answer(ticket, left(request, answer))
                self.drop_if_idle(group)

        # who leaves does not always wait for the answer
        self.asking.ask(ClassicAsk(group.name, leave), ASK_MS, answered)
        return None

    def _have_left(self, group: LedGroup, leavers: Iterable[Leaver], answer: ClassicLeft) -> None:
        for one, code in zip(leavers, answer.members, strict=False):
            member_id = one.member_id
            if not member_id and one.instance is not None:
                member_id = group.view.of_instance(one.instance) or ""
            member = group.members.get(member_id)
            if code is WireCode.NONE and member is not None:
                self._forget(group, member, WireCode.UNKNOWN_MEMBER_ID)

    # what the coordinator is asked

    def _ask(
        self,
        ask: LedAsk,
        caller: Caller,
        request: ClassicJoin | ClassicSync,
        longest_ms: int,
        ended: Callable[[LedAsk, ClassicAnswer], None],
    ) -> None:
        ask.group.asks.add(ask)
        self._asks_of.setdefault(ask.connection, set()).add(ask)
        if ask.member is not None:
            self._heard(ask.member, caller)
            ask.member.waits += 1
            self._touched(ask.member)

        def answered(answer: ClassicAnswer) -> None:
            self._over(ask)
            ended(ask, answer)
            self.drop_if_idle(ask.group)

        within_ms = ASK_MS + max(0, longest_ms)
        ask.handle = self.asking.ask(ClassicAsk(ask.group.name, request), within_ms, answered)

    def _over(self, ask: LedAsk) -> None:
        ask.group.asks.discard(ask)
        asks = self._asks_of.get(ask.connection, set())
        asks.discard(ask)
        if not asks:
            self._asks_of.pop(ask.connection, None)
        if ask.member is not None:
            ask.member.answered(self.clock())
            self._touched(ask.member)
            self._let_go(ask.group, ask.member.member_id)

    def _take_back(self, ask: LedAsk) -> None:
        """Its client waits no more. Who has not been told its id cannot come back with it."""
        if ask.handle is not None:
            self.asking.take_back(ask.handle)
        self._over(ask)
        self.answer(ask.ticket, ask.refusal)
        self.drop_if_idle(ask.group)

    def _joined(self, ask: LedAsk, answer: ClassicAnswer) -> None:
        if not isinstance(answer, ClassicJoined) or ask.join is None:
            return
        group = ask.group
        if answer.code is WireCode.NONE:
            member = group.members.get(answer.member_id)
            if member is None:
                member = self._new(group, answer.member_id, ask.join.instance, ask.library)
            self._presences.hold(group.name, member.member_id, member.library)
            member.session_timeout_ms = ask.join.session_timeout_ms
            member.heard(self.clock(), ask.connection)
            self._attach(member, ask.connection)
            self._touched(member)
        again = JoinAnswer(WireCode.REBALANCE_IN_PROGRESS, answer.member_id)
        self._with_blobs(ask, answer, partial(joined, answer), again)

    def _synced(self, ask: LedAsk, answer: ClassicAnswer) -> None:
        if isinstance(answer, ClassicSynced):
            again = SyncAnswer(WireCode.REBALANCE_IN_PROGRESS)
            self._with_blobs(ask, answer, partial(synced, answer), again)

    def _with_blobs(
        self,
        ask: LedAsk,
        answer: ClassicJoined | ClassicSynced,
        made: Callable[[dict[str, bytes]], Answer],
        again: Answer,
    ) -> None:
        """Answer with what clients have brought for each other. What is gone was of a generation
        that is over.
        """

        def read(found: dict[str, bytes] | None) -> None:
            self.answer(ask.ticket, again if found is None else made(found))

        self.watching.blobs(ask.group.name, refs_of(answer), read)

    def delete(self, name: str, said: Callable[[WireCode], object]) -> None:
        """Have a group deleted that has no members."""

        def answered(answer: ClassicAnswer) -> None:
            said(answer.code)

        self.asking.ask(ClassicAsk(name, ClassicDelete()), ASK_MS, answered)

    def dismiss(self, group: str, member_id: str, reason: str) -> None:
        """Say that a member is gone. Where that cannot be said the coordinator finds it out by
        itself.
        """
        leave = ClassicLeave((Leaver(member_id, None, reason),))
        self.asking.ask(ClassicAsk(group, leave), ASK_MS, lambda answer: None)

    # members

    def _served(
        self, group: LedGroup, caller: Caller, member_id: str, instance: str | None
    ) -> LedMember | None:
        """The member, if it is one: from now on it is served here."""
        if group.view.knows(member_id, instance) is not WireCode.NONE:
            return None
        member = group.members.get(member_id)
        current = group.view.member(member_id)
        if member is None and current is not None:
            member = self._new(group, member_id, current.instance, caller.library)
            member.returned(self.clock())
            member.session_timeout_ms = current.session_timeout_ms
        elif member is not None:
            self._presences.hold(group.name, member_id, member.library)
        return member

    def _new(
        self, group: LedGroup, member_id: str, instance: str | None, library: str
    ) -> LedMember:
        low_ms = self.limits.min_session_timeout_ms
        member = LedMember(group.name, member_id, instance, low_ms, self.times, library)
        group.members[member_id] = member
        self._presences.hold(group.name, member_id, library)
        log.info("member %s of client-led group %s is here", shown(member_id), shown(group.name))
        return member

    def _forget(self, group: LedGroup, member: LedMember, code: WireCode) -> None:
        """It is not served here any more; `code`: what is answered of what waits."""
        del group.members[member.member_id]
        member.end_beat(self.clock(), code)
        self._reply(member)
        self._commits.end(member, code)
        for connection in member.presence.connections:
            of_connection = self._members_of.get(connection, {})
            of_connection.pop(id(member), None)
            if not of_connection:
                self._members_of.pop(connection, None)
        self._wakes.note(member, None)
        self._presences.release(group.name, member.member_id)

    def _moved(self, name: str, member_id: str) -> None:
        """Another gateway serves it now."""
        if (group := self.groups.get(name)) is not None:
            self._let_go(group, member_id)
            self.drop_if_idle(group)

    def _let_go(self, group: LedGroup, member_id: str) -> None:
        """A member that waits for nothing here any more, if it is another gateway's."""
        member = group.members.get(member_id)
        if member and not (member.waits or self._presences.holds(group.name, member_id)):
            self._forget(group, member, WireCode.NOT_COORDINATOR)

    def _heard(self, member: LedMember, caller: Caller) -> None:
        member.heard(self.clock(), caller.connection)
        self._attach(member, caller.connection)
        self._touched(member)

    def _attach(self, member: LedMember, connection: int) -> None:
        self._members_of.setdefault(connection, {})[id(member)] = member

    def _touched(self, member: LedMember) -> None:
        self._reply(member)
        group = self.groups.get(member.group)
        is_here = group is not None and group.members.get(member.member_id) is member
        self._wakes.note(member, member.next_wake_ms() if is_here else None)

    def _reply(self, member: LedMember) -> None:
        for ticket, answer in member.take():
            self.answer(ticket, answer)

    # connections

    def another_request(self, connection: int) -> None:
        """A request has come on this connection: what is parked there stands in its way."""
        for member in tuple(self._members_of.get(connection, {}).values()):
            member.another_request(self.clock(), connection)
            self._touched(member)

    def disconnected(self, connection: int) -> None:
        """A client's connection is gone: what it waits for is asked no longer."""
        for ask in tuple(self._asks_of.get(connection, ())):
            self._take_back(ask)
            if ask.join is not None and ask.join.instance is None and ask.member is None:
                member_id = ask.join.member_id or ask.join.fresh_id
                self.dismiss(ask.group.name, member_id, "its connection closed while it joined")
        for member in tuple(self._members_of.pop(connection, {}).values()):
            member.disconnected(self.clock(), connection)
            self._touched(member)
        for group, one in self._waiting.gone(connection):
            self.answer(one.ticket, refusal(one.request, WireCode.NOT_COORDINATOR))
            self.drop_if_idle(group)

    def close(self) -> None:
        """The gateway ends: its clients find another one, which goes on with them."""
        for group in tuple(self.groups.values()):
            for ask in tuple(group.asks):
                self._take_back(ask)
            self._refuse_waiting(group, WireCode.NOT_COORDINATOR)
            for member in tuple(group.members.values()):
                self._forget(group, member, WireCode.NOT_COORDINATOR)
            self.drop_if_idle(group)

    # time

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        times = (self._wakes.next_ms(), self._waiting.next_wake_ms(), self.asking.next_wake_ms())
        return min((ms for ms in times if ms is not None), default=None)

    def tick(self) -> None:
        """Do what is due."""
        now = self.clock()
        self.asking.tick()
        while (group := self._waiting.late()) is not None:
            self._refuse_waiting(group, WireCode.COORDINATOR_NOT_AVAILABLE)
            self.drop_if_idle(group)
        while (member := self._wakes.pop(now)) is not None:
            member.tick(now)
            if member.is_gone(now):
                self._gone(self.groups[member.group], member)
            else:
                self._touched(member)

    def _gone(self, group: LedGroup, member: LedMember) -> None:
        reason = "its session timeout is over" if member.presence.connections else "it is gone"
        who = shown(member.member_id), shown(group.name)
        log.info("member %s leaves client-led group %s: %s", *who, reason)
        leave = partial(self.dismiss, group.name, member.member_id, reason)
        self._presences.unless_elsewhere(group.name, member.member_id, leave)
        self._forget(group, member, WireCode.UNKNOWN_MEMBER_ID)
        self.drop_if_idle(group)

    def _refuse_waiting(self, group: LedGroup, code: WireCode) -> None:
        for one in self._waiting.all_of(group):
            self.answer(one.ticket, refusal(one.request, code))

    @property
    def members(self) -> int:
        """How many are served here."""
        return len(self._presences)
