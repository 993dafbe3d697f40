"""A group that moves from kafka-python to zkcoord and back while its topic is written to, by the
code of the test that says that nothing is lost (`tests.acceptance.moving`).
"""

from __future__ import annotations

from tests.acceptance.moving import Count, Journey, load
from tests.bench.figures import Bar, Row, Section
from tests.bench.rig import Rig

PARTITIONS = 4
MEMBERS = 2
SHARE = 500


def once(rig: Rig) -> Count:
    """One journey: a leg of kafka-python's, one of ours, and kafka-python's again until nothing is
    left.
    """
    group = Journey(rig.kafka, rig.zookeeper, rig.topic(PARTITIONS), PARTITIONS)
    with load(group.broker, group.topic, PARTITIONS) as stop:
        group.leg(group.kafka_python(), 1, group.share(SHARE))
        group.leg(group.zkcoord("--offsets-storage", "dual"), MEMBERS, group.share(SHARE))
        stop()
        group.leg(group.kafka_python(), 1, group.drained)
    return group.count()


def run(rig: Rig, sections: list[Section], rounds: int) -> None:
    """The section."""
    section = Section(
        "moving",
        f"A group goes from kafka-python to zkcoord ({MEMBERS} members) and back under load,"
        f" {PARTITIONS} partitions",
    )
    sections.append(section)
    found: list[Count] = []

    def journeys() -> None:
        for number in range(rounds):
            found.append(once(rig))
            rig.say(f"  moving, round {number + 1} of {rounds}: {found[-1]}")

    with rig.coordinators():
        section.attempt("moving", journeys)
    section.rows += [
        Row(
            "handed out to nobody",
            "of each journey",
            [float(one.lost) for one in found],
            (Bar("max", 0),),
            "records",
            note=f"of {sum(one.written for one in found)} in all",
        ),
        Row(
            "handed out again though committed",
            "of each journey",
            [float(one.again_committed) for one in found],
            (Bar("max", 0),),
            "records",
        ),
        Row(
            "handed out again, not committed",
            "of each journey",
            [float(one.again - one.again_committed) for one in found],
            unit="records",
        ),
    ]
