"""`docs/monitoring/log.schema.json`: what real processes log is as it says."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.harness.command import Running
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import PATIENCE_S, consumer
from tests.monitoring.files import FOLDER
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

SCHEMA: dict[str, Any] = json.loads((FOLDER / "log.schema.json").read_text(encoding="utf-8"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def wrong(line: dict[str, Any]) -> list[str]:
    """What the schema says against a line; fields that it does not name are wrong here."""
    found = [error.message for error in Draft202012Validator(SCHEMA).iter_errors(line)]
    return found + sorted(line.keys() - SCHEMA["properties"].keys())


def test_it_is_a_schema_that_can_refuse() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    line = {"t": "2026-01-31T10:00:00.123Z", "level": "info", "logger": "a", "msg": "m"}
    assert not wrong(line)
    for more in ({"t": "yesterday"}, {"level": "loud"}, {"moved": "six"}, {"unheard": 1}):
        assert wrong({**line, **more})
    assert wrong({"t": line["t"]})


def given_fields() -> set[str]:
    """The names in every `extra={"fields": {...}}` of the product."""
    found = set()
    for room in ("zkcoord", "consumer"):
        for path in (FOLDER.parents[1] / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Dict) and any(
                    isinstance(key, ast.Constant) and key.value == "fields" for key in node.keys
                ):
                    found |= {
                        key.value
                        for inner in node.values
                        if isinstance(inner, ast.Dict)
                        for key in inner.keys
                        if isinstance(key, ast.Constant)
                    }
    return found


def test_every_field_that_is_given_is_named() -> None:
    assert len(given_fields()) > 5
    assert given_fields() <= SCHEMA["properties"].keys()


@pytest.mark.kafka
def test_what_a_coordinator_logs_is_of_it(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """A term, a rebalance, a malformed node, a signal, the end."""
    topic = create_topic(kafka_broker.address, unique("logged"), 2)
    zookeeper = connect(kafka_zk_hosts)
    zookeeper.ensure_path(Layout.DRAFT.ids(topic))
    asked = ("--zookeeper", kafka_zk_hosts, "--log-format", "json", "--log-level", "debug")
    with Running(tmp_path / "coordinator", *asked) as leading:
        log = leading.log_path
        wait_until(lambda: '"event": "ready"' in log.read_text(), PATIENCE_S, "a term")
        with consumer(kafka_zk_hosts, topic, topic) as one:
            wait_until(lambda: one.poll(50) == {} and one.assignment(), PATIENCE_S, "partitions")
            zookeeper.create(Layout.DRAFT.registration(topic, "nobody"), b"no json")
            for text in ("rebalanced", "malformed node left out"):
                wait_until(lambda t=text: t in log.read_text(), PATIENCE_S, text)
        leading.process.terminate()
        leading.process.wait(PATIENCE_S)
    disconnect(zookeeper)
    found = lines(leading.log_path)
    assert len(found) > 5
    assert [(why, line) for line in found if (why := wrong(line))] == []
