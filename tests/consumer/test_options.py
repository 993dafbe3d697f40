"""Options: the whole table, refusals in one sentence, and names that mean the same."""

from __future__ import annotations

from typing import Any

import kafka
import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from consumer.errors import ConsumerOptionError
from consumer.member.thread import member_options, zk_options
from consumer.options import DEFAULT_CONFIG, OWN_DEFAULTS, check, user_data_of
from zkcoord.errors import ConfigurationError, InvalidConsumerIdError, InvalidGroupError

GROUP: dict[str, Any] = {"group_id": "g", "zookeeper_connect": "h:2181/k"}


def test_every_option_of_kafka_python_is_one_of_ours() -> None:
    assert set(kafka.KafkaConsumer.DEFAULT_CONFIG) <= set(DEFAULT_CONFIG)
    assert not set(OWN_DEFAULTS) & set(kafka.KafkaConsumer.DEFAULT_CONFIG)


def test_defaults_that_are_promised() -> None:
    options = check(GROUP)
    assert (
        options.session_timeout_ms == 18_000
        and options.assignors == ("sticky",)
        and options.config["fetch_max_wait_ms"] == 500
    )
    assert options.rebalance_timeout_ms == options.config["max_poll_interval_ms"] == 300_000


@pytest.mark.parametrize(
    ("configs", "says"),
    [
        ({"groupid": "g"}, "'group_id'"),
        ({"zookeeper_conect": "h"}, "'zookeeper_connect'"),
        ({"group_id": "g"}, "give zookeeper_connect="),
        ({"group_id": 5, "zookeeper_connect": "h"}, "as text"),
        ({}, "neither zookeeper_connect nor bootstrap_servers"),
        ({"bootstrap_servers": "h:1", "consumer_id": "me"}, "consumer_id needs a group"),
        ({**GROUP, "zookeeper_connect": ["h:1"]}, "as one text"),
        (
            {**GROUP, "session_timeout_ms": 5_000, "zookeeper_session_timeout_ms": 6_000},
            "give only one of them",
        ),
        ({**GROUP, "session_timeout_ms": 0}, "above 0"),
        ({**GROUP, "auto_offset_reset": "newest"}, "'earliest', 'latest' or 'none'"),
        ({**GROUP, "auto_commit_interval_ms": 0}, "positive number of milliseconds"),
        ({**GROUP, "max_poll_interval_ms": True}, "positive number of milliseconds"),
        ({**GROUP, "rebalance_timeout_ms": -1}, "positive number of milliseconds"),
        ({**GROUP, "max_poll_records": 0}, "above 0"),
        ({**GROUP, "max_buffered_bytes": "64m"}, "above 0"),
        ({**GROUP, "partition_assignment_strategy": ["fair,sticky"]}, "a custom assignor's name"),
        ({**GROUP, "partition_assignment_strategy": [7]}, "a custom assignor's name"),
        ({**GROUP, "assignment_user_data": "x" * 16_385}, "assignment_user_data"),
        ({**GROUP, "assignment_user_data": 7}, "at most 16384 characters"),
        ({**GROUP, "partition_assignment_strategy": []}, "at least one assignor"),
        ({**GROUP, "zookeeper_layout": "new"}, "'draft' or 'isolated'"),
        ({**GROUP, "zookeeper_auth": "user:password"}, "a pair (user, password)"),
        ({**GROUP, "zookeeper_sasl_username": "me"}, "zookeeper_sasl_mechanism"),
        ({**GROUP, "group_instance_id": "a b"}, "group_instance_id"),
        ({**GROUP, "group_instance_id": 7}, "group_instance_id"),
        ({**GROUP, "group_instance_grace_ms": -1}, "group_instance_grace_ms"),
        ({**GROUP, "enable_autocommit": False}, "did you mean 'enable_auto_commit'?"),
        ({**GROUP, "foo_bar": 1}, "of KafkaConsumer: DEFAULT_CONFIG has those that are"),
        ({**GROUP, "rebalance_protocol": "lazy"}, "'cooperative', or 'eager'"),
    ],
)
def test_refusals_say_what_to_write_instead(configs: dict[str, Any], says: str) -> None:
    with pytest.raises(ConsumerOptionError) as caught:
        check(configs)
    message = caught.value.args[0]
    assert says in message and "\n" not in message
    assert isinstance(caught.value, ConfigurationError) and isinstance(
        caught.value, kafka.errors.KafkaConfigurationError
    )


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("range", ("range",)),
        (RangePartitionAssignor, ("range",)),
        ([StickyPartitionAssignor, "range", "sticky"], ("sticky", "range")),
        ((CooperativeStickyAssignor,), ("sticky",)),
        (["acme.rack-aware", "sticky"], ("acme.rack-aware", "sticky")),
        (
            kafka.KafkaConsumer.DEFAULT_CONFIG["partition_assignment_strategy"],
            ("range", "roundrobin"),
        ),
    ],
)
def test_assignors_are_names_or_kafka_pythons_classes(given: Any, names: tuple[str, ...]) -> None:
    assert check({**GROUP, "partition_assignment_strategy": given}).assignors == names


