"""zkcoord for Spark: a streaming source whose applications share one coordinated group, and a batch
reader.

    from consumer.spark import register
    register(spark)
    stream = spark.readStream.format("zkcoord").option("zookeeperConnect",
        "zk1:2181/kafka").option("groupId", "billing").option("subscribe", "orders").load()

Needs `pip install 'zkcoord[spark]'`. docs/spark.md has the options and guarantees. Importing this
module imports neither pyspark nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession, check_workers: bool = True) -> None:
    """Make `format("zkcoord")` known to this session. Once for each application, where its workers
    run elsewhere or with another Python than the driver, a small job sees that they have zkcoord
    (but for `check_workers` False). Raises `WorkerPythonError`.
    """
    from pyspark.sql import SparkSession as ClassicSession

    from consumer.spark.workers import look_at, travelling_source

    spark.dataSource.register(travelling_source())
    if check_workers and isinstance(spark, ClassicSession):
        look_at(spark.sparkContext)
