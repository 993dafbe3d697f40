"""Options of the Spark source and the batch reader: named as in Spark's own Kafka source where it
has them, and as `KafkaConsumer`'s, in Spark's spelling, for the group (`groupId`,
`zookeeperConnect`).

Everything that is not in a table of `consumer.spark.option_names` is refused by name, with the
nearest name or the reason: an option that is silently ignored is worse than none. `kafka.*` options
go to the client that reads (`consumer.spark.kafka_options`). All that is refused is said at once,
and in Spark's names. Nothing is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka.errors import KafkaError

from consumer.assignment.subscription import subscription_of
from consumer.errors import ConsumerOptionError
from consumer.member.registrable import check_registrable
from consumer.member.thread import member_options, zk_options
from consumer.option_types import read_option
from consumer.options import DURATION_MS_MAX, ConsumerOptions, check
from consumer.spark import option_values as values
from consumer.spark.decode.settings import KAFKA_PYTHON
from consumer.spark.kafka_options import refusals
from consumer.spark.option_names import (
    BATCH_ONLY,
    BATCH_OPTIONS,
    BATCH_REFUSED,
    GROUP_OPTIONS,
    STREAM_ONLY,
    STREAM_OPTIONS,
    STREAM_REFUSED,
    in_sparks_words,
    sort_options,
)
from consumer.spark.option_values import EARLIEST, LATEST, Offsets
from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.errors import ConfigurationError
from zkcoord.words import is_text
from zkcoord.znodes import names
from zkcoord.znodes.patterns import match_patterns

REBALANCE_TIMEOUT_MS = 300_000
MAX_DELAY_MS = 15 * 60_000
ENGINES = ("auto", "c", "confluent", "kafka-python")
SESSION_LOSS = ("rejoin", "fail")
INVALID_TIMESTAMPS = ("fail", "null")
# Option of the group with words or a time -> what it may be.
GROUP_WORDS: dict[str, tuple[str, ...]] = {
    "zookeeperLayout": ("draft", "isolated"),
    "initialOffsets": ("kafka", "reset", "refuse"),
}
GROUP_TIMES: dict[str, int] = {
    "zookeeperSessionTimeoutMs": 1,
    "zookeeperConnectionTimeoutMs": 0,
    "rebalanceTimeoutMs": 1,
    "groupInstanceGraceMs": 0,
    "commitTimeoutMs": 1,
}

Value = TypeVar("Value")


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
    # Whether a timestamp that is none becomes null instead of an error.
    null_timestamps: bool = False


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


class Refusals:
    """What is wrong with some options, a sentence each, to be said together."""

    def __init__(self, said: Collection[str] = ()) -> None:
        self.said = list(said)

    def read(self, default: Value, read: Callable[..., Value], *args: Any) -> Value:
        """What `read` gives; the default, and a sentence more, where it refuses."""
        try:
            return read(*args)
        except ConfigurationError as e:
            self.said.append(in_sparks_words(str(e.args[0])))
        except (KafkaError, ValueError, TypeError) as e:
            self.said.append(in_sparks_words(str(e)))
        return default

    def add(self, wrong: bool, sentence: str) -> None:
        """The sentence, where something is wrong."""
        if wrong:
            self.said.append(sentence)

    def finish(self) -> None:
        """Raises `ConsumerOptionError` with all of it."""
        if len(self.said) == 1:
            raise ConsumerOptionError(self.said[0])
        if self.said:
            numbered = "; ".join(f"({n}) {text}" for n, text in enumerate(self.said, 1))
            raise ConsumerOptionError(f"{len(self.said)} things are wrong: {numbered}")


def check_at_load(options: Mapping[str, str]) -> None:
    """What can be said when the options are given, where it is not known yet whether they are a
    stream's or a batch's: they must do for what they look like. Raises `ConsumerOptionError`.
    """
    given = {name.lower() for name in options}
    if given & {name.lower() for name in STREAM_ONLY}:
        stream_options(options)
    elif given & {name.lower() for name in BATCH_ONLY}:
        batch_options(options)
    else:  # either is fine; a stream's group is asked for when it starts
        batch_options({"kafka.bootstrap.servers": "-", **options})


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Options of a stream, as Spark gives them (names in any case). Raises `ConsumerOptionError`,
    which says everything that is wrong.
    """
    given, kafka, wrong = sort_options(options, STREAM_OPTIONS, STREAM_REFUSED)
    refused = Refusals(wrong)
    topics, pattern = values.names(given.get("subscribe", "")), given.get("subscribePattern")
    refused.add(
        bool(topics) == bool(pattern),
        'give either subscribe ("orders,payments") or subscribePattern ("orders-.*")',
    )
    for name in ("zookeeperConnect", "groupId"):
        refused.add(
            not given.get(name),
            f"{name} is missing: the applications that share a group name it, and the ZooKeeper"
            ' that coordinates it, for example .option("groupId",'
            ' "billing").option("zookeeperConnect", "zk1:2181,zk2:2181/kafka")',
        )
    read = _read_options(refused, given, kafka, LATEST, topics)
    if bool(topics) != bool(pattern):
        _check_names(refused, topics, pattern, "subscribe" if topics else "subscribePattern", read)
    configs = _group_configs(refused, given, kafka, read)
    found = StreamOptions(
        read,
        pattern=pattern,
        max_rows=refused.read(None, values.count, given, "maxOffsetsPerTrigger"),
        min_rows=refused.read(None, values.count, given, "minOffsetsPerTrigger"),
        max_delay_ms=refused.read(
            MAX_DELAY_MS, values.duration, given, "maxTriggerDelay", MAX_DELAY_MS
        ),
        rejoins=refused.read("", values.one_of, given, "onSessionLoss", SESSION_LOSS) != "fail",
        journal=given.get("journal", ""),
        group=given.get("groupId", ""),
        zookeeper=given.get("zookeeperConnect", ""),
        given={**refused.read({}, kafka_python, kafka), **configs},
    )
    if found.max_rows is not None and found.min_rows is not None:
        refused.add(
            found.min_rows > found.max_rows,
            f"minOffsetsPerTrigger ({found.min_rows}) is above maxOffsetsPerTrigger"
            f" ({found.max_rows}): give a smaller one",
        )
    if found.group and found.zookeeper:
        refused.read(None, _check_membership, found)
    refused.finish()
    return found


