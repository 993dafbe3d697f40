"""A model of a group that writes through the sink: members come, claim, plan, publish, recover, are
fenced while they go on, die between any two steps, and lose answers. Two parts are real:
`consumer.spark.sink.publication`, and the transactions of the simulator's znode tree. Files are a
dictionary whose moves are atomic.

`World.run(seed)` draws everything from the seed, ends with a member that claims and recovers
everything, and gives what is wrong: a record that is visible twice, before it counts, or never.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from consumer.spark.plan import PlannedRange
from consumer.spark.sink import manifest as docs
from consumer.spark.sink import publication
from consumer.spark.sink.errors import FencedBatchError
from consumer.spark.sink.fence import Batch
from tests.sim.tree import Tree, Txn
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import (
    Committed,
    Create,
    Delete,
    MultiResult,
    Op,
    Rejected,
    SetData,
    Unanswered,
)
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout, parents

LAYOUT = Layout.DRAFT
GROUP = "g"
PLACE = publication.SinkPlace(LAYOUT, GROUP, "sink")
PARTITIONS = tuple(TopicPartition("t", n) for n in range(2))
MEMBERS_MAX = 3
TURNS = 300
FILES_MAX = 3
RESTS = (6, 15, 30, 60)


@dataclass
class Member:
    """One process with its session. `work` is what it is doing: recovering, or publishing a batch;
    `answer` what its last step gave, `rests` how many turns it stands still. `registered`: its
    session lives (it need not know).
    """

    name: str
    session: int
    incarnation: int
    registered: bool = True
    owned: set[TopicPartition] = field(default_factory=set)
    new: bool = False
    work: Generator[publication.Effect, Any, Any] | None = None
    batch: Batch | None = None
    answer: Any = None
    batches: int = 0
    rests: int = 0
    pending: publication.Effect | None = None


class World:
    """Everything, and the choices of one seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.tree = Tree()
        self.zxid = 0
        self.files: dict[str, bytes] = {}
        self.members: list[Member] = []
        self.born = 0
        self.fenced = 0
        self.unreliable = True
        self.lingering: list[Member] = []
        self.wrong: list[str] = []
        for path in (
            LAYOUT.ids(GROUP),
            *(LAYOUT.owner(GROUP, tp) for tp in PARTITIONS),
            *(LAYOUT.offset(GROUP, tp) for tp in PARTITIONS),
        ):
            for above in parents(path):
                self.multi([Create(above, b"")])
        self.multi([Create(LAYOUT.ids(GROUP), b"")])
        for tp in PARTITIONS:
            self.multi([Create(LAYOUT.offset(GROUP, tp), b"0")])

    # ZooKeeper

    def multi(self, ops: Sequence[Op], session: int = 0) -> MultiResult:
        self.zxid += 1
        result = self.tree.execute(ops, session, Txn(self.zxid, 0, session, "", "multi"))
        return result if isinstance(result, Rejected) else Committed(result)

    def offset(self, tp: TopicPartition) -> tuple[int, int]:
        node = self.tree.nodes[LAYOUT.offset(GROUP, tp)]
        return int(node.data), node.version

    def end_session(self, member: Member) -> None:
        """It expires or is closed: the member may go on all the same, and find out at the fence."""
        if member.registered:
            member.registered = False
            owned = [path for path, rec in self.tree.nodes.items() if rec.owner == member.session]
            self.zxid += 1
            self.tree.close_session(
                member.session, owned, Txn(self.zxid, 0, member.session, "", "close")
            )

    # members

    def join(self) -> Member:
        self.born += 1
        name = f"m{self.born}"
        path = LAYOUT.registration(GROUP, name)
        assert isinstance(self.multi([Create(path, b"", ephemeral=True)], self.born), Committed)
        member = Member(name, self.born, self.tree.nodes[path].czxid)
        self.members.append(member)
        return member

    def claim(self, member: Member, tp: TopicPartition) -> None:
        """A start ack: the owner node, and the offset re-written with its own value."""
        value, version = self.offset(tp)
        result = self.multi(
            [
                Create(LAYOUT.owner(GROUP, tp), b"", ephemeral=True),
                SetData(LAYOUT.offset(GROUP, tp), codec.encode_offset(value), version),
            ],
            member.session,
        )
        if isinstance(result, Committed):
            member.owned.add(tp)
            member.new = True

    def release(self, member: Member, tp: TopicPartition) -> None:
        """A stop ack, between two batches."""
        value, version = self.offset(tp)
        member.owned.discard(tp)
        self.multi(
            [
                Delete(LAYOUT.owner(GROUP, tp)),
                SetData(LAYOUT.offset(GROUP, tp), codec.encode_offset(value), version),
            ],
            member.session,
        )

    def begin(self, member: Member) -> None:
        """The next thing that an idle member does: recover after a claim, and now and then without
        one, else a batch.
        """
        if member.new or self.draw.random() < 0.3:
            member.new, member.work = False, publication.recover(PLACE, member.incarnation)
            return
        ranges = []
        for tp in sorted(member.owned):
            value, version = self.offset(tp)
            if self.draw.random() < 0.8:
                ranges.append(PlannedRange(*tp, value, value + self.draw.randint(1, 4), version))
        if ranges:
            member.batch = Batch(
                LAYOUT, GROUP, member.name, member.incarnation, member.batches, tuple(ranges)
            )
            member.batches += 1
            member.work = publication.publish(PLACE, member.batch, f"{self.zxid:x}")

    def step(self, member: Member) -> None:
        """One effect of what it is doing, or, at a moment that matters, what comes between."""
        assert member.work is not None
        if member.pending is None:
            try:
                member.pending = member.work.send(member.answer)
            except StopIteration:
                member.work, member.answer, member.batch = None, None, None
                return
            except FencedBatchError:
                self.fenced += 1
                return self.die(member)
            if self.interrupts(member, member.pending):
                return
        effect, member.pending = member.pending, None
        member.answer = self.perform(member, effect)
        self.look()

    def interrupts(self, member: Member, effect: publication.Effect) -> bool:
        """Before a batch is committed the member may lose its session or a partition, and stand
        still long enough for others to go on; so may who recovers, between two looks.
        """
        commits = isinstance(effect, publication.Transact) and any(
            isinstance(op, SetData) for op in effect.ops
        )
        recovers = member.batch is None and isinstance(effect, publication.Look)
        chance = self.draw.random()
        if commits and chance < 0.1:
            self.end_session(member)
        elif commits and chance < 0.2 and member.owned:
            self.usurp(member)
        elif chance > (0.3 if commits else 0.15 if recovers else 0.02):
            return False
        member.rests = self.draw.choice(RESTS)
        return True

    def die(self, member: Member) -> None:
        """The process ends, where it stands; its session ends now or, as that of a lost host, some
        time.
        """
        self.members.remove(member)
        if self.draw.random() < 0.5:
            self.end_session(member)
        else:
            self.lingering.append(member)

    # effects

    def perform(self, member: Member, effect: publication.Effect) -> Any:
        if isinstance(effect, publication.Look):
            return [self.tree.answer(read) for read in effect.reads]
        if isinstance(effect, publication.Transact):
            chance = self.draw.random()
            if self.unreliable and chance < 0.1:
                return Unanswered()
            result = self.multi(effect.ops)
            return Unanswered() if self.unreliable and chance < 0.2 else result
        if isinstance(effect, publication.StageRows):
            assert member.batch is not None
            return self.stage(member.batch, effect.folder)
        if isinstance(effect, publication.Put):
            self.files[effect.path] = effect.data
        elif isinstance(effect, publication.Fetch):
            return self.files.get(effect.path)
        elif isinstance(effect, publication.Move):
            return self.move(effect)
        elif isinstance(effect, publication.Folders):
            return tuple(
                {
                    path[len(effect.path) + 1 :].partition("/")[0]
                    for path in self.files
                    if path.startswith(effect.path + "/")
                }
            )
        else:
            for path in [path for path in self.files if path.startswith(effect.path + "/")]:
                del self.files[path]
        return None

    def stage(self, batch: Batch, folder: str) -> tuple[str, ...]:
        """The records of the batch, in some files."""
        records = [f"{r.tp}:{offset}" for r in batch.ranges for offset in range(r.start, r.end)]
        count = self.draw.randint(1, FILES_MAX)
        names = []
        for n in range(count):
            names.append(f"day={n % 2}/part-{n}-{folder.rpartition('-')[2]}.parquet")
            self.files[f"{folder}/{names[-1]}"] = "\n".join(records[n::count]).encode()
        return tuple(names)

    def move(self, effect: publication.Move) -> publication.MoveEnded:
        if effect.source in self.files:
            if effect.target in self.files:
                self.wrong.append(f"{effect.target} is overwritten")
            self.files[effect.target] = self.files.pop(effect.source)
            return publication.MoveEnded.NOW
        return (
            publication.MoveEnded.BEFORE
            if effect.target in self.files
            else publication.MoveEnded.NEITHER
        )

    # what readers see

    def visible(self) -> Counter[str]:
        """Records as a reader of the directory counts them."""
        return Counter(
            record
            for path, data in self.files.items()
            if not path.startswith(docs.ROOT)
            for record in data.decode().split("\n")
            if record
        )

    def look(self) -> None:
        """At every moment: nothing is visible twice, nothing before it counts."""
        for record, times in self.visible().items():
            partition, _, offset = record.partition(":")
            stored, _ = self.offset(next(tp for tp in PARTITIONS if str(tp) == partition))
            if times > 1:
                self.wrong.append(f"{record} is visible {times} times")
            if int(offset) >= stored:
                self.wrong.append(f"{record} is visible, and the stored offset is {stored}")

    def turn(self) -> None:
        """Somebody does something, or something happens to somebody."""
        chance = self.draw.random()
        for member in self.members:
            member.rests = max(0, member.rests - 1)
        if not self.members or (chance < 0.10 and len(self.members) < MEMBERS_MAX):
            self.join()
            return
        member = self.draw.choice(self.members)
        if chance < 0.12:
            self.end_session(member)
        elif chance < 0.14:
            self.die(member)
        elif chance < 0.20 and self.lingering:
            self.end_session(self.lingering.pop())
        elif chance < 0.22 and member.owned:
            self.usurp(member)
        else:
            self.proceed(
                self.draw.choice(
                    [member for member in self.members if not member.rests] or self.members
                )
            )

    def proceed(self, member: Member) -> None:
        """Some steps of what it does, or something new."""
        if member.work is not None:
            for _ in range(self.draw.randint(1, 6)):
                if member.work is not None and member in self.members and not member.rests:
                    self.step(member)
        elif member.registered:
            self.idle(member)
        else:
            self.members.remove(member)  # between two batches it finds out by itself

    def usurp(self, member: Member) -> None:
        """Somebody deletes an owner node by hand; whoever claims that partition next moves its
        version, and the member that loses it is registered all the same.
        """
        tp = self.draw.choice(sorted(member.owned))
        member.owned.discard(tp)
        if member.registered:
            self.multi([Delete(LAYOUT.owner(GROUP, tp))])

    def idle(self, member: Member) -> None:
        free = [tp for tp in PARTITIONS if LAYOUT.owner(GROUP, tp) not in self.tree.nodes]
        if free and self.draw.random() < 0.6:
            self.claim(member, self.draw.choice(free))
        elif member.owned and self.draw.random() < 0.1:
            self.release(member, self.draw.choice(sorted(member.owned)))
        else:
            self.begin(member)

    # stories that are told on purpose

    def begins(
        self,
        member: Member,
        work: Generator[publication.Effect, Any, Any],
        batch: Batch | None = None,
    ) -> None:
        """It begins with this."""
        member.work, member.batch, member.answer, member.pending = work, batch, None, None

    def publishes(self, member: Member) -> None:
        """It begins with a batch of everything that it owns."""
        ranges = []
        for tp in sorted(member.owned):
            value, version = self.offset(tp)
            ranges.append(PlannedRange(*tp, value, value + 2, version))
        member.batches += 1
        batch = Batch(LAYOUT, GROUP, member.name, member.incarnation, member.batches, tuple(ranges))
        self.begins(member, publication.publish(PLACE, batch, f"{self.zxid:x}"), batch)

    def recovers(self, member: Member) -> None:
        """It begins to recover."""
        self.begins(member, publication.recover(PLACE, member.incarnation))

    def goes_on(
        self, member: Member, until: Callable[[publication.Effect], bool] = lambda effect: False
    ) -> None:
        """Its steps, up to one that it is about to take, else to the end."""
        while member.work is not None and member in self.members:
            if member.pending is None:
                try:
                    member.pending = member.work.send(member.answer)
                except (StopIteration, FencedBatchError) as end:
                    self.fenced += isinstance(end, FencedBatchError)
                    member.work = None
                    return
            if until(member.pending):
                return
            effect, member.pending = member.pending, None
            member.answer = self.perform(member, effect)
            self.look()

    def run(self) -> list[str]:
        """The whole story, its end, and what is wrong."""
        for _ in range(TURNS):
            self.turn()
            if self.wrong:
                return self.wrong
        return self.ends()

    def ends(self) -> list[str]:
        """All sessions end; one more member claims and recovers everything, while who still works
        goes on.
        """
        for member in [*self.members, *self.lingering]:
            self.end_session(member)
        last = self.join()
        for tp in PARTITIONS:
            self.claim(last, tp)
        zombies = [member for member in self.members if member.work is not None]
        self.begin(last)
        while last.work is not None or any(
            member.work is not None and member in self.members for member in zombies
        ):
            self.step(
                self.draw.choice([member for member in self.members if member.work is not None])
            )
        expected = Counter(
            f"{tp}:{offset}" for tp in PARTITIONS for offset in range(self.offset(tp)[0])
        )
        seen = self.visible()
        self.wrong += [f"{record} is lost" for record in sorted(expected - seen)] + [
            f"{record} is there once too often" for record in sorted(seen - expected)
        ]
        if self.tree.children.get(LAYOUT.publications(GROUP)):
            self.wrong.append(
                f"intents are left: {sorted(self.tree.children[LAYOUT.publications(GROUP)])}"
            )
        return self.wrong
