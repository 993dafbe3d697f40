"""What a consumer is made of before it has a membership: checked options, and connections to the
brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from consumer.assignment.subscription import subscription_of
from consumer.errors import BrokersUnreachableError, ConsumerOptionError, raises_kafkas
from consumer.fetch.choose_client import choose_client
from consumer.fetch.client import FetchClient
from consumer.fetch.group_offsets import GroupOffsets
from consumer.member.broker_discovery import find_listeners
from consumer.member.cluster_check import NamedBrokers
from consumer.member.registrable import check_registrable
from consumer.member.thread import member_options, zk_options
from consumer.observer import AssignmentObserver, Observer
from consumer.options import ConsumerOptions, check
from zkcoord.core.model import Subscription
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout, layout_named

log = logging.getLogger(__name__)

# How long a listener may take where there are others to try.
LISTENER_MS = 5_000


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
    def named_brokers(self) -> NamedBrokers:
        """Those that the application has named."""
        given = self.options.config["bootstrap_servers"]
        address = "" if self.zk is None else self.zk.address
        return NamedBrokers(given, lambda: self.data.cluster_id, address)

    @property
    def alone(self) -> bool:
        """Whether there is no group."""
        return self.config["group_id"] is None


@raises_kafkas
def set_up(configs: Mapping[str, Any], topics: Collection[str] = ()) -> ConsumerSetup:
    """Check the options and `topics`, find the brokers, and connect. Raises `ConfigurationError`,
    `BrokersUnreachableError`, `SessionRefusedError`, and for topics what `subscribe` raises.
    """
    options = check(dict(configs))
    # What can be refused is refused before anything is opened.
    wanted = subscription_of(tuple(topics), None) if topics else Subscription()
    if options.config["group_id"] is not None:
        told = options.config["assignment_user_data"]
        check_registrable(member_options(options), wanted, "" if callable(told) else told)
    zk = zk_options(options) if options.config["zookeeper_connect"] is not None else None
    layout = layout_named(options.config["zookeeper_layout"])
    config = dict(options.config)
    observer: AssignmentObserver = options.config["observer"] or Observer()
    data = _connect(options, config, zk, layout, observer)
    config["api_version"] = data.kafka.config["api_version"]
    group_offsets = _group_offsets(config, data)
    return ConsumerSetup(options, config, zk, layout, observer, data, group_offsets)


def _connect(
    options: ConsumerOptions,
    config: dict[str, Any],
    zk: ZkOptions | None,
    layout: Layout,
    observer: AssignmentObserver,
) -> FetchClient:
    """Connect to the brokers that are named, or to those in ZooKeeper, by the first of their
    listeners that answers; `bootstrap_servers` of `config` are those then.
    """

    def connect(servers: Any, limit_ms: float | None) -> FetchClient:
        config["bootstrap_servers"] = servers
        return choose_client(
            config["data_client"],
            {**options.kafka_configs(servers), "bootstrap_timeout_ms": limit_ms},
            observer.on_first_fetch,
            config["max_buffered_bytes"],
        )

    limit_ms = config["bootstrap_timeout_ms"]
    if config["bootstrap_servers"] is not None:
        return connect(config["bootstrap_servers"], limit_ms)
    assert zk is not None
    found = find_listeners(
        zk,
        layout,
        config["security_protocol"],
        (zk.connect_timeout_ms + zk.session_timeout_ms) / 1000,
        config["bootstrap_listener"],
    )
    *others, last = found.items()
    for name, servers in others:
        with suppress(BrokersUnreachableError):
            data = connect(
                list(servers), min(LISTENER_MS, limit_ms if limit_ms is not None else LISTENER_MS)
            )
            log.info("the brokers' listener %s answers, at %s", name, ", ".join(servers))
            return data
        log.warning("the brokers' listener %s does not answer, at %s", name, ", ".join(servers))
    try:
        data = connect(list(last[1]), limit_ms)
    except BrokersUnreachableError as e:
        if not others:
            raise
        raise BrokersUnreachableError(
            f"no Kafka broker answers at any of the listeners {', '.join(found)} that are"
            " registered in ZooKeeper: start the brokers, choose another listener"
            " (bootstrap_listener), or give bootstrap_servers"
        ) from e
    if others:
        log.info("the brokers' listener %s answers, at %s", last[0], ", ".join(last[1]))
    return data


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
