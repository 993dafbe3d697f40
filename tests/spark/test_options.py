"""Options: what is taken, what is refused by name, and with which way out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from consumer.errors import ConsumerOptionError
from consumer.spark.options import EARLIEST, LATEST, batch_options, stream_options
from consumer.spark.plan import PlannedRange
from consumer.spark.schema import (
    ALL_COLUMNS,
    COLUMNS,
    SQL_TYPES,
    arrow_schema,
    columns_of,
    full_schema,
)
from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError

GIVEN = {"zookeeperConnect": "zk:2181/kafka", "groupId": "billing", "subscribe": "orders,payments"}
BATCH = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    """As Spark hands them over."""
    return {name.lower(): value for name, value in options.items()}


def test_defaults_and_what_they_come_to() -> None:
    found = stream_options(lowered(GIVEN))
    assert (found.group, found.zookeeper, found.read.topics, found.read.starting) == (
        "billing",
        "zk:2181/kafka",
        ("orders", "payments"),
        LATEST,
    )
    assert (
        found.max_rows,
        found.min_rows,
        found.read.fail_on_data_loss,
        found.rejoins,
        found.read.headers,
    ) == (None, None, True, True, False)
    config = found.consumer().config
    assert (
        config["auto_offset_reset"] == "latest"
        and config["rebalance_timeout_ms"] == 300_000
        and config["enable_auto_commit"] is True
    )


def test_everything_that_is_taken() -> None:
    found = stream_options(
        lowered(
            {
                **GIVEN,
                "startingOffsets": '{"orders":{"0":5,"1":-2,"2":-1}}',
                "maxOffsetsPerTrigger": "1000",
                "minOffsetsPerTrigger": "10",
                "maxTriggerDelay": "2m",
                "minPartitions": "6",
                "failOnDataLoss": "false",
                "includeHeaders": "true",
                "onSessionLoss": "fail",
                "engine": "kafka-python",
                "groupInstanceId": "app-1",
                "zookeeperSessionTimeoutMs": "6000",
                "zookeeperLayout": "isolated",
                "partitionAssignmentStrategy": "range, sticky",
                "zookeeperAuth": "me:secret",
                "kafka.isolation.level": "read_committed",
                "rebalanceTimeoutMs": "90000",
            }
        )
    )
    assert found.read.starting == {
        TopicPartition("orders", 0): 5,
        TopicPartition("orders", 1): EARLIEST,
        TopicPartition("orders", 2): LATEST,
    }
    assert (
        found.max_rows,
        found.min_rows,
        found.max_delay_ms,
        found.read.tasks,
        found.read.headers,
        found.rejoins,
    ) == (1000, 10, 120_000, 6, True, False)
    configs = found.consumer()
    assert (
        configs.assignors == ("range", "sticky")
        and configs.session_timeout_ms == 6000
        and configs.config["isolation_level"] == "read_committed"
    )
    assert (
        configs.config["zookeeper_layout"],
        configs.config["group_instance_id"],
        configs.config["zookeeper_auth"],
    ) == ("isolated", "app-1", ("me", "secret"))
    assert configs.rebalance_timeout_ms == 90_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groupid": None}, "groupId is missing"),
        ({"zookeeperconnect": None}, "zookeeperConnect is missing"),
        ({"subscribe": None}, "either subscribe"),
        ({"subscribePattern": "o.*"}, "either subscribe"),
        ({"assign": '{"orders":[0]}'}, "decided by its group"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled cannot be used"),
        ({"realTimeMode": "true"}, "no real-time mode"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"startingTimestamp": "1"}, "zkcoord offsets reset"),
        ({"groupIdPrefix": "x"}, "named by groupId"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'"),
        ({"zookeeperConect": "x"}, "did you mean 'zookeeperConnect'"),
        ({"kafka.group.id": "x"}, "named by groupId"),
        ({"kafka.sasl.jaas.config": "x"}, "kafka.sasl.username"),
        ({"kafka.ssl.truststore.location": "x"}, "ssl.ca.location"),
        ({"maxOffsetsPerTrigger": "many"}, "whole number above 0"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number above 0"),
        (
            {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"},
            "is above maxOffsetsPerTrigger",
        ),
        ({"maxTriggerDelay": "soon"}, "30s or 5m"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"onSessionLoss": "panic"}, "rejoin or fail"),
        ({"engine": "java"}, "auto or c"),
        ({"startingOffsets": "first"}, "earliest, latest, or JSON"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "earliest, latest, or JSON"),
        *(
            ({"startingOffsets": text}, "earliest, latest, or JSON")
            for text in (
                '{"orders":{"0":1,"0":2}}',
                '{"orders":{"00":1}}',
                '{"orders":{"0":1.0}}',
                '{"orders":{"0":true}}',
                '{"orders":{"0":1e999}}',
                '{"orders":{"0":99999999999999999999}}',
                '{"orders":{"4294967296":1}}',
                '{"a/b":{"0":1}}',
                '{"orders":[0]}',
                "[" * 10_000,
            )
        ),
        ({"kafka.client.id": "\ud800"}, "kafka.client.id has a NUL in it, or half"),
        ({"kafka.client.id": "a\0b"}, "kafka.client.id has a NUL in it, or half"),
        ({"maxOffsetsPerTrigger": "9" * 5_000}, "whole number above 0"),
        ({"maxTriggerDelay": "9" * 5_000}, "30s or 5m"),
        ({"zookeeperSessionTimeoutMs": "6s"}, "number of milliseconds"),
        ({"zookeeperLayout": "other"}, "draft"),
        ({"zookeeperAuth": "me"}, "user:password"),
        ({"kafka.fetch.max.bytes": "big"}, "a whole number"),
        ({"kafka.check.crcs": "perhaps"}, "kafka.check.crcs is"),
        ({"guardian": "perhaps"}, "guardian is"),
    ],
    ids=lambda value: ascii(value)[:80],
)
def test_what_is_refused_by_name(given: dict[str, str | None], said: str) -> None:
    options = {
        name: value for name, value in {**lowered(GIVEN), **given}.items() if value is not None
    }
    with pytest.raises(ConfigurationError, match=said):
        stream_options(options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groupId": "billing"}, "groupId cannot be used here: it is for streams"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger cannot be used here: it is for"),
        ({"endingTimestamp": "5"}, "give startingOffsets or endingOffsets"),
        ({"startingOffsets": '{"payments":{"0":1}}'}, "names 'payments', which subscribe does not"),
        ({"endingOffsets": '{"payments":{"0":1}}'}, "names 'payments', which subscribe does not"),
        ({"subscribe": ""}, "either subscribe"),
        *(
            ({"assign": text}, "write JSON such as")
            for text in (
                "{",
                '{"t":"01"}',
                '{"t":[1.9]}',
                '{"t":[true]}',
                '{"t":["1"]}',
                '{"t":[-1]}',
                '{"t":[0],"t":[1]}',
                '{"t":[]}',
            )
        ),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "nothing would be read"),
    ],
    ids=lambda value: ascii(value)[:80],
)
def test_what_a_batch_refuses(given: dict[str, str], said: str) -> None:
    base = {
        name: value for name, value in BATCH.items() if name != "subscribe" or "assign" not in given
    }
    with pytest.raises(ConsumerOptionError, match=said):
        batch_options({**base, **given})


def test_a_batch() -> None:
    found = batch_options(
        {
            "kafka.bootstrap.servers": "b:1",
            "assign": '{"orders":[1,0],"payments":[2]}',
            "endingOffsets": '{"orders":{"0":7}}',
        }
    )
    assert found.partitions == (
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
        TopicPartition("payments", 2),
    ) and found.read.topics == ("orders", "payments")
    assert (found.read.starting, found.ending) == (EARLIEST, {TopicPartition("orders", 0): 7})


def test_columns_are_those_of_sparks_own_source() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    every = full_schema(headers=True)
    assert tuple(every.names) == ALL_COLUMNS and tuple(full_schema(headers=False).names) == COLUMNS
    assert [field.dataType.simpleString() for field in every.fields] == [
        SQL_TYPES[name] for name in ALL_COLUMNS
    ]
    assert arrow_schema(ALL_COLUMNS).equals(to_arrow_schema(every, timezone="UTC"))


def test_pruned_columns_keep_the_querys_order_and_their_types() -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    pruned = StructType([StructField("offset", LongType()), full_schema(headers=False)["value"]])
    assert columns_of(pruned) == ("offset", "value")
    for wrong, said in (
        (StructType([StructField("ofset", LongType())]), "no column 'ofset'"),
        (StructType([StructField("partition", LongType())]), "partition is int, not bigint"),
        (StructType([*pruned.fields, *pruned.fields]), "twice"),
    ):
        with pytest.raises(ConsumerOptionError, match=said):
            columns_of(wrong)


def test_a_batch_range_is_what_was_asked_for_or_an_error() -> None:
    from consumer.spark.batch_reader import BatchPlanner
    from consumer.spark.decode.errors import DataLossError

    at = TopicPartition("orders", 0)
    strict = BatchPlanner(
        batch_options(
            {
                **BATCH,
                "startingOffsets": '{"orders":{"0":5}}',
                "endingOffsets": '{"orders":{"0":50}}',
            }
        )
    )
    assert strict._range(at, 0, 100) == PlannedRange("orders", 0, 5, 50)
    assert strict._range(TopicPartition("orders", 1), 3, 9) == PlannedRange("orders", 1, 3, 9)
    for began, ended in ((6, 100), (0, 49)):
        with pytest.raises(DataLossError, match="failOnDataLoss"):
            strict._range(at, began, ended)
    loose = BatchPlanner(
        batch_options(
            {
                **BATCH,
                "startingOffsets": '{"orders":{"0":5}}',
                "endingOffsets": '{"orders":{"0":50}}',
                "failOnDataLoss": "false",
            }
        )
    )
    assert (
        loose._range(at, 60, 100).rows == 0
        and loose._range(at, 0, 3).rows == 0
        and loose._range(at, 10, 20) == PlannedRange("orders", 0, 10, 20)
    )
    backwards = BatchPlanner(
        batch_options(
            {
                **BATCH,
                "startingOffsets": '{"orders":{"0":50}}',
                "endingOffsets": '{"orders":{"0":5}}',
            }
        )
    )
    with pytest.raises(DataLossError, match="before it"):
        backwards._range(at, 0, 100)
