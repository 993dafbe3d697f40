"""A rolling restart of static members, one after the other, under load: zkcoord's consumer, then
kafka-python's group consumer with the same `group_instance_id`s.

A member is ended with SIGTERM and started again at once. It is back when it was handed a record of
every partition that it had before; the clock starts just before its new process is made. Calls of
the other members' listeners are counted.
"""

from __future__ import annotations

import statistics

from tests.bench.consumer_apps import NS, OURS, THEIRS, App, Apps, configs, running_apps
from tests.bench.consumer_start import note_steps
from tests.bench.figures import Bar, Row, Section
from tests.bench.rig import Rig

MEMBERS = 6
PARTITIONS = 12
LOAD_PER_S = 600
BACK_BAR_MS = 1_000.0


def owned(app: App) -> set[int]:
    """What it has been given and not lost again, as its listener heard it."""
    found: set[int] = set()
    for line in app.of("called"):
        (found.update if line["callback"] == "assigned" else found.difference_update)(
            line["partitions"]
        )
    return found


def served(app: App) -> set[int]:
    """Partitions of which it was handed a record."""
    return {int(line["partition"]) for line in app.of("first")}


class Roll:
    """One group. `back_ms`: how long each restarted member took; `called`: calls of the others'
    listeners meanwhile.
    """

    def __init__(self, rig: Rig, apps: Apps, side: str, section: Section) -> None:
        self.rig = rig
        self.apps = apps
        self.side = side
        self.topic = rig.topic(PARTITIONS)
        self.group = rig.unique("static-")
        self.back_ms: list[float] = []
        self.called: list[float] = []
        self.section = section

    def start(self, number: int) -> App:
        """One member."""
        return self.apps.app(
            self.rig.unique(f"{self.side}-{number}-"),
            kind=self.side,
            topic=self.topic,
            configs=configs(
                self.side,
                self.rig.zookeeper,
                self.rig.kafka,
                self.group,
                group_instance_id=f"i{number}",
            ),
        )

    def run(self, rounds: int) -> None:
        """Every member, `rounds` times."""
        with self.rig.producer(self.topic, PARTITIONS, LOAD_PER_S):
            members = [self.start(number) for number in range(MEMBERS)]
            each = PARTITIONS // MEMBERS
            self.apps.wait(
                lambda: all(
                    len(owned(member)) == each and owned(member) <= served(member)
                    for member in members
                ),
                f"{each} partitions each",
            )
            for _ in range(rounds):
                for number in range(MEMBERS):
                    self.restart(members, number)
                self.rig.say(
                    f"  static, {self.side}: {len(self.back_ms)} restarts, the last after"
                    f" {self.back_ms[-1]:.0f} ms; the others were called {sum(self.called):.0f}"
                    " times"
                )
            self.apps.end(*members)

    def restart(self, members: list[App], number: int) -> None:
        """One member."""
        others = [member for at, member in enumerate(members) if at != number]
        before, heard = owned(members[number]), sum(len(other.of("called")) for other in others)
        self.apps.end(members[number])
        new = members[number] = self.start(number)
        self.apps.wait(
            lambda: before <= served(new), f"{new.name} with what it had before, {sorted(before)}"
        )
        self.back_ms.append(
            (
                max(line["t"] for line in new.of("first") if line["partition"] in before)
                - new.started_ns
            )
            / NS
        )
        note_steps(self.section, f"a member's first record, {self.side}", new)
        self.called.append(float(sum(len(other.of("called")) for other in others) - heard))


def run(rig: Rig, sections: list[Section], rounds: int) -> None:
    """The section."""
    section = Section(
        "static",
        f"Rolling restart of {MEMBERS} static members, {PARTITIONS} partitions, {LOAD_PER_S}"
        " records/s",
    )
    sections.append(section)
    with rig.coordinators(), running_apps(rig.folder / "static") as apps:
        ours, theirs = Roll(rig, apps, OURS, section), Roll(rig, apps, THEIRS, section)
        section.attempt(OURS, lambda: ours.run(rounds))
        section.attempt(THEIRS, lambda: theirs.run(max(1, rounds // 2)))
    ratio = (
        statistics.median(theirs.back_ms) / statistics.median(ours.back_ms)
        if ours.back_ms and theirs.back_ms
        else None
    )
    section.rows += [
        Row(
            "a restarted member is back",
            "from its process's start",
            ours.back_ms,
            (Bar("max", BACK_BAR_MS),),
            peer=theirs.back_ms,
            ratio=ratio,
        ),
        Row(
            "callbacks of the other members",
            "per restart",
            ours.called,
            (Bar("max", 0),),
            "calls",
            peer=theirs.called,
        ),
    ]
