"""What must hold, checked by code that knows nothing of the system but its promises.

`Checker` watches two things only: the transactions of the ZooKeeper model, in the order in which they happened, and what applications do with records. It parses paths and data by
itself, and it is told by the world which operator tricks make an exception (a reset offset may go back). A broken promise becomes a `Violation` with the time and the invariant's
name; the run goes on, so that a trace shows what follows.

I1 one coordinator per epoch, epochs rise; I2 nothing of epoch e is written after e+1 exists; I3 no partition is fetched by two members with a live lease; I4 offsets do not go back;
I5 a member commits what it owns, never past what it processed; I6 commands of one member take effect in (epoch, seq) order; I7 a start only where no owner and no other start is;
I8 after the faults everything is fetched by exactly one member and then nobody is commanded; I10 nothing raises; I11 limits; I13 nothing is skipped, and after a clean stop nothing is
delivered twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from consumer.core.messages import Assigned, Lost, Notice, Resumed, Revoke, Seek, ToFetcher
from zkcoord.core.model import TopicPartition

from tests.sim.application import Application
from tests.sim.kernel import Kernel
from tests.sim.tree import Rec, Tree, Txn

LEADER = "/consumers/coordinator"
ROOT = "/consumers/groups"
OWNER_PATH_BYTES_MAX = 512 * 1024
VIOLATIONS_MAX = 20

Key = tuple[str, TopicPartition]  # group, partition


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise."""

    time_ms: int
    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.time_ms} ms: {self.what}"


@dataclass(slots=True)
class Place:
    """What a path is: kind is leader, root, group, ids, channel, command, owner, offset or other."""

    kind: str
    group: str = ""
    member: str = ""
    node: str = ""
    partition: TopicPartition = TopicPartition("", -1)


def place_of(path: str) -> Place:
    """What a path of the draft layout is."""
    if path == LEADER:
        return Place("leader")
    if path == ROOT:
        return Place("root")
    parts = path.split("/")[1:]
    if parts[0] != "consumers" or len(parts) < 3:
        return Place("other")
    if parts[1] != "groups":
        if len(parts) == 5 and parts[2] == "offsets" and parts[4].isdigit():
            return Place("offset", parts[1], partition=TopicPartition(parts[3], int(parts[4])))
        return Place("other")
    group, rest = parts[2], parts[3:]
    if not rest:
        return Place("group", group)
    if rest[0] == "ids" and len(rest) == 2:
        return Place("ids", group, rest[1])
    if rest[0] == "channel" and len(rest) == 2:
        return Place("channel", group, rest[1])
    if rest[0] == "channel" and len(rest) == 3:
        return Place("command", group, rest[1], rest[2])
    if rest[0] == "owners" and len(rest) == 3 and rest[2].isdigit():
        return Place("owner", group, partition=TopicPartition(rest[1], int(rest[2])))
    return Place("other")


def owner_path(key: Key) -> str:
    """Where the owner of a partition is written."""
    return f"{ROOT}/{key[0]}/owners/{key[1].topic}/{key[1].partition}"


def offset_path(key: Key) -> str:
    """Where the offset of a partition is written."""
    return f"/consumers/{key[0]}/offsets/{key[1].topic}/{key[1].partition}"


@dataclass(slots=True)
class Sent:
    """A command as it stands in a channel."""

    member: str
    option: str
    epoch: int
    seq: int
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class Fetching:
    """What is known of one group's partition."""

    handed: int = 0
    processed: int = 0
    last_handed_ms: int = -1
    stored: set[int] = field(default_factory=set)
    judged: bool = True
    reset_to: int | None = None  # an operator's reset that no application has heard of yet
    by_host: dict[str, int] = field(default_factory=dict)