def test_kafkas_session_timeout_is_another_name_of_ours() -> None:
    options = check({**GROUP, "session_timeout_ms": 7_000})
    assert zk_options(options).session_timeout_ms == 7_000


def test_old_names_of_the_reset_policies_are_known() -> None:
    assert check({**GROUP, "auto_offset_reset": "smallest"}).reset_policy == "earliest"


def test_kafka_python_gets_only_what_it_knows() -> None:
    configs = check({**GROUP, "max_poll_interval_ms": 5_000}).kafka_configs("b:1")
    assert (
        set(configs) <= set(kafka.KafkaConsumer.DEFAULT_CONFIG)
        and configs["bootstrap_servers"] == "b:1"
        and configs["allow_auto_create_topics"] is False
    )


def test_the_agent_gets_what_was_chosen() -> None:
    agent = member_options(
        check(
            {
                **GROUP,
                "consumer_id": "me",
                "enable_auto_commit": False,
                "rebalance_timeout_ms": 9_000,
                "partition_assignment_strategy": "range",
            }
        )
    )
    assert (
        agent.group,
        agent.consumer_id,
        agent.auto_commit,
        agent.rebalance_timeout_ms,
        agent.assignors,
    ) == ("g", "me", False, 9_000, ("range",))


def test_what_a_member_tells_an_assignor_is_text_or_a_function_s_answer() -> None:
    said = iter(["rack-1", "x" * 16_385])
    given = check({**GROUP, "assignment_user_data": lambda: next(said)}).config[
        "assignment_user_data"
    ]
    assert user_data_of("rack-0") == "rack-0" and user_data_of(given) == "rack-1"
    with pytest.raises(ConsumerOptionError, match="assignment_user_data"):
        user_data_of(given)


def test_a_static_member_and_the_form_of_rebalance() -> None:
    agent = member_options(
        check(
            {
                **GROUP,
                "group_instance_id": "worker-1",
                "group_instance_grace_ms": 9_000,
                "rebalance_protocol": "eager",
            }
        )
    )
    assert (agent.instance, agent.grace_ms, agent.protocols) == ("worker-1", 9_000, ("eager",))
    plain = member_options(check(GROUP))
    assert (plain.instance, plain.grace_ms, plain.protocols) == (
        None,
        45_000,
        ("cooperative", "eager"),
    ) and plain.process != agent.process


def test_names_that_cannot_be_paths_are_refused() -> None:
    with pytest.raises(InvalidGroupError):
        member_options(check({**GROUP, "group_id": "a/b"}))
    with pytest.raises(InvalidConsumerIdError):
        member_options(check({**GROUP, "consumer_id": "a/b"}))


def test_secrets_are_not_shown() -> None:
    shown = repr(zk_options(check({**GROUP, "zookeeper_auth": ("user", "s3cret")})))
    assert "s3cret" not in shown and "user" in shown
