"""A process that is hostile to a coordinator: small input that makes large work.

python -m tests.bench.hostile_shapes HOSTS SHAPE SIZE     (orders on standard input, as of
                                                          scale_poisoner)

patterns     one session registers members, each with a white list that takes long for each
             topic's name, and topics come
requests     requests about groups that clients lead, as a gateway makes them: each says that very
             many members leave, whom nobody knows
flapping     groups of all topics whose members come and go, and acknowledge nothing
wide         one group of one very wide topic, whose members name different assignors, come and go

SIZE is `whole` or `quick`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count, cycle

from tests.bench.scale_poisoner import Poison, obey
from tests.bench.scale_wire import Hub, WirePort
from tests.bench.scale_world import LAYOUT, Member, Seeder, member_name, registration
from zkcoord.core.classic.requests import ClassicLeave, Leaver
from zkcoord.core.model import Pattern, PatternKind, Subscription
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.port import Create, Delete, MultiResult, Op
from zkcoord.znodes import codec
from zkcoord.znodes.classic.documents import ClassicAsk, encode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, request_name
from zkcoord.znodes.strict_json import to_bytes

CLASSIC = ClassicPaths(LAYOUT)
TIMEOUT_MS = 60_000
STIR_S = 0.05
BOMB = "((.?){31}){31}"
LONG_NAME = "a" * 200


def white_list(regex: str) -> bytes:
    """A registration with a pattern. (Ours would refuse to write some of them.)"""
    document = {
        "version": 1,
        "subscription": {regex: 1},
        "pattern": "white_list",
        "timestamp": str(wall_ms()),
        "zkcoord": "1",
        "assignors": "sticky",
    }
    return to_bytes(document)


class Patterns(Poison):
    """Members of one session whose patterns are bombs, and topics that come."""

    group = "patterns"
    topics, members_there = {"whole": 100, "quick": 100}, 20

    def __init__(self, hub: Hub, seeder: Seeder, size: str) -> None:
        super().__init__(hub, seeder)
        for number in range(self.topics[size]):
            seeder.topic(f"{LONG_NAME}-{number:04d}", 1)
        seeder.make([LAYOUT.group(self.group), LAYOUT.ids(self.group), LAYOUT.channels(self.group)])
        self.born = count()
        self.port: WirePort | None = None

    def on(self) -> None:
        self.port = self.seeder.session()
        for number in range(self.members_there):
            bombs = "|".join(f"{BOMB}{chr(97 + number)}{letter}" for letter in "uvwxyz")
            self.seeder.multi(self.port, self._member(f"{self.group}-{number:02d}", bombs))

    def _member(self, name: str, regex: str) -> list[Op]:
        return [
            Create(LAYOUT.channel(self.group, name), b""),
            Create(LAYOUT.registration(self.group, name), white_list(regex), ephemeral=True),
        ]

    def stir(self) -> None:
        self.seeder.topic(f"{LONG_NAME}-new-{next(self.born)}", 1)
        self.hub.run_for(0.5)

    def off(self) -> None:
        assert self.port is not None
        self.port.close()
        self.hub.run_for(1.0)


class Flapping(Poison):
    """Groups of everything, whose members only register and go."""

    groups, members_there = 9, 10
    topics, partitions = 200, {"whole": 100, "quick": 100}

    def __init__(self, hub: Hub, seeder: Seeder, size: str) -> None:
        super().__init__(hub, seeder)
        for number in range(self.topics):
            seeder.topic(f"wide-{number:04d}", self.partitions[size])
        self.names = [f"flapping-{number}" for number in range(self.groups)]
        for group in self.names:
            seeder.make([LAYOUT.group(group), LAYOUT.ids(group), LAYOUT.channels(group)])
        self.there: list[tuple[str, str]] = []
        self.turns = cycle(self.names)
        self.port = seeder.session()

    def _come(self, group: str) -> list[Op]:
        name = member_name(group, "host")
        self.there.append((group, name))
        data = codec.encode_registration(
            Subscription(pattern=Pattern(PatternKind.WHITE_LIST, ".*")),
            timestamp_ms=wall_ms(),
            assignors=("sticky",),
        )
        return [
            Create(LAYOUT.channel(group, name), b""),
            Create(LAYOUT.registration(group, name), data, ephemeral=True),
        ]

    def _do(self, ops: Sequence[Op]) -> None:
        answers: list[MultiResult] = []
        self.port.multi(ops, answers.append)
        self.hub.run_until(lambda: answers, TIMEOUT_MS / 1000, "the answer to a multi")

    def on(self) -> None:
        for _ in range(self.members_there):
            for group in self.names:
                self._do(self._come(group))

    def stir(self) -> None:
        group = next(self.turns)
        gone = next(pair for pair in self.there if pair[0] == group)
        self.there.remove(gone)
        self._do([Delete(LAYOUT.registration(*gone))])
        self._do(self._come(group))
        self.hub.run_for(STIR_S)

    def off(self) -> None:
        for group, name in self.there:
            self._do([Delete(LAYOUT.registration(group, name))])
        self.there.clear()


class Wide(Poison):
    """One wide topic; each change of its members is another vote."""

    group, topic = "mixed", "very-wide"
    partitions = {"whole": 70_000, "quick": 70_000}
    members_there, period_s = 14, 0.3
    assignors = ("sticky", "range", "roundrobin")

    def __init__(self, hub: Hub, seeder: Seeder, size: str) -> None:
        super().__init__(hub, seeder)
        seeder.topic(self.topic, self.partitions[size])
        seeder.make([LAYOUT.group(self.group), LAYOUT.ids(self.group)])
        self.born = count()
        self.leaving: list[Member] = []

    def _come(self) -> None:
        first = next(self.born) % len(self.assignors)
        named = self.assignors[first:] + self.assignors[:first]
        self.members.append(Member(self.hub, self.group, [self.topic], assignors=named))

    def on(self) -> None:
        for _ in range(self.members_there):
            self._come()
            self.hub.run_for(STIR_S)

    def stir(self) -> None:
        until = boot_ms() + self.period_s * 1000
        self.leaving = [member for member in self.leaving if not member.gone]
        if len(self.leaving) < self.members_there:
            self.leaving.append(self.members.pop(0))
            self.leaving[-1].leave()
            self._come()
        self.hub.run_for(max(0.0, (until - boot_ms()) / 1000))

    def off(self) -> None:
        super().off()
        self.hub.run_until(
            lambda: all(member.gone for member in self.leaving), 120.0, "the end of the wide group"
        )


class Registrations(Poison):
    """Members with the longest subscriptions that there may be, written again and again."""

    group, members_there, topics = "long", 200, 2_000

    def __init__(self, hub: Hub, seeder: Seeder, size: str) -> None:
        super().__init__(hub, seeder)
        seeder.make([LAYOUT.group(self.group), LAYOUT.ids(self.group), LAYOUT.channels(self.group)])
        self.port = seeder.session()
        self.turns = cycle(range(self.members_there))

    def _ops(self, number: int) -> list[Op]:
        name = f"{self.group}-{number:04d}"
        topics = [f"topic-of-nobody-{number}-{topic}" for topic in range(self.topics)]
        data = registration(topics)
        return [Create(LAYOUT.registration(self.group, name), data, ephemeral=True)]

    def on(self) -> None:
        for number in range(self.members_there):
            self.seeder.multi(self.port, self._ops(number))

    def stir(self) -> None:
        number = next(self.turns)
        path = LAYOUT.registration(self.group, f"{self.group}-{number:04d}")
        self.seeder.multi(self.port, [Delete(path), *self._ops(number)])

    def off(self) -> None:
        for number in range(self.members_there):
            path = LAYOUT.registration(self.group, f"{self.group}-{number:04d}")
            self.seeder.multi(self.port, [Delete(path)])


class Requests(Poison):
    """Requests of no gateway, each of which names as many members as one may."""

    leavers, at_once = 10_000, 5

    def __init__(self, hub: Hub, seeder: Seeder, size: str) -> None:
        super().__init__(hub, seeder)
        seeder.make(CLASSIC.roots())
        self.port = seeder.session()
        leaving = tuple(Leaver(f"m{number}", None, "") for number in range(self.leavers))
        (self.data,) = encode_ask(ClassicAsk("nobodys", ClassicLeave(leaving)))

    def stir(self) -> None:
        paths = [CLASSIC.request(request_name("nobodys")) for _ in range(self.at_once)]
        self.seeder.multi(self.port, [Create(path, self.data, ephemeral=True) for path in paths])
        self.hub.run_for(STIR_S)

    def off(self) -> None:
        self.port.close()
        self.hub.run_for(1.0)


SHAPES = {
    "requests": Requests,
    "patterns": Patterns,
    "flapping": Flapping,
    "wide": Wide,
    "registrations": Registrations,
}


def main() -> int:
    """Obey until standard input ends."""
    hub = Hub(sys.argv[1], TIMEOUT_MS)
    return obey(hub, SHAPES[sys.argv[2]](hub, Seeder(hub), sys.argv[3]))


if __name__ == "__main__":
    sys.exit(main())
