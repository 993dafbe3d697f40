"""From Kafka to Arrow: the records of planned ranges as record batches, exactly.

    reader = open_reader({"bootstrap.servers": "broker1:9092"})
    for batch in reader.read([PlannedRange("orders", 0, 1000, 1500)], ["value", "offset"]):
        ...

Three engines give identical rows: `c`, an extension over the librdkafka that confluent-kafka
brings; `confluent`, confluent-kafka's Python messages; `kafka-python`. `auto` takes the first that
can be used, and the log says once per process which, and why. Only what is wanted is decoded.
Errors are in `consumer.spark.decode.errors`: one sentence each, within seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from consumer.spark.decode.errors import (
    CorruptRecordError,
    DataLossError,
    EngineUnavailableError,
    NoBrokerError,
    NotAllowedError,
    OutOfRangeError,
    ReadError,
    StalledError,
    TimestampError,
    TopicUnknownError,
)
from consumer.spark.decode.reader import Patience, Reader

__all__ = [
    "CorruptRecordError",
    "DataLossError",
    "EngineUnavailableError",
    "NoBrokerError",
    "NotAllowedError",
    "OutOfRangeError",
    "Patience",
    "ReadError",
    "Reader",
    "StalledError",
    "TimestampError",
    "TopicUnknownError",
    "open_reader",
]


def open_reader(
    settings: Mapping[str, str],
    engine: str = "auto",
    fail_on_data_loss: bool = True,
    patience: Patience = Patience(),
    null_timestamps: bool = False,
) -> Reader:
    """A reader of ranges. `settings`: librdkafka's names (Spark's `kafka.` options without the
    prefix), `bootstrap.servers` at least. `engine`: auto, c, confluent or kafka-python. Without
    `fail_on_data_loss` what is gone is left out with a warning; with `null_timestamps` a time that
    is none is null instead of an error. Connects when it is read from, in the process that reads,
    so it may be made in a driver and sent to workers.
    """
    return Reader(settings, engine, fail_on_data_loss, patience, null_timestamps)
