"""What docs/monitoring says, and what coordinators and gateways export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from consumer.gateway.operation.exposition import GatewaySeen, metrics_text
from consumer.gateway.operation.figures import RelayFigures
from consumer.gateway.operation.members_seen import PARKED, MembersSeen
from zkcoord.coordinator.metrics import Metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "monitoring"
ALERTS, ALERT_TESTS = FOLDER / "alerts.yml", FOLDER / "alerts.test.yml"
DASHBOARD, CONFIG = FOLDER / "dashboard.json", FOLDER / "prometheus.yml"
VARIABLES = {
    "$coordinators": "zkcoord-coordinator",
    "$gateways": "zkcoord-gateway",
    "$__rate_interval": "1m",
}
SERIES = re.compile(r"\b(zkcoord_\w+)(?:\{([^}]*)\})?")
SELECTOR = re.compile(r'(\w+)(=~|=|!=|!~)"([^"]*)"')


class Alert(NamedTuple):
    """A rule of alerts.yml."""

    name: str
    expression: str
    runbook: str


class Query(NamedTuple):
    """One of the dashboard's, as Grafana sends it."""

    panel: str
    expression: str


def alerts() -> list[Alert]:
    """All of them; the file keeps to one layout, so that reading it takes no YAML."""
    found = []
    for text in ALERTS.read_text(encoding="utf-8").split("- alert: ")[1:]:
        expression = re.search(r"\n +expr: (?:>-\n)?(.*?)\n +(?:for|labels): ", text, re.DOTALL)
        runbook = re.search(r"\n +runbook: (\S+)\n", text)
        assert expression and runbook, text
        found.append(Alert(text.split()[0], " ".join(expression[1].split()), runbook[1]))
    return found


def dashboard() -> list[Query]:
    """What its panels ask, each variable with a value."""
    shown: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [
        Query(panel["title"], _filled(target["expr"]))
        for panel in shown["panels"]
        for target in panel.get("targets", ())
    ]


def _filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def exported() -> str:
    """/metrics of a coordinator that has just begun, and of a gateway."""
    members = MembersSeen(0, 0, 0, 0, 0, dict.fromkeys(PARKED, 0))
    seen = GatewaySeen(True, True, 0, 0, 0, 0)
    return Metrics().text().decode() + metrics_text(RelayFigures(), members, seen).decode()


def series_of(expression: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The series that are asked for, each with (label, value) of its selectors."""
    for name, selectors in SERIES.findall(expression):
        yield (
            name,
            [
                (label, value)
                for label, how, values in SELECTOR.findall(selectors)
                for value in (values.split("|") if how in ("=~", "!~") else [values])
            ],
        )
