"""The broker's own count of requests."""

from __future__ import annotations

import pytest

from tests.harness.broker_requests import requests_logged
from tests.harness.kafka import admin
from tests.harness.wait import wait_until
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def test_requests_are_counted_while_they_are_logged(kafka_broker: KafkaBroker) -> None:
    with (
        admin(kafka_broker.address) as client,
        requests_logged(kafka_broker.address, kafka_broker.log) as requests,
    ):
        before = requests.counted()["METADATA"]
        for _ in range(5):
            client.list_topics()
        wait_until(lambda: requests.counted()["METADATA"] >= before + 5, 30.0, "the five lines")
        requests.forget()
        assert requests.counted()["METADATA"] == 0
        client.list_topics()
        wait_until(lambda: requests.counted()["METADATA"] > 0, 30.0, "one more line")
    with admin(kafka_broker.address) as client:
        requests.forget()
        client.list_topics()
        assert not requests.counted(), "nothing is written any more"
