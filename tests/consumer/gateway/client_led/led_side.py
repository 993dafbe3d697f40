"""A gateway's part of client-led groups, before a model of ZooKeeper with a coordinator: what its
clients ask, and are answered. Time is the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from consumer.gateway.client_led.commits import Codes, MembersCommit, Storing
from consumer.gateway.client_led.groups import LedGroups
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.actions import GroupLimits, WireTimes
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
)
from tests.sim.kernel import Host
from tests.zk.classic.served_side import GROUP, PATHS, SESSION_MS, ServedSide
from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicBeat,
    ClassicDelete,
    ClassicDescribe,
    ClassicJoin,
    ClassicJoined,
    ClassicLeave,
    ClassicLeft,
    ClassicRequest,
    ClassicSaid,
    ClassicSync,
    ClassicSynced,
    CommitCheck,
    JoinedPeer,
    Opaque,
)
from zkcoord.core.classic.state import ClassicOptions, ClassicPhase
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import OPEN_ACL
from zkcoord.znodes.paths import Layout

TP = TopicPartition("t", 0)
LIMITS = GroupLimits(min_session_timeout_ms=100)
TIMES = WireTimes()
STEP_MS, STEPS_MAX = 20, 1_000


class Stored:
    """Stores offsets, while the state is what it was."""

    def __init__(self, side: ServedSide) -> None:
        self.side = side
        self.offsets: dict[TopicPartition, tuple[int, str]] = {}
        self.before: Callable[[], None] = lambda: None
        self.forward: list[bool] = []
        self.overtaken = False

    def commit_of_member(self, commit: MembersCommit, codes: Codes) -> Iterator[bool]:
        """See `CommitsOfMembers`."""
        self.before()
        self.forward.append(commit.forward)
        node = self.side.zk.tree.nodes.get(PATHS.state(commit.group))
        if self.overtaken or node is None or node.version != commit.version:
            yield True
            return
        self.offsets |= commit.offsets
        codes |= dict.fromkeys(commit.offsets, WireCode.NONE)
        yield False


class LedGateway:
    """One gateway's groups. `answers` by ticket; each is given once."""

    def __init__(self, side: ServedSide, name: str, session_ms: int = SESSION_MS) -> None:
        self.side = side
        self.answers: dict[int, Answer] = {}
        self.tickets = 0
        self.ids = 0
        self.name = name
        self.host = Host(side.kernel, name)
        self.stored = Stored(side)
        self.session = OwnSession(side.zk.open_for(self.host, session_ms), lambda: side.kernel.now)
        self.led = LedGroups(
            self.session,
            Layout.DRAFT,
            OPEN_ACL,
            Storing(self.stored, self._on_pool, self._post),
            lambda: side.kernel.now,
            self._answered,
            self._random,
            LIMITS,
            TIMES,
            f"{name}:9192",
        )
        self.session.start()
        self.settle()

    def _post(self, work: Callable[[], None]) -> None:
        self.host.after(0, work)

    def _on_pool(self, work: Callable[[], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work())
        return done

    def _random(self) -> str:
        self.ids += 1
        return f"{self.name}{self.ids}"

    def _answered(self, ticket: int, answer: Answer) -> None:
        assert ticket not in self.answers, "it is answered twice"
        self.answers[ticket] = answer

    def ask(self, request: Request, connection: int = 1, parks: bool = False) -> int:
        """A client's request; the ticket."""
        self.tickets += 1
        ticket = self.tickets
        caller = Caller(connection, f"c{connection}", "host", "lib 1" if parks else "")
        self.led.another_request(connection)
        self.led.when_seen(self.led.open(request.group), ticket, caller, request)
        self.settle()
        return ticket

    def settle(self) -> None:
        """What is under way ends."""
        self.side.settle()
        self.tick()

    def next_wake_ms(self) -> int | None:
        """When something is due."""
        wakes = (self.led.next_wake_ms(), self.session.next_wake_ms())
        return min((one for one in wakes if one is not None), default=None)

    def tick(self) -> None:
        """Do what is due."""
        for driver in (self.session, self.led):
            wake = driver.next_wake_ms()
            if wake is not None and wake <= self.side.kernel.now:
                driver.tick()
                self.side.settle()


class LedSide:
    """The side of scenarios: each client has a connection of its own to one gateway."""

    def __init__(self, options: ClassicOptions) -> None:
        self.served = ServedSide(options)
        self.gateway = LedGateway(self.served, "gateway")
        self.said: dict[int, ClassicAnswer] = {}

    def send(self, request: ClassicRequest, version: int) -> int:
        """See `Side`."""
        wire = to_wire(request)
        if wire is not None:
            return self.gateway.ask(wire)
        self.gateway.tickets += 1
        ticket = self.gateway.tickets
        if isinstance(request, ClassicDelete):
            said = self.said
            self.gateway.led.delete(GROUP, lambda code: said.__setitem__(ticket, ClassicSaid(code)))
        else:
            self.said[ticket] = self.served.answers[self.served.send(request, version)]
        self.gateway.settle()
        return ticket

    def answer(self, ticket: int, patient: bool) -> ClassicAnswer | None:
        """See `Side`."""
        self._advance(self.served.kernel.now)
        if ticket in self.said:
            return self.said[ticket]
        answer = self.gateway.answers.get(ticket)
        return None if answer is None else from_wire(answer)

    def wait(self, ms: int) -> None:
        """See `Side`."""
        self._advance(self.served.kernel.now + ms)

    def machine_only(self, word: str, rest: list[str], names: dict[str, str]) -> str:
        """See `Side`: who is told to join again hears it by its heartbeat."""
        if word != "form":
            return ""
        for _ in range(STEPS_MAX):
            if self.served.phase is not ClassicPhase.PREPARING:
                return ""
            self.wait(STEP_MS)
        return "it does not form"

    def _advance(self, until_ms: int) -> None:
        while True:
            wakes = [until_ms, self.gateway.next_wake_ms(), self._coordinators_wake_ms()]
            at_ms = min(one for one in wakes if one is not None)
            self.served.kernel.run_until(max(at_ms, self.served.kernel.now))
            self.gateway.settle()
            self.served.answer(0, False)
            if at_ms >= until_ms:
                return

    def _coordinators_wake_ms(self) -> int | None:
        return self.served.groups.next_wake_ms() if self.served.groups is not None else None


def to_wire(request: ClassicRequest) -> Request | None:
    """As a client asks it; None: that is no member's."""
    match request:
        case ClassicJoin():
            return JoinRequest(
                GROUP,
                request.member_id,
                request.session_timeout_ms,
                request.rebalance_timeout_ms,
                request.protocol_type,
                tuple((name, bytes_of(data)) for name, data in request.protocols),
                request.instance,
                request.named_first,
                request.may_skip,
                request.reason,
            )
        case ClassicSync():
            return SyncRequest(
                GROUP,
                request.member_id,
                request.generation,
                request.instance,
                request.protocol_type or "",
                request.protocol or "",
                tuple((name, bytes_of(data)) for name, data in request.assignments),
            )
        case ClassicBeat():
            return HeartbeatRequest(GROUP, request.member_id, request.generation, request.instance)
        case ClassicLeave():
            named = tuple((one.member_id, one.instance) for one in request.members)
            return LeaveRequest(GROUP, named, True, tuple(one.reason for one in request.members))
        case CommitCheck() if not request.in_transaction and request.generation >= 0:
            offsets = {TP: (1, "")}
            return CommitRequest(
                GROUP, request.member_id, request.generation, offsets, request.instance
            )
        case ClassicDescribe() | ClassicDelete() | CommitCheck():
            return None


def from_wire(answer: Answer) -> ClassicAnswer:
    """As the coordinator would say it."""
    match answer:
        case JoinAnswer() if answer.code is not WireCode.NONE:
            return ClassicJoined(answer.code, answer.member_id)
        case JoinAnswer():
            return ClassicJoined(
                answer.code,
                answer.member_id,
                answer.generation,
                answer.protocol_type or None,
                answer.protocol or None,
                answer.leader,
                tuple(JoinedPeer(*one) for one in answer.members),
                answer.skip_assignment,
            )
        case SyncAnswer():
            given = answer.opaque or b""
            kind = answer.protocol_type if answer.code is WireCode.NONE else None
            return ClassicSynced(answer.code, kind, answer.protocol or None, given)
        case BeatAnswer():
            return ClassicSaid(answer.code)
        case LeaveAnswer():
            return ClassicLeft(answer.code, answer.members)
        case CommitAnswer():
            return ClassicSaid(answer.others.get(TP, answer.code))


def bytes_of(data: Opaque) -> bytes:
    """Of what a client says itself."""
    assert isinstance(data, bytes)
    return data
