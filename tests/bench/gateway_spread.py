"""The changes of `gateway_changes`, of a group whose clients are at two gateways: what a member at
one gives up and a member at the other takes, neither gateway sees as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import cycle

from tests.bench.figures import Row, Section
from tests.bench.gateway_changes import BARS, QUICK_ROUNDS, ROUNDS, Times, measure, shown
from tests.bench.gateway_clients import COOPERATIVE, RANGE
from tests.bench.gateway_place import THROUGH, Place
from tests.bench.running import say
from tests.gateway.clients import V3, GatewayProcess

KINDS, QUICK_KINDS = ("librdkafka", f"java {V3}"), ("librdkafka",)


@dataclass(frozen=True)
class TwoGateways(Place):
    """A place whose clients begin at one gateway and the other in turn."""

    turns: Iterator[str] = field(default_factory=lambda: iter(()))

    def bootstrap(self, side: str) -> str:
        """The next one's address."""
        return next(self.turns)


def run(place: Place, sections: list[Section], quick: bool) -> None:
    """A section for each kind of client."""
    with GatewayProcess(place.folder / "second", place.zookeeper, place.broker) as second:
        turns = cycle((place.gateway.address, second.address))
        same = {one.name: getattr(place, one.name) for one in fields(Place)}
        two = TwoGateways(**same, turns=turns)
        for kind in QUICK_KINDS if quick else KINDS:
            for strategy in (RANGE, COOPERATIVE):
                section = Section("spread", f"{kind}, {strategy}, at two gateways")
                sections.append(section)
                times: Times = {what: [] for what in BARS}
                rounds = QUICK_ROUNDS if quick else ROUNDS
                once = partial(measure, two, kind, strategy, THROUGH, rounds, times)
                section.attempt(THROUGH, once)
                say(f"  {section.title}: {shown(times)}")
                section.rows += [
                    Row(what, THROUGH, times[what], bars)
                    for what, bars in BARS.items()
                    if times[what]
                ]
