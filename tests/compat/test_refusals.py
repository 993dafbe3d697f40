"""What both consumers refuse, with errors that the same `except` catches."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kafka.errors import IllegalStateError, KafkaConfigurationError, KafkaTimeoutError
from kafka.structs import TopicPartition

from tests.compat.both import Listener, Side, fresh

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    "configs",
    [
        {"fetch_max_wait_ms": 30_000},
        {"request_timeout_ms": 600_000},
        {"group_instance_id": "i", "group_id": None},
        {"surprise": 1},
    ],
)
def test_options_that_contradict(side: Side, configs: dict[str, Any]) -> None:
    with pytest.raises(KafkaConfigurationError):
        side.stack.callback(
            side.consumer_class(**{**side.group_configs(fresh("refused")), **configs}).close
        )


def test_no_broker(side: Side) -> None:
    with pytest.raises(KafkaTimeoutError):
        side.bare(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=300)


NO_SUBSCRIPTIONS: tuple[tuple[dict[str, Any], type[Exception]], ...] = (
    ({}, ValueError),
    ({"topics": []}, ValueError),
    ({"topics": ["t"], "pattern": "t.*"}, IllegalStateError),
    ({"topics": "t"}, TypeError),
    ({"topics": iter(["t"])}, TypeError),
    ({"topics": [None]}, TypeError),
    ({"topics": [1]}, TypeError),
    ({"topics": [""]}, ValueError),
    ({"topics": ["."]}, ValueError),
    ({"topics": ["a/b"]}, ValueError),
    ({"topics": ["t" * 250]}, ValueError),
    ({"topics": ["t"], "listener": object()}, TypeError),
)
NO_COMMITS: tuple[Any, ...] = (
    "text",
    {("t", "0"): 1},
    {"t": 1},
    {TopicPartition("t", 0): "1"},
    {TopicPartition("t", 0): None},
)


def test_subscriptions_that_are_none(side: Side) -> None:
    c = side.bare()
    for arguments, error in NO_SUBSCRIPTIONS:
        with pytest.raises(error):
            c.subscribe(**arguments)
        c.unsubscribe()  # kafka-python checks a listener last


def test_one_way_to_subscribe(side: Side) -> None:
    topic = fresh("ways")
    c = side.member(topic)
    c.subscribe([topic], listener=Listener())
    assert c.subscription() == {topic} and c.assignment() == set()
    with pytest.raises(IllegalStateError, match="choose only one way"):
        c.assign([TopicPartition(topic, 0)])
    if side.differs("from topics to a pattern"):
        c.subscribe(pattern=f"{topic}.*")
    else:
        with pytest.raises(IllegalStateError, match="choose only one way"):
            c.subscribe(pattern=f"{topic}.*")
    c.unsubscribe()
    assert c.subscription() is None


def test_patterns_that_are_none(side: Side) -> None:
    """What `re.compile` raises, with a group and without."""
    for c in (side.bare(), side.member(fresh("patterns"))):
        for pattern in ("[", "(", "a)", "*a"):
            with pytest.raises(re.error):
                c.subscribe(pattern=pattern)
            c.unsubscribe()
        with pytest.raises(TypeError):
            c.subscribe(pattern=5)


def test_commits_that_are_none(side: Side) -> None:
    c = side.member(fresh("commits"))
    for offsets in NO_COMMITS:
        with pytest.raises(TypeError):
            c.commit(offsets, timeout_ms=1_000)
    if side.ours:  # kafka-python: AttributeError of the list
        for offsets in ([TopicPartition("t", 0)], 5, ()):
            for commit in (c.commit, c.commit_async):
                with pytest.raises(TypeError, match="OffsetAndMetadata"):
                    commit(offsets)
    with pytest.raises(TypeError, match="TopicPartition"):
        c.committed(("t", 0))
