"""Options of the Spark source and the batch reader: named as in Spark's own Kafka source where it
has them, and as `KafkaConsumer`'s, in Spark's spelling, for the group (`groupId`,
`zookeeperConnect`).

Everything that is not in a table here is refused by name, with the nearest name or the reason: an
option that is silently ignored is worse than none. `kafka.*` options go to the client that reads
(librdkafka's names); those that would change what is read, or whose group it is, are refused. Pure:
nothing is opened.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from consumer.errors import ConsumerOptionError
from consumer.option_types import flag, read_as, read_option
from consumer.options import DURATION_MS_MAX, ConsumerOptions, check
from consumer.spark.decode.settings import KAFKA_PYTHON
from zkcoord.core.model import TopicPartition

EARLIEST, LATEST = -2, -1
WORDS = {"earliest": EARLIEST, "latest": LATEST}
REBALANCE_TIMEOUT_MS = 300_000
MAX_DELAY_MS = 15 * 60_000
ENGINES = ("auto", "c", "confluent", "kafka-python")
SESSION_LOSS = ("rejoin", "fail")

# Option of the group, in Spark's spelling -> KafkaConsumer's option.
GROUP_OPTIONS: dict[str, str] = {
    "groupId": "group_id",
    "groupInstanceId": "group_instance_id",
    "groupInstanceGraceMs": "group_instance_grace_ms",
    "zookeeperConnect": "zookeeper_connect",
    "zookeeperSessionTimeoutMs": "zookeeper_session_timeout_ms",
    "zookeeperConnectionTimeoutMs": "zookeeper_connection_timeout_ms",
    "zookeeperLayout": "zookeeper_layout",
    "zookeeperAuth": "zookeeper_auth",
    "zookeeperAclCoordinators": "zookeeper_acl_coordinators",
    "zookeeperAclMembers": "zookeeper_acl_members",
    "zookeeperAclReaders": "zookeeper_acl_readers",
    "zookeeperSslCafile": "zookeeper_ssl_cafile",
    "zookeeperSslCertfile": "zookeeper_ssl_certfile",
    "zookeeperSslKeyfile": "zookeeper_ssl_keyfile",
    "zookeeperSslPassword": "zookeeper_ssl_password",
    "zookeeperSaslMechanism": "zookeeper_sasl_mechanism",
    "zookeeperSaslUsername": "zookeeper_sasl_username",
    "zookeeperSaslPassword": "zookeeper_sasl_password",
    "partitionAssignmentStrategy": "partition_assignment_strategy",
    "rebalanceTimeoutMs": "rebalance_timeout_ms",
    "initialOffsets": "initial_offsets",
    "commitTimeoutMs": "commit_timeout_ms",
    "guardian": "guardian",
}
STREAM_OPTIONS = (
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "onSessionLoss",
    "engine",
    "journal",
    *GROUP_OPTIONS,
)
BATCH_OPTIONS = (
    "subscribe",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "engine",
)

REFUSED: dict[str, str] = {
    "assign": (
        "which partitions a query reads is decided by its group: use subscribe, or the batch reader"
        " (spark.read), which takes assign"
    ),
    "asyncProgressTrackingEnabled": (
        "a batch's offsets are stored when Spark asks for the next one, which must not be before"
        " its commit is in the log: leave it out"
    ),
    "asyncProgressTrackingCheckpointIntervalMs": (
        "asynchronous progress tracking cannot be used with this source: leave it out"
    ),
    "realTime": "Spark has no real-time mode for Python sources: use a processing-time trigger",
    "realTimeMode": "Spark has no real-time mode for Python sources: use a processing-time trigger",
    "continuous": "Spark has no continuous mode for Python sources: use a processing-time trigger",
    "endingOffsets": (
        "a stream has no end: use it with the batch reader (spark.read), or Trigger.AvailableNow"
    ),
    "endingTimestamp": "give endingOffsets",
    "endingOffsetsByTimestamp": "give endingOffsets",
    "startingTimestamp": "set the group's offsets with: zkcoord offsets reset GROUP --to-datetime",
    "startingOffsetsByTimestamp": (
        "set the group's offsets with: zkcoord offsets reset GROUP --to-datetime"
    ),
    "startingOffsetsByTimestampStrategy": (
        "set the group's offsets with: zkcoord offsets reset GROUP --to-datetime"
    ),
    "failsafe": (
        "a batch counts once its offsets are stored in ZooKeeper, so there is nothing to go on with"
        " while it is away: leave it out"
    ),
    "groupIdPrefix": "the group is named by groupId, which applications share on purpose",
    "maxRecordsPerPartition": (
        "a range that outweighs the others is split by itself; minPartitions says into how many"
        " tasks a batch goes"
    ),
    "maxBytesPerTrigger": "give maxOffsetsPerTrigger",
}
KAFKA_REFUSED: dict[str, str] = {
    "group.id": "the group is named by groupId",
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "offsets are stored when a batch is written",
    "enable.auto.offset.store": "offsets are stored when a batch is written",
    "enable.partition.eof": "it is needed to know where a range ends",
    "key.deserializer": "keys are bytes: decode them with Spark's functions",
    "value.deserializer": "values are bytes: decode them with Spark's functions",
    "interceptor.classes": "they are for Java's client",
    "sasl.jaas.config": "it is for Java's client: use kafka.sasl.username and kafka.sasl.password",
    "ssl.truststore.location": "it is for Java's client: use kafka.ssl.ca.location, a PEM file",
    "ssl.keystore.location": (
        "it is for Java's client: use kafka.ssl.certificate.location and kafka.ssl.key.location,"
        " PEM files"
    ),
    "partition.assignment.strategy": "use partitionAssignmentStrategy",
}
_DURATION = re.compile(
    r"\s*(\d+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)?\s*", re.IGNORECASE
)

_TRUE_OR_FALSE = replace(flag(), says="write true or false")

Offsets = int | Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ReadOptions:
    """What both readers need."""

    # The client's settings. Passwords are among them, so they are not in the `repr`.
    kafka: Mapping[str, str] = field(repr=False)
    topics: tuple[str, ...]
    starting: Offsets
    # Into how many tasks a batch goes at most.
    tasks: int
    headers: bool
    fail_on_data_loss: bool
    engine: str


@dataclass(frozen=True)
class StreamOptions:
    """A stream's."""

    read: ReadOptions
    pattern: str | None = None
    # Records per batch; None: no limit.
    max_rows: int | None = None
    min_rows: int | None = None
    # How long `min_rows` may be waited for.
    max_delay_ms: int = MAX_DELAY_MS
    # Whether a lost session is replaced by a new one.
    rejoins: bool = True
    # A folder for the query's journal; "": none is kept.
    journal: str = ""
    group: str = ""
    # The connect string.
    zookeeper: str = ""
    # What `KafkaConsumer` takes; credentials are among it.
    given: Mapping[str, Any] | None = field(default=None, repr=False)

    def consumer(self) -> ConsumerOptions:
        """The membership's options, as `KafkaConsumer` takes them."""
        return check(self.given or {})


