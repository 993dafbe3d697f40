"""The example as a process of its own, on a small local Spark: `python -m
zkcoord.demo.spark.application FOLDER ...`, with the words of docs/examples/spark_pipeline.py.
FOLDER is for what Spark keeps on disk.
"""

from __future__ import annotations

import os
import runpy
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from zkcoord.stack.spark_java import spark_java_home

PIPELINE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "spark_pipeline.py"
MASTER, MEMORY = "local[1]", "600m"
LOOPBACK = "127.0.0.1"


def settings(folder: Path) -> Mapping[str, str]:
    """Of a small session that says little."""
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }


def main() -> None:
    """Run the example, as spark-submit would."""
    folder = Path(sys.argv[1])
    words = [
        "--master",
        MASTER,
        "--driver-memory",
        MEMORY,
        *(
            word
            for name, value in settings(folder).items()
            for word in ("--conf", f"{name}={value}")
        ),
        "pyspark-shell",
    ]
    os.environ.update(
        PYSPARK_SUBMIT_ARGS=shlex.join(words),
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP=LOOPBACK,
        JAVA_HOME=str(spark_java_home()),
    )
    sys.argv[:] = [str(PIPELINE), *sys.argv[2:]]
    runpy.run_path(str(PIPELINE), run_name="__main__")


if __name__ == "__main__":
    main()
