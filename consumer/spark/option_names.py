"""Which options the stream and the batch reader know, what is said of every other, and how an
option of the group or of the client is called in Spark. Pure.

Names are taken in any case, as Spark hands them over in lower case; what is said uses their proper
spelling. Every option of Spark's own Kafka source is answered by name: it is taken, or it is said
what its counterpart is, or why there is none. A suggestion is only made where a name is close.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from consumer.spark.decode.settings import KAFKA_PYTHON

CLOSE = 0.8

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
SHARED_OPTIONS = (
    "subscribe",
    "startingOffsets",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "engine",
    "invalidTimestamps",
)
STREAM_ONLY = (
    "subscribePattern",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "onSessionLoss",
    "journal",
    *GROUP_OPTIONS,
)
BATCH_ONLY = ("assign", "endingOffsets")
STREAM_OPTIONS = (*SHARED_OPTIONS, *STREAM_ONLY)
BATCH_OPTIONS = (*SHARED_OPTIONS, *BATCH_ONLY)

_NO_ASYNC = "asynchronous progress tracking cannot be used with this source: leave it out"
_NO_REAL_TIME = "Spark has no real-time mode for Python sources: use a processing-time trigger"
_RESET = "set the group's offsets with: zkcoord offsets reset GROUP --to-datetime"
_BY_OFFSET = "give startingOffsets or endingOffsets, which are by offset"
_ASKED = "the brokers are asked until they answer (docs/spark.md, What can go wrong): leave it out"

# Of both readers.
REFUSED: dict[str, str] = {
    "asyncProgressTrackingEnabled": (
        "a batch's offsets are stored when Spark asks for the next one, which must not be before"
        " its commit is in the log: leave it out"
    ),
    "asyncProgressTrackingCheckpointIntervalMs": _NO_ASYNC,
    "realTime": _NO_REAL_TIME,
    "realTimeMode": _NO_REAL_TIME,
    "continuous": "Spark has no continuous mode for Python sources: use a processing-time trigger",
    "kafkaConsumer.pollTimeoutMs": _ASKED,
    "fetchOffset.numRetries": _ASKED,
    "fetchOffset.retryIntervalMs": _ASKED,
    "failsafe": (
        "a batch counts once its offsets are stored in ZooKeeper, so there is nothing to go on with"
        " while it is away: leave it out"
    ),
    "maxRecordsPerPartition": (
        "a range that outweighs the others is split by itself; minPartitions says into how many"
        " tasks a batch goes"
    ),
    "maxBytesPerTrigger": "give maxOffsetsPerTrigger",
    "topic": "topics to read are named by subscribe",
    "topics": "topics to read are named by subscribe",
    "group.id": "the group is named by groupId",
    "group_id": "the group is named by groupId",
    "bootstrap.servers": "write kafka.bootstrap.servers",
    "bootstrapServers": "write kafka.bootstrap.servers",
    "zookeeper.connect": "write zookeeperConnect",
}
STREAM_REFUSED: dict[str, str] = {
    **REFUSED,
    "assign": (
        "which partitions a query reads is decided by its group: use subscribe, or the batch reader"
        " (spark.read), which takes assign"
    ),
    "endingOffsets": (
        "a stream has no end: use it with the batch reader (spark.read), or Trigger.AvailableNow"
    ),
    "endingTimestamp": "a stream has no end: use Trigger.AvailableNow",
    "endingOffsetsByTimestamp": "a stream has no end: use Trigger.AvailableNow",
    "startingTimestamp": _RESET,
    "startingOffsetsByTimestamp": _RESET,
    "startingOffsetsByTimestampStrategy": _RESET,
    "groupIdPrefix": "the group is named by groupId, which applications share on purpose",
}
BATCH_REFUSED: dict[str, str] = {
    **REFUSED,
    **dict.fromkeys(
        STREAM_ONLY, "it is for streams (spark.readStream), and a batch has no group: leave it out"
    ),
    "subscribePattern": "name the topics of a batch with subscribe or assign",
    "maxBytesPerTrigger": "a batch ends at endingOffsets: leave it out",
    "startingTimestamp": _BY_OFFSET,
    "startingOffsetsByTimestamp": _BY_OFFSET,
    "startingOffsetsByTimestampStrategy": _BY_OFFSET,
    "endingTimestamp": _BY_OFFSET,
    "endingOffsetsByTimestamp": _BY_OFFSET,
    "groupIdPrefix": "a batch has no group: leave it out",
}

# What the membership's own sentences speak of, in Spark's words.
_SPOKEN: dict[str, str] = {
    **{theirs: f"kafka.{ours}" for ours, (theirs, _) in reversed(list(KAFKA_PYTHON.items()))},
    **{theirs: ours for ours, theirs in GROUP_OPTIONS.items()},
    "auto_offset_reset": "startingOffsets",
    "bootstrap_servers": "kafka.bootstrap.servers",
    "session_timeout_ms": "zookeeperSessionTimeoutMs",
    "connect_timeout_ms": "zookeeperConnectionTimeoutMs",
    "bootstrap_timeout_ms": "the time for the first connection",
    "another process": "another query or consumer",
    "each process": "each query",
    "this consumer": "this query",
}
_WORDS = re.compile(
    "|".join(rf"\b{re.escape(word)}\b" for word in sorted(_SPOKEN, key=len, reverse=True))
)


def in_sparks_words(text: str) -> str:
    """A sentence of the membership with the names that a user of Spark has given."""
    return _WORDS.sub(lambda found: _SPOKEN[found[0]], text)


def sort_options(
    options: Mapping[str, str], known: Iterable[str], refused: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """(ours by their proper names, the client's without prefix, what is refused: a sentence
    each).
    """
    ours: dict[str, str] = {}
    kafka: dict[str, str] = {}
    wrong: list[str] = []
    proper = {name.lower(): name for name in known}
    answered = {name.lower(): name for name in refused}
    for key, value in options.items():
        name = key.lower()
        if name.startswith("kafka."):
            kafka[name.removeprefix("kafka.")] = value
        elif name in proper:
            ours[proper[name]] = value
        elif name in answered:
            wrong.append(f"{answered[name]} cannot be used here: {refused[answered[name]]}")
        elif name == "path":
            wrong.append("load() takes no path here: name the topics with subscribe")
        else:
            wrong.append(_unknown(key, proper))
    return ours, kafka, wrong


def _unknown(key: str, proper: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(key.lower(), proper, n=1, cutoff=CLOSE)
    return f"{key!r} is not an option of format zkcoord: " + (
        f"did you mean {proper[near[0]]!r}?" if near else "docs/spark.md has those that are"
    )