@dataclass(frozen=True)
class BatchOptions:
    """A batch's: what to read, and where it ends."""

    read: ReadOptions
    ending: Offsets = LATEST
    # Those of `assign`; empty: all of `topics`.
    partitions: tuple[TopicPartition, ...] = ()


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Options of a stream, as Spark gives them (names in any case). Raises
    `ConsumerOptionError`.
    """
    given, kafka = _sorted(options, STREAM_OPTIONS)
    topics, pattern = _names(given.get("subscribe", "")), given.get("subscribePattern")
    if bool(topics) == bool(pattern):
        raise ConsumerOptionError(
            'give either subscribe ("orders,payments") or subscribePattern ("orders-.*")'
        )
    for name in ("zookeeperConnect", "groupId"):
        if not given.get(name):
            raise ConsumerOptionError(
                f"{name} is missing: the applications that share a group name it, and the ZooKeeper"
                ' that coordinates it, for example .option("groupId",'
                ' "billing").option("zookeeperConnect", "zk1:2181,zk2:2181/kafka")'
            )
    read = _read_options(given, kafka, LATEST, _names(given.get("subscribe", "")))
    configs = {
        GROUP_OPTIONS[name]: _group_value(name, value)
        for name, value in given.items()
        if name in GROUP_OPTIONS
    }
    configs.setdefault("rebalance_timeout_ms", REBALANCE_TIMEOUT_MS)
    configs.update(
        max_poll_interval_ms=DURATION_MS_MAX,
        enable_auto_commit=True,
        auto_offset_reset="latest" if read.starting == LATEST else "earliest",
        client_id=kafka.get("client.id", "zkcoord-spark"),
    )
    found = StreamOptions(
        read,
        pattern=pattern,
        max_rows=_count(given, "maxOffsetsPerTrigger"),
        min_rows=_count(given, "minOffsetsPerTrigger"),
        max_delay_ms=_duration(given, "maxTriggerDelay", MAX_DELAY_MS),
        rejoins=_one_of(given, "onSessionLoss", SESSION_LOSS) == "rejoin",
        journal=given.get("journal", ""),
        group=configs["group_id"],
        zookeeper=configs["zookeeper_connect"],
        given={**kafka_python(kafka), **configs},
    )
    if (
        found.max_rows is not None
        and found.min_rows is not None
        and found.min_rows > found.max_rows
    ):
        raise ConsumerOptionError(
            f"minOffsetsPerTrigger ({found.min_rows}) is above maxOffsetsPerTrigger"
            f" ({found.max_rows}): give a smaller one"
        )
    found.consumer()
    return found


def batch_options(options: Mapping[str, str]) -> BatchOptions:
    """Options of the batch reader. Raises `ConsumerOptionError`."""
    given, kafka = _sorted(options, BATCH_OPTIONS)
    topics, assigned = _names(given.get("subscribe", "")), _assigned(given.get("assign"))
    if bool(topics) == bool(assigned):
        raise ConsumerOptionError(
            'give either subscribe ("orders,payments") or assign (\'{"orders":[0,1]}\')'
        )
    if not kafka.get("bootstrap.servers"):
        raise ConsumerOptionError(
            "kafka.bootstrap.servers is missing: a batch has no group, and so no ZooKeeper to ask"
        )
    read = _read_options(
        given, kafka, EARLIEST, topics or tuple(sorted({tp.topic for tp in assigned}))
    )
    if read.starting == LATEST:
        raise ConsumerOptionError(
            "startingOffsets of a batch cannot be 'latest': nothing would be read"
        )
    ending = _offsets("endingOffsets", given.get("endingOffsets"), LATEST)
    if ending == EARLIEST or (not isinstance(ending, int) and EARLIEST in ending.values()):
        raise ConsumerOptionError("endingOffsets cannot be 'earliest' (-2): nothing would be read")
    return BatchOptions(read, ending, assigned)


def _sorted(
    options: Mapping[str, str], known: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """(ours by their proper names, the client's without prefix)."""
    ours: dict[str, str] = {}
    kafka: dict[str, str] = {}
    proper = {name.lower(): name for name in known}
    refused = {name.lower(): name for name in REFUSED}
    for key, value in options.items():
        name = key.lower()
        if name.startswith("kafka."):
            kafka[name.removeprefix("kafka.")] = value
        elif name in proper:
            ours[proper[name]] = value
        elif name in refused:
            raise ConsumerOptionError(
                f"{refused[name]} cannot be used here: {REFUSED[refused[name]]}"
            )
        elif name != "path":
            near = difflib.get_close_matches(name, proper, n=1, cutoff=0.0)
            raise ConsumerOptionError(
                f"{key!r} is not an option of format zkcoord: did you mean {proper[near[0]]!r}?"
            )
    for name in kafka:
        if name in KAFKA_REFUSED:
            raise ConsumerOptionError(f"kafka.{name} cannot be used here: {KAFKA_REFUSED[name]}")
    return ours, kafka


def _read_options(
    given: Mapping[str, str], kafka: Mapping[str, str], starting: int, topics: tuple[str, ...]
) -> ReadOptions:
    tasks = _count(given, "minPartitions")
    return ReadOptions(
        kafka=dict(kafka),
        topics=topics,
        starting=_offsets("startingOffsets", given.get("startingOffsets"), starting),
        tasks=tasks if tasks is not None else len(os.sched_getaffinity(0)),
        headers=_flag(given, "includeHeaders", False),
        fail_on_data_loss=_flag(given, "failOnDataLoss", True),
        engine=_one_of(given, "engine", ENGINES),
    )


def kafka_python(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The client's settings for kafka-python, which asks for metadata and offsets in the driver;
    what only matters to reading is left out. Raises `ConsumerOptionError`.
    """
    found: dict[str, Any] = {}
    for name, value in kafka.items():
        if name in KAFKA_PYTHON:
            theirs, said = KAFKA_PYTHON[name]
            found[theirs] = read_option(theirs, said(value), f"kafka.{name}")
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _assigned(text: str | None) -> tuple[TopicPartition, ...]:
    if text is None:
        return ()
    try:
        return tuple(
            sorted(
                {
                    TopicPartition(topic, int(n))
                    for topic, numbers in json.loads(text).items()
                    for n in numbers
                }
            )
        )
    except (ValueError, TypeError, AttributeError):
        raise ConsumerOptionError(
            f"""assign is {text!r}: write JSON such as '{{"orders":[0,1]}}'"""
        ) from None


def _offsets(name: str, text: str | None, default: int) -> Offsets:
    """A word, or Spark's JSON of offsets by topic and partition, in which -2 is the first record
    and -1 the end.
    """
    if text is None:
        return default
    if text.strip().lower() in WORDS:
        return WORDS[text.strip().lower()]
    try:
        found = {
            TopicPartition(topic, int(n)): offset
            for topic, numbers in json.loads(text).items()
            for n, offset in numbers.items()
        }
    except (ValueError, TypeError, AttributeError):
        found = {}
    if not found or not all(
        isinstance(offset, int) and not isinstance(offset, bool) and offset >= EARLIEST
        for offset in found.values()
    ):
        raise ConsumerOptionError(
            f"{name} is {text!r}: write earliest, latest, or JSON such as"
            """ '{"orders":{"0":1000,"1":-2}}' (-2: the first record, -1: the end)"""
        )
    return found


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConsumerOptionError(f"{name} is {text!r}: give a whole number above 0")
    return int(text)


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    return bool(read_as(_TRUE_OR_FALSE, name, given.get(name, default)))


def _one_of(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """One of the words; the first is the default."""
    text = given.get(name, words[0]).strip().lower()
    if text not in words:
        raise ConsumerOptionError(f"{name} is {given[name]!r}: write {' or '.join(words)}")
    return text


def _duration(given: Mapping[str, str], name: str, default_ms: int) -> int:
    text = given.get(name)
    if text is None:
        return default_ms
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConsumerOptionError(f"{name} is {text!r}: write a time such as 30s or 5m")
    unit = (match[2] or "ms").lower()
    scale = (
        1
        if unit.startswith(("ms", "milli"))
        else {"s": 1_000, "m": 60_000, "h": 3_600_000}[unit[0]]
    )
    return int(match[1]) * scale


def _pair(name: str, text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not colon:
        raise ConsumerOptionError(f"{name} must be written user:password")
    return user, password


def _group_value(name: str, text: str) -> Any:
    if name == "zookeeperAuth":
        return _pair(name, text)
    if name == "partitionAssignmentStrategy":
        return _names(text)
    return read_option(GROUP_OPTIONS[name], text, name)
