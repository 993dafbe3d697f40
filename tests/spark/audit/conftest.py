"""One Spark session for all tests of the audit in a process; another suite's, where it runs
already.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from consumer.spark.audit.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two processors."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with session("tests of the audit", "local[2]", "1g") as own:
        own.conf.set("spark.sql.shuffle.partitions", "2")
        yield own
