"""Wildcards: what an old consumer writes into its registration, what we read there, and the topics
that it then really owns are compared. Our maths is worth nothing for a pattern that we match
otherwise.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.kafka import create_topic, unique
from tests.legacy.consumers import LegacyConsumer, LegacyProcess
from tests.legacy.jars import RELEASES, V1_1
from tests.legacy.looking import owners, registered
from tests.legacy.patterns import asked, differences, drawn
from zkcoord.core.model import Malformed, PatternKind
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.codec import decode_registration
from zkcoord.znodes.patterns import match_patterns
from zkcoord.znodes.stat import Stat

ANY = Stat(1, 0, 0, 0, 1, 0)
ENDINGS = (".eu", ".us", "-eu", "")
# Expression (T stands for a name that no other test uses) -> the endings of the topics that it
# covers.
WHITE = {
    "T.*": ENDINGS,
    "T[.]eu": (".eu",),
    "T.eu, T.us": (".eu", ".us", "-eu"),
    '"T[.]us"': (".us",),
    "T": ("",),
    "T[.]e": (),
    "T(?i:.EU)": (".eu", "-eu"),
    r"T\.eu": (".eu",),
}
ESCAPED_TWICE = r"T\.eu"  # by 1.0.1 to 1.1.1, which then cover nothing


@pytest.mark.nightly
def test_java_covers_what_we_say_of_other_expressions(java: Java) -> None:
    """Other seeds each night."""
    seed = int(time.time())
    answers = asked(java, drawn(seed, 10_000))
    assert list(differences(answers.of)) == [], f"seed {seed}, Java {answers.java}"


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    "version",
    [
        V1_1,
        *(
            pytest.param(version, marks=pytest.mark.nightly)
            for version in RELEASES
            if version != V1_1
        ),
    ],
)
def test_patterns_cover_what_we_think(
    version: str,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    looking: KazooClient,
    java: Java,
    tmp_path: Path,
) -> None:
    name = unique("pattern")
    for ending in ENDINGS:
        create_topic(kafka_broker.address, name + ending, 1)
    with LegacyProcess(tmp_path / "legacy", version, kafka_zk_hosts, java) as process:
        opened = {
            expression: process.consumer(
                unique("group"),
                whitelist=expression.replace("T", name),
                auto_commit_enable="false",
                wait=False,
            )
            for expression in WHITE
        }
        others = process.consumer(
            unique("group"), blacklist=f"{name}[.].*", auto_commit_enable="false", wait=False
        )
        for expression, endings in WHITE.items():
            covered = () if version == V1_1 and expression == ESCAPED_TWICE else endings
            expected = {name + ending for ending in covered}
            assert both(opened[expression], looking, PatternKind.WHITE_LIST) == (
                expected,
                expected,
            ), expression
        really, computed = both(others, looking, PatternKind.BLACK_LIST)
        assert (
            really == computed
            and {name, name + "-eu"} <= really
            and not {name + ".eu", name + ".us"} & really
        )


def both(
    member: LegacyConsumer, client: KazooClient, kind: PatternKind
) -> tuple[set[str], set[str]]:
    """The topics that a consumer of this pattern, alone in its group, really owns, and those that
    we read from its registration. (It has them when it has its streams.)
    """
    member.wait("registered")
    really = {partition.topic for partition in owners(client, member.group)}
    found = decode_registration(member.id, registered(client, member.group)[member.id], ANY)
    assert not isinstance(found, Malformed) and found.subscription.pattern is not None, found
    assert found.subscription.pattern.kind is kind
    return really, set(
        match_patterns([found.subscription.pattern], client.get_children("/brokers/topics"))[
            found.subscription.pattern
        ]
    )
