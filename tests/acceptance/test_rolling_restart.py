"""Six static members are restarted one after the other, and the elected coordinator is killed with
-9 while one of them is away: nobody else notices.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.command import Running
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.test_processes import PATIENCE_S, Process, process
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MEMBERS, PARTITIONS, RECORDS = 6, 12, 50


def owned(of: Process) -> set[str]:
    """What a process has been given and not lost again, as its listener heard it."""
    found: set[str] = set()
    for line in of.of("called"):
        (found.update if line["callback"] == "assigned" else found.difference_update)(
            line["partitions"]
        )
    return found


def leader(hosts: str, candidates: list[Running]) -> Running | None:
    """The candidate that leads now."""
    zookeeper = connect(hosts)
    try:
        if not zookeeper.exists(Layout.DRAFT.leader):
            return None
        port = json.loads(zookeeper.get(Layout.DRAFT.leader)[0])["port"]
    finally:
        disconnect(zookeeper)
    return next((c for c in candidates if int(c.port) == int(port)), None)


def test_a_rolling_restart_of_static_members_with_the_coordinator_killed_midway(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    topic = create_topic(kafka_broker.address, unique("rolling"), PARTITIONS)
    produce_numbered(kafka_broker.address, topic, PARTITIONS, RECORDS)
    with ExitStack() as running:

        def member(number: int) -> Process:
            arguments = (
                "--zookeeper",
                kafka_zk_hosts,
                "--topic",
                topic,
                "--group",
                topic,
                "--listener",
                "--commit",
                "sync",
                "--session-timeout-ms",
                "30000",
            )
            return running.enter_context(
                process(
                    *arguments,
                    "--group-instance-id",
                    f"i{number}",
                    "--group-instance-grace-ms",
                    "120000",
                )
            )

        coordinators = [
            running.enter_context(Running(tmp_path / name, "--zookeeper", kafka_zk_hosts))
            for name in ("one", "two")
        ]
        members = [member(n) for n in range(MEMBERS)]
        each = PARTITIONS // MEMBERS
        wait_until(
            lambda: [len(owned(m)) for m in members] == [each] * MEMBERS,
            PATIENCE_S,
            f"two partitions each, not {[len(owned(m)) for m in members]}",
        )
        before = [owned(m) for m in members]
        heard = [len(m.of("called")) for m in members]
        for n in range(MEMBERS):
            old = members[n]
            assert len(old.of("called")) == heard[n], (
                f"member {n} was called back by the restart of others:"
                f" {old.of('called')[heard[n] :]}"
            )
            os.kill(old.child.pid, signal.SIGTERM)
            assert old.end() == 0, old.errors
            if n == MEMBERS // 2:
                killed = wait_until(
                    lambda: leader(kafka_zk_hosts, coordinators), PATIENCE_S, "a leader"
                )
                assert killed is not None
                killed.process.kill()
                killed.process.wait(PATIENCE_S)
                coordinators.remove(killed)
            members[n] = member(n)
            wait_until(
                lambda n=n: owned(members[n]) == before[n],
                PATIENCE_S,
                f"member {n} with what it had, {before[n]}, not {owned(members[n])};"
                f" {members[n].errors}",
            )
            heard[n] = len(members[n].of("called"))
        assert leader(kafka_zk_hosts, coordinators) is coordinators[0]
        assert [m.of("called")[h:] for m, h in zip(members, heard)] == [[]] * MEMBERS
        assert heard == [1] * MEMBERS
