"""The demo on Spark: the pipeline of docs/examples/spark_pipeline.py as applications that share one
group, through a join, a clean stop, a killed JVM and the coordinator's death; then the audit of
what they wrote down and of what came out.

`application` is the example as a child process, `cast` starts and ends the processes, `scenario` is
the story, `check` judges it (in Spark), `command` is the command line.
"""

from __future__ import annotations
