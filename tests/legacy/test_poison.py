"""What each registration of `poison` does to real old consumers of every release (at night), what
`zkcoord check` says of it, and a group of ours, which owns everything whatever lies beside it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.kafka import create_topic, unique
from tests.kafka.groups import consumer, coordinator, settled
from tests.legacy.consumers import LegacyProcess
from tests.legacy.jars import RELEASES
from tests.legacy.poison import BATTERY, HARMLESS, POISON, Registration
from tests.legacy.poisoned import MEMBERS, PARTITIONS, VICTIMS, WAIT_S, add, killed_by
from tests.legacy.revival import share
from zkcoord.check.registration_rules import judge
from zkcoord.check.rules import RULES
from zkcoord.check.severity import Severity
from zkcoord.core.model import GroupMode, Malformed
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.codec import decode_registration
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

ANY = Stat(1, 0, 0, 0, 1, 0)
UNREADABLE = [
    registration
    for registration in POISON
    if isinstance(decode_registration("poison", registration.data or b"", ANY), Malformed)
]


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.parametrize("version", RELEASES)
def test_what_it_does_to_old_consumers(
    version: str,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    looking: KazooClient,
    java: Java,
    tmp_path: Path,
) -> None:
    """Each is added to a group of one member that owns everything: either it gives up, or all its
    owner nodes are made anew.
    """
    topic = create_topic(kafka_broker.address, unique("poison"), PARTITIONS)
    with LegacyProcess(tmp_path / "legacy", version, kafka_zk_hosts, java) as process:
        found = {
            registration.name: killed_by(registration, process, looking, topic)
            for registration in (*POISON, *HARMLESS, *BATTERY)
        }
    assert found == {
        registration.name: version in registration.kills
        for registration in (*POISON, *HARMLESS, *BATTERY)
    }


@pytest.mark.parametrize(
    "registration", [*POISON, *HARMLESS, *BATTERY], ids=lambda registration: registration.name
)
def test_what_zkcoord_check_says_of_it(registration: Registration) -> None:
    """It names those that kill, with the releases that the test above saw killed, and no other."""
    found = [
        RULES[code] for code, _ in judge("group_poison", registration.data or b"", ANY).problems
    ]
    victims = {
        release
        for rule in found
        if rule.severity is Severity.ERROR
        for release in VICTIMS[rule.versions]
    }
    assert victims == set(registration.kills)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("mode", [None, GroupMode.MIXED], ids=["coordinated", "mixed"])
def test_a_group_of_ours_owns_everything(
    mode: GroupMode | None, kafka_broker: KafkaBroker, kafka_zk_hosts: str, looking: KazooClient
) -> None:
    """Beside each, a member joins and leaves: the coordinator goes on assigning, and everything is
    owned by those who can be read. (Those that we can read are old consumers for us: where nobody
    said that the group is shared with such, it is left alone while they are there.)
    """
    topic, group = create_topic(kafka_broker.address, unique("poison"), PARTITIONS), unique("group")
    if mode is not None:
        share(looking, group)
    with coordinator(kafka_zk_hosts, layout=Layout.ISOLATED), ExitStack() as running:
        members = [
            running.enter_context(
                consumer(kafka_zk_hosts, group, topic, zookeeper_layout="isolated")
            )
            for _ in range(MEMBERS)
        ]
        settled(members, topic, PARTITIONS, timeout_s=WAIT_S)
        for registration in UNREADABLE if mode is None else POISON:
            path = add(looking, group, registration)
            with consumer(kafka_zk_hosts, group, topic, zookeeper_layout="isolated") as another:
                settled([*members, another], topic, PARTITIONS, timeout_s=WAIT_S)
            settled(members, topic, PARTITIONS, timeout_s=WAIT_S)
            looking.delete(path)
