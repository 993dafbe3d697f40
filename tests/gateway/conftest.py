"""A gateway for the tests that need nothing special of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.clients import GatewayProcess
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker


@pytest.fixture
def gateway(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[GatewayProcess]:
    """A gateway beside a coordinator."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(
            tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address, broker_id=0
        ) as process,
    ):
        yield process
