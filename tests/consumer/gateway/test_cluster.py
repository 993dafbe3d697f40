"""Whom the gateway asks of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from consumer.gateway import cluster as cluster_module
from consumer.gateway.address import Address
from consumer.gateway.cluster import Cluster
from zkcoord.errors import UnavailableError


class Admin:
    """An admin client of two brokers."""

    dead = False

    def describe_cluster(self) -> dict[str, Any]:
        """Both, while they live."""
        if self.dead:
            raise KafkaConnectionError
        return {
            "brokers": [
                {"broker_id": n, "host": f"kafka{n}", "port": 9092, "rack": None} for n in (0, 1)
            ]
        }

    def close(self) -> None:
        """Nothing."""


def test_brokers_that_were_seen_are_asked_when_those_that_are_named_are_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began: list[list[str]] = []
    admin = Admin()

    def made(kind: Any, config: Mapping[str, Any]) -> Admin:
        began.append(config["bootstrap_servers"])
        return admin

    monkeypatch.setattr(cluster_module, "kafka_client", made)
    cluster = Cluster([Address("kafka0", 9092)])
    assert cluster.look().brokers == {n: Address(f"kafka{n}", 9092) for n in (0, 1)}
    admin.dead = True
    with pytest.raises(UnavailableError, match="kafka0:9092, kafka1:9092"):
        cluster.look()
    admin.dead = False
    cluster.look()
    assert began == [["kafka0:9092"], ["kafka0:9092", "kafka1:9092"]]
