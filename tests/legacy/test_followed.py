"""Real old consumers that are there by mistake, or subscribe by what only Java understands: nothing
is taken from them, they get nothing where they are not to, and what is wrong is named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from consumer.errors import RejectedError
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import Taken, consumer, coordinator, settled, take
from tests.kafka.test_processes import process
from tests.legacy.consumers import LegacyProcess
from tests.legacy.looking import owners, registered
from tests.legacy.poisoned import said_by_check
from tests.legacy.revival import share
from tests.sim.legacy import range_owners
from zkcoord.cli.main import main
from zkcoord.core.model import GroupMode, Mode, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.shared import KEEPER, KEEPER_TEXT
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.codec import encode_mode
from zkcoord.znodes.paths import Layout

WAIT_S = 120.0
PARTITIONS = 8
QUICK: dict[str, Any] = {"rebalance_backoff_ms": 200}
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    return create_topic(kafka_broker.address, unique("followed"), PARTITIONS)


@pytest.fixture
def ours(kafka_zk_hosts: str, topic: str) -> Iterator[Any]:
    """Makes members of ours."""
    with ExitStack() as running:
        yield lambda group: running.enter_context(
            consumer(kafka_zk_hosts, group, topic, zookeeper_layout="isolated")
        )


def said(client: KazooClient, group: str, mode: GroupMode) -> None:
    """An operator says whose the group is, without a look at who is there."""
    path, data = Layout.ISOLATED.mode(group), encode_mode(Mode(mode, by="the test"))
    if client.exists(path):
        client.set(path, data)
    else:
        client.create(path, data, makepath=True)


def described(hosts: str, group: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The problems that `groups describe` names."""
    capsys.readouterr()
    command = ["groups", "describe", group, "--json", "--zookeeper", hosts, "--layout", "isolated"]
    assert main(command) == 0
    return list(json.loads(capsys.readouterr().out)["problems"])


def codes(hosts: str, group: str) -> set[str]:
    """What `zkcoord check` calls errors."""
    return {each["code"] for each in said_by_check(hosts, group) if each["severity"] == "error"}


def of_topic(client: KazooClient, group: str, topic: str) -> dict[TopicPartition, str]:
    """Who owns its partitions."""
    return {tp: thread for tp, thread in owners(client, group).items() if tp.topic == topic}


