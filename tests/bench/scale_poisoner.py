"""A process that does to one group what no group should have to bear.

python -m tests.bench.scale_poisoner HOSTS KIND          (orders on standard input: "on", "off";
                                                         each is answered by "done")

unanswered   members that never give anything up: each is evicted in turn, and comes back at
             once
endless      members whose assignor never ends, and which come and go
junk         50,000 registrations that nobody can read, of which some are deleted and made again
             all the time
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

from tests.bench.scale_wire import Hub
from tests.bench.scale_world import LAYOUT, Member, Seeder, batched
from zkcoord.zk.port import Create, Delete, Op, SetData

GROUP, TOPIC = "poison", "poisoned"
PARTITIONS = 24
TIMEOUT_MS = 60_000
UNANSWERED_MS = 300
MEMBERS = 3
JUNK, JUNK_AT_ONCE, JUNK_PERIOD_S = 50_000, 10, 0.01
JUNK_DATA = b'{"version":1,"subscription":{"orders":'


class Poison:
    """One kind. `on` and `off` return when it has begun and ended; `stir` is called again and again
    between them.
    """

    def __init__(self, hub: Hub, seeder: Seeder) -> None:
        self.hub = hub
        self.seeder = seeder
        self.members: list[Member] = []

    def on(self) -> None:
        """Begin."""

    def stir(self) -> None:
        """Go on for a moment."""
        self.hub.run_for(0.1)

    def off(self) -> None:
        """End."""
        for member in self.members:
            member.answers = True
            member.leave()
        self.hub.run_until(
            lambda: all(member.gone for member in self.members), 120.0, "the end of the poison"
        )
        self.members.clear()


class Unanswered(Poison):
    """Members that never answer."""

    def on(self) -> None:
        self.members = [
            Member(self.hub, GROUP, [TOPIC], answers=False, rebalance_timeout_ms=UNANSWERED_MS)
            for _ in range(MEMBERS)
        ]


class Endless(Poison):
    """An assignor that never ends."""

    def on(self) -> None:
        self.members = [
            Member(self.hub, GROUP, [TOPIC], assignors=("loops",)) for _ in range(MEMBERS)
        ]

    def stir(self) -> None:
        self.hub.run_for(1.0)
        self.members.pop(0).leave()
        self.members.append(Member(self.hub, GROUP, [TOPIC], assignors=("loops",)))


class Junk(Poison):
    """Registrations that nobody can read."""

    def __init__(self, hub: Hub, seeder: Seeder) -> None:
        super().__init__(hub, seeder)
        self.paths = [LAYOUT.registration(GROUP, f"junk-{number:05d}") for number in range(JUNK)]
        self.turns: Iterator[int] = cycle(range(0, JUNK, JUNK_AT_ONCE))

    def _all(self, ops: Callable[[str], list[Op]], paths: Sequence[str]) -> None:
        self.seeder.multis(self.seeder.client, batched(ops(path) for path in paths))

    def on(self) -> None:
        self._all(lambda path: [Create(path, JUNK_DATA)], self.paths)

    def stir(self) -> None:
        begin = next(self.turns)
        self._all(
            lambda path: [Delete(path), Create(path, JUNK_DATA), SetData(path, b"\xff", 0)],
            self.paths[begin : begin + JUNK_AT_ONCE],
        )
        self.hub.run_for(JUNK_PERIOD_S)

    def off(self) -> None:
        self._all(lambda path: [Delete(path)], self.paths)


KINDS = {"unanswered": Unanswered, "endless": Endless, "junk": Junk}


def listen(orders: deque[str]) -> None:
    """Orders as they come, and the end."""
    for line in sys.stdin:
        orders.append(line.strip())
    orders.append("end")


def obey(hub: Hub, poison: Poison) -> int:
    """Do what standard input says, until it ends; the exit status."""
    orders: deque[str] = deque()
    threading.Thread(target=listen, args=(orders,), daemon=True).start()
    active = False
    while True:
        order = orders.popleft() if orders else ""
        if order == "end":
            hub.close()
            return 0
        if order:
            active = order == "on"
            (poison.on if active else poison.off)()
            print("done", flush=True)
        if active:
            poison.stir()
        else:
            hub.run_for(0.05)


def main() -> int:
    """Obey until standard input ends."""
    hub = Hub(sys.argv[1], TIMEOUT_MS)
    seeder = Seeder(hub)
    seeder.topic(TOPIC, PARTITIONS)
    seeder.make([LAYOUT.group(GROUP), LAYOUT.ids(GROUP)])
    return obey(hub, KINDS[sys.argv[2]](hub, seeder))


if __name__ == "__main__":
    sys.exit(main())
