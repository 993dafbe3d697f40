"""Fixtures of the sink's tests without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.sink.bench import Bench


@pytest.fixture
def bench(zk_hosts: str, tmp_path: Path) -> Iterator[Bench]:
    """An empty directory, and no members."""
    found = Bench(zk_hosts, tmp_path / "out put")
    yield found
    found.close()
