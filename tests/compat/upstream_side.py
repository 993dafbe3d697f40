"""A plugin for pytest (`-p tests.compat.upstream_side`) in the folder of kafka-python's own tests:
keeps those that use a consumer, and where a ZooKeeper is given gives them ours.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

ZOOKEEPER = "ZKCOORD_ZOOKEEPER"
TEST_S = 90
FIXTURES = {"consumer", "kafka_consumer_factory", "consumer_group"}


def ours() -> Any:
    """Our consumer, as it is made by code that only knows kafka-python's options."""
    from consumer import KafkaConsumer

    class DropIn(KafkaConsumer):  # type: ignore[misc]  # a test's
        def __init__(self, *topics: str, **configs: Any) -> None:
            if configs.get("group_id") is not None:
                configs["zookeeper_connect"] = os.environ[ZOOKEEPER]
            super().__init__(*topics, **configs)

    return DropIn


def give_them_ours() -> None:
    """In their modules alone: ours is made of kafka-python's."""
    made = ours()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "test" and hasattr(module, "KafkaConsumer"):
            module.KafkaConsumer = made


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Some of them wait in a loop without an end."""

    def too_late(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"{item.name} takes longer than {TEST_S} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(TEST_S)
    yield
    signal.alarm(0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has no consumer."""
    if ZOOKEEPER in os.environ:
        give_them_ours()
    keep = [i for i in items if FIXTURES.intersection(getattr(i, "fixturenames", ()))]
    config.hook.pytest_deselected(items=[i for i in items if i not in keep])
    items[:] = keep
