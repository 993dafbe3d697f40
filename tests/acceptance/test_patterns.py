"""Subscriptions by pattern, with the broker that creates the topics: how soon a new one is
consumed, what changes while it runs, what is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.structs import TopicPartition

from consumer import KafkaConsumer
from tests.compat.both import Listener
from tests.harness.kafka import admin, create_topic, delete_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, Taken, consumer, coordinator, drain, take
from zkcoord.errors import InvalidSubscriptionError
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

NEW_TOPICS = 5


def polled(
    consumers: list[KafkaConsumer],
    until: Callable[[], object],
    what: str,
    taken: Taken | None = None,
) -> None:
    """Poll all until it is true."""
    into: Taken = {} if taken is None else taken

    def turn() -> object:
        for each in consumers:
            take(each, into, 5)
        return until()

    wait_until(turn, PATIENCE_S, what)


def test_a_new_topic_is_consumed_soon_after_it_is_there(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The time from the broker's answer to the creation until partitions are assigned is printed,
    not judged.
    """
    stem = unique("soon")
    create_topic(kafka_broker.address, f"{stem}-0", 1)
    took: list[float] = []
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, stem) as c,
        admin(kafka_broker.address) as client,
    ):
        c.subscribe(pattern=f"{stem}-.*")
        polled([c], c.assignment, "the first topic")
        for number in range(1, NEW_TOPICS + 1):
            client.create_topics(
                {f"{stem}-{number}": {"num_partitions": 1, "replication_factor": 1}}
            )
            answered = time.monotonic()
            polled(
                [c],
                lambda n=number: TopicPartition(f"{stem}-{n}", 0) in c.assignment(),
                "the new topic",
            )  # type: ignore[misc]
            took.append((time.monotonic() - answered) * 1000)
        taken: Taken = {}
        for number in range(NEW_TOPICS + 1):
            produce_numbered(kafka_broker.address, f"{stem}-{number}", 1, 1)
        drain([c], taken, NEW_TOPICS + 1)
    with capsys.disabled():
        print(
            "\nnew topic of a pattern assigned after (ms):"
            f" {', '.join(f'{ms:.0f}' for ms in sorted(took))}"
        )


def test_a_pattern_changed_while_it_runs_moves_only_what_differs(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    stem = unique("change")
    for name in ("ab", "bc", "c"):
        create_topic(kafka_broker.address, f"{stem}-{name}", 1)
    ab, bc, c_only = (TopicPartition(f"{stem}-{name}", 0) for name in ("ab", "bc", "c"))
    listener = Listener()
    named: list[tuple[str, set[TopicPartition]]] = []
    listener.act = lambda name, partitions: named.append((name, partitions))
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, stem) as c:
        c.subscribe(pattern=f"{stem}-a?b.?", listener=listener)
        polled([c], lambda: c.assignment() == {ab, bc}, "the first pattern")
        c.subscribe(pattern=f"{stem}-b?c", listener=listener)
        polled([c], lambda: c.assignment() == {bc, c_only}, "the second pattern")
        c.subscribe([ab.topic, bc.topic], listener=listener)
        polled([c], lambda: c.assignment() == {ab, bc}, "topics by name")
        calls = list(named)
    assert {tp for name, partitions in calls if name == "assigned" for tp in partitions} == {
        ab,
        bc,
        c_only,
    }
    assert [tp for name, partitions in calls if name == "revoked" for tp in partitions] == [
        ab,
        c_only,
    ], "what both cover never stops"


def test_members_with_different_patterns_share_what_both_cover(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    stem = unique("differ")
    names = {name: f"{stem}-{name}" for name in ("left", "both", "right")}
    for topic in names.values():
        create_topic(kafka_broker.address, topic, 2)
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, stem) as one,
        consumer(kafka_zk_hosts, stem) as two,
    ):
        one.subscribe(pattern=f"{stem}-(?:left|both)")
        two.subscribe(pattern=f"{stem}-(?:right|both)")
        polled(
            [one, two], lambda: [len(c.assignment()) for c in (one, two)] == [3, 3], "three each"
        )
        assert {tp.topic for tp in one.assignment()} == {names["left"], names["both"]} and {
            tp.topic for tp in two.assignment()
        } == {names["right"], names["both"]}


def test_a_topic_that_is_deleted_goes_and_the_rest_of_the_pattern_stays(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    stem = unique("deleted")
    for name in ("stays", "goes"):
        create_topic(kafka_broker.address, f"{stem}-{name}", 1)
        produce_numbered(kafka_broker.address, f"{stem}-{name}", 1, 3)
    taken: Taken = {}
    with coordinator(kafka_zk_hosts), consumer(kafka_zk_hosts, stem) as c:
        c.subscribe(pattern=f"{stem}-.*")
        drain([c], taken, 6)
        delete_topic(kafka_broker.address, f"{stem}-goes")
        polled(
            [c],
            lambda: c.assignment() == {TopicPartition(f"{stem}-stays", 0)},
            "only the other topic",
        )
        produce_numbered(kafka_broker.address, f"{stem}-stays", 1, 2, start=3)
        drain([c], taken, 8)
        create_topic(kafka_broker.address, f"{stem}-goes", 1)
        produce_numbered(kafka_broker.address, f"{stem}-goes", 1, 2)
        drain([c], taken, 10)
    assert taken == {
        (f"{stem}-stays", 0): [0, 1, 2, 3, 4],
        (f"{stem}-goes", 0): [0, 1, 2, 0, 1],
    }, "made again it is another topic"


def test_internal_topics_are_covered_on_request(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str
) -> None:
    """The broker makes its topic of offsets when the first group asks for its own."""
    mine = create_topic(kafka_broker.address, unique("internal"), 1)
    pattern = f"{mine}|__consumer_.*"
    wide: dict[str, Any] = {"exclude_internal_topics": False}
    with (
        coordinator(kafka_zk_hosts),
        consumer(kafka_zk_hosts, f"{mine}-usual") as usual,
        consumer(kafka_zk_hosts, f"{mine}-wide", **wide) as all_of_them,
    ):
        usual.subscribe(pattern=pattern)
        all_of_them.subscribe(pattern=pattern)
        polled(
            [usual, all_of_them],
            lambda: (
                usual.assignment()
                and {tp.topic for tp in all_of_them.assignment()} == {mine, "__consumer_offsets"}
            ),
            "internal topics for one of them",
        )
        assert usual.assignment() == {TopicPartition(mine, 0)}


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "missing"),
        ("(?=a)b", "look-ahead"),
        (r"(a)\1", "escape"),
        ("a" * 5_000, "1 to 4096 characters"),
    ],
)
def test_a_pattern_that_is_none_is_one_sentence_at_subscribe(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, pattern: str, reason: str
) -> None:
    with consumer(kafka_zk_hosts, unique("bad")) as c:
        with pytest.raises(InvalidSubscriptionError) as caught:
            c.subscribe(pattern=pattern)
        message = str(caught.value)
        assert reason in message and "RE2" in message and "\n" not in message
        assert c.subscription() is None, "and nothing was begun"
