"""Requests of clients that are unknown here: are they another gateway's?

That is read in turns, one at a time, whoever asks: strangers can name members that are not, and
each turn costs ZooKeeper a sync and one read, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from consumer.gateway.members.memory import Found, Key, Memory
from consumer.gateway.members.wire_group import ServedMember, WireGroup
from consumer.gateway.wire.requests import Caller, JoinRequest, LeaveRequest, Request
from zkcoord.core.error_codes import WireCode
from zkcoord.znodes.gateway_nodes import (
    RememberedClient,
    instance_of_client,
    is_instance_of_client,
)
from zkcoord.znodes.names import is_group, is_topic

WAITING_MAX = 10_000
KEYS_PER_TURN = 100


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """A request that waits, and what must be known for it. `overtaken`: another one has come on its
    connection meanwhile, and is not to wait for this one's answer for longer than that.
    """

    ticket: int
    caller: Caller
    request: Request
    keys: tuple[Key, ...]
    overtaken: bool = False


def unknown(request: Request, group: WireGroup | None) -> tuple[Key, ...]:
    """Where it is remembered who is named in a request and is no member of its group here, or has
    not been given the generation that it names: it may have been at another gateway since.
    """
    if not is_group(request.group):
        return ()
    if group is not None and not isinstance(request, JoinRequest | LeaveRequest):
        here = group.members.get(request.member_id)
        if here is not None and here.wire.is_behind(request.generation):
            return ((request.group, here.to_remember().node),)
    named = (
        request.members
        if isinstance(request, LeaveRequest)
        else ((request.member_id, request.instance),)
    )
    nodes: dict[str, None] = {}
    for member_id, instance in named:
        if not (member_id or instance) or (
            group is not None and _is_known(group, member_id, instance)
        ):
            continue
        if not instance:
            nodes[instance_of_client(member_id)] = None
        elif is_topic(instance) and not is_instance_of_client(instance):
            # what is no client's instance must not become a path
            nodes[instance] = None
    return tuple((request.group, node) for node in nodes)


def _is_known(group: WireGroup, member_id: str, instance: str | None) -> bool:
    """Who names an instance that another client has here may have it at another gateway."""
    if instance is not None and instance in group.instances:
        return not member_id or member_id == group.instances[instance]
    return member_id in group.members or member_id in group.pending


def _judged(request: Request, client: RememberedClient) -> WireCode:
    """NONE where a request names a remembered client as that is; else what it is answered: it moves
    nobody. Of an earlier generation is who has been told of a later one since.
    """
    match request:
        case JoinRequest():
            right = request.member_id in ("", client.member_id)
        case LeaveRequest():
            ours = [m for m, i in request.members if i == client.instance or m == client.member_id]
            right = any(member_id in ("", client.member_id) for member_id in ours)
        case _:
            right = request.member_id == client.member_id
            if right and request.generation < client.generation:
                return WireCode.ILLEGAL_GENERATION
    return WireCode.NONE if right else WireCode.FENCED_INSTANCE_ID


class Recalls:
    """See the module. `restore` is called for each client that is remembered and named rightly,
    then `go_on` for each request; `refuse` for those that name one wrongly, or of which nothing can
    be found out now. `is_none` hears of a member here, of one of the `groups`, that it is none.
    """

    def __init__(
        self,
        memory: Memory,
        groups: Mapping[str, WireGroup],
        restore: Callable[[str, RememberedClient], None],
        go_on: Callable[[WaitingRequest], None],
        refuse: Callable[[WaitingRequest, WireCode], None],
        is_none: Callable[[ServedMember], None],
    ) -> None:
        self._memory = memory
        self._restore = restore
        self._go_on = go_on
        self._refuse = refuse
        self._groups = groups
        self._is_none = is_none
        self._waiting: list[WaitingRequest] = []
        self._turn: list[WaitingRequest] = []
        self._reading = False
        self._newest: dict[int, WaitingRequest] = {}  # of each connection
        self._held: Counter[int] = Counter()  # how many of each connection wait

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting) + len(self._turn)

    def holds(self, connection: int) -> bool:
        """Whether a request of this connection waits."""
        return connection in self._held

    def wait(self, waiting: WaitingRequest) -> None:
        """Answer a request once it is known whose it is, and those before it on its connection are
        answered or served.
        """
        if len(self._waiting) >= WAITING_MAX or len(waiting.keys) > KEYS_PER_TURN:
            return self._cannot(waiting)
        self._waiting.append(waiting)
        self._held[waiting.caller.connection] += 1
        self._newest[waiting.caller.connection] = waiting
        return self._begin()

    def another_request(self, connection: int) -> None:
        """Something else was asked on a connection."""
        newest = self._newest.pop(connection, None)
        if newest is not None:
            newest.overtaken = True

    def disconnected(self, connection: int) -> None:
        """A connection is gone: what was asked there is not to make its client a member of it."""
        self._newest.pop(connection, None)
        self._held.pop(connection, None)
        both = (*self._turn, *self._waiting)
        self._turn = [w for w in self._turn if w.caller.connection != connection]
        self._waiting = [w for w in self._waiting if w.caller.connection != connection]
        for waiting in both:
            if waiting.caller.connection == connection:
                self._cannot(waiting)

    def _begin(self) -> None:
        if self._reading or not self._waiting:
            return
        keys: dict[Key, None] = {}
        taken = 0
        for waiting in self._waiting:
            more = dict.fromkeys(waiting.keys)
            if len(keys | more) > KEYS_PER_TURN:
                break
            keys |= more
            taken += 1
        self._turn, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self._reading, asked = True, tuple(keys)
        if not keys:  # they only waited behind others
            return self._read((), ())
        self._memory.read(asked, lambda found: self._read(asked, found))

    def _read(self, keys: Sequence[Key], found: Found | None) -> None:
        turn, self._turn, self._reading = self._turn, [], False
        for waiting in turn:
            self._release(waiting.caller.connection)
            if self._newest.get(waiting.caller.connection) is waiting:
                del self._newest[waiting.caller.connection]
        if found is None:
            for waiting in turn:
                self._cannot(waiting)
        else:
            self._serve(turn, dict(zip(keys, found, strict=True)))
        self._begin()

    def _serve(
        self, turn: Sequence[WaitingRequest], found: Mapping[Key, RememberedClient | None]
    ) -> None:
        wrong: dict[int, WireCode] = {}
        restored: set[Key] = set()
        for waiting in turn:
            for key in waiting.keys:
                client = found[key]
                code = WireCode.NONE if client is None else _judged(waiting.request, client)
                if code is not WireCode.NONE:
                    # it may name others as well, and each is answered by itself
                    if not isinstance(waiting.request, LeaveRequest):
                        wrong[waiting.ticket] = code
                elif client is not None and key not in restored:
                    restored.add(key)
                    self._restore(key[0], client)
        for waiting in turn:
            if waiting.ticket in wrong and not restored.intersection(waiting.keys):
                self._refuse(waiting, wrong[waiting.ticket])
            else:
                self._unless_fenced(waiting)

    def _unless_fenced(self, waiting: WaitingRequest) -> None:
        """To be fenced ends a client: this gateway may not have heard that it has lost the member
        here.
        """
        group = self._groups.get(waiting.request.group)
        rival = None if group is None else group.rival(waiting.request)
        if rival is None or not rival.agent.registered:
            return self._go_on(waiting)

        def looked(is_member: bool | None) -> None:
            if is_member is None:
                return self._cannot(waiting)
            if not is_member:
                self._is_none(rival)
            return self._go_on(waiting)

        return self._memory.is_member(rival.group, rival.agent.name, looked)

    def _cannot(self, waiting: WaitingRequest) -> None:
        self._refuse(waiting, WireCode.COORDINATOR_NOT_AVAILABLE)

    def _release(self, connection: int) -> None:
        self._held[connection] -= 1
        if self._held[connection] <= 0:
            del self._held[connection]
