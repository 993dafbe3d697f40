"""From the start of a process to its first record, in a group with committed offsets and no other
member; zkcoord's consumer and kafka-python's in turn.

The clock starts just before the process is made. Python's bytecode is there already, as it is for
every installed package. Each process commits when it ends, so the next one goes on where it
stopped.
"""

from __future__ import annotations

import statistics

from tests.bench.consumer_apps import OURS, THEIRS, App, Apps, alternating, configs, running_apps
from tests.bench.consumer_throughput import fill
from tests.bench.figures import Bar, Row, Section
from tests.bench.rig import Rig

PARTITIONS = 8
RECORDS = 60_000
RECORD_BYTES = 100
BAR_MS = 1_000.0
STEPS = (
    ("interpreter", "", "begun"),
    ("imports", "begun", "imported"),
    ("constructor and subscribe", "imported", "made"),
    ("session and registration", "made", "registered"),
    ("command", "registered", "command"),
    ("start ack", "command", "assigned"),
    ("first fetch", "assigned", "first_fetch"),
    ("hand-out", "first_fetch", "first"),
)


def note_steps(section: Section, label: str, app: App) -> None:
    """Where the time of a process went until its first record, as far as it tells: kafka-python's
    consumer says nothing of its group.
    """
    for name, since, until in STEPS:
        if app.of(until) and (not since or app.of(since)):
            section.step(label, name, app.ms(until, since))


def once(rig: Rig, apps: Apps, side: str, topic: str, group: str) -> App:
    """One process, ended again."""
    app = apps.app(
        rig.unique(f"{side}-"),
        kind=side,
        topic=topic,
        configs=configs(side, rig.zookeeper, rig.kafka, group, max_poll_records=10),
    )
    apps.wait_line(app, "first")
    apps.end(app)
    return app


def run(rig: Rig, sections: list[Section], rounds: int) -> None:
    """The section."""
    section = Section(
        "start", "From the start of a process to its first record, a group with committed offsets"
    )
    sections.append(section)
    topic, group = rig.topic(PARTITIONS), rig.unique("start-")
    found: dict[str, list[float]] = {OURS: [], THEIRS: []}
    fill(rig.kafka, topic, RECORD_BYTES, RECORDS)
    with rig.coordinators(), running_apps(rig.folder / "start") as apps:
        for side in found:
            once(rig, apps, side, topic, f"{group}-{side}")
        for number, side in alternating(tuple(found), rounds):
            app = once(rig, apps, side, topic, f"{group}-{side}")
            found[side].append(app.ms("first"))
            note_steps(section, f"first record, {side}", app)
            rig.say(f"  start, round {number + 1} of {rounds}, {side}: {found[side][-1]:.0f} ms")
    section.rows.append(
        Row(
            "first record",
            "from the start of the process",
            found[OURS],
            (Bar("median", BAR_MS),),
            peer=found[THEIRS],
            ratio=statistics.median(found[THEIRS]) / statistics.median(found[OURS]),
        )
    )
