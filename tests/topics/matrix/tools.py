"""What the command line says of groups, and changes."""

from __future__ import annotations

import json
from typing import Any

from kafka.errors import TopicAlreadyExistsError

from tests.harness.command import run
from tests.harness.kafka import (
    add_partitions,
    create_topic,
    delete_topic,
    group_member,
    produce_numbered,
    unique,
)
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import Taken, consumer, drain, settled
from tests.legacy.broker_checks import Against, look, migrate, offsets_in_kafka, reset
from tests.topics.matrix.members import Polled
from zkcoord.cli.check import FOUND
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.paths import Layout

PATIENCE_S = 90.0
EACH = 10


def groups(at: Against) -> str:
    """list, describe, health, mode, machine, rebalance and delete, while members live and a topic
    grows.
    """
    topic, group = create_topic(at.address, unique("served"), 2), unique("group")
    produce_numbered(at.address, topic, 2, EACH)
    taken: Taken = {}
    with at.coordinator():
        with consumer(at.hosts, group, topic) as one, consumer(at.hosts, group, topic) as two:
            members = [one, two]
            settled(members, topic, 2, taken)
            drain(members, taken, 2 * EACH)
            one.commit()
            two.commit()
            assert group in at.tool("groups", "list").split()
            assert described(at, group) == [(n, EACH, EACH, 0) for n in range(2)]
            assert len(rows(at.tool("groups", "describe", group, "--members"))) == 2
            assert "Stable" in at.tool("groups", "describe", group, "--state")
            assert rows(at.tool("groups", "health", group))[0][:3] == [group, "Stable", "OK"]
            add_partitions(at.address, topic, 3)
            settled(members, topic, 3, taken)
            produce_numbered(at.address, topic, 3, EACH, EACH)
            drain(members, taken, 2 * EACH + 3 * EACH)
            one.commit()
            two.commit()
            assert described(at, group) == [
                (n, end, end, 0) for n, end in enumerate((2 * EACH, 2 * EACH, EACH))
            ]
            assert "it is the coordinator's" in at.tool("groups", "mode", group)
            assert "mode coordinated" in at.tool("groups", "mode", group, "coordinated")
            assert "the coordinator runs it" in at.tool("groups", "machine", group)
            at.tool("groups", "rebalance", group)
            refused = run(
                at.folder, "groups", "delete", group, "--execute", "--zookeeper", at.hosts
            )
            assert refused.returncode == 1 and "has members" in refused.stderr, refused
        at.tool("groups", "delete", group, "--execute")
        assert group not in at.tool("groups", "list").split()
    return ""


def rows(table: str) -> list[list[str]]:
    """Of a table, without its head."""
    return [line.split() for line in table.splitlines()[1:]]


def described(at: Against, group: str) -> list[tuple[Any, ...]]:
    """Partition, offset, end and lag, as `groups describe` has them."""
    found = json.loads(at.tool("groups", "describe", group, "--json"))["offsets"]
    names = ("partition", "current_offset", "log_end_offset", "lag")
    return [tuple(one[name] for name in names) for one in found]


def offsets(at: Against) -> str:
    """reset, export and import, accept and delete; of a topic that nobody names, of members that
    live, of one that was made again.
    """
    with at.coordinator():
        reset(at)
        topic, group = create_topic(at.address, unique("kept"), 2), unique("group")
        produce_numbered(at.address, topic, 2, EACH)
        which = (group, "--topic", topic)
        at.tool("offsets", "reset", *which, "--to-offset", "4", "--new-group", "--execute")
        saved = at.folder / "saved.csv"
        saved.write_text(at.tool("offsets", "reset", *which, "--to-current", "--export"))
        at.tool("offsets", "reset", *which, "--shift-by", "3", "--execute")
        assert at.stored(group, topic) == {0: 7, 1: 7}
        at.tool("offsets", "reset", group, "--from-file", str(saved), "--execute")
        assert at.stored(group, topic) == {0: 4, 1: 4}
        _reset_while_it_lives(at, topic, group)
        at.tool("offsets", "delete", group, "--topic", f"{topic}:1", "--execute")
        assert at.stored(group, topic) == {0: 2 * EACH}
        delete_topic(at.address, topic)
        wait_until(lambda: _made(at, topic), PATIENCE_S, "the topic to be made again")
        wait_until(lambda: not _counts(at, group), PATIENCE_S, "that it is another topic")
        at.tool("offsets", "accept", *which, "--execute")
        assert _counts(at, group), "it is said to be the same"
    return ""


