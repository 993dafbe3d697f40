"""Ends of logs, asked for by one client again and again."""

from __future__ import annotations

import pytest

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def test_a_topic_that_came_later_is_found_beside_one_that_was_known(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python's client leaves such a topic out of its answer and raises a KeyError of its
    own.
    """
    # how long a listing may take is not what is tested
    for limit in ("ENDS_DEADLINE_MS", "PIECE_DEADLINE_MS"):
        monkeypatch.setattr(f"zkcoord.admin.offsets.log_offsets.{limit}", int(PATIENCE_S * 1000))
    known = create_topic(kafka_broker.address, unique("known"), 2)
    with LogOffsets((kafka_broker.address,)) as ends:
        wait_until(
            lambda: len(ends.of([TopicPartition(known, n) for n in range(2)])) == 2,
            PATIENCE_S,
            "the ends of the first topic",
        )
        later = create_topic(kafka_broker.address, unique("later"), 1)
        produce_numbered(kafka_broker.address, later, 1, 5)
        both = {TopicPartition(known, 0): 0, TopicPartition(later, 0): 5}
        assert ends.of(both) == both
        assert ends.starts_of(both) == dict.fromkeys(both, 0) and ends.warning == ""
