"""A Spark session of one's own, quiet and local unless told otherwise; or the one of
spark-submit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zkcoord.errors import ConfigurationError
from zkcoord.stack.spark_java import spark_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
SHUFFLE_PARTITIONS = 16


@contextmanager
def session(name: str, master: str | None, memory: str) -> Iterator[SparkSession]:
    """A session for the block. Raises `ConfigurationError` where Spark is not installed or does not
    start, `StackError` where there is no Java.
    """
    try:
        import pyarrow  # noqa: F401 (asked for by each task)
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigurationError(
            f"The audit needs Spark, and {error.name} is not installed: pip install"
            " 'zkcoord[spark]'."
        ) from None
    builder = SparkSession.builder.appName(name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        os.environ["JAVA_HOME"] = str(spark_java_home())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        for key, value in settings(memory).items():
            builder = builder.config(key, value)
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise ConfigurationError(
            "Spark does not start"
            f" ({str(error).splitlines()[0] if str(error) else type(error).__name__}): look at"
            " --master, --memory and Java."
        ) from error
    try:
        yield spark
    finally:
        spark.stop()


def uri(path: Path) -> str:
    """How Spark is told of a path of this machine: as Hadoop writes it, which escapes nothing."""
    return f"file://{path.absolute()}"


def settings(memory: str) -> dict[str, str]:
    """For a session on this machine. Address and bind address belong together: with one alone
    larger results of tasks cannot be fetched.
    """
    return {
        "spark.driver.memory": memory,
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.session.timeZone": "UTC",
    }
