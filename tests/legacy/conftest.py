"""Fixtures of the old consumers' suite: topics on the test process's broker (Kafka 3.9, which still
speaks to clients of 0.8), a group of its own, and a look at ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.zookeeper import connect, disconnect
from tests.legacy.consumers import LegacyProcess
from tests.legacy.jars import V1_1
from zkcoord.stack.java import Java


@pytest.fixture
def looking(kafka_zk_hosts: str) -> Iterator[KazooClient]:
    """A client under the broker's chroot."""
    client = connect(kafka_zk_hosts)
    yield client
    disconnect(client)


@pytest.fixture
def legacy(kafka_zk_hosts: str, java: Java, tmp_path: Path) -> Iterator[LegacyProcess]:
    """A process for old consumers of 1.1.1, gone after the test."""
    with LegacyProcess(tmp_path / "legacy", V1_1, kafka_zk_hosts, java) as process:
        yield process
