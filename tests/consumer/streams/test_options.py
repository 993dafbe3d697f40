"""The old consumer's options: what each is here, what has no effect, what is refused and how."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.errors import ConsumerOptionError
from consumer.options import DEFAULT_CONFIG
from consumer.streams.options import HERE, NO_EFFECT, RENAMED, read

GROUP = {"zookeeper.connect": "h:2181/k", "group.id": "g"}


def test_each_old_name_is_an_option_that_exists() -> None:
    assert set(RENAMED.values()) <= set(DEFAULT_CONFIG)
    assert not set(RENAMED) & {*HERE, *NO_EFFECT} and len(set(RENAMED.values())) == len(RENAMED)


def test_values_may_be_text_as_in_a_properties_file() -> None:
    found = read(
        {
            **GROUP,
            "auto.commit.enable": "false",
            "auto.commit.interval.ms": "250",
            "auto.offset.reset": "smallest",
            "consumer.timeout.ms": " -1 ",
        },
        {"client_rack": "a"},
    )
    assert found.configs == {
        "zookeeper_connect": "h:2181/k",
        "group_id": "g",
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 250,
        "auto_offset_reset": "smallest",
        "consumer_timeout_ms": -1,
        "client_rack": "a",
    }


def test_what_is_not_given_has_the_consumers_default() -> None:
    found = read(GROUP, {})
    assert (
        set(found.configs) == {"zookeeper_connect", "group_id"}
        and found.queued_records == 1_000
        and found.in_hand_ms == 8_000
    )


def test_queues_and_patience() -> None:
    found = read(
        {
            **GROUP,
            "queued.max.message.chunks": "10",
            "rebalance.max.retries": 3,
            "rebalance.backoff.ms": "100",
        },
        {},
    )
    assert found.queued_records == 5_000 and found.in_hand_ms == 300


def test_what_the_coordinator_does_now_has_no_effect() -> None:
    assert read({**GROUP, **dict.fromkeys(NO_EFFECT, "3")}, {}) == read(GROUP, {})


@pytest.mark.parametrize(
    ("given", "storage"),
    [
        ({}, None),
        ({"offsets.storage": "zookeeper"}, "zookeeper"),
        ({"offsets.storage": "kafka"}, "dual"),
        ({"offsets.storage": "kafka", "dual.commit.enabled": "true"}, "dual"),
        ({"offsets.storage": "kafka", "dual.commit.enabled": "false"}, "kafka"),
    ],
)
def test_where_offsets_are(given: dict[str, Any], storage: str | None) -> None:
    assert read({**GROUP, **given}, {}).configs.get("offsets_storage") == storage


@pytest.mark.parametrize(
    ("properties", "configs", "says"),
    [
        (
            {**GROUP, "groupid": "g"},
            {},
            "'groupid' is not an option of the old consumer: did you mean 'group.id'?",
        ),
        ({**GROUP, "auto.commit.enabled": "true"}, {}, "did you mean 'auto.commit.enable'?"),
        ({**GROUP, "foo.bar": 1}, {}, "the old consumer: docs/streams.md has those that are"),
        ({**GROUP, 5: 1}, {}, "5 is not an option of the old consumer"),
        ({**GROUP, "group_instance_id": "i"}, {}, "give group_instance_id as a keyword"),
        (
            {**GROUP, "auto.commit.enable": "perhaps"},
            {},
            "auto.commit.enable is 'perhaps': write True or False",
        ),
        (
            {**GROUP, "consumer.timeout.ms": "soon"},
            {},
            "consumer.timeout.ms is 'soon': give a number of milliseconds",
        ),
        ({**GROUP, "consumer.timeout.ms": True}, {}, "give a number of milliseconds"),
        (
            {**GROUP, "queued.max.message.chunks": "0"},
            {},
            "give a whole number above 0 (the default is 2)",
        ),
        ({**GROUP, "offsets.storage": "disk"}, {}, "write 'zookeeper' or 'kafka'"),
        (GROUP, {"group_id": "h"}, "'group.id' is the old name of group_id: give only one of them"),
        ({"zookeeper.connect": "h:1"}, {}, "give 'group.id'"),
    ],
)
def test_refusals_say_what_to_write_instead(
    properties: dict[str, Any], configs: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConsumerOptionError) as caught:
        read(properties, configs)
    message = caught.value.args[0]
    assert says in message and "\n" not in message
