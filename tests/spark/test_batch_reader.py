"""The batch reader on a log with transactions. The rest of it: test_source.py and
test_options.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from consumer.spark.decode.errors import DataLossError, OpenTransactionError
from consumer.spark.schema import full_schema
from consumer.spark.source import ZkcoordSource
from tests.harness.kafka import unique
from tests.harness.wait import wait_until
from tests.spark.engine import PATIENCE_S
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def test_a_batch_that_ends_in_an_open_transaction_is_refused_by_name_until_that_has_ended(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    """Records 0 to 4 are decided, with their marker at 5, and 6 to 10 are not. And what only
    librdkafka knows (`queued.min.messages`) does not disturb whoever asks for the ends.
    """
    producer = Producer(
        {
            "bootstrap.servers": kafka_broker.address,
            "transactional.id": unique("tx"),
            "transaction.timeout.ms": "600000",
        }
    )
    producer.init_transactions(PATIENCE_S)

    def write() -> None:
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(PATIENCE_S) == 0

    def read(end: int, **options: str) -> list[int]:
        given = {
            "kafka.bootstrap.servers": kafka_broker.address,
            "assign": json.dumps({topic: [0]}),
            "endingOffsets": json.dumps({topic: {"0": end}}),
            "kafka.isolation.level": "read_committed",
            "kafka.queued.min.messages": "1000",
            **options,
        }
        reader = ZkcoordSource({name.lower(): value for name, value in given.items()}).reader(
            full_schema(headers=False)
        )
        return [
            row["offset"]
            for task in reader.partitions()
            for batch in reader.read(task)
            for row in batch.to_pylist()
        ]  # type: ignore[arg-type]

    write()
    producer.commit_transaction(PATIENCE_S)
    write()  # behind the marker: 6 to 10
    assert read(6) == list(range(5)) and read(-1) == list(range(5))
    for loss in ("true", "false"):
        with pytest.raises(
            OpenTransactionError, match="a transaction that began at 6 is still open"
        ):
            read(11, failOnDataLoss=loss)
    with pytest.raises(DataLossError, match="failOnDataLoss"):
        read(100)
    assert read(11, **{"kafka.isolation.level": "read_uncommitted"}) == [*range(5), *range(6, 11)]
    producer.commit_transaction(PATIENCE_S)
    wait_until(
        lambda: _reads(lambda: read(11) == [*range(5), *range(6, 11)]),
        PATIENCE_S,
        "the end of the transaction",
    )


def _reads(condition: Callable[[], bool]) -> bool:
    """A transaction that was committed is open until its marker is written."""
    try:
        return condition()
    except OpenTransactionError:
        return False
