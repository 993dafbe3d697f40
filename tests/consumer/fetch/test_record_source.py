"""The seam under the data path: both sources have what it names, and the consumer uses nothing else
of them.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from consumer.fetch.fetcher import PartitionFetcher
from consumer.fetch.librdkafka.fetcher import LibrdkafkaFetcher
from consumer.fetch.record_source import RecordSource

CONSUMER = Path(__file__).resolve().parents[3] / "consumer"
NAMED = {name for name in vars(RecordSource) if not name.startswith("_")} | set(
    RecordSource.__annotations__
)
OWN = {"client.py", "fetcher.py"}


def parameters(cls: type, name: str) -> list[tuple[str, object]]:
    return [(p.name, p.default) for p in inspect.signature(getattr(cls, name)).parameters.values()]


@pytest.mark.parametrize("source", [PartitionFetcher, LibrdkafkaFetcher])
def test_a_source_has_all_that_is_named(source: type) -> None:
    for name in NAMED - set(RecordSource.__annotations__):
        ours, theirs = (
            inspect.getattr_static(RecordSource, name),
            inspect.getattr_static(source, name),
        )
        if isinstance(ours, property):
            assert isinstance(theirs, property), name
        else:
            assert parameters(source, name) == parameters(RecordSource, name), name
    assert all(
        f"self.{name} = " in inspect.getsource(source) for name in RecordSource.__annotations__
    )


def test_the_consumer_uses_nothing_else_of_a_source() -> None:
    used: dict[str, str] = {}
    for path in CONSUMER.rglob("*.py"):
        for node in (
            ()
            if path.name in OWN or {"fetch", "spark"} & set(path.parts)
            else ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        ):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Attribute)
                and node.value.attr == "fetcher"
            ):
                used[node.attr] = path.name
    assert used and set(used) <= NAMED, used