def test_one_started_by_mistake_gets_nothing_also_after_a_kill(
    kafka_zk_hosts: str,
    looking: KazooClient,
    legacy: LegacyProcess,
    topic: str,
    ours: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In mode coordinated: its rebalances fail, with the reason in its log, and what a killed
    member of ours has had goes to those that live.
    """
    group = unique("group")
    said(looking, group, GroupMode.COORDINATED)
    with (
        coordinator(kafka_zk_hosts, layout=Layout.ISOLATED),
        process(
            "--zookeeper",
            kafka_zk_hosts,
            "--topic",
            topic,
            "--group",
            group,
            "--layout",
            "isolated",
        ) as victim,
    ):
        member = ours(group)

        def shared() -> bool:
            take(member, {}, 20)
            return len(owners(looking, group)) == PARTITIONS and len(member.assignment()) == 4

        wait_until(shared, WAIT_S, "the partitions shared by two of ours")
        old = legacy.consumer(group, {topic: 1}, name="0", wait=False, **QUICK)
        wait_until(lambda: old.gave_up(), WAIT_S, "the old consumer to give up")
        assert KEEPER in registered(looking, group)
        assert KEEPER_TEXT in legacy.log.read_text(encoding="utf-8")
        victim.child.kill()

        def everything() -> bool:
            take(member, {}, 20)
            assert not any(text.startswith(old.id) for text in owners(looking, group).values())
            return len(member.assignment()) == PARTITIONS

        wait_until(everything, WAIT_S, "what the killed member has had at the other")
        assert codes(kafka_zk_hosts, group) == {"old-consumer-kept-out"}
        assert any(old.id in problem for problem in described(kafka_zk_hosts, group, capsys))
        old.ask_to_close()
        wait_until(
            lambda: KEEPER not in registered(looking, group), WAIT_S, "the end of what kept it out"
        )


def test_without_a_mode_nothing_is_taken_and_it_is_named(
    kafka_zk_hosts: str,
    looking: KazooClient,
    legacy: LegacyProcess,
    topic: str,
    ours: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An old consumer in a group of ours: nothing is commanded any more, and the cause is said."""
    group = unique("group")
    with coordinator(kafka_zk_hosts, layout=Layout.ISOLATED):
        member = ours(group)
        settled([member], topic, PARTITIONS, timeout_s=WAIT_S)
        old = legacy.consumer(group, {topic: 1}, name="0", wait=False, **QUICK)
        wait_until(
            lambda: (
                (take(member, {}, 20) or True)
                and codes(kafka_zk_hosts, group) >= {"old-consumer-beside-ours"}
            ),
            WAIT_S,
            "zkcoord check to name it",
        )
        assert any("has no mode" in each for each in described(kafka_zk_hosts, group, capsys))
        assert KEEPER not in registered(looking, group) and len(member.assignment()) == PARTITIONS
        old.ask_to_close()


def test_look_ahead_as_people_write_it_is_followed(
    kafka_zk_hosts: str, looking: KazooClient, legacy: LegacyProcess, topic: str, ours: Any
) -> None:
    """The usual white list of mirror makers: two of them and one of ours share the group."""
    group, taken = unique("group"), Taken()
    share(looking, group)
    with coordinator(kafka_zk_hosts, layout=Layout.ISOLATED):
        old = [legacy.consumer(group, whitelist="(?!__).*", name=name) for name in ("A", "B")]
        member = ours(group)

        def as_computed() -> bool:
            take(member, taken, 20)
            names = registered(looking, group)
            return len(names) == 3 and of_topic(looking, group, topic) == range_owners(
                {name: {topic: 1} for name in names}, {topic: range(PARTITIONS)}
            )

        wait_until(as_computed, WAIT_S, "the owners that the maths says")
        assert not any(each.gave_up() for each in old)
        assert len({thread for thread in of_topic(looking, group, topic).values()}) == 3
        assert "registration-not-re2" not in codes(kafka_zk_hosts, group)


def test_what_only_java_follows_is_not_shared(
    kafka_zk_hosts: str,
    looking: KazooClient,
    legacy: LegacyProcess,
    topic: str,
    ours: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two old consumers that own everything, without a mode: one of ours does not join them, so
    nothing of it is taken, and the mode is refused with an example.
    """
    group, regex = unique("group"), f"(?=followed){topic}"
    with coordinator(kafka_zk_hosts, layout=Layout.ISOLATED):
        old = [legacy.consumer(group, whitelist=regex, name=name, **QUICK) for name in ("A", "B")]

        def shared() -> bool:
            held = owners(looking, group)
            return len(held) == PARTITIONS and len(set(held.values())) == 2

        wait_until(shared, WAIT_S, "the owners")
        held, member = owners(looking, group), ours(group)

        def refused() -> str:
            try:
                take(member, {}, 20)
            except RejectedError as error:
                return str(error)
            return ""

        assert old[0].id in wait_until(refused, WAIT_S, "the refusal")
        assert codes(kafka_zk_hosts, group) == {"registration-not-re2"}
        command = ["groups", "mode", group, "mixed", "--zookeeper", kafka_zk_hosts]
        assert main([*command, "--layout", "isolated"]) == 1
        said_why = capsys.readouterr().err
        assert "cannot be shared" in said_why and "black_list of __.*" in said_why
        problems = described(kafka_zk_hosts, group, capsys)
        assert any(old[0].id in each and "only old consumers can read" in each for each in problems)
        assert owners(looking, group) == held and not any(each.gave_up() for each in old)


@pytest.mark.parametrize("takes", [True, False], ids=["it takes the topic", "it takes another"])
def test_one_that_only_java_follows_joins_a_group_that_works(
    takes: bool,
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    looking: KazooClient,
    legacy: LegacyProcess,
    topic: str,
    ours: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In mode mixed: it gets what it claims, and what it does not take is shared among ours; the
    cause is said, and no other.
    """
    group, other = unique("group"), create_topic(kafka_broker.address, unique("other"), 2)
    share(looking, group)
    options = CoordinatorOptions(legacy_attempts_ms=4_000)
    with coordinator(kafka_zk_hosts, options, Layout.ISOLATED):
        members = [ours(group), ours(group)]
        settled(members, topic, PARTITIONS, timeout_s=WAIT_S)
        old = legacy.consumer(group, whitelist=f"(?=[a-z]){topic if takes else other}", name="0")

        def shared() -> bool:
            for member in members:
                take(member, {}, 20)
            held = of_topic(looking, group, topic)
            of_old = [text for text in held.values() if text.startswith(old.id)]
            return len(held) == PARTITIONS and bool(of_old) is takes

        wait_until(shared, WAIT_S, "every partition at somebody")
        assert not old.gave_up()
        if takes:
            names = registered(looking, group)
            assert of_topic(looking, group, topic) == range_owners(
                {name: {topic: 1} for name in names}, {topic: range(PARTITIONS)}
            )
        assert codes(kafka_zk_hosts, group) == {"registration-not-re2"}
        (problem,) = described(kafka_zk_hosts, group, capsys)
        assert old.id in problem and "only old consumers can read" in problem
