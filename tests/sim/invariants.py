"""What must hold, checked by code that knows nothing of the system but its promises.

`Checker` watches two things only: the transactions of the ZooKeeper model, in the order in which
they happened, and what applications do with records. It parses paths and data by itself, and it is
told by the world which operator tricks make an exception (a reset offset may go back). A broken
promise becomes a `Violation` with the time and the invariant's name; the run goes on, so that a
trace shows what follows.

I1 one coordinator per epoch, epochs rise; I2 nothing of epoch e is written after e+1 exists; I3 no
partition is fetched by two members with a live lease, nor announced or revoked without one; I4
offsets do not go back; I5 a member commits what it owns, never past what it processed; I6 commands
of one member take effect in (epoch, seq) order; I7 a start only where no owner and no other start
is; I8 after the faults everything is fetched by exactly one member and then nobody is commanded;
I10 nothing raises; I11 limits; I13 nothing is skipped, and after a clean stop nothing is delivered
twice; I18 what a manual application did not commit is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from consumer.core.messages import (
    Assigned,
    Lost,
    Notice,
    NoticeKind,
    Resumed,
    Revoke,
    Seek,
    ToFetcher,
)
from tests.sim.application import Application
from tests.sim.groups import Groups
from tests.sim.kernel import Kernel
from tests.sim.operator_checks import OperatorChecks
from tests.sim.places import Key, Place, Places
from tests.sim.tree import Rec, Tree, Txn
from zkcoord.core.model import TopicPartition

OWNER_PATH_BYTES_MAX = 512 * 1024
VIOLATIONS_MAX = 20


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise."""

    time_ms: int
    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.time_ms} ms: {self.what}"


@dataclass(slots=True)
class Sent:
    """A command as it stands in a channel."""

    member: str
    option: str
    epoch: int
    seq: int
    partitions: tuple[TopicPartition, ...]
    incarnations: dict[str, str]


@dataclass(slots=True)
class Fetching:
    """What is known of one group's partition."""

    handed: int = 0
    processed: int = 0
    last_handed_ms: int = -1
    reset_to: int | None = None  # an operator's reset that no application has heard of yet
    # a reset that its owner may respect though nothing says that it must: of a topic before, or one
    # that came between a start ack and its news
    past_reset: int | None = None
    reset_zxid: int = 0
    begun_zxid: int = 0
    foreign_zxid: int = 0  # when an old consumer wrote its offset last
    foreign_heard: int = 0  # which of those was taken for an operator's reset last
    resets: int = 0  # how often an operator wrote or deleted its offset
    seeks: dict[str, int] = field(default_factory=dict)  # how often each host was told of one
    by_host: dict[str, int] = field(default_factory=dict)
    belongs_to: str = ""  # the incarnation of the topic that the last start named


