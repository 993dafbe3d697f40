"""What is refused is said when the options are given, all of it at once, in Spark's names: with
librdkafka's name for one of Java's client, and with a suggestion only where a name is close.
"""

from __future__ import annotations

import re
import traceback

import pytest

from consumer.errors import ConsumerOptionError
from consumer.spark.option_names import in_sparks_words
from consumer.spark.options import batch_options, stream_options
from consumer.spark.source import ZkcoordSource

GIVEN = {"zookeeperConnect": "zk:2181/kafka", "groupId": "billing", "subscribe": "orders,payments"}
BATCH = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}

# Of the Structured Streaming guide, Spark 4.
SPARKS_OWN = (
    "assign",
    "subscribe",
    "subscribePattern",
    "kafka.bootstrap.servers",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "includeHeaders",
)
# Kafka's own consumer, 4.x: all options that Java's client has and librdkafka calls otherwise, or
# has not.
JAVAS = (
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "default.api.timeout.ms",
    "enable.auto.commit",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.wait.ms",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "key.deserializer",
    "max.poll.interval.ms",
    "max.poll.records",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "receive.buffer.bytes",
    "request.timeout.ms",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.refresh.buffer.seconds",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "value.deserializer",
)


def test_a_traceback_names_the_error_once() -> None:
    with pytest.raises(ConsumerOptionError) as raised:
        stream_options({**GIVEN, "failOnDataLoss": "maybe"})
    (line,) = traceback.format_exception_only(raised.value)
    assert line.count("ConsumerOptionError") == 1


def said_at_load(options: dict[str, str]) -> str:
    """What `load()` says: the data source is made, and nothing else."""
    with pytest.raises(ConsumerOptionError) as raised:
        ZkcoordSource({name.lower(): value for name, value in options.items()})
    return str(raised.value.args[0])


def test_everything_that_is_refused_is_said_at_once_when_the_options_are_given() -> None:
    said = said_at_load(
        {
            "groupId": "bil/ling",
            "zookeeperConnect": "zk:2181/kafka",
            "subscribe": "orders,pay/ments",
            "startingOffsets": "first",
            "maxOffsetsPerTrigger": "many",
            "rebalanceTimeoutMs": "0",
            "topics": "orders",
            "kafka.bootstrap.server": "broker:9092",
            "kafka.isolation.level": "commited",
            "kafka.fetch.max.wait.ms": "10",
        }
    )
    assert said.startswith("9 things are wrong: (1) ")
    for part in (
        "topics to read are named by subscribe",
        "pay/ments",
        "startingOffsets is 'first'",
        "maxOffsetsPerTrigger is 'many'",
        "rebalanceTimeoutMs is '0': give a number of milliseconds",
        "did you mean 'kafka.bootstrap.servers'?",
        "kafka.isolation.level is 'commited': write read_uncommitted or read_committed",
        "kafka.fetch.max.wait.ms is a name of Java's client: use kafka.fetch.wait.max.ms",
        "bil/ling",
    ):
        assert part in said, part


@pytest.mark.parametrize("name", SPARKS_OWN)
def test_every_option_of_sparks_own_source_is_taken_or_answered_by_name(name: str) -> None:
    for read, base in ((stream_options, GIVEN), (batch_options, BATCH)):
        try:
            read({**base, name: "x"})
        except ConsumerOptionError as e:
            said = str(e.args[0])
            assert name in said and "did you mean" not in said and "is not an option" not in said


@pytest.mark.parametrize("engine", ["auto", "c", "confluent", "kafka-python"])
@pytest.mark.parametrize("name", JAVAS)
def test_every_name_of_javas_client_is_answered_for_every_engine(name: str, engine: str) -> None:
    said = said_at_load({**GIVEN, "engine": engine, f"kafka.{name}": "1"})
    assert f"kafka.{name} " in said and "is not an option of librdkafka" not in said
    named = re.findall(r"use kafka\.([\w.]*\w)", said)
    if named:  # what is advised is taken
        from confluent_kafka import Consumer, KafkaException

        for advised in named:
            try:
                Consumer({"group.id": "x", advised: "-"}).close()
            except KafkaException as e:
                assert "No such configuration property" not in e.args[0].str()


