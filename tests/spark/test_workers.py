"""What is said of the workers' Python and engine, and how their log lines look; on a cluster:
test_cluster.py.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from consumer.spark import workers
from consumer.spark.decode import engines
from consumer.spark.schema import full_schema
from consumer.spark.task_process import tell_people

WHY = "the engine c is not built for this Python"


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As a SparkContext in local mode, of an application that is new."""
    monkeypatch.setattr(workers, "_seen", set())
    return SimpleNamespace(applicationId="local-1", pythonExec=sys.executable, master="local[2]")


def test_a_slower_engine_is_a_warning_once_for_each_application(
    application: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engines, "choose", lambda engine: ("confluent", WHY))
    workers.look_at(application)
    workers.look_at(application)
    (said,) = [r.getMessage() for r in caplog.records if r.name == "consumer.spark.workers"]
    assert "the engine confluent, which is slower than c" in said and WHY in said
    caplog.clear()
    monkeypatch.setattr(engines, "choose", lambda engine: ("c", "librdkafka"))
    application.applicationId = "local-2"
    workers.look_at(application)
    assert not caplog.records


def test_what_is_missing_is_one_sentence_that_names_python_and_setting(tmp_path: Path) -> None:
    """What an executor gets needs nothing of ours before it has said so."""
    (tmp_path / "consumer.py").write_text("raise ModuleNotFoundError('no consumer here')")
    source = workers.travelling_source()({"kafka.bootstrap.servers": "b:1", "subscribe": "x"})
    reader = source.reader(full_schema(headers=False))
    # as Spark's plan of a read has them, in this order
    pickled = cloudpickle.dumps((source, reader))
    done = subprocess.run(
        [sys.executable, "-c", f"from pyspark import cloudpickle; cloudpickle.loads({pickled!r})"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ImportError: Spark's Python workers run ")
    for part in (sys.executable, "no consumer here", "set PYSPARK_PYTHON, or spark.pyspark.python"):
        assert part in said


def test_log_lines_of_sparks_processes_have_time_level_and_sparks_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    tell_people()
    assert not logging.root.handlers, "the driver's logging is the application's"
    process = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", process)
    tell_people()
    tell_people()
    (handler,) = logging.root.handlers
    logging.getLogger("consumer.spark.any").warning("set %s", "group_instance_id")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("WARNING consumer.spark.any: set groupInstanceId")
    assert line[:2] == "20"
