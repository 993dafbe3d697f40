"""Coordinators and a gateway before a model of ZooKeeper, as the side that scenarios of classic
groups are played against: what the machine answers, through nodes.

The gateway is only what asks: it makes requests' nodes and reads answers, and answers itself what
only reads (`ClassicView`). Who is heard of is told by a presence that comes and goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.sim.client import SimPort
from tests.sim.kernel import Host, Kernel
from tests.sim.zookeeper import SimEnsemble, Weather
from zkcoord.core.classic.requests import (
    BlobRef,
    ClassicAnswer,
    ClassicBeat,
    ClassicDescribe,
    ClassicJoined,
    ClassicRequest,
    ClassicSaid,
    ClassicSynced,
    CommitCheck,
    Opaque,
)
from zkcoord.core.classic.state import ClassicOptions, ClassicPhase
from zkcoord.core.error_codes import WireCode
from zkcoord.core.events import Record
from zkcoord.core.model import Malformed, Registrants
from zkcoord.zk.classic.classic_groups import ClassicGroups
from zkcoord.zk.classic.figures import ClassicFigures
from zkcoord.zk.port import OPEN_ACL, Create, Delete, Fired, Op, Port, PortEvent, SetData, WatchMode
from zkcoord.znodes.classic.documents import (
    ClassicAsk,
    decode_answer,
    decode_round,
    decode_state,
    encode_ask,
)
from zkcoord.znodes.classic.paths import ClassicPaths, request_name
from zkcoord.znodes.classic.view import ClassicView
from zkcoord.znodes.paths import Layout, parents

GROUP = "g"
STILL = Weather(latency_max_ms=0, lag_max_ms=0)
SETTLED_MS = 3
WAKES_MAX = 10_000
SESSION_MS = 600_000
WALL_MS = 1_700_000_000_000
PATHS = ClassicPaths(Layout.DRAFT)


class ServedSide:
    """See the module."""

    def __init__(self, options: ClassicOptions, seed: int = 1, weather: Weather = STILL) -> None:
        self.options = options
        self.kernel = Kernel(seed)
        self.zk = SimEnsemble(self.kernel, 1, weather)
        self.records: list[Record] = []
        self.failures: list[str] = []
        self.registered: dict[str, Registrants] = {}  # whom the coordinator assigns, by group
        self.looks = 0  # how often it was asked for that
        self.groups: ClassicGroups | None = None
        self.names: dict[int, str] = {}
        self.answers: dict[int, ClassicAnswer] = {}
        self.tickets = 0
        self.coordinator = self._open("coordinator", self._fired)
        self.gateway = self._open("gateway", lambda event: None)
        above = [*parents(PATHS.groups), PATHS.groups, PATHS.requests]
        for path in above:
            self.write([Create(path, b"")])
        self.restart()

    def _open(self, name: str, on_event: Callable[[PortEvent], None]) -> SimPort:
        port = self.zk.open_for(Host(self.kernel, name), SESSION_MS).open(on_event)
        self.settle()
        return port

    def _fired(self, event: PortEvent) -> None:
        if isinstance(event, Fired) and self.groups is not None:
            self.groups.fired(event)

    def restart(self) -> None:
        """Another coordinator leads."""
        if self.groups is not None:
            self.groups.lost()
            self.coordinator.close()
            self.settle()
            self.coordinator = self._open("another", self._fired)
        self.coordinator.watch(Layout.DRAFT.groups_root, WatchMode.RECURSIVE, lambda result: None)
        self.groups = self.made(self.coordinator)
        self.groups.begin()
        self.settle()

    def made(self, port: Port, **more: Any) -> ClassicGroups:
        """A term's, on this port, which has not begun."""
        return ClassicGroups(
            port,
            Layout.DRAFT,
            self.zk.tree.nodes[Layout.DRAFT.epoch].version,
            OPEN_ACL,
            lambda: self.kernel.now,
            self.records.append,
            self.failures.append,
            self._registered,
            options=self.options,
            figures=ClassicFigures(lambda: WALL_MS + self.kernel.now),
            cpu_ns=lambda: 0,
            **more,
        )

    def _registered(self, group: str) -> Registrants:
        self.looks += 1
        return self.registered.get(group, Registrants.NOBODY)

    def settle(self) -> None:
        """What is under way ends."""
        self.kernel.run_until(self.kernel.now + SETTLED_MS)
        self._hear()

    def write(self, ops: list[Op]) -> None:
        """By the gateway."""
        self.gateway.multi(ops, lambda result: None)
        self.settle()

    def set(self, path: str, data: bytes) -> None:
        """By the gateway."""
        self.write([SetData(path, data, -1)])

    # a side of scenarios

    def send(self, request: ClassicRequest, version: int) -> int:
        """Ask; the ticket."""
        self.tickets += 1
        if isinstance(request, (ClassicBeat, CommitCheck, ClassicDescribe)):
            self.answers[self.tickets] = self._read(request)
            return self.tickets
        name = request_name(GROUP)
        whole, *parts = encode_ask(ClassicAsk(GROUP, request))
        for number, part in enumerate(parts, 1):
            self.write([Create(PATHS.part(name, number), part, ephemeral=True)])
        self.write([Create(PATHS.request(name), whole, ephemeral=True)])
        self.names[self.tickets] = name
        return self.tickets

    def view(self) -> ClassicView:
        """What everybody can tell."""
        state, begun = self.data(PATHS.state(GROUP)), self.data(PATHS.round(GROUP))
        decided = None if state is None else decode_state(GROUP, state)
        since = decode_round(GROUP, begun or b"")
        assert not isinstance(decided, Malformed) and not isinstance(since, Malformed)
        return ClassicView(decided, since)

    def data(self, path: str) -> bytes | None:
        """Of a node."""
        node = self.zk.tree.nodes.get(path)
        return None if node is None else node.data

    def _read(self, request: ClassicBeat | CommitCheck | ClassicDescribe) -> ClassicAnswer:
        view = self.view()
        if isinstance(request, ClassicDescribe):
            said = view.described()
            return replace(
                said,
                members=tuple(
                    replace(
                        one,
                        metadata=self._bytes(one.metadata),
                        assignment=self._bytes(one.assignment),
                    )
                    for one in said.members
                ),
            )
        beats = isinstance(request, ClassicBeat)
        code = view.beat(request) if isinstance(request, ClassicBeat) else view.commit(request)
        is_heard = code is WireCode.NONE or (beats and code is WireCode.REBALANCE_IN_PROGRESS)
        if is_heard and view.member(request.member_id) is not None:
            path = PATHS.presence(GROUP, request.member_id)
            self.write([Create(path, b"", ephemeral=True), Delete(path)])
        return ClassicSaid(code)

    def answer(self, ticket: int, patient: bool) -> ClassicAnswer | None:
        """The answer, if there is one."""
        self.settle()
        self._tick()
        return self.answers.get(ticket)

    def _hear(self) -> None:
        """Read all answers that there are, before what they name is deleted."""
        for ticket, name in list(self.names.items()):
            data = self.data(PATHS.request(name))
            found = None if data is None else decode_answer(name, data)
            assert not isinstance(found, Malformed), found
            if found is not None:
                self.answers[ticket] = self._with_bytes(found)
                del self.names[ticket]
                self.gateway.multi([Delete(PATHS.request(name))], lambda result: None)

    def _with_bytes(self, answer: ClassicAnswer) -> ClassicAnswer:
        match answer:
            case ClassicJoined():
                peers = tuple(
                    replace(one, metadata=self._bytes(one.metadata)) for one in answer.members
                )
                return replace(answer, members=peers)
            case ClassicSynced():
                return replace(answer, assignment=self._bytes(answer.assignment))
            case _:
                return answer

    def _bytes(self, data: Opaque) -> bytes:
        if isinstance(data, BlobRef):
            found = self.data(PATHS.blob(GROUP, data.digest))
            assert found is not None and len(found) == len(data)
            return found
        return data

    def _tick(self) -> None:
        assert self.groups is not None
        for _ in range(WAKES_MAX):
            wake = self.groups.next_wake_ms()
            if wake is None or wake > self.kernel.now:
                return
            self.groups.tick()
            self.settle()
        raise AssertionError("it wants to be woken again and again")

    def wait(self, ms: int) -> None:
        """From one time at which it wants to be woken to the next."""
        self._until(self.kernel.now + ms, lambda: False)

    def _until(self, until_ms: int, stop: Callable[[], bool]) -> None:
        assert self.groups is not None
        while self.kernel.now < until_ms and not stop():
            wake = self.groups.next_wake_ms()
            self.kernel.run_until(until_ms if wake is None else min(until_ms, wake))
            self._tick()

    def machine_only(self, word: str, rest: list[str], names: dict[str, str]) -> str:
        """What can be seen of it."""
        if word == "form":
            self._until(self.kernel.now + SESSION_MS, lambda: self.phase is not PREPARING)
        elif word == "is":
            said = f"{self.phase.value} gen={self.view().state.generation}"
            return "" if said.startswith(rest[0]) else f"it is {said}"
        elif word == "restart":
            self.restart()
        return ""

    @property
    def phase(self) -> ClassicPhase:
        """The machine's state."""
        assert self.groups is not None
        group = self.groups.group(GROUP)
        return ClassicPhase.EMPTY if group is None else group.phase


PREPARING = ClassicPhase.PREPARING