def _reset_while_it_lives(at: Against, topic: str, group: str) -> None:
    """Its owner seeks, and goes on from there to the end."""
    one = Polled(consumer(at.hosts, group, topic))
    try:
        wait_until(lambda: len(one.taken) == 2 * (EACH - 4), PATIENCE_S, "the records from 4 on")
        at.tool("offsets", "reset", group, "--topic", topic, "--to-earliest", "--live", "--execute")
        produce_numbered(at.address, topic, 2, EACH, EACH)
        wanted = [*range(4, EACH), *range(2 * EACH)]
        wait_until(
            lambda: all(
                [offset for partition, offset in one.taken if partition == n] == wanted
                for n in range(2)
            ),
            PATIENCE_S,
            "all records after a reset",
        )
    finally:
        one.close()
    assert at.stored(group, topic) == dict.fromkeys(range(2), 2 * EACH)


def _made(at: Against, topic: str) -> bool:
    """Not before the one of its name is gone."""
    try:
        create_topic(at.address, topic, 2)
    except TopicAlreadyExistsError:
        return False
    return True


def _counts(at: Against, group: str) -> bool:
    """Whether what is stored is of the topic that is there now."""
    found = json.loads(at.tool("offsets", "show", group, "--json"))["offsets"]
    return all(one["counts"] for one in found if one["current_offset"] is not None)


def migrated(at: Against) -> str:
    """Into Kafka and back."""
    with at.coordinator():
        return migrate(at)


def kafka_offsets(at: Against) -> str:
    """Offsets that are in Kafka alone, and what is said of them; and those that are in both."""
    offsets_in_kafka(at)
    topic, group = create_topic(at.address, unique("both"), 2), unique("group")
    produce_numbered(at.address, topic, 2, EACH)
    ends = dict.fromkeys(range(2), EACH)
    with at.coordinator():
        with consumer(at.hosts, group, topic, offsets_storage="dual") as one:
            drain([one], {}, 2 * EACH)
            one.commit()
            wait_until(lambda: at.committed(group, topic) == ends, PATIENCE_S, "them in Kafka, too")
        assert at.stored(group, topic) == ends
        health = at.tool("groups", "health", group, "--storage", "kafka")
        assert rows(health)[0][2] == "OK", health
    return ""


def check(at: Against) -> str:
    """Nothing is found on what is well; what is planted is, and what only brokers know."""
    look(at)
    topic, group = create_topic(at.address, unique("checked"), 2), unique("group")
    produce_numbered(at.address, topic, 2, EACH)
    with at.coordinator(), consumer(at.hosts, group, topic) as one:
        drain([one], {}, 2 * EACH)
        one.commit()
        assert found(at, group) == set()
        client = connect(at.hosts)
        try:
            client.set(Layout.DRAFT.offset(group, TopicPartition(topic, 1)), b"999")
            client.create(
                Layout.DRAFT.offset(group, TopicPartition(f"no-{topic}", 0)), b"0", makepath=True
            )
        finally:
            disconnect(client)
        theirs = group_member(at.address, topic, group)
        try:
            wanted = {"offset-no-such-topic", "offset-outside-log", "live-in-kafka"}
            wait_until(
                lambda: theirs.poll(100) is not None and found(at, group) == wanted,
                PATIENCE_S,
                "what is wrong to be found",
            )
        finally:
            theirs.close()
    return ""


def found(at: Against, group: str) -> set[str]:
    """What `zkcoord check --kafka` finds of this group, and of topics and brokers."""
    ended = run(at.folder, "check", "--kafka", "--json", "--only", group, "--zookeeper", at.hosts)
    assert ended.returncode in (0, FOUND) and not ended.stderr, ended
    return {one["code"] for one in json.loads(ended.stdout)["findings"]}
