"""What can go wrong is said by name, in one sentence, by each engine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from consumer.errors import ConsumerOptionError
from consumer.spark.decode import (
    CorruptRecordError,
    DataLossError,
    EngineUnavailableError,
    NoBrokerError,
    NotAllowedError,
    OutOfRangeError,
    ReadError,
    TopicUnknownError,
    open_reader,
)
from consumer.spark.decode.engines import choose
from consumer.spark.plan import PlannedRange
from tests.harness.kafka import create_topic, delete_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.spark.decode.conftest import PASSWORD, USER, DecodeBroker
from tests.spark.decode.reading import ENGINES, GIVES_UP, HASTY, rows_of
from tests.spark.decode.written import UNCOMMITTED, Log
from zkcoord.stack.ports import HOST, free_port

ADMIN_S = 60.0

each_engine = pytest.mark.parametrize("engine", ENGINES)
kafka = pytest.mark.kafka


def offsets(rows: list[dict[str, object]]) -> list[object]:
    return [row["offset"] for row in rows]


def one_sentence(error: ReadError, *words: str) -> None:
    said = str(error)
    assert "\n" not in said and len(said) < 400
    for word in words:
        assert word in said


@kafka
@each_engine
def test_a_topic_that_never_was(broker: DecodeBroker, engine: str) -> None:
    topic = unique("never")
    with pytest.raises(TopicUnknownError) as raised:
        rows_of(broker.address, engine, [PlannedRange(topic, 0, 0, 10)])
    one_sentence(raised.value, topic)


@kafka
@each_engine
def test_a_topic_that_is_deleted_between_two_readings(
    broker: DecodeBroker, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(broker.address, unique("deleted"), 1)
    produce_numbered(broker.address, topic, 1, 10)
    assert offsets(rows_of(broker.address, engine, [PlannedRange(topic, 0, 0, 10)])) == list(
        range(10)
    )
    delete_topic(broker.address, topic)
    admin = AdminClient({"bootstrap.servers": broker.address})
    log = broker.home / "data" / f"{topic}-0"
    wait_until(
        lambda: topic not in admin.list_topics(timeout=ADMIN_S).topics and not log.exists(),
        ADMIN_S,
        "a topic that is gone, and its log, which could still be read for a moment",
    )
    with pytest.raises(TopicUnknownError) as raised:
        rows_of(broker.address, engine, [PlannedRange(topic, 0, 0, 10)])
    one_sentence(raised.value, topic)
    with caplog.at_level(logging.WARNING):
        assert (
            rows_of(
                broker.address, engine, [PlannedRange(topic, 0, 0, 10)], fail_on_data_loss=False
            )
            == []
        )
    assert topic in caplog.text


@kafka
@each_engine
def test_a_range_behind_the_log(broker: DecodeBroker, logs: Mapping[str, Log], engine: str) -> None:
    log = logs["mixed-0"]
    with pytest.raises(OutOfRangeError) as raised:
        rows_of(broker.address, engine, [PlannedRange(log.topic, 0, log.end + 5, log.end + 9)])
    one_sentence(raised.value, f"{log.topic}-0", str(log.end + 5), str(log.end))


@kafka
@each_engine
def test_a_log_that_ends_too_early(
    broker: DecodeBroker, logs: Mapping[str, Log], engine: str
) -> None:
    log = logs["mixed-0"]
    wanted = PlannedRange(log.topic, 0, log.end - 3, log.end + 4)
    with pytest.raises(DataLossError) as raised:
        rows_of(broker.address, engine, [wanted])
    one_sentence(raised.value, f"{log.topic}-0", f"from {log.end} to {log.end + 4}")
    assert rows_of(broker.address, engine, [wanted], fail_on_data_loss=False) == log.within(
        wanted, UNCOMMITTED
    )


@kafka
@each_engine
def test_retention_was_faster(
    broker: DecodeBroker, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(broker.address, unique("retained"), 1)
    produce_numbered(broker.address, topic, 1, 30)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for future in admin.delete_records([TopicPartition(topic, 0, 12)]).values():
        future.result(ADMIN_S)
    with pytest.raises(DataLossError) as raised:
        rows_of(broker.address, engine, [PlannedRange(topic, 0, 5, 20)])
    one_sentence(raised.value, f"{topic}-0", "from 5 to 12", "retention")
    with caplog.at_level(logging.WARNING):
        assert offsets(
            rows_of(
                broker.address,
                engine,
                [PlannedRange(topic, 0, 5, 20), PlannedRange(topic, 0, 22, 25)],
                fail_on_data_loss=False,
            )
        ) == [*range(12, 20), *range(22, 25)]
        assert (
            rows_of(broker.address, engine, [PlannedRange(topic, 0, 5, 9)], fail_on_data_loss=False)
            == []
        )
    assert "from 5 to 12" in caplog.text and "from 5 to 9" in caplog.text


@kafka
@each_engine
def test_a_damaged_record(broker: DecodeBroker, engine: str) -> None:
    """A byte of a value is flipped on the broker's disk: checksums are verified unless that is
    switched off.
    """
    topic = create_topic(broker.address, unique("damaged"), 1)
    produce_numbered(broker.address, topic, 1, 3)
    (segment,) = (broker.home / "data" / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as file:
        at = file.read().rindex(b"0:2")
        file.seek(at + 2)
        file.write(b"7")
    with pytest.raises(CorruptRecordError) as raised:
        rows_of(broker.address, engine, [PlannedRange(topic, 0, 0, 3)])
    one_sentence(raised.value, f"{topic}-0")
    assert [
        row["value"]
        for row in rows_of(
            broker.address, engine, [PlannedRange(topic, 0, 0, 3)], check_crcs="false"
        )
    ][-1] == b"0:7"


@each_engine
def test_no_broker(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.spark.decode.settings.BOOTSTRAP_MS", 2_000)
    address = f"{HOST}:{free_port()}"
    with pytest.raises(NoBrokerError) as raised:
        rows_of(address, engine, [PlannedRange("orders", 0, 0, 10)], patience=GIVES_UP)
    one_sentence(raised.value, "bootstrap.servers")


@kafka
@each_engine
def test_a_password(
    broker: DecodeBroker, logs: Mapping[str, Log], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logs["mixed-0"]
    wanted = PlannedRange(log.topic, 0, 0, 40)
    secured = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": USER,
    }
    assert rows_of(
        broker.protected, engine, [wanted], **secured, sasl_password=PASSWORD
    ) == log.within(wanted, UNCOMMITTED)
    monkeypatch.setattr("consumer.spark.decode.settings.BOOTSTRAP_MS", 2_000)
    with pytest.raises(NotAllowedError) as raised:
        rows_of(broker.protected, engine, [wanted], **secured, sasl_password="wrong")
    one_sentence(raised.value)
    assert "wrong" not in str(raised.value)


@each_engine
def test_settings_that_no_engine_takes(engine: str) -> None:
    wanted = [PlannedRange("orders", 0, 0, 10)]
    with pytest.raises(ConsumerOptionError, match="bootstrap.servers"):
        list(open_reader({}, engine, patience=HASTY).read(wanted, ["value"]))
    with pytest.raises(ConsumerOptionError, match="nonsense"):
        rows_of("127.0.0.1:1", engine, wanted, nonsense="1")
    with pytest.raises(ConsumerOptionError, match="no column 'valeu'"):
        rows_of("127.0.0.1:1", engine, wanted, ["valeu"])


def test_engines_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConsumerOptionError, match="'rust': use auto, c, confluent or kafka-python"):
        choose("rust")
    assert choose("auto")[0] == ENGINES[0]
    monkeypatch.setitem(sys.modules, "consumer.spark.decode._rdk", None)
    with pytest.raises(EngineUnavailableError, match="not built"):
        choose("c")
    assert choose("auto")[0] == "confluent" and "not built" in choose("auto")[1]
    monkeypatch.setitem(sys.modules, "confluent_kafka.cimpl", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EngineUnavailableError, match="pip install"):
        choose("confluent")
    assert choose("auto") == (
        "kafka-python",
        "the engine c needs confluent-kafka: pip install 'zkcoord[spark]'",
    )
