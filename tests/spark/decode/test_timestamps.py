"""A producer's time that is no number of milliseconds: one error, the same in all engines, or
null.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from consumer.spark.decode import ReadError, open_reader
from consumer.spark.plan import PlannedRange
from tests.harness.kafka import create_topic, unique
from tests.spark.decode.conftest import DecodeBroker
from tests.spark.decode.reading import ENGINES

pytestmark = pytest.mark.kafka

NOW_MS = 1_790_000_000_000
NANOSECONDS = NOW_MS * 1_000_000
TIMES = (NOW_MS, NOW_MS + 1, NANOSECONDS, NOW_MS + 2)


@pytest.fixture(scope="module")
def topic(broker: DecodeBroker) -> str:
    found = create_topic(broker.address, unique("nanoseconds"), 1)
    producer = Producer({"bootstrap.servers": broker.address})
    for time in TIMES:
        producer.produce(found, value=b"v", partition=0, timestamp=time)
    assert producer.flush(60) == 0
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_timestamp_in_nanoseconds_is_one_error_in_every_engine(
    broker: DecodeBroker, topic: str, engine: str
) -> None:
    reader = open_reader({"bootstrap.servers": broker.address}, engine)
    with pytest.raises(ReadError) as raised:
        list(reader.read([PlannedRange(topic, 0, 0, len(TIMES))], ["timestamp"]))
    assert str(raised.value) == (
        f"{topic}-0: the record at offset 2 has a timestamp that is no number of milliseconds"
        " since 1970 (are they nanoseconds?): set invalidTimestamps to null, or leave the column"
        " timestamp out with .schema(...)"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_such_a_timestamp_is_null_on_request_and_the_others_are_whole(
    broker: DecodeBroker, topic: str, engine: str
) -> None:
    reader = open_reader({"bootstrap.servers": broker.address}, engine, null_timestamps=True)
    rows = [
        row
        for batch in reader.read([PlannedRange(topic, 0, 0, len(TIMES))], ["timestamp", "offset"])
        for row in batch.to_pylist()
    ]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert [row["timestamp"] and round(row["timestamp"].timestamp() * 1_000) for row in rows] == [
        NOW_MS,
        NOW_MS + 1,
        None,
        NOW_MS + 2,
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_such_a_timestamp_harms_nobody_who_does_not_read_it(
    broker: DecodeBroker, topic: str, engine: str
) -> None:
    reader = open_reader({"bootstrap.servers": broker.address}, engine)
    batches = list(reader.read([PlannedRange(topic, 0, 0, len(TIMES))], ["value"]))
    assert sum(batch.num_rows for batch in batches) == len(TIMES)