class Checker:
    """All checkers. `role` says what a host is: coordinator, consumer, operator or guardian."""

    def __init__(self, kernel: Kernel, tree: Tree, role: Callable[[str], str], apps: Callable[[], list[Application]]) -> None:
        self.kernel = kernel
        self.tree = tree
        self.role = role
        self.apps = apps
        self.violations: list[Violation] = []
        self.commands_sent = 0
        self.evictions = 0
        self.last_command_ms = -1
        self.callbacks: dict[str, int] = {}
        self.parts: dict[Key, Fetching] = {}
        self._places: dict[str, Place] = {}
        self._won: dict[int, int] = {}
        self._epoch = -1
        self._sent: dict[str, Sent] = {}
        self._starting: dict[Key, dict[str, None]] = {}
        self._last_effect: dict[str, tuple[int, int]] = {}
        self._owner_bytes: dict[int, int] = {}

    def violate(self, invariant: str, what: str) -> None:
        """Record a broken promise."""
        self.kernel.trace("CHECK", f"!!! {invariant}: {what}")
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(self.kernel.now, invariant, what))

    def part(self, key: Key) -> Fetching:
        """What is known of a partition."""
        found = self.parts.get(key)
        if found is None:
            found = self.parts[key] = Fetching()
        return found

    # ---- transactions ----

    def committed(self, txn: Txn, tree: Tree) -> None:
        """Look at one transaction, just after it happened."""
        if not txn.changes:
            return
        role = self.role(txn.host) if txn.session else "operator"
        places = [(self._place(path), path, before, after) for path, before, after in txn.changes]
        if role == "coordinator" and txn.kind == "multi":
            self._coordinator_wrote(txn, places)
        for place, path, before, after in places:
            if place.kind == "command":
                self._command(txn, role, place, path, before, after, places)
            elif place.kind == "offset":
                self._offset(txn, role, place, before, after, places)
            elif place.kind == "owner":
                self._owner(txn, role, path, before, after)

    def _place(self, path: str) -> Place:
        place = self._places.get(path)
        if place is None:
            place = self._places[path] = place_of(path)
        return place

    def _coordinator_wrote(self, txn: Txn, places: list[tuple[Place, str, Rec | None, Rec | None]]) -> None:
        takes_lead = any(p.kind == "leader" and before is None for p, _, before, _ in places)
        new_epoch = next((_epoch_of(op.data) for op in txn.ops if getattr(op, "path", "") == ROOT and hasattr(op, "data") and op.data), None)
        if takes_lead and new_epoch is None:
            self.violate("I1", f"{txn.host} created the leader node without raising the epoch")
        if new_epoch is not None:
            if new_epoch <= self._epoch:
                self.violate("I1", f"{txn.host} wrote epoch {new_epoch} after {self._epoch}")
            self._epoch = max(self._epoch, new_epoch)
            if takes_lead:
                self._won[txn.session] = new_epoch
            return
        mine = self._won.get(txn.session)
        if mine is None:
            if any(after is None or before is not None and before.data != after.data or after.data for p, _, before, after in places if p.kind != "leader"):
                self.violate("I2", f"{txn.host} wrote without a term: {[path for _, path, _, _ in places]}")
        elif mine < self._epoch:
            self.violate("I2", f"{txn.host} of epoch {mine} wrote after epoch {self._epoch} began: {[path for _, path, _, _ in places]}")
        if any(p.kind == "ids" and after is None for p, _, _, after in places):
            self.evictions += 1

    def _command(self, txn: Txn, role: str, place: Place, path: str, before: Rec | None, after: Rec | None, places: list[tuple[Place, str, Rec | None, Rec | None]]) -> None:
        if before is None and after is not None:
            sent = _sent(place.member, after.data)
            if role != "coordinator" or sent is None:
                return
            self.commands_sent += 1
            self.last_command_ms = self.kernel.now
            self._sent[path] = sent
            if sent.option == "start-fetcher":
                for tp in sent.partitions:
                    self._start_sent((place.group, tp), path)
        elif after is None:
            sent = self._sent.pop(path, None)
            if sent is None:
                return
            for tp in sent.partitions:
                self._starting.get((place.group, tp), {}).pop(path, None)
            effects = [p for p, _, b, a in places if p.kind == "owner" and (b is None or a is None)]
            if role == "consumer" and effects:
                last = self._last_effect.get(place.member, (-1, -1))
                if (sent.epoch, sent.seq) <= last:
                    self.violate("I6", f"{place.member} applied {(sent.epoch, sent.seq)} after {last}")
                self._last_effect[place.member] = (sent.epoch, sent.seq)
                foreign = [p.partition for p in effects if p.partition not in sent.partitions]
                if foreign:
                    self.violate("I6", f"{place.member} changed owners that its command does not name: {foreign}")

    def _start_sent(self, key: Key, path: str) -> None:
        owner = self.tree.nodes.get(owner_path(key))
        if owner is not None and owner.owner:  # a foreign tool's node may appear at any moment
            self.violate("I7", f"{path} starts {key[1]} which is owned by {owner.data!r}")
        others = self._starting.setdefault(key, {})
        rivals = [p for p in others if f"{ROOT}/{key[0]}/ids/{self._sent[p].member}" in self.tree.nodes]
        if rivals:
            self.violate("I7", f"{path} starts {key[1]} while {rivals[0]} does")
        others[path] = None

    def _owner(self, txn: Txn, role: str, path: str, before: Rec | None, after: Rec | None) -> None:
        size = len(path.encode())
        if before is None and after is not None and after.owner:
            total = self._owner_bytes[after.owner] = self._owner_bytes.get(after.owner, 0) + size
            if total > OWNER_PATH_BYTES_MAX:
                self.violate("I11", f"session {after.owner:x} holds {total} bytes of owner paths")
        elif after is None and before is not None:
            self._owner_bytes[before.owner] = self._owner_bytes.get(before.owner, 0) - size
            if role == "consumer" and before.owner != txn.session:
                self.violate("I5", f"{txn.host} deleted {path}, which another session owns")
            if role == "coordinator" and any(a.host.alive and k in a.fetching() for a in self.apps() for k in [self._place(path).partition] if a.group == self._place(path).group):
                self.violate("I3", f"the coordinator removed {path} while a member with a live lease fetches it")

    def _offset(self, txn: Txn, role: str, place: Place, before: Rec | None, after: Rec | None, places: list[tuple[Place, str, Rec | None, Rec | None]]) -> None:
        key = (place.group, place.partition)
        part = self.part(key)
        new = _number(after.data) if after is not None else None
        old = _number(before.data) if before is not None else None
        if old is not None:
            part.stored.add(old)
        if role == "operator":
            if old is None:
                part.reset_to = None
            elif new != old:
                part.reset_to = new  # the same value once more leaves a reset that nobody has heard of yet as it is (seed 420501713663)
            part.judged = new not in part.stored  # a value that was stored before may pass for a member's own
            part.handed = max(part.handed, new or 0)
            part.processed = max(part.processed, new or 0)
            return
        if before is not None and after is not None and before.version == after.version:
            return
        if role != "consumer":
            self.violate("I5", f"{txn.host} ({role}) wrote the offset of {key}")
            return
        if new is None:
            self.violate("I5", f"{txn.host} wrote {None if after is None else after.data!r} as the offset of {key}")
            return
        owner = self.tree.nodes.get(owner_path(key))
        held = (owner is not None and owner.owner == txn.session) or any(p.kind == "owner" and p.partition == place.partition and b is not None and b.owner == txn.session for p, _, b, _ in places)
        if not held:
            self.violate("I5", f"{txn.host} committed {key[1]}={new} which it does not own")
        if not self._registered(place.group, txn.session):
            self.violate("I5", f"{txn.host} wrote the offset of {key[1]} without being registered")
        if old is not None and new < old:
            self.violate("I4", f"{txn.host} moved {key[1]} back from {old} to {new}")
        if new != old and new > part.by_host.get(txn.host, 0):
            self.violate("I5", f"{txn.host} committed {key[1]}={new}, past its position {part.by_host.get(txn.host, 0)}")
        if part.reset_to is not None and new != part.reset_to:
            if part.judged:
                self.violate("I4", f"{txn.host} overwrote an operator's reset of {key[1]} to {part.reset_to} with {new}")
            part.reset_to = None
        released = any(p.kind == "owner" and p.partition == place.partition and a is None for p, _, _, a in places)
        if released:
            self._released(txn, key, new)

    def _registered(self, group: str, session: int) -> bool:
        """Whether a session has a registration in the group (just after its own transaction)."""
        return any(self.tree.nodes[f"{ROOT}/{group}/ids/{name}"].owner == session for name in self.tree.children.get(f"{ROOT}/{group}/ids", ()))

    def _released(self, txn: Txn, key: Key, value: int) -> None:
        """A clean stop of an automatic application leaves nothing to deliver again."""
        part = self.parts[key]
        app = next((a for a in self.apps() if a.host.name == txn.host), None)
        if app is not None and app.habits.automatic and part.reset_to is None and value != part.by_host.get(txn.host, value):
            self.violate("I13", f"{txn.host} gave {key[1]} up at {value} though it had processed up to {part.by_host[txn.host]}")

    # ---- applications (the Witness protocol) ----

    def told(self, app: Application, message: ToFetcher) -> None:
        """A message as the application takes it."""
        if isinstance(message, (Assigned, Revoke, Resumed, Lost)):
            self.callbacks[app.host.name] = self.callbacks.get(app.host.name, 0) + 1
        if isinstance(message, Seek):
            self._heard_reset(app, message.partition, message.offset)
        if not isinstance(message, Notice) or self.kernel.tracing:
            self.kernel.trace(app.host.name, f"app takes {message}")

    def _heard_reset(self, app: Application, partition: TopicPartition, offset: int) -> None:
        part = self.part((app.group, partition))
        part.by_host[app.host.name] = offset
        if part.reset_to == offset:
            part.reset_to = None

    def assigned(self, app: Application, partition: TopicPartition, offset: int) -> None:
        """The application begins at `offset`."""
        key = (app.group, partition)
        part = self.part(key)
        self._heard_reset(app, partition, offset)
        if offset > part.processed:
            self.violate("I13", f"{app.host.name} begins {partition} at {offset}, but only {part.processed} records were processed")
        if app.lease_until_ms() == 0 or part.reset_to is not None:
            return  # what it was told is not true any more, and it will hear of that
        node = self.tree.nodes.get(offset_path(key))
        owner = self.tree.nodes.get(owner_path(key))
        if owner is not None and node is not None and self.role_session(owner.owner) == app.host.name and _number(node.data) != offset:
            self.violate("I13", f"{app.host.name} begins {partition} at {offset}, stored is {node.data!r}")

    role_session: Callable[[int], str] = staticmethod(lambda _session: "")

    def handed_out(self, app: Application, partition: TopicPartition, first: int, next_offset: int) -> None:
        """Records were given to the application's code."""
        key = (app.group, partition)
        part = self.part(key)
        part.last_handed_ms = self.kernel.now
        for other in self.apps():
            if other is not app and other.group == app.group and other.host.alive and partition in other.positions and partition in other.fetching():
                self.violate("I3", f"{app.host.name} hands out {partition} from {first} while {other.host.name} fetches it (lease until {other.lease_until_ms()})")
        if first > part.handed:
            self.violate("I13", f"{app.host.name} skips {partition} {part.handed}..{first - 1}")
        part.handed = max(part.handed, next_offset)

    def processed(self, app: Application, partition: TopicPartition, next_offset: int) -> None:
        """Everything below `next_offset` is processed."""
        part = self.part((app.group, partition))
        part.processed = max(part.processed, next_offset)
        part.by_host[app.host.name] = next_offset


def _epoch_of(data: bytes) -> int | None:
    try:
        value = json.loads(data)
        return int(value["epoch"]) if isinstance(value, dict) else None
    except (ValueError, KeyError, TypeError):
        return None


def _number(data: bytes) -> int | None:
    return int(data) if data.isdigit() else None


def _sent(member: str, data: bytes) -> Sent | None:
    try:
        value = json.loads(data)
        names = value.get("ownershipMap", {}) if value["option"] == "start-fetcher" else value.get("partitions", [])
        tps = tuple(TopicPartition(name[: name.rfind("-")], int(name[name.rfind("-") + 1 :])) for name in names)
        return Sent(member, value["option"], int(value["epoch"]), int(value["seq"]), tps)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
