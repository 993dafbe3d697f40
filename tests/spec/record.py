"""What happens to one group in a run of the simulator, as events that docs/spec/Traces.tla reads.

An event is one thing that a transaction did, and on which conditions (`fenced`: it names the epoch
node's version, or checks the registration and each offset's version). Which of them is allowed when
is said by docs/spec/Transactions.tla alone. What is no event of it is "unknown", which it refuses.
Paths are read by the simulator's own code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sim.places import Place
from tests.sim.tree import Rec, Tree, Txn
from tests.sim.world import World
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import Check, Create, Delete, Op, SetData

STRANGER = "x"
NOBODY = "nobody"
EPOCHS_FROM = 10_000_000
Change = tuple[Place, Rec | None, Rec | None]


@dataclass
class Known:
    """A registration that there is, or was: `name` in events, by the session that made it."""

    name: str
    session: int
    incarnation: int


class Recorder:
    """Watches a world's transactions for one group. `events` are TLA+ records."""

    def __init__(self, world: World, group: str) -> None:
        self.world = world
        self.group = group
        self.places = world.places
        self.events: list[str] = []
        self.members: dict[int, Known] = {}
        self.names: list[str] = []
        self.partitions: dict[TopicPartition, None] = {}
        self.commands: dict[str, int] = {}
        self.kinds: dict[int, str] = {}
        self.numbers = 0
        self.first_epoch: int | None = None
        world.zk.observers.append(self._saw)

    # text

    def _event(self, do: str, **fields: str) -> None:
        text = "".join(f", {name} |-> {value}" for name, value in fields.items())
        self.events.append(f'[do |-> "{do}"{text}]')

    def _part(self, tp: TopicPartition) -> str:
        self.partitions[tp] = None
        return f'"{tp.topic}-{tp.partition}"'

    def _epoch(self, epoch: int) -> str:
        """Epochs begin with the time of day in ms, and TLC counts to 2^31."""
        if not epoch:
            return "0"
        if self.first_epoch is None:
            self.first_epoch = epoch
        return str(epoch - self.first_epoch + EPOCHS_FROM)

    def _parts(self, tps: Iterable[TopicPartition]) -> str:
        return "{" + ", ".join(self._part(tp) for tp in sorted(tps)) + "}"

    def _values(self, values: dict[TopicPartition, int]) -> str:
        if not values:
            return "<<>>"
        cases = " @@ ".join(f"({self._part(tp)} :> {v})" for tp, v in sorted(values.items()))
        return f"({cases})"

    # transactions

    def _saw(self, txn: Txn, _tree: Tree) -> None:
        changes = [
            (self.places.place_of(path), before, after) for path, before, after in txn.changes
        ]
        if not changes:
            return
        role = self.world._role(txn.host) if txn.session else "operator"
        if txn.kind != "multi":
            self._session_over(txn.session, changes)
        elif role == "coordinator":
            self._coordinator(txn, changes)
        elif role == "consumer":
            self._member(txn, changes)
        else:
            self._anybody(changes)

    def _session_over(self, session: int, changes: Sequence[Change]) -> None:
        if any(place.kind == "leader" for place, _, _ in changes):
            self._event("vacate")
        known = self.members.get(session)
        if known is not None:
            self._event("over", m=f'"{known.name}"')

    # coordinators

    def _coordinator(self, txn: Txn, changes: Sequence[Change]) -> None:
        root = self.places.root
        written = [op for op in txn.ops if op.path == root and not isinstance(op, (Check, Delete))]
        epoch = next((_epoch(op.data) for op in written if op.data), None)
        if epoch is not None:
            fenced = all(isinstance(op, Create) or op.version != -1 for op in written)
            if any(place.kind == "leader" and after for place, _, after in changes):
                if any(place.kind == "leader" and before for place, before, _ in changes):
                    self._event("vacate")
                self._event(
                    "win", c=f'"{txn.host}"', epoch=self._epoch(epoch), fenced=_said(fenced)
                )
            else:
                self._event("fill", epoch=self._epoch(epoch))
            return
        first = txn.ops[0]
        fenced = isinstance(first, Check) and first.path == root and first.version != -1
        mine = [(place, b, a) for place, b, a in changes if place.group == self.group]
        self._removed(txn, mine, _said(fenced))
        for place, before, after in mine:
            if place.kind == "command" and before is None and after is not None:
                self._sent(place, after, _said(fenced))

    def _removed(self, txn: Txn, mine: Sequence[Change], fenced: str) -> None:
        out = {place.member: before for place, before, a in mine if place.kind == "ids" and not a}
        overdue: dict[str, str] = {}
        for op in txn.ops:
            place = self.places.place_of(op.path)
            if isinstance(op, Delete) and place.kind == "command" and place.member in out:
                overdue.setdefault(place.member, op.path)
        for member, before in out.items():
            known = self.members.get(before.owner if before is not None else 0)
            if known is None:
                continue
            if member in overdue:
                self._event("evict", id=str(self.commands.get(overdue[member], 0)), fenced=fenced)
            else:
                self._event("putout", m=f'"{known.name}"', fenced=fenced)
        for place, before, after in mine:
            if after is not None or before is None:
                continue
            path = self._path(place)
            if place.kind == "command" and place.member not in out and path in self.commands:
                self._event("clean", id=str(self.commands[path]), fenced=fenced)
            elif place.kind == "owner":
                fetched = _said(self._is_fetched(place.partition))
                self._event("free", p=self._part(place.partition), fetched=fetched, fenced=fenced)
            if place.kind == "command":
                self.commands.pop(path, None)

    def _path(self, place: Place) -> str:
        return f"{self.places.channels(self.group)}/{place.member}/{place.node}"

    def _is_fetched(self, tp: TopicPartition) -> bool:
        """Whether somebody whose process runs hands it out under a live lease."""
        apps = [app for app in self.world.apps if app.group == self.group and app.host.alive]
        return any(tp in app.fetching() for app in apps)

    def _sent(self, place: Place, after: Rec, fenced: str) -> None:
        said = json.loads(after.data)
        option = said["option"]
        kind = {"start-fetcher": "start", "stop-fetcher": "stop"}.get(option, "notify")
        parts = [_partition(text) for text in said.get("ownershipMap", said.get("partitions", ()))]
        incarnation = int(said["incarnation"])
        known = next((m for m in self.members.values() if m.incarnation == incarnation), None)
        self.numbers += 1
        path = self._path(place)
        self.commands[path] = self.numbers
        self.kinds[self.numbers] = kind
        at = f"{self.places.ids(self.group)}/{place.member}"
        there = self.world.zk.tree.nodes.get(at)
        is_old = there is None or there.czxid != incarnation
        # whose it is does not matter where nobody is meant any more
        name = known.name if known is not None else "gone"
        epoch = self._epoch(said["epoch"])
        k = (
            f'[m |-> "{name}", kind |-> "{kind}", parts |-> {self._parts(parts)},'
            f" epoch |-> {epoch}, old |-> {_said(is_old)}, id |-> {self.numbers}]"
        )
        self._event("send", k=k, fenced=fenced)

    # members

    def _member(self, txn: Txn, changes: Sequence[Change]) -> None:
        mine = [(place, b, a) for place, b, a in changes if place.group == self.group]
        ids = [(place, b, a) for place, b, a in mine if place.kind == "ids"]
        for place, before, after in ids:
            if after is None and before is not None and before.owner != txn.session:
                replaced = self.members.get(before.owner)
                if replaced is not None:  # a static member's next process
                    self._event("putout", m=f'"{replaced.name}"', fenced="TRUE")
        made = [(place, a) for place, _, a in ids if a is not None and a.owner == txn.session]
        if made:
            return self._registered(txn, made[-1][1], mine)
        self._wrote(txn, mine)

    def _registered(self, txn: Txn, after: Rec, mine: Sequence[Change]) -> None:
        known = self.members.get(txn.session)
        if known is None:
            name = f"m{len(self.names) + 1}"
            self.names.append(name)
            self.members[txn.session] = Known(name, txn.session, after.czxid)
            return self._event("register", m=f'"{name}"')
        known.incarnation = after.czxid
        if not any(place.kind == "ids" and b and not a for place, b, a in mine):
            return self._event("register", m=f'"{known.name}"')
        gone = [self._path(place) for place, b, a in mine if place.kind == "command" and a is None]
        ids = [str(self.commands.pop(path)) for path in gone if path in self.commands]
        known_ids = "{" + ", ".join(ids) + "}"
        self._event("again", m=f'"{known.name}"', known=known_ids, fenced=_said(_checks(txn.ops)))

    def _wrote(self, txn: Txn, mine: Sequence[Change]) -> None:
        known = self.members.get(txn.session)
        name = f'"{known.name}"' if known is not None else '"unknown"'
        gone = [
            self._path(place)
            for place, b, a in mine
            if place.kind == "command" and b is not None and a is None
        ]
        offsets = {
            place.partition: _number(a)
            for place, b, a in mine
            if place.kind == "offset" and a is not None and (b is None or b.version != a.version)
        }
        got = {place.partition for place, b, a in mine if place.kind == "owner" and not b and a}
        lost = {place.partition for place, b, a in mine if place.kind == "owner" and b and not a}
        fenced = _said(_checks(txn.ops) and _versioned(txn.ops))
        if gone:
            number = self.commands.pop(gone[0], 0)
            self._acked(str(number), self.kinds.get(number, ""), got, lost, offsets, fenced)
        elif lost:
            self._event("giveback", m=name, parts=self._parts(lost), fenced=fenced)
        elif got:
            self._event("unknown")
        elif offsets:
            self._event("commit", m=name, values=self._values(offsets), fenced=fenced)

    def _acked(
        self,
        number: str,
        kind: str,
        got: set[TopicPartition],
        lost: set[TopicPartition],
        offsets: dict[TopicPartition, int],
        fenced: str,
    ) -> None:
        tree = self.world.zk.tree.nodes
        if kind == "start" and not lost:
            values = {tp: offsets.get(tp, self._stored(tree, tp)) for tp in got}
            parts = self._parts(got)
            self._event("start", id=number, parts=parts, values=self._values(values), fenced=fenced)
        elif kind == "stop" and not got:
            values = {tp: offsets.get(tp, self._stored(tree, tp)) for tp in lost}
            parts = self._parts(lost)
            self._event("stop", id=number, parts=parts, values=self._values(values), fenced=fenced)
        elif kind == "notify" and not (got or lost or offsets):
            self._event("read", id=number, fenced=fenced)
        else:
            self._event("unknown")

    def _stored(self, tree: dict[str, Rec], tp: TopicPartition) -> int:
        return _number(tree.get(self.places.offset((self.group, tp))))

    # everybody else

    def _anybody(self, changes: Sequence[Change]) -> None:
        for place, before, after in changes:
            if place.kind == "leader" and after is None:
                self._event("vacate")
            elif place.kind == "root" and (
                before is None or not after or before.data != after.data
            ):
                epoch = _epoch(after.data) if after is not None else 0
                self._event("epoch", epoch=self._epoch(epoch or 0))
            elif place.group == self.group:
                self._meddled(place, before, after)

    def _meddled(self, place: Place, before: Rec | None, after: Rec | None) -> None:
        path = self._path(place)
        if place.kind == "ids" and before is not None and (after is None or before.data):
            known = self.members.get(before.owner)
            if known is not None:  # deleted, or written over: its version is not 0 any more
                self._event("putout", m=f'"{known.name}"', fenced="TRUE")
        elif place.kind == "command" and after is None and path in self.commands:
            self._event("withdraw", id=str(self.commands.pop(path)))
        elif place.kind == "owner":
            who = STRANGER if after is not None else NOBODY
            self._event("owner", p=self._part(place.partition), who=f'"{who}"')
        elif place.kind == "offset":
            self._event("offset", p=self._part(place.partition), value=str(_number(after)))


