"""Which steps there are: drawn from a seed, and from nothing that happens. Pure."""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

JAVA, LIBRDKAFKA, KAFKAJS, FRANZ, SHIM, SPARK = "j", "r", "k", "f", "c", "s"
"""What the names of clients begin with; those that the demo has are the demo's."""
KINDS = {
    JAVA: "a Java client",
    LIBRDKAFKA: "a librdkafka client",
    KAFKAJS: "a kafkajs client",
    FRANZ: "a franz-go client",
    SHIM: "a shim",
    SPARK: "a Spark application",
}
GROUP = {JAVA: 2, LIBRDKAFKA: 2, KAFKAJS: 1, FRANZ: 1, SHIM: 2, SPARK: 1}
"""How many of each there are at most."""
FLOOR = 4
RESTLESS = 0.3
"""How many steps do not wait for a group at rest."""
MOMENT_RECORDS = (0, 4_000)
"""How many records are produced before such a step is followed by the next."""


class Act(enum.Enum):
    """What a step does to one client."""

    JOIN = "joins"
    LEAVE = "leaves (SIGTERM)"
    KILL = "is killed (kill -9)"


@dataclass(frozen=True)
class MixedStep:
    """One step. `moment`: how many records are produced before the next one; None: the next one
    waits until the group is at rest.
    """

    act: Act
    name: str
    moment: int | None = None

    def __str__(self) -> str:
        return f"{KINDS[self.name[0]]} {self.act.value}: {self.name}"


@dataclass
class Names:
    """Who is there, and what the next one is called: nobody has the name of one who is gone."""

    group: Mapping[str, int]
    live: list[str] = field(default_factory=list)
    begun: dict[str, int] = field(default_factory=dict)

    def free(self) -> list[str]:
        """Kinds of which another one may join, once for each."""
        return [
            kind
            for kind, most in self.group.items()
            for _ in range(most - sum(name[0] == kind for name in self.live))
        ]

    def join(self, kind: str) -> str:
        """One more of a kind."""
        self.begun[kind] = self.begun.get(kind, 0) + 1
        name = f"{kind}{self.begun[kind]}"
        self.live.append(name)
        return name


def first(group: Mapping[str, int]) -> list[str]:
    """The members with which it begins: all that there may be."""
    names = Names(group)
    return [names.join(kind) for kind in names.free()]


def drawn(seed: int, count: int, group: Mapping[str, int]) -> list[MixedStep]:
    """The steps after that: between `FLOOR` and all members live. The same for the same seed."""
    chance = random.Random(seed)
    names = Names(group)
    for kind in names.free():
        names.join(kind)
    floor = min(FLOOR, len(names.live) - 1)
    steps = []
    for number in range(count):
        acts = [Act.JOIN] if names.free() else []
        acts += [Act.LEAVE, Act.KILL] if len(names.live) > floor else []
        act = chance.choice(acts)
        if act is Act.JOIN:
            name = names.join(chance.choice(names.free()))
        else:
            name = names.live.pop(chance.randrange(len(names.live)))
        restless = chance.random() < RESTLESS and number + 1 < count
        steps.append(MixedStep(act, name, chance.randint(*MOMENT_RECORDS) if restless else None))
    return steps
