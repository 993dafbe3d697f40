"""A cluster: what an application says where its workers' Python does not have zkcoord, and that the
two ways of docs/spark.md bring it there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.spark.cluster import cluster, packed, python_with, python_without, run
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]
EACH = 50
SENTENCE = "set PYSPARK_PYTHON, or spark.pyspark.python, to a Python that has zkcoord[spark]"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found.address


@pytest.fixture(scope="module")
def arguments(kafka_broker: KafkaBroker) -> tuple[str, str]:
    """The broker, and a topic with 2 x EACH records."""
    topic = create_topic(kafka_broker.address, unique("cluster"), 2)
    produce_numbered(kafka_broker.address, topic, 2, EACH)
    return kafka_broker.address, topic


def test_a_python_that_every_machine_has_at_the_same_path(
    master: str, arguments: tuple[str, str], tmp_path: Path
) -> None:
    python = str(python_with(tmp_path / "installed"))
    found = run(master, tmp_path, arguments, "--conf", f"spark.pyspark.python={python}")
    assert found.get("registered") == "" and found.get("rows") == 2 * EACH, found["log"][-4_000:]
    assert "installed/packages" in found["from"]


def test_an_archive_that_is_unpacked_beside_the_driver_too(
    master: str, arguments: tuple[str, str], tmp_path: Path
) -> None:
    """Spark runs the same relative program on the driver's machine, to make the data source."""
    python_with(tmp_path / "environment")
    packed(tmp_path / "environment", tmp_path / "environment.tar.gz")
    found = run(
        master,
        tmp_path,
        arguments,
        *("--archives", "environment.tar.gz#environment"),
        *("--conf", "spark.pyspark.python=./environment/bin/python"),
    )
    assert found.get("registered") == "" and found.get("rows") == 2 * EACH, found["log"][-4_000:]
    assert "/app-" in found["from"], "each executor has unpacked its own"


def test_executors_without_zkcoord_are_named_when_the_source_is_registered(
    master: str, arguments: tuple[str, str], tmp_path: Path
) -> None:
    python = str(python_without(tmp_path / "lacking", only_executors=True))
    own = str(python_with(tmp_path / "drivers"))
    found = run(
        master,
        tmp_path,
        arguments,
        *("--conf", f"spark.pyspark.python={python}"),
        *("--conf", f"spark.pyspark.driver.python={own}"),
    )
    assert found["registered"].startswith("WorkerPythonError: "), found["log"][-4_000:]
    assert SENTENCE in found["registered"] and "\n" not in found["registered"]


def test_executors_without_zkcoord_that_come_later_say_it_in_their_task(
    master: str, arguments: tuple[str, str], tmp_path: Path
) -> None:
    python = str(python_without(tmp_path / "lacking", only_executors=True))
    own = str(python_with(tmp_path / "drivers"))
    found = run(
        master,
        tmp_path,
        (*arguments, "unchecked"),
        *("--conf", f"spark.pyspark.python={python}"),
        *("--conf", f"spark.pyspark.driver.python={own}"),
    )
    assert found["registered"] == "" and SENTENCE in str(found["rows"]), found["log"][-4_000:]


def test_another_python_than_the_drivers_is_named_at_load(
    arguments: tuple[str, str], tmp_path: Path
) -> None:
    """In local mode, as with a driver in a virtual environment and PYSPARK_PYTHON not set."""
    python = str(python_without(tmp_path / "lacking", only_executors=False))
    own = str(python_with(tmp_path / "drivers"))
    assert sys.executable in Path(own).read_text()
    found = run(
        "local[1]",
        tmp_path,
        (*arguments, "unchecked"),
        *("--conf", f"spark.pyspark.python={python}"),
        *("--conf", f"spark.pyspark.driver.python={own}"),
    )
    assert found["registered"] == "" and SENTENCE in str(found["rows"]), found["log"][-4_000:]
