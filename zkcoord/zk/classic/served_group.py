"""One group whose leader is a client: its machine, and what is written of it.

What the machine wants persisted is written as one node, `state`, which names blobs that were
written before; only then is it answered. `round` says what has happened since, for gateways whose
members are to join again or are no members any more: a hint, written when it changes and never
waited for. A member is heard of while a gateway says that it serves it; from then on it has its
session timeout to come back, at that gateway or at another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import (
    Asked,
    ClassicAction,
    ClassicInput,
    ClassicReply,
    ClassicTick,
    Dismissed,
    Moved,
    NotPersisted,
    Persist,
    Persisted,
    Rebalanced,
    Rejoin,
)
from zkcoord.core.classic.requests import (
    BlobRef,
    ClassicBeat,
    ClassicJoin,
    ClassicLeave,
    ClassicSync,
    Leaver,
    Protocols,
    classic_refusal,
)
from zkcoord.core.classic.seats import member_of
from zkcoord.core.classic.state import (
    ASSIGNMENT_BYTES_MAX,
    ClassicOptions,
    ClassicPhase,
    ClassicState,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.core.events import Record
from zkcoord.zk.classic.blobs import Blobs
from zkcoord.zk.classic.edge import Edge
from zkcoord.zk.classic.reporting import Reporting
from zkcoord.zk.port import Delete, Rejected, SetData, ZkError
from zkcoord.znodes.classic.consumer_blobs import is_ours
from zkcoord.znodes.classic.documents import (
    AskedOfGroup,
    ClassicRound,
    encode_round,
    encode_state,
    state_bytes,
)
from zkcoord.znodes.classic.fields import BLOB_BYTES_MAX
from zkcoord.znodes.classic.paths import is_member_digest, member_digest
from zkcoord.znodes.classic.report import Why

STATE_BYTES_MAX = 700_000
"""Of all members in the state's node: who would not fit is refused with GROUP_MAX_SIZE_REACHED."""

PRESENCES_MAX = 10_000
BOTH_KINDS = "while its first clients joined, somebody registered whom the coordinator assigns"
GONE_BEFORE = "was gone before this coordinator led"
NEVER_TOLD = "was gone before it was told that it had joined"
NOBODYS_TICKET = 0
WAITS_SHOWN_MAX = 5
REBALANCING = (ClassicPhase.PREPARING, ClassicPhase.COMPLETING)


@dataclass
class Found:
    """What is written of a group. `has_state`: there is one, whatever it says; `presence`: digests
    of members that a gateway serves.
    """

    state: ClassicState | None = None
    has_state: bool = False
    since: ClassicRound = field(default_factory=ClassicRound)
    blobs: frozenset[str] = frozenset()
    presence: set[str] = field(default_factory=set)

    def see(self, presence: Iterable[str]) -> None:
        """Who is said to be served. However many are nobody, members are not left out."""
        there = set(filter(is_member_digest, presence))
        members = () if self.state is None else self.state.members
        served = there & {member_digest(one.member_id) for one in members}
        self.presence = served | set(sorted(there - served)[:PRESENCES_MAX])

    @property
    def was_busy(self) -> bool:
        """Whether a rebalance was under way, of which something may be said."""
        completing = self.state is not None and self.state.phase is ClassicPhase.COMPLETING
        return completing or self.since.rebalances is not None


