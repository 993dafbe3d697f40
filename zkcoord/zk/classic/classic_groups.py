"""All groups whose leader is a client, of one connection of a term: what is written of them is read
first, then gateways' requests are answered in the order in which they come.

A request is a node that a gateway made; its answer is written into it, once. So a coordinator
that takes over finds what was asked and not answered, and asks its machines again: who has joined,
or has its assignment, finds that in the state. A request that is gone was its gateway's, which is
gone, or does not wait any more.

Bounded: so many requests are read at a time and wait (`incoming.py`), so many groups there are
(`places.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicDelete,
    ClassicJoin,
    classic_refusal,
)
from zkcoord.core.classic.state import ClassicOptions, ClassicPhase
from zkcoord.core.error_codes import WireCode
from zkcoord.core.events import Record
from zkcoord.core.model import Malformed, Registrants
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.classic.edge import Edge
from zkcoord.zk.classic.figures import ClassicFigures, ClassicSeen
from zkcoord.zk.classic.finding import WrittenGroups
from zkcoord.zk.classic.holding import HeldJoins
from zkcoord.zk.classic.incoming import IncomingRequests
from zkcoord.zk.classic.pins import Pins
from zkcoord.zk.classic.places import GroupPlaces
from zkcoord.zk.classic.served_group import (
    NOBODYS_TICKET,
    Found,
    ServedClassicGroup,
)
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    AclEntry,
    Change,
    Check,
    Delete,
    Fired,
    GetData,
    Missing,
    Node,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.zk.term.told import ToldOnce
from zkcoord.zk.wakes import Wakes
from zkcoord.znodes.classic.consumer_blobs import is_ours
from zkcoord.znodes.classic.documents import (
    ClassicAsk,
    encode_answer,
)
from zkcoord.znodes.classic.paths import (
    ClassicBlobAt,
    ClassicParentAt,
    ClassicPaths,
    ClassicPinAt,
    ClassicPresenceAt,
    ClassicRequestAt,
    ClassicRoundAt,
)
from zkcoord.znodes.classic.pin import Machine
from zkcoord.znodes.names import printable
from zkcoord.znodes.paths import Layout

OPTIONS = ClassicOptions(initial_delay_ms=500, max_size=1_000)
REFUSED_MAX = 1_000
REFUSED_CHARS_MAX = 100
ASSIGNED_HERE = "it has members that the coordinator assigns; stop those first"
COORDINATED = (
    "an operator has said that the coordinator runs it (zkcoord groups machine); list an assignor"
    " that it knows, or have that changed"
)
ORDINARY = (WireCode.NONE, WireCode.MEMBER_ID_REQUIRED)


class ClassicGroups:
    """See the module. `record` takes what people should know, `fenced` that another coordinator
    leads; `registered(group)`: whom the coordinator itself assigns in a group of this name;
    `options` are those of every group; `figures` counts; `freed` hears of groups
    that no client leads any more. `lost` must be called when the session is
    suspended.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        fence: int,
        acl: tuple[AclEntry, ...],
        clock: Callable[[], int],
        record: Callable[[Record], None],
        fenced: Callable[[str], None],
        registered: Callable[[str], Registrants] = lambda group: Registrants.NOBODY,
        options: ClassicOptions = OPTIONS,
        roles: Roles | None = None,
        figures: ClassicFigures | None = None,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        reads_max: int = READS_PER_REQUEST_MAX,
        freed: Callable[[str], None] = lambda group: None,
    ) -> None:
        self._reads_max = reads_max
        self._paths = ClassicPaths(layout)
        self._figures = figures if figures is not None else ClassicFigures()
        self._edge = Edge(
            port,
            self._paths,
            Check(layout.epoch, fence),
            acl,
            clock,
            record,
            self._reply,
            self._touched,
            freed,
            fenced,
            self._figures.wall_clock,
            reads_max=reads_max,
        )
        self._registered = registered
        self._options = options
        self._roles = roles
        self._groups: dict[str, ServedClassicGroup] = {}
        self._refused: set[str] = set()
        self._has_begun = self._hears = False
        self._tickets: dict[int, str] = {}
        self._ticket = 0
        self._early: list[tuple[ClassicPresenceAt, bool]] = []
        self._wakes: Wakes[ServedClassicGroup] = Wakes()
        self._held = HeldJoins()
        self._confirming: dict[str, int] = {}  # tickets, by the names of requests
        self._untold: dict[str, tuple[str, str]] = {}  # groups and ids, by the names of requests
        self._strange = ToldOnce(record)
        tell = self._strange.tell
        self._pins = Pins(self._paths, tell, roles)
        self._places = GroupPlaces()
        self._incoming = IncomingRequests(self._paths, self._read, self._asked, tell, clock, cpu_ns)
        self._written = WrittenGroups(
            self._edge, self._read, roles, tell, self._found, self._begin_serving, self._reread_pins
        )

    @property
    def is_lost(self) -> bool:
        """Whether its connection is gone."""
        return self._edge.dead

    def group(self, name: str) -> ServedClassicGroup | None:
        """One of them."""
        return self._groups.get(name)

    def may_lead(self, name: str) -> bool:
        """Whether one of these may have members, as far as is known yet."""
        group = self._groups.get(name)
        return self._written.may_have_members(name) or (group is not None and group.members > 0)

    @property
    def names(self) -> list[str]:
        """Of all of them, sorted."""
        return sorted(self._groups)

    def summary(self, name: str) -> dict[str, object]:
        """One of them in a line, for people."""
        return {"group": name, **self._groups[name].summary()}

    def seen(self) -> ClassicSeen:
        """What there is just now. Groups that nobody knows of yet are left out."""
        states = {phase.value: 0 for phase in ClassicPhase}
        members = 0
        for group in self._groups.values():
            states[group.phase.value] += 1
            members += group.members
        unread = self._incoming.unread
        figures = self._figures
        waiting = len(self._tickets) + unread
        counted, written = (dict(figures.refused), figures.answered), self._written
        alone = written.left_alone, written.none_is_served
        return ClassicSeen(states, members, waiting, unread, *counted, *alone)

    # the beginning

    def begin(self) -> None:
        """Read what there is. Where there are roles nobody else makes the roots."""
        self._make_roots(list(self._paths.roots()) if self._roles is not None else [])

    def lost(self) -> None:
        """The connection is gone: answers still to come mean nothing."""
        self._edge.dead = True

    def _make_roots(self, paths: list[str]) -> None:
        """One by one: a refusal says that it is there, or that this term is over."""
        if paths:
            create = self._edge.create(paths[0])
            return self._edge.write([create], lambda refused: self._make_roots(paths[1:]))
        return self._edge.port.sync(lambda result: self._read_pins())

    def _read_pins(self) -> None:
        if not self._edge.dead:
            self._pins.read_all(self._edge.port, self._written.begin)

    def _reread_pins(self, then: Callable[[], None]) -> None:
        """What is above them was mended, too, so they may count now."""
        self._pins.read_all(self._edge.port, then)

    def _read(
        self,
        reads: Sequence[Read],
        then: Callable[[tuple[ReadAnswer, ...]], None],
        before: tuple[ReadAnswer, ...] = (),
    ) -> None:
        now, later = reads[: self._reads_max], reads[self._reads_max :]

        def read(result: ReadResult) -> None:
            if isinstance(result, ReadDone) and not self._edge.dead:
                go_on = (lambda found: self._read(later, then, found)) if later else then
                go_on((*before, *result.answers))

        if not self._edge.dead:
            self._edge.port.read(now, read)

    def _found(self, group: str, found: Found, lacking: list[str]) -> None:
        """What is written of a group."""
        members = () if found.state is None else found.state.members
        self._places.take(group, members[0].host if members else "")
        served = ServedClassicGroup(group, self._edge, self._options, found, self._goes_over)
        self._groups[group] = served
        served.lacks(lacking)
        self._touched(group)

    def _begin_serving(self, can_be: bool) -> None:
        """Serve them; or have whoever asks hear that they are not served."""
        self._has_begun = can_be
        for where, is_there in self._early if can_be else ():
            self._presence(where, is_there)
        self._early.clear()
        if can_be or not self._hears:
            self._hears = True
            self._incoming.begin()

    # what changes

    def fired(self, event: Fired) -> bool:
        """Whether a change is one of what is served here."""
        if not event.path.startswith(f"{self._paths.root}/"):
            return False
        where = self._paths.locate(event.path)
        if isinstance(where, ClassicRequestAt):
            if event.change is Change.CREATED and self._hears:
                self._incoming.made(where.request)
            elif event.change is Change.DELETED:
                self._taken_back(where.request)
        elif isinstance(where, ClassicPinAt):
            self._pins.changed(where.group)
        elif isinstance(where, ClassicPresenceAt) and event.change is not Change.DATA:
            self._presence(where, event.change is Change.CREATED)
        elif isinstance(where, ClassicBlobAt) and event.change is not Change.CREATED:
            group = self._groups.get(where.group)
            if group is not None:
                group.blob_changed(where.digest, event.change is Change.DATA)
        elif isinstance(where, ClassicParentAt | ClassicRoundAt):
            group = self._groups.get(where.group)
            if group is not None and event.change is Change.DELETED:
                group.lacks([event.path])
        return True

    def _presence(self, where: ClassicPresenceAt, is_there: bool) -> None:
        if self._written.none_is_served:
            self._early.clear()  # all of it is read when that is mended
        elif not self._has_begun:
            self._early.append((where, is_there))
        elif (group := self._groups.get(where.group)) is not None:
            group.presence(where.member, is_there)

    # requests

    def _taken_back(self, name: str) -> None:
        """A request is gone: of its gateway, or since its client waits no more."""
        self._incoming.forget(name)
        held, confirming = self._held.forget(name), self._confirming.pop(name, None)
        ticket = held if held is not None else confirming
        if ticket is not None:
            del self._tickets[ticket]
        self._was_not_told(name)

    def _was_not_told(self, name: str) -> None:
        """A new member whose request is gone, unanswered: nobody knows its id."""
        group, member_id = self._untold.pop(name, ("", ""))
        if group in self._groups:
            self._groups[group].never_told(member_id)

    def _asked(self, name: str, ask: ClassicAsk | Malformed) -> None:
        if isinstance(ask, Malformed):
            self._strange.tell(ask)
            self._edge.write([Delete(self._paths.request(name))], lambda refused: None)
        else:
            self._ticket += 1
            self._tickets[self._ticket] = name
            self._serve(self._ticket, ask)

    def _confirm(self, ticket: int, ask: ClassicAsk) -> None:
        """Nobody takes an instance over whose gateway is dead: its request may have come late, with
        its end just behind it, and its client by another gateway meanwhile.
        """
        name = self._tickets[ticket]
        self._confirming[name] = ticket

        def synced(result: object) -> None:
            if self._confirming.pop(name, None) is not None and not self._edge.dead:
                self._serve(ticket, ask, True)

        self._edge.port.sync(synced)

    def _serve(self, ticket: int, ask: ClassicAsk, confirmed: bool = False) -> None:
        group = self._groups.get(ask.group)
        code = WireCode.NONE
        if self._written.leaves_alone(ask.group) or not self._has_begun:
            code = WireCode.COORDINATOR_NOT_AVAILABLE
        elif isinstance(ask.request, ClassicJoin) and (group is None or not group.members):
            registered = self._registered(ask.group)
            will_be_free = self._will_be_free(ask.group, registered)
            if will_be_free and ask.request.member_id:  # of what it still has it is to let go
                unknown = classic_refusal(ask.request, WireCode.UNKNOWN_MEMBER_ID)
                return self._reply(ticket, unknown)
            if will_be_free:
                return self._held.hold(self._edge.clock(), self._tickets[ticket], ticket, ask)
            why = self._why_not(ask.group, registered)
            if why and self._may_be_assigned(ask.group, ask.request):
                code = WireCode.COORDINATOR_LOAD_IN_PROGRESS
            elif why:
                code = WireCode.INCONSISTENT_GROUP_PROTOCOL
                self._refuses(ask.group, ask.request, why)
            elif group is None and not self._places.room_for(ask.request.host):
                code = WireCode.GROUP_MAX_SIZE_REACHED
        if code is not WireCode.NONE:
            return self._reply(ticket, classic_refusal(ask.request, code))
        if isinstance(ask.request, ClassicDelete) and self._roles is not None and not confirmed:
            return self._see_who_deletes(ticket, ask)
        join = ask.request if isinstance(ask.request, ClassicJoin) else None
        if group is None:
            group = self._make(ask.group, join)
        if join and not join.member_id and group.has_instance(join.instance):
            if not confirmed:
                return self._confirm(ticket, ask)
        elif join and not join.member_id:
            self._untold[self._tickets[ticket]] = (ask.group, join.fresh_id)
        return group.ask(ticket, ask.request)

    def _see_who_deletes(self, ticket: int, ask: ClassicAsk) -> None:
        """Members may ask for clients, but not for that: who may has written what they may not in
        the transaction that made the request.
        """
        name = self._tickets[ticket]
        self._confirming[name] = ticket

        def read(answers: tuple[ReadAnswer, ...]) -> None:
            group, proof, request = answers
            if self._confirming.pop(name, None) is None:
                return
            code = WireCode.GROUP_AUTHORIZATION_FAILED
            if isinstance(group, Missing):
                return self._serve(ticket, ask, True)
            if isinstance(proof, Node) and isinstance(request, Node):
                if proof.stat.mzxid == request.stat.czxid:
                    return self._serve(ticket, ask, True)
                if proof.stat.mzxid > request.stat.czxid:  # of another one who may
                    code = WireCode.COORDINATOR_LOAD_IN_PROGRESS
            return self._reply(ticket, classic_refusal(ask.request, code))

        paths, group = self._paths, ask.group
        where = paths.group(group), paths.proof(group), paths.request(name)
        self._read([GetData(path) for path in where], read)

    def _make(self, name: str, join: ClassicJoin | None) -> ServedClassicGroup:
        """One more, which is forgotten at once where nobody joins it; in the place of one that
        nobody is in, where there is no other.
        """
        host = "" if join is None else join.host
        oldest = "" if join is None else self._places.give_up(host)
        if oldest in self._groups:
            self._groups[oldest].ask(NOBODYS_TICKET, ClassicDelete())
        self._places.take(name, host)
        group = ServedClassicGroup(name, self._edge, self._options, goes_over=self._goes_over)
        self._groups[name] = group
        return group

    def _serve_held(self, ticket: int, ask: ClassicAsk) -> None:
        """One that has waited. Where its group stays the coordinator's after all it is to come
        anew: it is nobody there yet.
        """
        registered, group = self._registered(ask.group), self._groups.get(ask.group)
        is_led = group is not None and bool(group.members)
        stay = registered is not Registrants.NOBODY and not is_led
        if stay and not self._will_be_free(ask.group, registered):
            return self._reply(ticket, classic_refusal(ask.request, WireCode.UNKNOWN_MEMBER_ID))
        return self._serve(ticket, ask)

    def _waits(self, name: str) -> bool:
        """Whether who would lead a group still waits until nobody is registered in it."""
        group = self._groups.get(name)
        is_led = group is not None and bool(group.members)
        return not is_led and self._will_be_free(name, self._registered(name))

    def _will_be_free(self, group: str, registered: Registrants) -> bool:
        """Whether who is registered is on the way out: to go, or to be led by a client."""
        if registered is Registrants.CLIENTS:
            return self._goes_over(group)
        return registered is Registrants.LEAVING

    def _goes_over(self, group: str) -> bool:
        """Whether an operator has said that clients lead it: those that are assigned will stop."""
        return self._pins.of(group) is Machine.CLIENT_LED

    def _may_be_assigned(self, group: str, join: ClassicJoin) -> bool:
        """Whether a client that would lead is a member of the other kind when it tries again: its
        gateway has not heard yet that an operator's word was taken back.
        """
        return is_ours(join.protocol_type, join.protocols) and not self._goes_over(group)

    def _why_not(self, group: str, registered: Registrants) -> str:
        """Why no client may lead a group that has no members of that kind; "" where one may."""
        if registered is not Registrants.NOBODY:
            return ASSIGNED_HERE
        return COORDINATED if self._pins.of(group) is Machine.COORDINATED else ""

    def _refuses(self, name: str, join: ClassicJoin, why: str) -> None:
        """People are told once of each group, and of many only of some."""
        who = printable(f"{join.client_id or 'a client'} of {join.host or '?'}", REFUSED_CHARS_MAX)
        kind = printable(join.protocol_type, REFUSED_CHARS_MAX)
        text = f"{who} would have it led by a client (protocol type {kind}) and is refused: {why}"
        if name in self._groups:
            self._groups[name].problem(text)
        if name not in self._refused and len(self._refused) < REFUSED_MAX:
            self._refused.add(name)
            self._edge.record(Record("client-led refusal", name, {"reason": text}))

    def _reply(self, ticket: int, answer: ClassicAnswer) -> None:
        """A request that is gone is not answered."""
        name = self._tickets.pop(ticket, "")
        if name:
            self._incoming.forget(name)
            if answer.code in ORDINARY:
                self._figures.answered += 1
            else:
                self._figures.refused[answer.code.name] += 1

            def written(refused: Rejected | None) -> None:
                if refused is not None and refused.error is ZkError.NO_NODE:
                    self._was_not_told(name)
                self._untold.pop(name, None)

            answered = SetData(self._paths.request(name), encode_answer(answer), 0)
            self._edge.write([answered], written)

    # time

    def _touched(self, name: str) -> None:
        group = self._groups.get(name)
        if group is not None and group.is_forgotten:
            self._wakes.note(group, None)
            self._places.free(name)
            del self._groups[name]
        elif group is not None:
            self._places.has_members(name, group.phase is not ClassicPhase.EMPTY)
        self._note_wake(name)

    def _note_wake(self, name: str) -> None:
        group = self._groups.get(name)
        if group is not None:
            self._wakes.note(group, group.next_wake_ms())

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._edge.dead:
            return None
        others = (self._held, self._incoming, self._written)
        times = [self._wakes.next_ms(), *(one.next_wake_ms() for one in others)]
        return min((ms for ms in times if ms is not None), default=None)

    def tick(self) -> None:
        """Do what is due."""
        now = self._edge.clock()
        if not self._edge.dead:
            self._written.tick()
            self._incoming.turn()
            for ticket, ask in self._held.due(now, self._waits):
                self._serve_held(ticket, ask)
        while not self._edge.dead and (group := self._wakes.pop(now)) is not None:
            group.tick()