def _check_membership(found: StreamOptions) -> None:
    """What a member would refuse when it is made. Raises `ConfigurationError`."""
    options = found.consumer()
    named = dict.fromkeys(filter(names.is_topic, found.read.topics), 1)
    check_registrable(member_options(options), Subscription(named))
    tls = zk_options(options).tls
    if tls is not None:
        tls.context()


def _group_configs(
    refused: Refusals, given: Mapping[str, str], kafka: Mapping[str, str], read: ReadOptions
) -> dict[str, Any]:
    """The membership's options, as `KafkaConsumer` calls them; without those that are refused."""
    configs: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS}
    for name, theirs in GROUP_OPTIONS.items():
        if name in given:
            value = refused.read(None, _group_value, given, name)
            if value is not None:
                configs[theirs] = value
    return {
        **configs,
        "max_poll_interval_ms": DURATION_MS_MAX,
        "enable_auto_commit": True,
        "auto_offset_reset": "latest" if read.starting == LATEST else "earliest",
        "client_id": kafka.get("client.id", "zkcoord-spark"),
    }


def _group_value(given: Mapping[str, str], name: str) -> Any:
    if name in GROUP_WORDS:
        return values.one_of(given, name, GROUP_WORDS[name])
    if name in GROUP_TIMES:
        return values.milliseconds(given, name, GROUP_TIMES[name])
    if name == "guardian":
        return values.flag(given, name, True)
    if name == "zookeeperAuth":
        return values.pair(given, name)
    if name == "partitionAssignmentStrategy":
        return values.names(given[name])
    if name == "groupInstanceId" and not names.is_topic(given[name]):
        raise ConsumerOptionError(
            f"groupInstanceId is {names.shown(given[name])}: write 1 to {names.NAME_CHARS_MAX} of"
            " the characters A-Z a-z 0-9 . _ -"
        )
    return given[name]