class ServedClassicGroup:
    """See the module. `found` (None: nothing is written of it). `goes_over(name)`: whether who is
    registered while its first clients join will soon not be.
    """

    def __init__(
        self,
        name: str,
        edge: Edge,
        options: ClassicOptions,
        found: Found | None = None,
        goes_over: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self.name = name
        self._goes_over = goes_over
        self._edge = edge
        self._machine = ClassicGroup(options, self._is_heard)
        self._is_made = found is not None
        self._has_state = found is not None and found.has_state
        self._presence = found.presence if found is not None else set()
        self._announced = found.since if found is not None else ClassicRound()
        self._decided: dict[str, tuple[str, str | None]] = {}  # by digest
        self._gone: dict[str, WireCode] = {}
        self._blobs = Blobs(name, edge, found.blobs if found is not None else ())
        self._room: dict[str, int] = {}
        self._reporting = Reporting(name, edge, found is not None and found.was_busy)
        self.wake_ms: int | None = None
        if found is not None and found.state is not None:
            self._remember(found.state)
            self._act(self._machine.restore(edge.clock(), found.state))
            self._dismiss(found.since.gone)
            self._announce()
            self._blobs.keep(self._machine.brought())

    @property
    def phase(self) -> ClassicPhase:
        """Its state."""
        return self._machine.phase

    @property
    def members(self) -> int:
        """How many are in it."""
        return len(self._machine.members)

    def has_instance(self, instance: str | None) -> bool:
        """Whether a member of it has this instance."""
        return self._machine.holder(instance) is not None

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing of it is to be kept: nobody has ever joined, or it was deleted."""
        gone = self._machine.phase is ClassicPhase.DEAD or not self._is_made
        return gone and self._machine.is_forgotten

    def summary(self) -> dict[str, object]:
        """In a line, for people."""
        machine, report = self._machine, self._reporting.report(self._machine)
        waits, ended = report.waits, report.ended
        latest = Why("") if ended is None else ended.why
        if waits is not None:
            latest = waits.why
        waited_for = () if waits is None else waits.unjoined.names or waits.unsynced.names
        return {
            "state": report.phase.value,
            "since_ms": report.since_ms,
            "protocol_type": machine.protocol_type,
            "protocol": machine.protocol,
            "generation": report.generation,
            "members": self.members,
            "leader": machine.leader,
            "cause": latest.kind,
            "trigger": latest.trigger,
            "waits_for": list(waited_for[:WAITS_SHOWN_MAX]),
            "pending": 0 if waits is None else waits.pending.count,
            "problems": list(report.problems),
        }

    def problem(self, text: str) -> None:
        """What an operator should know of it."""
        self._reporting.problem(text)
        self._edge.touched(self.name)

    # what happens

    def ask(self, ticket: int, request: AskedOfGroup) -> None:
        """A request; it is answered under its ticket, now or later."""
        if isinstance(request, ClassicJoin):
            if not request.member_id and self._machine.holds(request.fresh_id):
                # an earlier coordinator has let it in and could not say so
                request = replace(request, member_id=request.fresh_id)
            request = replace(request, protocols=self._blobs.take(request.protocols))
            if not self._fits(request):
                full = WireCode.GROUP_MAX_SIZE_REACHED
                return self._edge.reply(ticket, classic_refusal(request, full))
        elif isinstance(request, ClassicSync):
            request = replace(request, assignments=self._assigned(request))
        return self._step(Asked(ticket, request))

    def _fits(self, request: ClassicJoin) -> bool:
        name = request.member_id or request.fresh_id
        self._room = {of: size for of, size in self._room.items() if self._machine.holds(of)}
        others = sum(size for of, size in self._room.items() if of != name)
        self._room[name] = state_bytes(member_of(request, name))
        return others + self._room[name] <= STATE_BYTES_MAX

    def _assigned(self, request: ClassicSync) -> Protocols:
        """Whose word is not heard brings nothing. One that no node holds is too large for all."""
        if request.member_id != self._machine.leader:
            return ()
        if any(len(data) > BLOB_BYTES_MAX for _, data in request.assignments):
            return ((request.member_id, BlobRef("", ASSIGNMENT_BYTES_MAX + 1)),)
        return self._blobs.take(request.assignments)

    def presence(self, member: str, is_there: bool) -> None:
        """A gateway serves the member of which this is the digest, or does not any more."""
        if is_there:
            if member in self._decided or len(self._presence) < PRESENCES_MAX:
                self._presence.add(member)
        elif member in self._presence:
            self._presence.discard(member)
            if member in self._decided:
                member_id, instance = self._decided[member]
                beat = ClassicBeat(member_id, self._machine.generation, instance)
                self._step(Asked(NOBODYS_TICKET, beat))

    def _dismiss(self, gone: Mapping[str, WireCode]) -> None:
        """Who had left, or was out, before an earlier coordinator was lost was told so: it is no
        member here either, though the state still names it. Whose instance somebody else has asked
        for stays until that one is let in, and fences it.
        """
        for digest, (member_id, _) in tuple(self._decided.items()):
            if gone.get(digest) is not WireCode.UNKNOWN_MEMBER_ID:
                continue
            leave = ClassicLeave((Leaver(member_id, None, GONE_BEFORE),))
            self._act(self._machine.step(self._edge.clock(), Asked(NOBODYS_TICKET, leave)))

    def never_told(self, member_id: str) -> None:
        """A new member's request is gone, unanswered: nobody knows its id, nobody is waited for."""
        leave = ClassicLeave((Leaver(member_id, None, NEVER_TOLD),))
        self._step(Asked(NOBODYS_TICKET, leave))

    def _is_heard(self, member_id: str) -> bool:
        return member_digest(member_id) in self._presence

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        times = (self._machine.next_wake_ms(), self._reporting.due_ms if self._is_made else None)
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def tick(self) -> None:
        """Do what is due."""
        if self._is_made:
            self._reporting.write(self._machine)
        wake_ms = self._machine.next_wake_ms()
        if wake_ms is not None and wake_ms <= self._edge.clock():
            self._step(ClassicTick())
        else:
            self._edge.touched(self.name)

    # what is done

    def _step(self, told: ClassicInput) -> None:
        self._act(self._machine.step(self._edge.clock(), told))
        if self._machine.phase in REBALANCING:
            self._reporting.changed()
        self._announce()
        self._edge.touched(self.name)

    def _act(self, actions: Sequence[ClassicAction]) -> None:
        gone = [action for action in actions if isinstance(action, Dismissed)]
        for one in gone:
            digest = member_digest(one.member_id)
            if digest in self._decided:
                self._gone[digest] = one.code
        if gone:
            self._announce()  # the next coordinator knows it, too, before anybody is told
        for action in actions:
            match action:
                case Persist():
                    self._persist(action.token, action.state)
                case ClassicReply():
                    if action.ticket != NOBODYS_TICKET:
                        self._edge.reply(action.ticket, action.answer)
                case Moved():
                    self._reporting.moved(action, self.members)
                case Rebalanced():
                    self._reporting.ended(action)
                case Dismissed() | Rejoin():
                    pass  # gateways hear it from the round

    def _fence(self) -> None:
        """Whoever is gone, and whose instance somebody else has now, must not come back."""
        for digest in self._gone:
            member_id, instance = self._decided[digest]
            if self._machine.holder(instance) not in (None, member_id):
                self._gone[digest] = WireCode.FENCED_INSTANCE_ID

    def _announce(self) -> None:
        self._fence()
        preparing = self._machine.phase is ClassicPhase.PREPARING
        since = ClassicRound(self._machine.generation if preparing else None, dict(self._gone))
        if self._is_made and since != self._announced:
            self._announced = since
            path = self._edge.paths.round(self.name)
            self._edge.write([SetData(path, encode_round(since), -1)], lambda refused: None)

    def _persist(self, token: int, state: ClassicState | None) -> None:
        if state is None:
            return self._delete(token)
        self._announce()
        if not self._is_made:
            return self._make(token, state)
        return self._blobs.write(state, lambda refused: self._put(token, state, refused))

    def _make(self, token: int, state: ClassicState, roots: Sequence[str] = ()) -> None:
        def made(refused: Rejected | None) -> None:
            if refused is not None and refused.error is ZkError.NO_NODE and not roots:
                return self._make(token, state, self._edge.paths.roots())
            if refused is not None:
                return self._not_persisted(token, refused)
            self._is_made = True
            self._reporting.made()
            return self._persist(token, state)

        paths = (*roots, *self._edge.paths.parts(self.name))
        nodes = [self._edge.create(path) for path in paths]
        self._edge.write_but(ZkError.NODE_EXISTS, nodes, made)

    def _put(self, token: int, state: ClassicState, refused: Rejected | None) -> None:
        if refused is not None:
            return self._is_gone(token, refused)
        path, data = self._edge.paths.state(self.name), encode_state(state)
        op = SetData(path, data, -1) if self._has_state else self._edge.create(path, data)

        def put(refused: Rejected | None) -> None:
            here = ZkError.NO_NODE if self._has_state else ZkError.NODE_EXISTS
            if refused is not None and refused.error is here:
                self._has_state = not self._has_state  # somebody has deleted it, or made it
                return self._put(token, state, None)
            if refused is not None:
                return self._is_gone(token, refused)
            self._has_state = True
            if state.members and not self._decided:
                return self._edge.look_for_others(self.name, looked)
            return looked(False)

        def looked(others: bool) -> None:
            if others:
                return self._take_back(token, state)
            was_led = bool(self._decided)
            self._remember(state)
            if was_led and not state.members:
                self._edge.freed(self.name)
            self._step(Persisted(token))
            return self._blobs.keep(self._machine.brought())

        return self._edge.write([op], put)

    def _is_gone(self, token: int, refused: Rejected) -> None:
        """Where somebody has deleted what was there it is made again, the next time: members join
        again, and bring what they have brought.
        """
        if refused.error is ZkError.NO_NODE:
            self._is_made = False
            self._blobs.written.clear()
        self._not_persisted(token, refused)

    def lacks(self, paths: Sequence[str]) -> None:
        """Somebody has deleted these: they are made again, unless all of it is gone."""
        for path in paths if self._is_made else ():
            is_round = path == self._edge.paths.round(self.name)
            data = encode_round(self._announced) if is_round else b""
            self._edge.write([self._edge.create(path, data)], lambda refused: None)

    def blob_changed(self, digest: str, is_there: bool) -> None:
        """One is gone, or holds other bytes: whoever has brought it brings it again."""
        if digest in self._blobs.written:
            self._blobs.written.discard(digest)
            if is_there:
                self._edge.delete([self._edge.paths.blob(self.name, digest)])

    def _take_back(self, token: int, state: ClassicState) -> None:
        """Nobody was told of the first generation yet, and others are registered that the
        coordinator assigns: they were there before it, or will see it and leave.
        """
        empty = ClassicState(ClassicPhase.EMPTY, state.generation, state.protocol_type)

        def taken_back(refused: Rejected | None) -> None:
            if refused is not None:
                return self._not_persisted(token, refused)
            self._edge.freed(self.name)
            come_anew = all(is_ours(state.protocol_type, one.protocols) for one in state.members)
            if come_anew or self._goes_over(self.name):
                return self._step(NotPersisted(token, WireCode.COORDINATOR_LOAD_IN_PROGRESS))
            self._edge.record(Record("client-led refusal", self.name, {"reason": BOTH_KINDS}))
            return self._step(NotPersisted(token, WireCode.INCONSISTENT_GROUP_PROTOCOL))

        op = SetData(self._edge.paths.state(self.name), encode_state(empty), -1)
        self._edge.write([op], taken_back)

    def _remember(self, state: ClassicState) -> None:
        """What gateways know of it now: who is gone since is told by the round."""
        self._decided = {
            member_digest(one.member_id): (one.member_id, one.instance) for one in state.members
        }
        self._gone.clear()

    def _not_persisted(self, token: int, refused: Rejected) -> None:
        self._edge.record(Record("client-led group", self.name, {"refused": refused.error.value}))
        self._step(NotPersisted(token))

    def _delete(self, token: int) -> None:
        """All that is there, blobs first."""
        paths = self._edge.paths
        self._blobs.keep(())
        self._edge.delete([f"{paths.presences(self.name)}/{one}" for one in sorted(self._presence)])
        nodes = [paths.state(self.name)] if self._has_state else []
        nodes += reversed(paths.parts(self.name)) if self._is_made else ()
        ops = [Delete(path) for path in nodes]

        def deleted(refused: Rejected | None) -> None:
            if refused is not None:
                return self._not_persisted(token, refused)
            self._is_made = self._has_state = False
            return self._step(Persisted(token))

        self._edge.write_but(ZkError.NO_NODE, ops, deleted)
