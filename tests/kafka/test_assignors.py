"""Custom assignors, all real: a coordinator process beside which packages are installed, consumers
that name them, a broker.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.errors import InconsistentProtocolError
from tests.assignors import installed
from tests.harness.command import ROOT, Running, run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, consumer, settled, take
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def coordinator(home: Path, hosts: str, *arguments: str) -> Running:
    """A coordinator process beside which the packages of `installed` are."""
    return Running(
        home / "coordinator",
        "--zookeeper",
        hosts,
        *arguments,
        PYTHONPATH=os.pathsep.join((str(ROOT), *installed.path(home / "site"))),
    )


def group_of(process: Running, name: str) -> dict[str, object]:
    """What /groups says of a group; empty while it says nothing."""
    return next(
        (
            group
            for group in json.loads(process.get("/groups")[1])["groups"]
            if group["group"] == name
        ),
        {},
    )


def assigning(process: Running) -> bool:
    """Whether it has a process that runs an assignor."""

    def command(child: psutil.Process) -> list[str]:
        try:
            return list(child.cmdline())
        except psutil.NoSuchProcess:  # it ended meanwhile
            return []

    return any(
        "zkcoord.assignors.child" in command(child)
        for child in psutil.Process(process.process.pid).children()
    )


def numbers(member: KafkaConsumer) -> set[int]:
    """The partitions that it has now."""
    take(member, {}, 20)
    return {tp.partition for tp in member.assignment()}


def test_a_rack_aware_assignor_gets_racks_and_tells_members_what_they_got(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    topic = create_topic(kafka_broker.address, unique("racks"), 4)
    produce_numbered(kafka_broker.address, topic, 4, 5)
    east = json.dumps({"rack": "east", "replicas": {topic: {"east": [1, 3], "west": [0, 2]}}})
    with coordinator(tmp_path, kafka_zk_hosts, "--journal-inputs") as process:
        process.logs("custom_assignors=")
        named = {"partition_assignment_strategy": ["rack-aware"], "enable_auto_commit": False}
        with consumer(kafka_zk_hosts, topic, topic, assignment_user_data=east, **named) as one:
            wait_until(
                lambda: numbers(one) == {0, 1, 2, 3}, PATIENCE_S, "everything with the first"
            )
            wait_until(
                lambda: numbers(one) and one.assignment_user_data(),
                PATIENCE_S,
                "word of the assignor",
            )
            assert json.loads(one.assignment_user_data()) == {
                "rack": "east",
                "local": 2,
                "remote": 2,
            }
            with consumer(
                kafka_zk_hosts,
                topic,
                topic,
                assignment_user_data=lambda: json.dumps({"rack": "west"}),
                **named,
            ) as two:
                wait_until(
                    lambda: numbers(one) == {1, 3} and numbers(two) == {0, 2},
                    PATIENCE_S,
                    "each in its rack",
                )
                wait_until(
                    lambda: numbers(one) and '"remote": 0' in one.assignment_user_data(),
                    PATIENCE_S,
                    "news of the assignor for who was there before",
                )
                assert json.loads(two.assignment_user_data()) == {
                    "rack": "west",
                    "local": 2,
                    "remote": 0,
                }
        assert process.signal() == 0
    assert {record["assignor"] for record in process.records("rebalance")} == {"rack-aware"}
    replayed = run(tmp_path, "replay", str(process.journal), "-q")
    assert replayed.returncode == 0, (
        "an answer from elsewhere is an input like any other: " + replayed.stdout
    )


def test_an_assignor_that_loops_for_ever_quarantines_its_group_and_nobody_else(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """One group's call never ends; groups with a custom and with a built-in assignor balance beside
    it, before and after its quarantine. When its member is gone with what made it loop, it is
    served.
    """
    topic = create_topic(kafka_broker.address, unique("loop"), 4)
    poison, custom, plain = unique("poison"), unique("custom"), unique("plain")
    looping = {"partition_assignment_strategy": ["loops_where_told"]}
    options = (
        "--assignor-deadline-ms",
        "2000",
        "--max-rebalance-retries",
        "2",
        "--quarantine-backoff-ms",
        "100",
    )
    with coordinator(tmp_path, kafka_zk_hosts, *options) as process:
        process.ready("leading")
        with consumer(
            kafka_zk_hosts, poison, topic, assignment_user_data="loop", **looping
        ) as stuck:
            with (
                consumer(kafka_zk_hosts, custom, topic, **looping) as one,
                consumer(kafka_zk_hosts, plain, topic) as other,
            ):
                settled([one], topic, 4)
                settled([other], topic, 4)
                wait_until(
                    lambda: group_of(process, poison).get("state") == "Quarantined",
                    PATIENCE_S,
                    "the quarantine",
                )
                reason = str(group_of(process, poison)["failure"])
                assert (
                    "ConsumerRebalanceFailedException" in reason
                    and "assignor loops_where_told: it did not answer within 2000 ms and was killed"
                    in reason
                )
                with (
                    consumer(kafka_zk_hosts, custom, topic, **looping) as two,
                    consumer(kafka_zk_hosts, plain, topic) as another,
                ):
                    settled([one, two], topic, 4)
                    settled([other, another], topic, 4)
            assert numbers(stuck) == set()
        with consumer(kafka_zk_hosts, poison, topic, **looping) as healed:
            settled([healed], topic, 4)
        assert process.signal() == 0
    quarantined = process.records("quarantined")
    assert {record["group"] for record in quarantined} == {poison}


def test_an_answer_that_names_a_member_which_left_meanwhile_is_followed_by_a_better_one(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """The call of the first member lasts until a file appears; when it does, that member is gone
    and another has come.
    """
    topic = create_topic(kafka_broker.address, unique("late"), 4)
    file = tmp_path / "go on"
    named = {"partition_assignment_strategy": ["sleeps_once"]}
    with coordinator(tmp_path, kafka_zk_hosts, "--assignor-deadline-ms", "600000") as process:
        process.ready("leading")
        with consumer(
            kafka_zk_hosts, topic, topic, assignment_user_data=f"600 {file}", **named
        ) as first:
            wait_until(lambda: not numbers(first) and assigning(process), PATIENCE_S, "the call")
        with consumer(kafka_zk_hosts, topic, topic, assignment_user_data="0", **named) as second:
            wait_until(
                lambda: not numbers(second) and group_of(process, topic).get("members") == 1,
                PATIENCE_S,
                "the first one's departure",
            )
            file.touch()
            settled([second], topic, 4)
        assert process.signal() == 0
    assert process.records("quarantined") == []


def test_an_assignor_that_is_not_installed_is_a_rejection(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    topic = create_topic(kafka_broker.address, unique("unknown"), 2)
    with coordinator(tmp_path, kafka_zk_hosts) as process:
        process.ready("leading")
        with consumer(
            kafka_zk_hosts, topic, topic, partition_assignment_strategy=["nobodys", "good"]
        ) as both:
            settled([both], topic, 2)
            with (
                consumer(
                    kafka_zk_hosts, topic, topic, partition_assignment_strategy=["nobodys"]
                ) as only,
                pytest.raises(
                    InconsistentProtocolError, match="names nobodys, the group uses good"
                ),
            ):
                wait_until(lambda: numbers(only), PATIENCE_S, "a rejection")
            settled([both], topic, 2)