def batch_options(options: Mapping[str, str]) -> BatchOptions:
    """Options of the batch reader. Raises `ConsumerOptionError`, which says everything that is
    wrong.
    """
    given, kafka, wrong = sort_options(options, BATCH_OPTIONS, BATCH_REFUSED)
    refused = Refusals(wrong)
    topics = values.names(given.get("subscribe", ""))
    none: tuple[TopicPartition, ...] = ()
    assigned = refused.read(none, values.assigned, given.get("assign"))
    if not ("assign" in given and not assigned):
        refused.add(
            bool(topics) == bool(assigned),
            'give either subscribe ("orders,payments") or assign (\'{"orders":[0,1]}\')',
        )
    refused.add(
        not kafka.get("bootstrap.servers"),
        "kafka.bootstrap.servers is missing: a batch has no group, and so no ZooKeeper to ask",
    )
    read = _read_options(
        refused, given, kafka, EARLIEST, topics or tuple(sorted({tp.topic for tp in assigned}))
    )
    refused.add(
        read.starting == LATEST,
        "startingOffsets of a batch cannot be 'latest': nothing would be read",
    )
    otherwise: Offsets = LATEST
    ending = refused.read(otherwise, values.offsets, given, "endingOffsets", LATEST)
    refused.add(
        ending == EARLIEST or (not isinstance(ending, int) and EARLIEST in ending.values()),
        "endingOffsets cannot be 'earliest' (-2): nothing would be read",
    )
    if bool(topics) != bool(assigned):
        by = "subscribe" if topics else "assign"
        _check_names(refused, read.topics, None, by, read)
        refused.add(*_strange("endingOffsets", ending, read.topics, None, by))
    refused.finish()
    return BatchOptions(read, ending, assigned)


def _read_options(
    refused: Refusals,
    given: Mapping[str, str],
    kafka: Mapping[str, str],
    starting: int,
    topics: tuple[str, ...],
) -> ReadOptions:
    for name, text in (*given.items(), *((f"kafka.{n}", text) for n, text in kafka.items())):
        refused.add(
            not is_text(text),
            f"{name} has a NUL in it, or half of a surrogate pair, which is no text: correct it",
        )
    otherwise: Offsets = starting
    tasks = refused.read(None, values.count, given, "minPartitions")
    engine = refused.read("auto", values.one_of, given, "engine", ENGINES)
    refused.said += refusals(kafka, engine)
    return ReadOptions(
        kafka=dict(kafka),
        topics=topics,
        starting=refused.read(otherwise, values.offsets, given, "startingOffsets", starting),
        tasks=tasks if tasks is not None else len(os.sched_getaffinity(0)),
        headers=refused.read(False, values.flag, given, "includeHeaders", False),
        fail_on_data_loss=refused.read(True, values.flag, given, "failOnDataLoss", True),
        engine=engine,
        null_timestamps=refused.read(
            "", values.one_of, given, "invalidTimestamps", INVALID_TIMESTAMPS
        )
        == "null",
    )


def _check_names(
    refused: Refusals, topics: tuple[str, ...], pattern: str | None, by: str, read: ReadOptions
) -> None:
    """Topics that cannot be, a pattern that is none, offsets of what is not read. `by`: the option
    that says what is read.
    """
    bad = [topic for topic in topics if not names.is_topic(topic)]
    refused.add(
        bool(bad),
        f"{by} names {', '.join(map(names.shown, bad))}: a topic's name has 1 to"
        f" {names.NAME_CHARS_MAX} of the characters A-Z a-z 0-9 . _ -, and topics stand with"
        " commas between",
    )
    before = len(refused.said)
    if not bad:
        refused.read(None, subscription_of, topics, pattern)
    if len(refused.said) == before:
        refused.add(*_strange("startingOffsets", read.starting, topics, pattern, by))


def _strange(
    name: str, offsets: Offsets, topics: tuple[str, ...], pattern: str | None, by: str
) -> tuple[bool, str]:
    """Whether explicit offsets name topics that are not read, and what is to be said then."""
    named = set() if isinstance(offsets, int) else {tp.topic for tp in offsets}
    if pattern is not None:
        regex = subscription_of((), pattern).pattern
        assert regex is not None
        strange = sorted(named - match_patterns([regex], named)[regex])
    else:
        strange = sorted(named - set(topics))
    return bool(strange), (
        f"{name} names {', '.join(map(names.shown, strange))}, which {by} does not: correct one of"
        " the two"
    )


def kafka_python(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The client's settings for kafka-python, which asks for metadata and offsets in the driver;
    what only matters to reading is left out, and what is no number was refused before.
    """
    found: dict[str, Any] = {}
    for name, value in kafka.items():
        if name in KAFKA_PYTHON:
            theirs, said = KAFKA_PYTHON[name]
            try:
                found[theirs] = read_option(theirs, said(value), f"kafka.{name}")
            except ConsumerOptionError:
                continue
    return found