@pytest.mark.parametrize("engine", ["auto", "c", "confluent", "kafka-python"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("bootstrap.server", "broker:9092", "did you mean 'kafka.bootstrap.servers'?"),
        ("isolation.level", "commited", "write read_uncommitted or read_committed"),
        ("security.protocol", "SSLL", "write plaintext or ssl or sasl_plaintext or sasl_ssl"),
        ("ssl.truststore.password", "x", "a PEM file without a password"),
        ("check.crcs", "yes", "write true or false"),
        ("fetch.max.bytes", "big", "give a whole number"),
        ("no.such.thing", "x", "kafka.no.such.thing "),
    ],
)
def test_names_and_values_of_the_client_are_checked_for_every_engine(
    name: str, value: str, said: str, engine: str
) -> None:
    assert said in said_at_load({**GIVEN, "engine": engine, f"kafka.{name}": value})


def test_what_librdkafka_alone_knows_is_refused_by_librdkafka_itself() -> None:
    assert "is outside allowed range" in said_at_load(
        {**GIVEN, "kafka.fetch.wait.max.ms": "999999999"}
    )
    assert "sasl.username and sasl.password must be set" in said_at_load(
        {**GIVEN, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    )
    stream_options({**GIVEN, "kafka.queued.max.messages.kbytes": "4096", "kafka.debug": "fetch"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("topics", "topics to read are named by subscribe"),
        ("bootstrap.servers", "write kafka.bootstrap.servers"),
        ("group.id", "the group is named by groupId"),
        ("maxOffsetPerTrigger", "did you mean 'maxOffsetsPerTrigger'?"),
        ("somethingElse", "docs/spark.md has those that are"),
    ],
)
def test_a_suggestion_only_where_a_name_is_close(name: str, said: str) -> None:
    found = said_at_load({**GIVEN, name: "x"})
    assert said in found and ("did you mean" in found) == ("did you mean" in said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rebalanceTimeoutMs": "0"}, "rebalanceTimeoutMs is '0'"),
        ({"zookeeperSessionTimeoutMs": "99999999"}, "a session timeout of 99999999 ms"),
        ({"zookeeperConnect": "zk1:port"}, "port"),
        ({"zookeeperSslCafile": "/no/such/file"}, "/no/such/file"),
        ({"zookeeperSaslUsername": "me"}, "zookeeperSaslMechanism"),
        ({"groupId": "a/b"}, "the group name 'a/b' is refused"),
        ({"groupInstanceId": "a b"}, "groupInstanceId is"),
        ({"initialOffsets": "elsewhere"}, "initialOffsets is 'elsewhere'"),
        ({"partitionAssignmentStrategy": "a b"}, "partitionAssignmentStrategy names 'a b'"),
        ({"subscribe": "orders,a b"}, "subscribe names 'a b'"),
        ({"startingOffsets": '{"other":{"0":1}}'}, "names 'other', which subscribe does not"),
    ],
    ids=str,
)
def test_sparks_names_and_no_others(given: dict[str, str], said: str) -> None:
    found = said_at_load({**GIVEN, **given})
    assert said in found
    assert not re.search(r"\b[a-z]+_[a-z_]+\b", found.replace("read_committed", ""))


def test_what_ends_a_member_is_said_in_sparks_words() -> None:
    assert in_sparks_words(
        "another process (member x) runs group_instance_id 'a' of group g now: give each process a"
        " group_instance_id of its own; see zookeeper_session_timeout_ms and sasl_mechanism"
    ) == (
        "another query or consumer (member x) runs groupInstanceId 'a' of group g now: give each"
        " query a groupInstanceId of its own; see zookeeperSessionTimeoutMs and"
        " kafka.sasl.mechanism"
    )


def test_a_pattern_and_the_offsets_that_it_covers() -> None:
    base = {name: value for name, value in GIVEN.items() if name != "subscribe"}
    stream_options({**base, "subscribePattern": "ord.*", "startingOffsets": '{"orders":{"0":1}}'})
    found = said_at_load(
        {**base, "subscribePattern": "ord.*", "startingOffsets": '{"other":{"0":1}}'}
    )
    assert "names 'other', which subscribePattern does not" in found
    assert "RE2" in said_at_load({**base, "subscribePattern": "a(?=b)"})


def test_a_batch_is_told_from_a_stream_by_what_only_one_of_them_has() -> None:
    ZkcoordSource({"kafka.bootstrap.servers": "b:1", "subscribe": "orders"})
    ZkcoordSource({"kafka.bootstrap.servers": "b:1", "assign": '{"orders":[0]}'})
    assert "topics" in said_at_load({"kafka.bootstrap.servers": "b:1", "topics": "orders"})
    assert "endingOffsets cannot be" in said_at_load({**BATCH, "endingOffsets": "earliest"})


def test_more_topics_than_a_registration_lists() -> None:
    many = ",".join(f"topic{n}" for n in range(30_000))
    with pytest.raises(ConsumerOptionError, match="30000 topics by name take"):
        stream_options({**GIVEN, "subscribe": many})