class Checker:
    """All checkers. `role` says what a host is: coordinator, consumer, operator or guardian."""

    def __init__(
        self,
        kernel: Kernel,
        tree: Tree,
        role: Callable[[str], str],
        apps: Callable[[], list[Application]],
        places: Places = Places.DRAFT,
    ) -> None:
        self.kernel = kernel
        self.tree = tree
        self.role = role
        self.apps = apps
        self.violations: list[Violation] = []
        self.commands_sent = 0
        self.evictions = 0
        self.last_command_ms = -1
        self.callbacks: dict[str, int] = {}
        self.failing: set[str] = set()  # hosts that were told of a quarantine, and not of its end
        self.parts: dict[Key, Fetching] = {}
        # what was committed beside an offset of a partition, "" for nothing
        self.texts: dict[tuple[Key, int], set[str]] = {}
        self.places = places
        self.groups = Groups(kernel, tree, places, self.violate)
        self.operators = OperatorChecks(kernel, tree, places, self.violate)
        self._placed: dict[str, Place] = {}
        self._won: dict[int, int] = {}
        self._epoch = -1
        self._sent: dict[str, Sent] = {}
        self._starting: dict[Key, dict[str, None]] = {}
        self._last_effect: dict[str, tuple[int, int]] = {}
        self._owner_bytes: dict[int, int] = {}
        self._made_again: set[str] = set()
        self.topic_node: Callable[[str], Rec | None] = lambda name: tree.nodes.get(
            f"/brokers/topics/{name}"
        )
        # what the start behind an owner node named as the topic's incarnation
        self._started_as: dict[Key, str] = {}
        # the session whose owner node an old consumer deleted by name, which it was not told yet
        self._robbed: dict[Key, int] = {}

    def topic_made_again(self, topic: str, groups: list[str], partitions: int) -> None:
        """A topic was deleted and created again: its records are others, and offsets of the earlier
        one mean nothing.
        """
        self._made_again.add(topic)
        for key in [
            (group, TopicPartition(topic, p)) for group in groups for p in range(partitions)
        ]:
            part = self.part(key)
            part.handed = part.processed = 0
            if part.reset_to is not None:
                part.reset_to, part.past_reset = None, part.reset_to

    def _earlier(self, app: Application, key: Key) -> bool:
        """Whether what an application says of a partition it says of an earlier topic of this name:
        it does not own it, or the start that made the owner node named another incarnation.
        """
        if key[1].topic not in self._made_again:
            return False
        owner = self.tree.nodes.get(self.places.owner(key))
        return (
            owner is None
            or self.role_session(owner.owner) != app.host.name
            or not self._present(key)
        )

    def _present(self, key: Key) -> bool:
        """Whether a partition was started as one of the topic that is there now."""
        topic, started = (
            self.topic_node(key[1].topic),
            self._started_as.get(key, ""),
        )
        if topic is None or not started:
            return False
        return _same_topic(started, self._incarnation(topic))

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
        if role == "legacy":
            self._old_consumer_wrote(txn, places)
            return self.groups.committed(txn, "operator", places)
        if role == "coordinator" and txn.kind == "multi":
            self._coordinator_wrote(txn, places)
        for place, path, before, after in places:
            if place.kind == "command":
                self._command(txn, role, place, path, before, after, places)
            elif place.kind == "offset":
                self._offset(txn, role, place, before, after, places)
                self._beside(txn, role, place, before, after, places)
            elif place.kind == "beside" and role == "consumer":
                self._beside_alone(txn, place, places)
            elif place.kind == "owner":
                self._owner(txn, role, path, before, after)
        self.groups.committed(txn, role, places)
        self.operators.committed(txn, role, places)

    def _old_consumer_wrote(
        self, txn: Txn, places: list[tuple[Place, str, Rec | None, Rec | None]]
    ) -> None:
        """What an old consumer does is judged by nobody; what it stored it has processed."""
        for place, _, before, after in places:
            if place.kind == "owner" and before is not None and after is None and before.owner:
                self._robbed[place.group, place.partition] = before.owner
            value = _number(after.data) if after is not None and place.kind == "offset" else None
            if value is not None:
                part = self.part((place.group, place.partition))
                part.foreign_zxid = txn.zxid
                part.handed, part.processed = max(part.handed, value), max(part.processed, value)

    def _place(self, path: str) -> Place:
        place = self._placed.get(path)
        if place is None:
            place = self._placed[path] = self.places.place_of(path)
        return place

    def _coordinator_wrote(
        self, txn: Txn, places: list[tuple[Place, str, Rec | None, Rec | None]]
    ) -> None:
        takes_lead = any(p.kind == "leader" and before is None for p, _, before, _ in places)
        new_epoch = next(
            (
                _epoch_of(op.data)
                for op in txn.ops
                if getattr(op, "path", "") == self.places.root and hasattr(op, "data") and op.data
            ),
            None,
        )
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
            if any(
                after is None or (before is not None and before.data != after.data) or after.data
                for p, _, before, after in places
                if p.kind != "leader"
            ):
                self.violate(
                    "I2", f"{txn.host} wrote without a term: {[path for _, path, _, _ in places]}"
                )
        elif mine < self._epoch:
            self.violate(
                "I2",
                f"{txn.host} of epoch {mine} wrote after epoch {self._epoch} began:"
                f" {[path for _, path, _, _ in places]}",
            )
        if any(p.kind == "ids" and after is None for p, _, _, after in places):
            self.evictions += 1

    def _command(
        self,
        txn: Txn,
        role: str,
        place: Place,
        path: str,
        before: Rec | None,
        after: Rec | None,
        places: list[tuple[Place, str, Rec | None, Rec | None]],
    ) -> None:
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
                if role == "consumer":
                    self._robbed.pop((place.group, tp), None)
            effects = [p for p, _, b, a in places if p.kind == "owner" and (b is None or a is None)]
            if role == "consumer" and sent.option == "start-fetcher":
                self._started_as.update(
                    {
                        (place.group, p.partition): sent.incarnations.get(p.partition.topic, "")
                        for p in effects
                    }
                )
            if role == "consumer" and effects:
                last = self._last_effect.get(place.member, (-1, -1))
                if (sent.epoch, sent.seq) <= last:
                    self.violate(
                        "I6", f"{place.member} applied {(sent.epoch, sent.seq)} after {last}"
                    )
                self._last_effect[place.member] = (sent.epoch, sent.seq)
                foreign = [p.partition for p in effects if p.partition not in sent.partitions]
                if foreign:
                    self.violate(
                        "I6",
                        f"{place.member} changed owners that its command does not name: {foreign}",
                    )

    def _start_sent(self, key: Key, path: str) -> None:
        owner = self.tree.nodes.get(self.places.owner(key))
        # an old consumer may just have made it; a foreign tool's node may appear at any moment
        if (
            owner is not None
            and owner.owner
            and self.role(self.role_session(owner.owner)) != "legacy"
        ):
            self.violate("I7", f"{path} starts {key[1]} which is owned by {owner.data!r}")
        others = self._starting.setdefault(key, {})
        rivals = [
            p
            for p in others
            if f"{self.places.ids(key[0])}/{self._sent[p].member}" in self.tree.nodes
        ]
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
            if role == "coordinator" and any(
                a.host.alive and k in a.fetching()
                for a in self.apps()
                for k in [self._place(path).partition]
                if a.group == self._place(path).group
            ):
                self.violate(
                    "I3",
                    f"the coordinator removed {path} while a member with a live lease fetches it",
                )

    def _offset(
        self,
        txn: Txn,
        role: str,
        place: Place,
        before: Rec | None,
        after: Rec | None,
        places: list[tuple[Place, str, Rec | None, Rec | None]],
    ) -> None:
        key = (place.group, place.partition)
        part = self.part(key)
        new = _number(after.data) if after is not None else None
        old = _number(before.data) if before is not None else None
        if role == "operator":
            part.resets += 1
            part.reset_zxid = txn.zxid
            if old is None or self._of_the_past(place):
                part.reset_to, part.past_reset = None, new
            else:
                # whatever was stored: a reset to the same value is one (seed 803166733351)
                part.reset_to = new
            part.handed = max(part.handed, new or 0)
            part.processed = max(part.processed, new or 0)
            return
        if before is not None and after is not None and before.version == after.version:
            return
        if role != "consumer":
            self.violate("I5", f"{txn.host} ({role}) wrote the offset of {key}")
            return
        if new is None:
            self.violate(
                "I5",
                f"{txn.host} wrote {None if after is None else after.data!r} as the offset of"
                f" {key}",
            )
            return
        owner = self.tree.nodes.get(self.places.owner(key))
        # where the group is not shared any more a commit asks for no owner node: who owned it and
        # was robbed of that by an old consumer hears so with the start that comes for it
        robbed = self._robbed.get(key) == txn.session and owner is None
        by_state = self.stored_by_state(txn, place.group)
        held = (
            by_state
            or (owner is not None and owner.owner == txn.session)
            or robbed
            or any(
                p.kind == "owner"
                and p.partition == place.partition
                and b is not None
                and b.owner == txn.session
                for p, _, b, _ in places
            )
        )
        if not held:
            self.violate("I5", f"{txn.host} committed {key[1]}={new} which it does not own")
        if not by_state and not self.registered(place.group, txn.session):
            self.violate("I5", f"{txn.host} wrote the offset of {key[1]} without being registered")
        begins = any(
            p.kind == "owner" and p.partition == place.partition and b is None
            for p, _, b, _ in places
        )
        if before is not None and before.mzxid == part.foreign_zxid and not begins:
            return  # an old consumer has written over it: ours counts
        part.begun_zxid = txn.zxid if begins else part.begun_zxid
        belonged, part.belongs_to = (
            part.belongs_to,
            # where a start stored nothing the first commit does
            self._started_as.get(key, "") if begins or before is None else part.belongs_to,
        )
        # what was stored before means nothing
        other_topic = belonged and part.belongs_to and not _same_topic(belonged, part.belongs_to)
        if old is not None and new < old and not other_topic:
            self.violate("I4", f"{txn.host} moved {key[1]} back from {old} to {new}")
        behind = self.position_behind(txn, key)
        position = part.by_host.get(txn.host, 0) if behind is None else behind
        if new != old and new > position:
            self.violate("I5", f"{txn.host} committed {key[1]}={new}, past its position {position}")
        if (
            behind is not None
            and part.reset_to not in (None, new)
            and part.begun_zxid > part.reset_zxid
        ):
            # it was made while the client's member was at no gateway: nobody could tell the client
            self.kernel.happened["a reset was overwritten by who came from another gateway"] += 1
            part.reset_to = None
        if part.reset_to is not None and new != part.reset_to:
            self.violate(
                "I4",
                f"{txn.host} overwrote an operator's reset of {key[1]} to {part.reset_to} with"
                f" {new}",
            )
            part.reset_to = None
        if old is not None and new != old and not other_topic:
            self._asked_for(txn, place.partition, new)
        released = any(
            p.kind == "owner" and p.partition == place.partition and a is None
            for p, _, _, a in places
        )
        if released:
            self._released(txn, key, new)

    def _beside(
        self,
        txn: Txn,
        role: str,
        place: Place,
        before: Rec | None,
        after: Rec | None,
        places: list[tuple[Place, str, Rec | None, Rec | None]],
    ) -> None:
        """I21: what counts beside an offset is what was committed with it."""
        new = _number(after.data) if after is not None else None
        old = _number(before.data) if before is not None else None
        if role != "consumer" or new is None:
            return
        key = (place.group, place.partition)
        asked, found = self.texts.get((key, new), set()), self._text_beside(key, new)
        if found and found not in asked:
            self.violate("I21", f"beside {key[1]}={new} stands {found!r}, asked for was {asked}")
        moved = any(p.kind == "owner" and p.partition == place.partition for p, *_ in places)
        if asked and "" not in asked and not found and not moved and new != old:
            self.violate("I21", f"beside {key[1]}={new} stands nothing, asked for was {asked}")

    def _beside_alone(
        self, txn: Txn, place: Place, places: list[tuple[Place, str, Rec | None, Rec | None]]
    ) -> None:
        """I21: it is written behind the fence of its offset, in one multi."""
        if not any(p.kind == "offset" and p.partition == place.partition for p, *_ in places):
            self.violate("I21", f"{txn.host} wrote beside the offset of {place.partition} alone")

    def _text_beside(self, key: Key, offset: int) -> str:
        node = self.tree.nodes.get(self.places.beside(key))
        said = json.loads(node.data) if node is not None and node.data else {}
        return str(said["metadata"]) if said.get("offset") == offset else ""

    def asks(self, app: Application, partition: TopicPartition, offset: int, text: str) -> None:
        """What an application commits, and with which text."""
        self.texts.setdefault(((app.group, partition), offset), set()).add(text)

    def _of_the_past(self, place: Place) -> bool:
        """Whether the note beside an offset says that it is of another topic than the one that
        exists: then the offset does not count, whoever writes it.
        """
        note, topic = (
            self.tree.nodes.get(f"/consumers/{place.group}/offsets/{place.partition.topic}"),
            self.topic_node(place.partition.topic),
        )
        if note is None or topic is None or not note.data:
            return False
        return not _same_topic(
            note.data.decode(errors="replace").removesuffix("+"), self._incarnation(topic)
        )

    def _incarnation(self, topic: Rec) -> str:
        return f"{topic.czxid}.{json.loads(topic.data).get('topic_id', '')}"

    def _asked_for(self, txn: Txn, partition: TopicPartition, value: int) -> None:
        """A member of a manual application stores what the application committed."""
        app = next((a for a in self.apps() if a.host.name == txn.host), None)
        if app is not None and not app.habits.automatic and (partition, value) not in app.asked:
            self.violate(
                "I18",
                f"{txn.host} stored {partition}={value}, which its application did not commit",
            )

    def registered(self, group: str, session: int) -> bool:
        """Whether a session has a registration in the group (just after its own transaction)."""
        return any(
            self.tree.nodes[f"{self.places.ids(group)}/{name}"].owner == session
            for name in self.tree.children.get(self.places.ids(group), ())
        )

    def _released(self, txn: Txn, key: Key, value: int) -> None:
        """A clean stop of an automatic application leaves nothing to deliver again."""
        part = self.parts[key]
        app = next((a for a in self.apps() if a.host.name == txn.host), None)
        if (
            app is not None
            and app.habits.automatic
            and part.reset_to is None
            and value not in (part.by_host.get(txn.host, value), part.past_reset)
        ):
            self.violate(
                "I13",
                f"{txn.host} gave {key[1]} up at {value} though it had processed up to"
                f" {part.by_host[txn.host]}",
            )

    # ---- applications (the Witness protocol) ----

    def told(self, app: Application, message: ToFetcher) -> None:
        """A message as the application takes it."""
        says_nothing_is_left = isinstance(message, Assigned) and not (
            message.offsets or message.unset
        )
        if isinstance(message, (Assigned, Revoke, Resumed, Lost)) and not says_nothing_is_left:
            self.callbacks[app.host.name] = self.callbacks.get(app.host.name, 0) + 1
        if isinstance(message, Notice):
            self._judge_notice(app.host.name, message.kind)
        if isinstance(message, Seek):
            self._heard_reset(app, message.partition, message.offset)
            self._judge_seek(app, message.partition)
        if not isinstance(message, Notice) or self.kernel.tracing:
            self.kernel.trace(app.host.name, f"app takes {message}")

    def said(self, app: Application, message: ToFetcher) -> None:
        """I3: nobody is told that something is its own, or is to be given up as if it were, by a
        member that cannot know any more. I25: who was evicted comes back when its application
        polls.
        """
        if isinstance(message, (Assigned, Revoke)) and not app.may_hold():
            self.violate("I3", f"{app.host.name} is told without a lease: {message}")
        if isinstance(message, Notice) and message.kind is NoticeKind.REGISTERED:
            self.operators.heard(message.detail["incarnation"])
            if not app.may_register:
                self.violate("I25", f"{app.host.name} is back before its application polled")
        if isinstance(message, Assigned):
            for tp, text in message.metadata.items():
                asked = self.texts.get(((app.group, tp), message.offsets[tp]), set())
                if text not in asked:
                    self.violate("I21", f"{app.host.name} is told {text!r} beside {tp}")

    def _judge_notice(self, host: str, kind: NoticeKind) -> None:
        """I17: a quarantine is one warning, however often the coordinator had to say it."""
        if kind is NoticeKind.REBALANCE_FAILED:
            if host in self.failing:
                self.violate("I17", f"{host} is told twice of one quarantine")
            self.failing.add(host)
        elif kind is NoticeKind.REBALANCE_OVER:
            self.failing.discard(host)

    def _judge_seek(self, app: Application, partition: TopicPartition) -> None:
        """What a member takes for an operator's reset was one: never more of them than there were.
        Who does not know that its group is shared takes what an old consumer wrote over its own for
        one, too, once: nothing is lost by that, it had processed as much.
        """
        part = self.part((app.group, partition))
        part.seeks[app.host.name] = part.seeks.get(app.host.name, 0) + 1
        if (
            part.seeks[app.host.name] > part.resets
            and part.foreign_zxid > max(part.begun_zxid, part.foreign_heard)
            and not self.knows_shared(app.group, app.host.name)
        ):
            part.foreign_heard = part.foreign_zxid
            part.resets += 1
        if part.seeks[app.host.name] > part.resets:
            self.violate(
                "I13", f"{app.host.name} is told of a reset of {partition} that nobody made"
            )

    def _heard_reset(self, app: Application, partition: TopicPartition, offset: int) -> None:
        part = self.part((app.group, partition))
        part.by_host[app.host.name] = offset
        if part.reset_to == offset:
            part.reset_to = None

    def assigned(self, app: Application, partition: TopicPartition, offset: int) -> None:
        """The application begins at `offset`."""
        key = (app.group, partition)
        part = self.part(key)
        if part.reset_zxid > part.begun_zxid:
            part.past_reset = part.reset_to if part.reset_to is not None else part.past_reset
        self._heard_reset(app, partition, offset)
        if self._earlier(app, key):
            return
        if offset > part.processed:
            self.violate(
                "I13",
                f"{app.host.name} begins {partition} at {offset}, but only {part.processed} records"
                " were processed",
            )
        if (
            app.lease_left(app.assignment_epoch) is None
            or part.reset_to is not None
            or part.foreign_zxid > part.begun_zxid
        ):
            return  # what it was told is not true any more, and it will hear of that
        node = self.tree.nodes.get(self.places.offset(key))
        owner = self.tree.nodes.get(self.places.owner(key))
        if (
            owner is not None
            and node is not None
            and self.role_session(owner.owner) == app.host.name
            and _number(node.data) != offset
        ):
            self.violate(
                "I13", f"{app.host.name} begins {partition} at {offset}, stored is {node.data!r}"
            )

    role_session: Callable[[int], str] = staticmethod(lambda _session: "")
    handed_beside: Callable[[str, str, TopicPartition], None] = staticmethod(
        lambda _group, _host, _partition: None
    )
    knows_shared: Callable[[str, str], bool] = staticmethod(lambda _group, _host: False)
    # whether it is a member's whom a leader among its group's clients assigns
    stored_by_state: Callable[[Txn, str], bool] = staticmethod(lambda _txn, _group: False)
    # of the client for whom a gateway writes; None: no gateway does
    position_behind: Callable[[Txn, Key], int | None] = staticmethod(lambda _txn, _key: None)

    def handed_out(
        self, app: Application, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        """Records were given to the application's code."""
        key = (app.group, partition)
        part = self.part(key)
        if self._earlier(app, key):
            return
        part.last_handed_ms = self.kernel.now
        self.handed_beside(app.group, app.host.name, partition)
        for other in self.apps():
            if (
                other is not app
                and other.group == app.group
                and other.host.alive
                and partition in other.positions
                and partition in other.fetching()
            ):
                self.violate(
                    "I3",
                    f"{app.host.name} hands out {partition} from {first} while {other.host.name}"
                    " fetches it",
                )
        if first > part.handed:
            self.violate("I13", f"{app.host.name} skips {partition} {part.handed}..{first - 1}")
        part.handed = max(part.handed, next_offset)

    def processed(self, app: Application, partition: TopicPartition, next_offset: int) -> None:
        """Everything below `next_offset` is processed."""
        part = self.part((app.group, partition))
        part.by_host[app.host.name] = next_offset
        if not self._earlier(app, (app.group, partition)):
            part.processed = max(part.processed, next_offset)


def _epoch_of(data: bytes) -> int | None:
    try:
        value = json.loads(data)
        return int(value["epoch"]) if isinstance(value, dict) else None
    except (ValueError, KeyError, TypeError):
        return None


def _same_topic(a: str, b: str) -> bool:
    """Whether two incarnations, `<czxid>` or `<czxid>.<topic id>`, are of one topic."""
    (czxid_a, _, id_a), (czxid_b, _, id_b) = a.partition("."), b.partition(".")
    return id_a == id_b if id_a and id_b else czxid_a == czxid_b


def _number(data: bytes) -> int | None:
    return int(data) if data.isdigit() else None


def _sent(member: str, data: bytes) -> Sent | None:
    try:
        value = json.loads(data)
        names = (
            value.get("ownershipMap", {})
            if value["option"] == "start-fetcher"
            else value.get("partitions", [])
        )
        tps = tuple(
            TopicPartition(name[: name.rfind("-")], int(name[name.rfind("-") + 1 :]))
            for name in names
        )
        return Sent(
            member,
            value["option"],
            int(value["epoch"]),
            int(value["seq"]),
            tps,
            value.get("incarnations", {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
