"""The assignment strategy of a group is changed by rolling restarts, under load: the old one is
used until every member supports the new one, and nothing is lost or owned twice.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.judging import delivered_all, judged, writing
from tests.harness.command import Running
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.test_processes import PATIENCE_S, Process, process
from zkcoord.core.model import GroupMetadata, GroupState
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MEMBERS, PARTITIONS = 3, 4
OLD, BOTH, NEW = "range", "sticky,range", "sticky"


class Group:
    """The group as ZooKeeper has it."""

    def __init__(self, hosts: str, name: str) -> None:
        self.name = name
        self.zookeeper = connect(hosts)

    def report(self) -> GroupMetadata | None:
        """The group's node; None before there is one."""
        path = Layout.DRAFT.group(self.name)
        if not self.zookeeper.exists(path):
            return None
        found = codec.decode_metadata(self.name, self.zookeeper.get(path)[0])
        return found if isinstance(found, GroupMetadata) else None

    def settled(self, members: int, after: int) -> str:
        """The assignor in use once so many members are level with a target newer than this
        generation; "" before.
        """
        found = self.report()
        return (
            found.assignor
            if found is not None
            and found.state is GroupState.STABLE
            and found.members == members
            and found.generation > after
            else ""
        )

    def generation(self) -> int:
        """That of the latest target."""
        found = self.report()
        return 0 if found is None else found.generation

    def shares(self, topics: list[str]) -> list[int]:
        """How many partitions each owner has, the largest first; nobody else owns anything."""
        counts: dict[str, int] = {}
        for topic in topics:
            path = f"{Layout.DRAFT.group(self.name)}/owners/{topic}"
            for partition in self.zookeeper.get_children(path):
                owner = self.zookeeper.get(f"{path}/{partition}")[0].decode()
                counts[owner] = counts.get(owner, 0) + 1
        return sorted(counts.values(), reverse=True)


def test_from_range_to_sticky_in_one_rolling_restart(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    topics = [
        create_topic(kafka_broker.address, unique(f"rolled{n}"), PARTITIONS) for n in range(2)
    ]
    group = unique("rolled")
    everybody: dict[str, Process] = {}
    with ExitStack() as running:

        def member(assignors: str) -> Process:
            arguments = [
                "--zookeeper",
                kafka_zk_hosts,
                "--group",
                group,
                "--assignor",
                assignors,
                "--commit",
                "sync",
                "--session-timeout-ms",
                "30000",
            ]
            started = running.enter_context(
                process(*arguments, *(word for topic in topics for word in ("--topic", topic)))
            )
            everybody[f"{assignors}-{len(everybody)}"] = started
            return started

        running.enter_context(Running(tmp_path / "coordinator", "--zookeeper", kafka_zk_hosts))
        seen = Group(kafka_zk_hosts, group)
        running.callback(disconnect, seen.zookeeper)
        writer = running.enter_context(
            writing(kafka_broker.address, dict.fromkeys(topics, PARTITIONS))
        )
        members = [member(OLD) for _ in range(MEMBERS)]
        wait_until(
            lambda: seen.settled(MEMBERS, 0) == OLD,
            PATIENCE_S,
            f"three members with {OLD}; {[m.errors for m in members]}",
        )
        assert seen.shares(topics) == [
            4,
            2,
            2,
        ], "range: the first of three gets one more of each topic"
        for n, assignors, expected in (
            (0, BOTH, OLD),
            (1, BOTH, OLD),
            (2, BOTH, NEW),
            (0, NEW, NEW),
        ):
            before = seen.generation()
            members[n].child.send_signal(signal.SIGTERM)
            assert members[n].end() == 0, members[n].errors
            members[n] = member(assignors)
            members[n].wait("registered")
            used = wait_until(
                lambda: seen.settled(MEMBERS, before),
                PATIENCE_S,
                f"three members again; {members[n].errors}",
            )
            assert used == expected, f"after the restart of member {n} with {assignors}"
        assert seen.shares(topics) == [3, 3, 2]
        late = member(OLD)
        assert (
            late.end() == 1
            and "INCONSISTENT_GROUP_PROTOCOL" in "".join(late.errors)
            and "sticky" in "".join(late.errors)
        ), late.errors
        writer.stop()
        wait_until(lambda: delivered_all(everybody, writer.ends), PATIENCE_S, "every record")
        for each in members:
            each.child.send_signal(signal.SIGTERM)
            assert each.end() == 0, each.errors
    verdict = judged(everybody, writer.ends, {})
    assert verdict.clean, (verdict.sentence, verdict.findings)
    assert writer.rounds > MEMBERS
