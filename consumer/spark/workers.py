"""Python workers that Spark starts with another Python, or on another machine, than the driver's:
whether zkcoord is there, which engine they will use, and one sentence that says what to set.

What has to run where zkcoord may be missing is pickled by value: functions and a class that are
made inside a function, which import nothing of ours before they have said so.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from consumer.spark.errors import WorkerPythonError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

TASKS_MAX = 64
SAID_CHARS_MAX = 300
# Ids of the applications whose workers were looked at.
_seen: set[str] = set()

Found = tuple[str, str, str, str, str]
"""Host, Python, what is missing, engine, why that one."""


def importer() -> Callable[[str], Any]:
    """A function, pickled by value, that imports one of our modules, or says why it cannot."""

    def imported(name: str) -> Any:
        import importlib
        import platform
        import sys

        try:
            return importlib.import_module(name)
        except ImportError as e:
            raise ImportError(
                f"Spark's Python workers run {sys.executable} on {platform.node()}, which cannot"
                f" import zkcoord ({e}): set PYSPARK_PYTHON, or spark.pyspark.python, to a Python"
                " that has zkcoord[spark], on the driver's machine and on every executor's"
                " (docs/spark.md, In a cluster)"
            ) from None

    return imported


def travelling_source() -> type[DataSource]:
    """The data source as Spark gets it: pickled by value, so that `load()` says it where the
    workers' Python does not have zkcoord.
    """
    from pyspark.sql.datasource import DataSource

    imported = importer()

    class Zkcoord(DataSource):
        """`consumer.spark.source.ZkcoordSource`, once that can be imported."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            self._source()

        def _source(self) -> DataSource:
            """Made each time: an executor gets this object, too, before anything of ours is
            there.
            """
            found: DataSource = imported("consumer.spark.source").ZkcoordSource(self.options)
            return found

        @classmethod
        def name(cls) -> str:
            """What `format` takes."""
            return "zkcoord"

        def schema(self) -> StructType | str:
            """As that says."""
            return self._source().schema()

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            """As that makes it."""
            return self._source().streamReader(schema)

        def reader(self, schema: StructType) -> DataSourceReader:
            """As that makes it."""
            return self._source().reader(schema)

    return Zkcoord


def carried(reader: object, state: dict[str, Any]) -> tuple[Callable[..., object], tuple[Any, ...]]:
    """What the `__reduce__` of a reader gives: executors make it of this, or say what is
    missing.
    """
    imported = importer()

    def restored(module: str, name: str, pickled: bytes) -> object:
        import pickle

        kind = getattr(imported(module), name)
        found = object.__new__(kind)
        found.__setstate__(pickle.loads(pickled))  # noqa: S301  the query's own driver made it
        return found

    kind = type(reader)
    return restored, (kind.__module__, kind.__qualname__, pickle.dumps(state))


def look_at(context: SparkContext) -> None:
    """Once for each application: see that the workers' Python has zkcoord, and warn where it will
    read with a slower engine. Runs a small job, but for local mode with the driver's own Python.
    Raises `WorkerPythonError`.
    """
    application = str(context.applicationId)
    if application in _seen:
        return
    python = shutil.which(context.pythonExec) or context.pythonExec
    own = os.path.abspath(python) == os.path.abspath(sys.executable)
    here = own and str(context.master).split("[")[0] == "local"
    found = list(_look([0])) if here else _ask(context)
    _seen.add(application)
    missing = sorted({said for _, _, said, _, _ in found if said})
    if missing:
        raise WorkerPythonError(missing[0])
    for engine, why in sorted({(e, w) for _, _, _, e, w in found if e != "c"}):
        hosts = sorted({host for host, _, _, e, w in found if (e, w) == (engine, why)})
        log.warning(
            "Spark's Python workers on %s read Kafka's records with the engine %s, which is"
            " slower than c: %s",
            ", ".join(hosts),
            engine,
            why,
        )


def _ask(context: SparkContext) -> list[Found]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tasks = max(1, min(TASKS_MAX, context.defaultParallelism))
    try:
        return context.parallelize(range(tasks), tasks).mapPartitions(_by_value()).collect()
    except (Py4JError, PySparkException) as e:
        said = " ".join(str(e).split())
        raise WorkerPythonError(
            f"Spark's executors cannot run their Python, {context.pythonExec} (set it with"
            " PYSPARK_PYTHON or spark.pyspark.python, and give the driver's with"
            f" PYSPARK_DRIVER_PYTHON): {said[:SAID_CHARS_MAX]}"
        ) from e


def _by_value() -> Callable[[Iterable[int]], Iterator[Found]]:
    """What a worker finds out about itself; pickled by value."""
    imported = importer()

    def found(_tasks: Iterable[int]) -> Iterator[tuple[str, str, str, str, str]]:
        import platform
        import sys

        try:
            imported("consumer.spark.source")
            engine, why = imported("consumer.spark.decode.engines").choose("auto")
            yield platform.node(), sys.executable, "", engine, why
        except ImportError as e:
            yield platform.node(), sys.executable, str(e), "", ""

    return found


def _look(tasks: Iterable[int]) -> Iterator[Found]:
    return _by_value()(tasks)