def recorded(recorders: Sequence[Recorder]) -> str:
    """The module Recorded: these runs."""
    runs = ",\n".join("<<" + ",\n".join(one.events) + ">>" for one in recorders)
    return f"---- MODULE Recorded ----\nEXTENDS TLC\nRuns == <<\n{runs}\n>>\n====\n"


def _said(truth: bool) -> str:
    return "TRUE" if truth else "FALSE"


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _number(rec: Rec | None) -> int:
    """An offset; what is none counts as 0."""
    return int(rec.data) if rec is not None and rec.data.isdigit() else 0


def _epoch(data: bytes) -> int | None:
    """The epoch that a document names; None: none."""
    try:
        said: Any = json.loads(data)
    except ValueError:
        return None
    epoch = said.get("epoch") if isinstance(said, dict) else None
    return epoch if isinstance(epoch, int) else None


def _checks(ops: Sequence[Op]) -> bool:
    """Whether a member's multi begins with the check of its registration, at version 0."""
    first = ops[0]
    return isinstance(first, Check) and "/ids/" in first.path and first.version == 0


def _versioned(ops: Sequence[Op]) -> bool:
    """Whether each offset is written at a version, or made."""
    written = [op for op in ops if isinstance(op, SetData) and "/offsets/" in op.path]
    return all(op.version != -1 for op in written)
