"""A group that cannot be rebalanced, as the application of one member sees it. The test is the
coordinator.
"""

from __future__ import annotations

import logging

import pytest
from kafka.errors import KafkaError

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.errors import ConsumerRebalanceFailedException
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S, consumer
from tests.protocol.rig import GROUP, Rig, rigged
from zkcoord.core.model import Command, Option
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes import codec

pytestmark = pytest.mark.kafka

WHY = "ConsumerRebalanceFailedException: 4 evictions in a row"


def news(rig: Rig, one: KafkaConsumer, seq: int, code: str, message: str = "") -> None:
    """Tell the only member something, and let it poll until it has taken it."""
    (member,) = rig.names(rig.layout.ids(GROUP))
    command = Command(
        member, rig.incarnation(member), Option.NOTIFY, 5, seq, 1, code=code, message=message
    )
    rig.zk.create(
        rig.layout.command_prefix(GROUP, member, 5, seq),
        codec.encode_command(command),
        sequence=True,
    )
    wait_until(lambda: rig.commands(member) == [], PATIENCE_S, "the ack")


def failure(one: KafkaConsumer) -> str:
    """What the metrics say of it."""
    return str(one.metrics()["zkcoord"]["rebalance-failure"])


@pytest.mark.parametrize("raises", [True, False])
def test_a_quarantine_is_a_warning_a_metric_and_on_request_one_error(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(kafka_broker.address, unique("quarantine"), 1)
    with (
        caplog.at_level(logging.WARNING, "consumer"),
        rigged(kafka_zk_hosts) as rig,
        consumer(kafka_zk_hosts, GROUP, topic, raise_on_rebalance_failure=raises) as one,
    ):
        rig.reign()
        wait_until(lambda: rig.names(rig.layout.ids(GROUP)), PATIENCE_S, "the registration")
        news(rig, one, 1, "REBALANCE_FAILED", WHY)
        if raises:
            with pytest.raises(ConsumerRebalanceFailedException, match="4 evictions") as caught:
                one.poll(0)
            assert isinstance(caught.value, KafkaError)
        assert one.poll(0) == {} and failure(one) == WHY
        news(rig, one, 2, "NONE")
        assert one.poll(0) == {} and failure(one) == ""
    assert len([r for r in caplog.records if WHY in r.getMessage()]) == 1
