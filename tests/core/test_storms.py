"""Many changes in a short time, in the core's own time: how many targets they lead to, and how
often a partition moves. Every command is carried out 20 ms after it was written, as members do.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.core.script import World
from zkcoord.core.events import Action, GroupChanged, GroupDelta, Record
from zkcoord.core.model import Malformed, Owner, TopicPartition

STEP_MS = 20


class Storm:
    """One group `g` of a script's world, and how often each of its partitions got another owner."""

    def __init__(self, members: int, partitions: int) -> None:
        self.world = World()
        self.moves: Counter[TopicPartition] = Counter()
        self.born = 0
        self.run("elected 3", f"topic t {partitions}", "ready")
        for _ in range(members):
            self.join()
        self.rest()
        self.before = self.owners()
        self.moves.clear()
        self.generation = self.generations

    def run(self, *lines: str) -> None:
        for line in lines:
            self.world.run(line)

    @property
    def generations(self) -> int:
        return self.world.core.groups["g"].generation

    def owners(self) -> dict[TopicPartition, str]:
        return {
            tp: o.thread.member
            for tp, o in self.world.owners.get("g", {}).items()
            if isinstance(o, Owner)
        }

    def join(self) -> str:
        self.born += 1
        name = f"m{self.born:03d}"
        self.run(f"member g {name}@{self.born} t:1")
        return name

    def leave(self, name: str) -> None:
        self.run(f"gone g {name}")

    def pass_ms(self, ms: int) -> None:
        """Time goes on; commands are carried out."""
        for _ in range(ms // STEP_MS):
            before = self.owners()
            self.run(f"tick {STEP_MS}", "settle")
            self.moves.update(tp for tp, owner in self.owners().items() if before.get(tp) != owner)

    def rest(self) -> None:
        """Until all is quiet, and the storm forgotten."""
        self.pass_ms(4_000)

    def beyond(self) -> dict[TopicPartition, int]:
        """Moves of each partition beyond those from its first owner to its last."""
        return {
            tp: self.moves[tp] - (self.before.get(tp) != owner)
            for tp, owner in self.owners().items()
        }


def test_fifty_joins_in_a_second() -> None:
    storm = Storm(5, 240)
    for _ in range(50):
        storm.join()
        storm.pass_ms(STEP_MS)
    storm.rest()
    assert sorted(Counter(storm.owners().values()).values()) == [4] * 35 + [5] * 20
    assert storm.generations - storm.generation <= 4
    assert max(storm.beyond().values()) <= 1


def test_fifty_joins_of_members_that_begin_slowly() -> None:
    """They carry out nothing before the last of them has joined, so partitions are on their way
    when the next target is made.
    """
    storm = Storm(5, 240)
    joined: list[str] = []
    for _ in range(50):
        joined.append(storm.join())
        storm.run(f"tick {STEP_MS}", f"settle {','.join(joined)}")
    storm.rest()
    assert storm.generations - storm.generation <= 4
    assert max(storm.beyond().values()) <= 1


def test_fifty_joins_of_a_new_group() -> None:
    storm = Storm(1, 240)
    for _ in range(49):
        storm.join()
        storm.pass_ms(STEP_MS)
    storm.rest()
    assert len(set(storm.owners().values())) == 50
    assert storm.generations - storm.generation <= 4
    assert max(storm.beyond().values()) <= 1


@pytest.mark.parametrize(
    ("period_ms", "targets_max"),
    [(100, 2 + 10_000 // 2_000 + 1), (400, 2 + 10_000 // 400)],
    ids=["too fast for the quiet window", "just slow enough for it"],
)
def test_a_member_that_comes_and_goes_all_the_time(period_ms: int, targets_max: int) -> None:
    storm = Storm(5, 60)
    for _ in range(10_000 // (2 * period_ms)):
        guest = storm.join()
        storm.pass_ms(period_ms)
        storm.leave(guest)
        storm.pass_ms(period_ms)
    storm.rest()
    made = storm.generations - storm.generation
    assert made <= targets_max
    share = 60 // 6
    assert sum(storm.moves.values()) <= made * share, (
        "more moved than a guest's share with each target"
    )
    assert sum(1 for tp in storm.before if not storm.moves[tp]) >= 60 - share - 2, (
        "others than a guest's share moved"
    )
    assert set(storm.owners().values()) == set(storm.before.values())


def test_half_of_a_group_leaves_at_once() -> None:
    storm = Storm(20, 100)
    names = sorted(set(storm.before.values()))
    for name in names[:10]:
        storm.leave(name)
        storm.pass_ms(STEP_MS)
    storm.rest()
    assert storm.generations - storm.generation <= 4
    assert {tp: n for tp, n in storm.moves.items() if storm.before[tp] not in names[:10]} == {}, (
        "partitions of those who stayed moved"
    )
    assert max(storm.moves.values()) <= storm.generations - storm.generation


def test_a_flood_of_junk_is_reported_in_short_and_once() -> None:
    storm = Storm(2, 4)

    def told(*names: str) -> list[Action]:
        junk = {name: Malformed("registration", name, "not JSON") for name in names}
        return storm.world.core.step(GroupChanged(storm.world.now, "g", GroupDelta(members=junk)))

    names = [f"junk{number:05d}" for number in range(15_000)]
    records = told(*names)
    assert len(records) == 101 and all(isinstance(record, Record) for record in records)
    assert records[-1] == Record(
        "malformed",
        "g",
        {
            "what": "more",
            "name": "g",
            "reason": "many nodes are malformed: for a minute the others are only counted",
        },
    )
    assert told(*names[:500]) == [] and told("junk1") == []
    storm.world.now += 60_000
    assert [
        record.detail["reason"] for record in told("junk2", names[7]) if isinstance(record, Record)
    ] == ["14901 more nodes were malformed", "not JSON"]
    assert storm.generations == storm.generation
