"""Whether a group that does everything wrong is felt by the others: their rebalances, with it and
without it in turn.

What is measured is a poison that goes on: the round beside it begins `SETTLE_S` after it (50,000
registrations are made in one burst, which no group makes twice), and the round alone as long after
its end (they are deleted in one burst, too, and an assignor that is stopped late still works). The
bar is on the p95 of the median round: a machine that stands still for two seconds spoils one round,
and the p95 of all rounds together.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import median

from tests.assignors import installed
from tests.bench.figures import Bar, Row, Section, quantile
from tests.bench.scale_rig import CoordinatorProcess, Rig
from tests.bench.scale_storms import rebalances
from tests.bench.scale_wire import Hub
from tests.bench.scale_world import Member, Seeder

GROUPS, MEMBERS, PARTITIONS = 100, 2, 12
PER_S = 20.0
WAIT_S = 300.0
SETTLE_S = 5.0
RATIO_MAX = 1.2
KINDS = {
    "unanswered": "a group whose members never give anything up and come back when evicted",
    "endless": "a group whose assignor never ends",
    "junk": "50,000 registrations that nobody can read, of which 1,000 change per second",
}


class Poisoner:
    """The process that spoils one group, or several: `module` has its kinds."""

    def __init__(
        self, hosts: str, log: Path, *kind: str, module: str = "tests.bench.scale_poisoner"
    ) -> None:
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, hosts, *kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @contextmanager
    def on(self) -> Iterator[None]:
        """Spoiled inside the block."""
        self.order("on")
        yield
        self.order("off")

    def order(self, order: str) -> None:
        """On or off; returns when it is."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == "done\n", f"the poisoner ended: {self.process.poll()}"

    def kill(self) -> None:
        """At once; its sessions end by their timeouts."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """It ends with its standard input."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self.process.stdout.close()


class Healthy:
    """The other groups."""

    def __init__(self, hub: Hub, seeder: Seeder, process: CoordinatorProcess, groups: int) -> None:
        self.hub = hub
        self.process = process
        self.names = [f"healthy-{number:03d}" for number in range(groups)]
        for number in range(groups):
            seeder.topic(self.topic(number), PARTITIONS)
        self.members = {
            name: [Member(hub, name, [self.topic(number)]) for _ in range(MEMBERS)]
            for number, name in enumerate(self.names)
        }
        self._settle()

    def topic(self, number: int) -> str:
        """Each group's own."""
        return f"topic-{number}"

    def _settle(self) -> None:
        def even() -> bool:
            return all(
                sum(len(m.held) for m in ms) == PARTITIONS and len({len(m.held) for m in ms}) == 1
                for ms in self.members.values()
            )

        self.hub.run_until(even, WAIT_S, "healthy groups at rest")

    def round(self) -> list[float]:
        """A member joins each group, one group after the other, and leaves again; how long the
        rebalances took, in ms, by the journal.
        """
        order = list(self.names)
        random.shuffle(order)
        found: list[float] = []
        self.process.records()
        for act in (self._join, self._leave):
            for name in order:
                act(name)
                self.hub.run_for(1 / PER_S)
            self._settle()
            found += [
                float(str(record["duration_ms"]))
                for record in rebalances(self.hub, self.process, set(self.names)).values()
            ]
        return found

    def _join(self, name: str) -> None:
        self.members[name].append(Member(self.hub, name, [self.topic(self.names.index(name))]))

    def _leave(self, name: str) -> None:
        self.members[name].pop().leave()


def one(
    rig: Rig, kind: str, rounds: int, groups: int
) -> tuple[list[list[float]], list[list[float]]]:
    """(durations alone, durations beside the poison), by round, in turn."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    packages = installed.path(rig.folder / f"site-{kind}")
    with rig.hub() as (hub, seeder), rig.coordinator(hub, path=packages) as process:
        healthy = Healthy(hub, seeder, process, groups)
        poisoner = Poisoner(rig.hosts(hub), rig.folder / f"poisoner-{kind}.log", kind)
        try:
            healthy.round()
            for number in range(rounds):
                hub.run_for(SETTLE_S)
                alone.append(healthy.round())
                with poisoner.on():
                    hub.run_for(SETTLE_S)
                    beside.append(healthy.round())
                rig.say(
                    f"  poison, {kind}, round {number + 1} of {rounds}: p95"
                    f" {quantile(alone[-1], 0.95):.0f} ms alone, {quantile(beside[-1], 0.95):.0f}"
                    " ms beside it"
                )
        finally:
            poisoner.end()
    return alone, beside


def run(rig: Rig, sections: list[Section], rounds: int, groups: int = GROUPS) -> None:
    """The section."""
    random.seed(0)
    section = Section(
        "poison",
        f"{groups} healthy groups, joins and leaves, {PER_S:g} per second, alone and beside one"
        " that is not",
    )
    sections.append(section)
    for kind, words in KINDS.items():
        alone, beside = one(rig, kind, rounds, groups)
        p95_alone, p95_beside = (
            [quantile(durations, 0.95) for durations in rounds_of] for rounds_of in (alone, beside)
        )
        section.rows += [
            Row(f"rebalance alone ({kind})", "journal", list(chain(*alone))),
            Row(f"rebalance beside it ({kind})", "journal", list(chain(*beside))),
            Row(f"p95 of each round alone ({kind})", "journal", p95_alone),
            Row(f"p95 of each round beside it ({kind})", "journal", p95_beside),
            Row(
                f"median p95 beside by alone ({kind})",
                "journal",
                [median(p95_beside) / median(p95_alone)],
                (Bar("max", RATIO_MAX),),
                "x",
            ),
        ]
        section.notes.append(f"{kind}: {words}")
