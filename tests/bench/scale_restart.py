"""A rolling restart of a whole deployment: all members of one large group, some at a time at a
steady rate, leave cleanly and are back at once, as a new process with a new session and name. Then
the same with processes that take a while to start, and with static members, which keep their
instance.

What a partition's *silence* is: from the moment when its owner is told to stop, or closes, until a
member is told to start it. A partition that nobody is told to stop has none. Whether a partition
need not have moved is judged where targets are made, see `scale_targets`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from consumer.core import messages as msg
from tests.bench.figures import Bar, Row, Section
from tests.bench.scale_load import Cost, TimedMember, Timetable, many_sockets, one_term
from tests.bench.scale_rig import Rig
from tests.bench.scale_storms import WAIT_S, await_rest
from tests.bench.scale_wire import Hub
from zkcoord.core.model import TopicPartition

GROUP, TOPIC = "rolling", "orders"
MEMBERS, SECONDS = 1_000, 60.0
PARTITIONS_PER_MEMBER = 2
STEPS_PER_S = 2
"""So many times a second some members leave together."""
SLOW_START_S = 2.0
JOINING_MAX = 100

LEFT, STOPPED, LOST = "left", "stopped", "lost"


@dataclass(frozen=True)
class Silence:
    """Of a partition, that `key` had. `why`: its owner left, was told to stop by a command of
    `generation`, or lost it.
    """

    since_s: float
    key: str
    why: str
    generation: int = 0


@dataclass(frozen=True)
class Ended:
    """A silence that is over, and whether its owner of before has the partition again."""

    silence: Silence
    ms: float
    back: bool


class Story:
    """Who owns what by the members' own account, and every silence since `begin`."""

    def __init__(self) -> None:
        self.owned: dict[str, set[TopicPartition]] = {}
        self.count = 0
        self.silent: dict[TopicPartition, Silence] = {}
        self.begin()

    def begin(self) -> None:
        """Forget what was."""
        self.ended: list[Ended] = []
        self.moves: Counter[TopicPartition] = Counter()

    def heard(self, member: TimedMember, message: msg.ToFetcher, now_s: float) -> None:
        """See `Hearer`."""
        match message:
            case msg.Assigned():
                self._takes(member.key, [*message.offsets, *message.unset], now_s)
            case msg.Resumed():
                self._takes(member.key, message.partitions, now_s)
            case msg.Revoke():
                self._gives(member, message.partitions, now_s, STOPPED)
            case msg.Lost():
                self._gives(member, message.partitions, now_s, LOST)
            case _:
                pass

    def leaves(self, member: TimedMember) -> None:
        """It is closed now."""
        self._gives(member, list(self.owned.pop(member.key, ())), time.monotonic(), LEFT)

    def _takes(self, key: str, partitions: Collection[TopicPartition], now_s: float) -> None:
        mine = self.owned.setdefault(key, set())
        self.count += len(partitions)
        mine.update(partitions)
        for tp in partitions:
            silence = self.silent.pop(tp, None)
            if silence is not None:
                back = silence.key == key
                self.ended.append(Ended(silence, (now_s - silence.since_s) * 1000, back))
                self.moves[tp] += not back

    def _gives(
        self, member: TimedMember, partitions: Collection[TopicPartition], now_s: float, why: str
    ) -> None:
        if why is not LEFT:
            mine = self.owned.get(member.key, set())
            partitions = [tp for tp in partitions if tp in mine]  # else it has given them already
            mine.difference_update(partitions)
        self.count -= len(partitions)
        for tp in partitions:
            self.silent[tp] = Silence(now_s, member.key, why, member.generation)

    def even(self, members: Collection[TimedMember], partitions: int) -> bool:
        """Whether these own everything, evenly."""
        if self.count != partitions or self.silent:
            return False
        sizes = [len(self.owned.get(member.key, ())) for member in members]
        return sum(sizes) == partitions and max(sizes) - min(sizes) <= 1


class Roll:
    """The group. `instances`: its members are static; a process is back `start_s` after its end."""

    def __init__(self, hub: Hub, members: int, instances: bool, start_s: float) -> None:
        self.hub = hub
        self.table = Timetable(hub)
        self.story = Story()
        self.instances = instances
        self.start_s = start_s
        self.members: dict[int, TimedMember] = {}
        self.leaving: dict[int, TimedMember] = {}
        self.total = members

    def come(self, number: int) -> None:
        """A process begins."""
        instance = f"instance-{number:04d}" if self.instances else ""
        self.members[number] = TimedMember(self.hub, self.story, GROUP, [TOPIC], instance)

    def go(self, number: int) -> None:
        """It is asked to end."""
        member = self.leaving[number] = self.members.pop(number)
        self.story.leaves(member)
        member.leave()

    def come_back(self) -> None:
        """Those whose session is over are started again."""
        for number in [number for number, member in self.leaving.items() if member.gone]:
            self.hub.forget(self.leaving.pop(number).driver)
            if self.start_s:
                self.table.at(time.monotonic() + self.start_s, partial(self.come, number))
            else:
                self.come(number)

    def settle(self, partitions: int) -> None:
        """Until all are there and own everything, evenly."""

        def even() -> bool:
            return self.story.even(self.members.values(), partitions)

        self.table.run_until(even, WAIT_S, f"a balanced group of {self.total:,}")

    def gather(self, partitions: int) -> None:
        """The members that are there before the restart."""
        for number in range(self.total):
            self.come(number)
            if number % JOINING_MAX == JOINING_MAX - 1:
                self.table.run_until(
                    lambda: all(member.joined for member in self.members.values()),
                    WAIT_S,
                    "members that are registered",
                )
        self.settle(partitions)

    def restart(self, seconds: float, at_once: int) -> tuple[float, float]:
        """Every member; when it began and when the last was made again."""
        self.table.forget()
        self.story.begin()
        began_s = time.monotonic()
        for number in range(self.total):
            step = number // at_once
            self.table.at(began_s + step / STEPS_PER_S, partial(self.go, number))

        def all_back() -> bool:
            self.come_back()
            return not self.table.due and not self.leaving

        self.table.run_until(all_back, WAIT_S + seconds, "members that are back")
        return began_s, time.monotonic()


