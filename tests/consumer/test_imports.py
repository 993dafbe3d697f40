"""What a plain consumer loads before it can connect: nothing that only others need. A restarted
process is waited for by its group.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import consumer
from consumer import errors

NOT_BEFORE_IT_IS_USED = {
    "confluent_kafka",
    "consumer.fetch.librdkafka.fetcher",
    "consumer.spark",
    "consumer.streams.connector",
    "consumer.verifiable",
    "http.server",
    "matplotlib",
    "prometheus_client",
    "psutil",
    "pyspark",
    "rich",
    "tenacity",
    "unittest",
    "zkcoord.core.coordinator",
    "zkcoord.core.events",
    "zkcoord.core.group.machine",
    "zkcoord.demo",
    "zkcoord.admin",
    "zkcoord.check",
    "zkcoord.cli",
    "zkcoord.config",
    "zkcoord.coordinator",
    "zkcoord.replay",
    "zkcoord.stack",
    "zkcoord.verdict",
    "zkcoord.zk.term.writer",
}


@pytest.mark.parametrize("name", ["KafkaConsumer", "ConsumerRebalanceListener"])
def test_a_plain_consumer_loads_nothing_that_only_others_need(name: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; from consumer import {name}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(found.stdout.split())
    assert "consumer" in loaded and not loaded & NOT_BEFORE_IT_IS_USED


@pytest.mark.parametrize("before", ["", "gc.disable()", "gc.freeze()"])
def test_importing_leaves_the_garbage_collector_as_it_was(before: str) -> None:
    """It is off meanwhile, unless the application has its own ways with it."""
    seen = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import gc; {before or 'pass'}; was = gc.isenabled(), gc.get_freeze_count() > 0\n"
            "done = gc.get_stats()[2]['collections']\n"
            "from consumer import KafkaConsumer\n"
            "assert was == (gc.isenabled(), gc.get_freeze_count() > 0)\n"
            "print(gc.get_stats()[2]['collections'] - done, len(gc.get_objects()),"
            " len(gc.get_objects(generation=2)))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    collections, known, old = map(int, seen.stdout.split())
    if not before:
        assert not collections and old > 0.9 * known, "what was made is not looked through next"


def test_the_garbage_collector_is_left_alone_by_a_name_that_is_known() -> None:
    """An application may write `consumer.TopicPartition` in its loop."""
    text = (
        "import consumer, gc; known = consumer.TopicPartition\n"
        "gc.freeze = gc.disable = None\n"
        "assert consumer.TopicPartition is known"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("consumer.spark.drain", "drain_and_stop"),
        ("consumer.spark.ranges", "PlannedRange"),
        ("consumer.spark.warming", "warm_up"),
        ("consumer.streams", "ZookeeperConsumerConnector"),
        ("consumer.streams", "ConsumerRebalanceListener"),
        ("consumer.spark", "register"),
        ("consumer.spark.sink", "fenced_parquet"),
        ("consumer.spark.decode", "open_reader"),
        ("zkcoord.guardian.client", "Waiting"),
    ],
)
def test_what_applications_of_the_first_release_import_is_there(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name).__doc__


def test_every_error_is_imported_from_the_package() -> None:
    """What the guide names can be caught by the name that it has there."""
    made_here = {
        name
        for name, it in vars(errors).items()
        if getattr(it, "__module__", "") == errors.__name__
    }
    public = {name for name in made_here if isinstance(vars(errors)[name], type)}
    assert public and public <= set(consumer.__all__)
    assert all(getattr(consumer, name) is vars(errors)[name] for name in public)
