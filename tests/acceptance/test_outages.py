"""What is not there yet, or not there any more: a coordinator, a topic, ZooKeeper, the broker.
Consumers wait, say so once, come back by themselves, and lose nothing.

Servers are killed with -9 and start again with their data at the same address.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from kafka.structs import TopicPartition

from tests.harness.command import Running
from tests.harness.kafka import create_topic, produce_numbered, start_broker, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, fresh_chroot
from tests.kafka.groups import Taken, consumer, drain, take
from tests.kafka.test_processes import PATIENCE_S, Process, process
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WARNED_AFTER_S = 5.0
CLOCK_GRAIN_S = 0.01  # the consumer counts in milliseconds, its lines do not
OUTAGE_PATIENCE_S = 60.0


def warnings(of: Process, word: str) -> list[str]:
    """Lines of standard error that hold a word."""
    return [line for line in list(of.errors) if word in line]


def test_without_coordinator_and_topic_one_warning_each_and_its_command_serves_the_group(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """The command is run as it stands in the warning."""
    topic, group = unique("later"), unique("nobody")
    with process(
        "--zookeeper", kafka_zk_hosts, "--topic", topic, "--group", group, "--commit", "sync"
    ) as member:
        wait_until(
            lambda: warnings(member, "zkcoord coordinator"),
            PATIENCE_S,
            f"the warning; {member.errors}",
        )
        (notice,) = wait_until(
            lambda: [line for line in member.of("notice") if "coordinator" in line["kind"]],
            PATIENCE_S,
            "the notice, which is another stream's",
        )
        assert (
            notice["t"] - member.of("registered")[0]["t"]
        ) / 1e9 >= WARNED_AFTER_S - CLOCK_GRAIN_S
        (warning,) = warnings(member, "zkcoord coordinator")
        assert "/consumers/coordinator" in warning and re.search(
            rf"group {group} \(state: \S+\)", warning
        ), warning
        command = shlex.split(warning.partition("start one with: ")[2])
        assert command[:2] == ["zkcoord", "coordinator"]
        with Running(tmp_path, *command[2:]) as leader:
            leader.ready("leading")
            assert warnings(member, topic) and not member.of("assigned")
            create_topic(kafka_broker.address, topic, 2)
            produce_numbered(kafka_broker.address, topic, 2, 5)
            wait_until(
                lambda: sum(map(len, member.delivered().values())) == 10,
                PATIENCE_S,
                f"the new topic's records; {member.errors}",
            )
            member.child.terminate()
            assert member.end() == 0
    assert len(member.errors) == 2 and len(warnings(member, topic)) == 1, member.errors
    assert member.delivered() == {f"{topic}-{n}": list(range(5)) for n in range(2)}


def test_zookeeper_killed_under_a_group_and_started_again(
    own_zk_server: ZooKeeperServer, java: Java, tmp_path: Path
) -> None:
    """Nothing that was committed before is delivered again after, nothing is left out, and who is
    told to end meanwhile ends.
    """
    hosts = own_zk_server.address + "/kafka"
    client = connect(own_zk_server.address)
    client.create("/kafka")
    disconnect(client)
    broker = start_broker(tmp_path / "broker", hosts, java)
    topic, per_partition = create_topic(broker.address, unique("zkdown"), 2), 400
    produce_numbered(broker.address, topic, 2, per_partition)
    arguments = (
        "--zookeeper",
        hosts,
        "--topic",
        topic,
        "--group",
        topic,
        "--commit",
        "sync",
        "--max-poll-records",
        "20",
        "--batch-delay-ms",
        "100",
        "--session-timeout-ms",
        "6000",
        "--close-timeout-ms",
        "2000",
    )
    with (
        Running(tmp_path / "coordinator", "--zookeeper", hosts) as leader,
        process(*arguments) as stays,
        process(*arguments) as leaves,
    ):
        leader.ready("leading")
        both = (stays, leaves)
        wait_until(
            lambda: all(len(member.of("committed")) >= 2 for member in both),
            PATIENCE_S,
            f"commits of both; {stays.errors}; {leaves.errors}",
        )
        own_zk_server.kill()
        failed = wait_until(
            lambda: [line for line in stays.of("committed") if "error" in line],
            OUTAGE_PATIENCE_S,
            "the end of the commit that ZooKeeper did not answer",
        )
        assert failed[0]["error"].startswith("CommitUnavailableError"), failed
        leaves.child.terminate()
        assert leaves.end() == 0, leaves.errors
        assert stays.child.poll() is None and leader.process.poll() is None
        own_zk_server.start()
        everything = set(range(per_partition))
        names = [f"{topic}-{n}" for n in range(2)]
        wait_until(
            lambda: all(
                set(stays.delivered().get(name, [])) | set(leaves.delivered().get(name, []))
                == everything
                for name in names
            ),
            OUTAGE_PATIENCE_S,
            f"every record; {stays.errors}; {leader.log[-2000:]}",
        )
        assert stays.child.poll() is None
        leader.ready("leading")
        wait_until(lambda: committed(stays, names, per_partition), PATIENCE_S, "the last commit")
        stays.child.terminate()
        assert (
            stays.end() == 0
            and "Traceback" not in "".join(stays.errors + leaves.errors) + leader.log
        )
    for name in names:
        assert_again_only_what_was_not_committed((stays, leaves), name)
    broker.kill()


def committed(member: Process, names: list[str], offset: int) -> bool:
    """Whether its last commits of all these partitions are this."""
    last: dict[str, int] = {}
    for line in member.of("committed"):
        last.update(line.get("offsets", {}))
    return all(last.get(name) == offset for name in names)


def assert_again_only_what_was_not_committed(members: tuple[Process, ...], name: str) -> None:
    """In the order of time: no record below a position whose commit was answered before it was
    handed out, and no commit below another.
    """
    lines = sorted(
        (
            line
            for member in members
            for line in member.lines
            if line["event"] in ("records", "committed")
        ),
        key=lambda line: line["t"],
    )
    position = 0
    for line in lines:
        for first, *_ in line.get("ranges", {}).get(name, []):
            assert first >= position, (
                f"{name}: {first} was delivered after {position} was committed"
            )
        offset = line.get("offsets", {}).get(name, position)
        assert offset >= position, f"{name}: {offset} committed after {position}"
        position = offset


def test_the_broker_killed_under_a_consumer_and_started_again(
    zk_server: ZooKeeperServer, java: Java, tmp_path: Path
) -> None:
    """Polls end in time, commits go on since ZooKeeper is there, the assignment stays, and every
    record comes once.
    """
    hosts = fresh_chroot(zk_server.address, "brokerdown")
    broker = start_broker(tmp_path / "broker", hosts, java)
    topic = create_topic(broker.address, unique("brokerdown"), 2)
    produce_numbered(broker.address, topic, 2, 5)
    owned = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    with (
        Running(tmp_path / "coordinator", "--zookeeper", hosts) as leader,
        consumer(hosts, topic, topic, enable_auto_commit=False) as member,
    ):
        leader.ready("leading")
        taken: Taken = {}
        drain([member], taken, 10)
        broker.kill()
        assert [take(member, taken) for _ in range(10)] == [0] * 10
        member.commit()
        assert [member.committed(tp) for tp in sorted(owned)] == [5, 5]
        assert member.assignment() == owned and member.position(TopicPartition(topic, 0)) == 5
        broker.start()
        produce_numbered(broker.address, topic, 2, 5, 5)
        drain([member], taken, 20)
        assert member.assignment() == owned
    broker.kill()
    assert taken == {(topic, n): list(range(10)) for n in range(2)}
