"""The old consumer's options, by their old names, as options of `KafkaConsumer`.

Values may be text, as in a properties file: they are read by `consumer.option_types`. An option
that is not given has `KafkaConsumer`'s default. What the old consumer had for its own rebalance has
no meaning where a coordinator decides, and is taken without effect; a name that the old consumer
did not know is refused with the nearest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from consumer.errors import ConsumerOptionError
from consumer.option_types import count, flag, read_as, read_option
from consumer.options import DEFAULT_CONFIG, nearest

CHUNK_RECORDS = 500
CHUNKS = 2
REBALANCE_RETRIES = 4
REBALANCE_BACKOFF_MS = 2_000


RENAMED: dict[str, str] = {
    "zookeeper.connect": "zookeeper_connect",
    "zookeeper.session.timeout.ms": "zookeeper_session_timeout_ms",
    "zookeeper.connection.timeout.ms": "zookeeper_connection_timeout_ms",
    "group.id": "group_id",
    "consumer.id": "consumer_id",
    "client.id": "client_id",
    "auto.commit.enable": "enable_auto_commit",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "auto.offset.reset": "auto_offset_reset",
    "consumer.timeout.ms": "consumer_timeout_ms",
    "exclude.internal.topics": "exclude_internal_topics",
    "partition.assignment.strategy": "partition_assignment_strategy",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "fetch.min.bytes": "fetch_min_bytes",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "socket.timeout.ms": "request_timeout_ms",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "refresh.leader.backoff.ms": "retry_backoff_ms",
}
HERE = (
    "queued.max.message.chunks",
    "rebalance.max.retries",
    "rebalance.backoff.ms",
    "offsets.storage",
    "dual.commit.enabled",
)
NO_EFFECT = (
    "num.consumer.fetchers",
    "zookeeper.sync.time.ms",
    "offsets.channel.backoff.ms",
    "offsets.channel.socket.timeout.ms",
    "offsets.commit.max.retries",
)
STORAGES = ("zookeeper", "kafka")


@dataclass(frozen=True)
class StreamsOptions:
    """`configs` are `KafkaConsumer`'s; a stream's queue holds `queued_records` before its
    partitions are paused, and a record in hand delays a hand-over by `in_hand_ms` at most.
    """

    configs: Mapping[str, Any]
    queued_records: int = CHUNKS * CHUNK_RECORDS
    in_hand_ms: int = REBALANCE_RETRIES * REBALANCE_BACKOFF_MS


def read(properties: Mapping[str, Any], configs: Mapping[str, Any]) -> StreamsOptions:
    """Options of the old consumer, and `KafkaConsumer`'s beside them. Raises `ConsumerOptionError`
    with one sentence.
    """
    if not isinstance(properties, Mapping):
        raise ConsumerOptionError(
            f"properties are given as {{name: value}}, not as {type(properties).__name__}: give a"
            " dict"
        )
    known = (*RENAMED, *HERE, *NO_EFFECT)
    found: dict[str, Any] = dict(configs)
    for name, value in properties.items():
        if name not in known:
            how = nearest(name, known) or "docs/streams.md has those that are"
            if name in DEFAULT_CONFIG:
                how = f"give {name} as a keyword"
            raise ConsumerOptionError(f"{name!r} is not an option of the old consumer: {how}")
        if name in RENAMED:
            ours = RENAMED[name]
            if ours in configs:
                raise ConsumerOptionError(
                    f"{name!r} is the old name of {ours}: give only one of them"
                )
            found[ours] = read_option(ours, value, name)
    if found.get("group_id") is None:
        raise ConsumerOptionError("message streams are of a group: give 'group.id'")
    storage = _storage(properties)
    if storage is not None:
        found["offsets_storage"] = storage
    chunks, retries, backoff = (
        _positive(properties, name, default)
        for name, default in (
            ("queued.max.message.chunks", CHUNKS),
            ("rebalance.max.retries", REBALANCE_RETRIES),
            ("rebalance.backoff.ms", REBALANCE_BACKOFF_MS),
        )
    )
    return StreamsOptions(found, chunks * CHUNK_RECORDS, retries * backoff)


def _storage(properties: Mapping[str, Any]) -> str | None:
    """The option `offsets_storage`: with Kafka's storage the old consumer wrote both, unless
    `dual.commit.enabled` was false.
    """
    given = properties.get("offsets.storage")
    if given is None:
        return None
    if given not in STORAGES:
        raise ConsumerOptionError(f"offsets.storage is {given!r}: write 'zookeeper' or 'kafka'")
    name = "dual.commit.enabled"
    both = read_as(flag(), name, properties.get(name, given == "kafka"))
    if given == "zookeeper":
        return "zookeeper"
    return "dual" if both else "kafka"


def _positive(properties: Mapping[str, Any], name: str, default: int) -> int:
    kind = count(1)
    kind = replace(kind, says=f"{kind.says} (the default is {default})")
    return int(read_as(kind, name, properties.get(name, default)))
