"""The old consumer's options, by their old names, as options of `KafkaConsumer`.

Values may be text, as in a properties file. An option that is not given has `KafkaConsumer`'s
default. What the old consumer had for its own rebalance has no meaning where a coordinator decides,
and is taken without effect; a name that the old consumer did not know is refused with the nearest
one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from consumer.errors import ConsumerOptionError
from consumer.options import DEFAULT_CONFIG

CHUNK_RECORDS = 500
CHUNKS = 2
REBALANCE_RETRIES = 4
REBALANCE_BACKOFF_MS = 2_000


def _number(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError(value)
    return int(value)


def _yes_or_no(value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


Reading = Callable[[Any], Any]

RENAMED: dict[str, tuple[str, Reading]] = {
    "zookeeper.connect": ("zookeeper_connect", str),
    "zookeeper.session.timeout.ms": ("zookeeper_session_timeout_ms", _number),
    "zookeeper.connection.timeout.ms": ("zookeeper_connection_timeout_ms", _number),
    "group.id": ("group_id", str),
    "consumer.id": ("consumer_id", str),
    "client.id": ("client_id", str),
    "auto.commit.enable": ("enable_auto_commit", _yes_or_no),
    "auto.commit.interval.ms": ("auto_commit_interval_ms", _number),
    "auto.offset.reset": ("auto_offset_reset", str),
    "consumer.timeout.ms": ("consumer_timeout_ms", _number),
    "exclude.internal.topics": ("exclude_internal_topics", _yes_or_no),
    "partition.assignment.strategy": ("partition_assignment_strategy", str),
    "fetch.message.max.bytes": ("max_partition_fetch_bytes", _number),
    "fetch.min.bytes": ("fetch_min_bytes", _number),
    "fetch.wait.max.ms": ("fetch_max_wait_ms", _number),
    "socket.timeout.ms": ("request_timeout_ms", _number),
    "socket.receive.buffer.bytes": ("receive_buffer_bytes", _number),
    "refresh.leader.backoff.ms": ("retry_backoff_ms", _number),
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
    known = (*RENAMED, *HERE, *NO_EFFECT)
    found: dict[str, Any] = dict(configs)
    for name, value in properties.items():
        if name not in known:
            how = (
                f"give {name} as a keyword"
                if name in DEFAULT_CONFIG
                else f"did you mean {difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]!r}?"
            )
            raise ConsumerOptionError(f"{name!r} is not an option of the old consumer: {how}")
        if name in RENAMED:
            ours, reading = RENAMED[name]
            if ours in configs:
                raise ConsumerOptionError(
                    f"{name!r} is the old name of {ours}: give only one of them"
                )
            found[ours] = _read(name, value, reading)
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
    both = _read(
        "dual.commit.enabled", properties.get("dual.commit.enabled", given == "kafka"), _yes_or_no
    )
    if given == "zookeeper":
        return "zookeeper"
    return "dual" if both else "kafka"


def _positive(properties: Mapping[str, Any], name: str, default: int) -> int:
    value = _read(name, properties.get(name, default), _number)
    if value <= 0:
        raise ConsumerOptionError(
            f"{name} is {value}: give a whole number above 0 (the default is {default})"
        )
    return int(value)


def _read(name: str, value: Any, reading: Reading) -> Any:
    try:
        return reading(value)
    except (TypeError, ValueError):
        kind = "true or false" if reading is _yes_or_no else "a whole number"
        raise ConsumerOptionError(f"{name} is {value!r}: give {kind}") from None