def needless(targets: list[list[int]]) -> dict[int, int]:
    """Generation -> moves that a balance did not need, where there were any."""
    return {generation: moves - least for generation, _, moves, least in targets if moves > least}


def silences(story: Story, beyond: Collection[int]) -> list[Row]:
    """The rows of silences; `beyond` are the generations in which more moved than was needed."""
    of_leavers, of_movers, of_others = [], [], []
    for ended in story.ended:
        if ended.silence.why == LEFT:
            of_leavers.append(ended.ms)
        elif ended.silence.why == STOPPED and not (
            ended.back or ended.silence.generation in beyond
        ):
            of_movers.append(ended.ms)
        else:
            of_others.append(ended.ms)
    return [
        Row(
            "silence of a partition that need not move",
            "members: stop to start",
            of_others or [0.0],
            (Bar("max", 0),),
            note="" if of_others else "none was stopped",
        ),
        Row("silence of a partition that balance moves", "members: stop to start", of_movers),
        Row("silence of a partition whose owner left", "members: close to start", of_leavers),
    ]


@dataclass(frozen=True)
class Restart:
    """What is done: `at_once` members leave together, all within `seconds`."""

    name: str
    members: int
    seconds: float
    instances: bool = False
    start_s: float = 0.0

    @property
    def at_once(self) -> int:
        """How many leave together."""
        return math.ceil(self.members / self.seconds / STEPS_PER_S)

    @property
    def partitions(self) -> int:
        """Of the topic."""
        return self.members * PARTITIONS_PER_MEMBER

    @property
    def title(self) -> str:
        """The section's."""
        kind = "static " if self.instances else ""
        back = f", each back {self.start_s:g} s after its end" if self.start_s else ""
        return (
            f"Rolling restart of {self.members:,} {kind}members of one group within"
            f" {self.seconds:g} s, {self.at_once} at a time{back}; {self.partitions:,} partitions"
        )


def restarted(rig: Rig, section: Section, plan: Restart) -> None:
    """Fill a section."""
    with rig.hub() as (hub, seeder), rig.coordinator(hub, "--counts", "--targets", GROUP) as said:
        seeder.topic(TOPIC, plan.partitions)
        roll = Roll(hub, plan.members, plan.instances, plan.start_s)
        roll.gather(plan.partitions)
        await_rest(hub, seeder, GROUP, plan.members)
        rig.say(f"  {section.name}: {plan.members:,} members are there")
        generation, known = seeder.metadata(GROUP).generation, len(said.now(hub)["targets"])
        cost = Cost(rig, hub, said)
        began_s, made_s = roll.restart(plan.seconds, plan.at_once)
        rig.say(f"  {section.name}: all went and came within {made_s - began_s:.1f} s")
        roll.settle(plan.partitions)
        even_s = time.monotonic()
        rows, notes, _ = cost.rows(2 * plan.members, roll.table)
        await_rest(hub, seeder, GROUP, plan.members)
        made = seeder.metadata(GROUP).generation - generation
        targets: list[list[int]] = said.now(hub)["targets"][known:]
        section.rows += [
            Row(
                "from the first that leaves to the last that is back",
                "members",
                [made_s - began_s],
                (Bar("max", plan.seconds + plan.start_s),),
                "s",
            ),
            Row("generations", "of the group's report", [float(made)], (), "generations"),
            *moves(roll.story, targets),
            *silences(roll.story, needless(targets)),
            *joins(list(roll.members.values())),
            Row("last constructor to a balanced group", "members", [(even_s - made_s) * 1000]),
            *rows,
            one_term(said),
        ]
        section.notes += notes


def moves(story: Story, targets: list[list[int]]) -> list[Row]:
    """The rows of moves."""
    each = [float(story.moves[tp]) for owned in story.owned.values() for tp in owned]
    balance = float(sum(moved for _, _, moved, _ in targets))
    return [
        Row("moves of a partition", "members' own account", each, (), "moves"),
        Row("moves for balance", "coordinator's targets", [balance], (), "moves"),
        Row(
            "moves that need not have been",
            "coordinator's targets",
            [float(sum(needless(targets).values()))],
            (Bar("max", 0),),
            "moves",
        ),
    ]


def joins(members: list[TimedMember]) -> list[Row]:
    """The rows of those who came back."""
    return [
        Row(
            "constructor to first assignment",
            "members",
            [member.from_made_ms for member in members],
        ),
        Row(
            "registration to first assignment",
            "members",
            [member.from_registered_ms for member in members],
        ),
    ]


def run(rig: Rig, sections: list[Section], members: int, seconds: float) -> None:
    """All sections."""
    many_sockets()
    for plan in (
        Restart("restart", members, seconds),
        Restart("restart-slow", members, seconds, start_s=SLOW_START_S),
        Restart("restart-static", members, seconds, instances=True),
    ):
        section = Section(plan.name, plan.title)
        sections.append(section)
        section.attempt("restart", partial(restarted, rig, section, plan))
