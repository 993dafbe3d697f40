"""What a consumer is made of before it has a membership: checked options, and connections to the
brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from consumer.assignment.subscription import subscription_of
from consumer.errors import ConsumerOptionError
from consumer.fetch.choose_client import choose_client
from consumer.fetch.client import FetchClient
from consumer.fetch.group_offsets import GroupOffsets
from consumer.member.broker_discovery import find_brokers
from consumer.member.thread import member_options, zk_options
from consumer.observer import AssignmentObserver, Observer
from consumer.options import ConsumerOptions, check
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout, layout_named


@dataclass(frozen=True)
class ConsumerSetup:
    """One consumer's options and connections."""

    options: ConsumerOptions
    # All options by name, with what was left out: `bootstrap_servers` and `api_version`.
    config: dict[str, Any]
    # How to reach ZooKeeper; None where `zookeeper_connect` is not given.
    zk: ZkOptions | None
    layout: Layout
    observer: AssignmentObserver
    data: FetchClient
    # What Kafka itself keeps of the group; None without a group.
    group_offsets: GroupOffsets | None

    @property
    def alone(self) -> bool:
        """Whether there is no group."""
        return self.config["group_id"] is None


def set_up(configs: Mapping[str, Any], topics: Collection[str] = ()) -> ConsumerSetup:
    """Check the options and `topics`, find the brokers, and connect. Raises `ConfigurationError`,
    `BrokersUnreachableError`, `SessionRefusedError`, and for topics what `subscribe` raises.
    """
    options = check(dict(configs))
    # What can be refused is refused before anything is opened.
    if topics:
        subscription_of(tuple(topics), None)
    if options.config["group_id"] is not None:
        member_options(options)
    zk = zk_options(options) if options.config["zookeeper_connect"] is not None else None
    layout = layout_named(options.config["zookeeper_layout"])
    config = dict(options.config)
    observer: AssignmentObserver = options.config["observer"] or Observer()
    if config["bootstrap_servers"] is None:
        assert zk is not None
        config["bootstrap_servers"] = find_brokers(
            zk,
            layout,
            config["security_protocol"],
            (zk.connect_timeout_ms + zk.session_timeout_ms) / 1000,
        )
    data = choose_client(
        config["data_client"],
        options.kafka_configs(config["bootstrap_servers"]),
        observer.on_first_fetch,
        config["max_buffered_bytes"],
    )
    config["api_version"] = data.kafka.config["api_version"]
    group_offsets = _group_offsets(config, data)
    return ConsumerSetup(options, config, zk, layout, observer, data, group_offsets)


def _group_offsets(config: Mapping[str, Any], data: FetchClient) -> GroupOffsets | None:
    if config["group_id"] is None:
        return None
    found = data.group_offsets(config["group_id"])
    if not found.supported and config["offsets_storage"] != "zookeeper":
        data.close()
        raise ConsumerOptionError(
            f"offsets_storage is {config['offsets_storage']!r}, and brokers before 0.9"
            " keep no offsets of groups: leave it out"
        )
    return found
