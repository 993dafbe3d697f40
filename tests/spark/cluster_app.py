"""An application on a cluster, which has zkcoord and nothing else of the repository.

    spark-submit cluster_app.py BROKER TOPIC [unchecked]

It says lines of JSON: {"registered": error or ""}, {"from": where executors have zkcoord}, {"rows":
n or error}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

SAID_CHARS_MAX = 3_000


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    broker, topic, *rest = sys.argv[1:]
    from consumer.spark import register

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        register(spark, check_workers="unchecked" not in rest)
        _say(registered="")
    except Exception as e:
        _say(registered=f"{type(e).__name__}: {e}")
        return

    def where(_: Any) -> str:
        import importlib

        return str(importlib.import_module("consumer").__file__)

    try:
        rows = (
            spark.read.format("zkcoord")
            .option("kafka.bootstrap.servers", broker)
            .option("subscribe", topic)
            .load()
            .count()
        )
        _say(**{"from": spark.sparkContext.parallelize([0], 1).map(where).first()})
        _say(rows=rows)
    except Exception as e:
        _say(rows=str(e)[-SAID_CHARS_MAX:])
    spark.stop()


if __name__ == "__main__":
    main()
