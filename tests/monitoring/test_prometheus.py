"""A real Prometheus with docs/monitoring's files, which reads a real coordinator and gateway."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.clients import GatewayProcess, Librdkafka, shared
from tests.harness.command import Running
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.monitoring.files import ALERTS, CONFIG, alerts, dashboard
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker

PROMETHEUS = shutil.which("prometheus")
PATIENCE_S = 120.0
SELDOM = "> 0"  # such a query has no answer as long as nothing of it happens

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here: apt-get install prometheus"),
]


class Prometheus:
    """One that reads a coordinator and a gateway each second."""

    def __init__(self, home: Path, coordinator: int, gateway: int) -> None:
        home.mkdir()
        config = CONFIG.read_text(encoding="utf-8").replace("15s", "1s")
        config = config.replace("rule_files: [alerts.yml]", f"rule_files: ['{ALERTS}']")
        ports = iter((coordinator, gateway))
        config = re.sub(
            r"targets: \[.*\]", lambda _: f'targets: ["127.0.0.1:{next(ports)}"]', config
        )
        (home / "prometheus.yml").write_text(config, encoding="utf-8")
        self.port = free_port()
        assert PROMETHEUS is not None
        with (home / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    PROMETHEUS,
                    f"--config.file={home / 'prometheus.yml'}",
                    f"--storage.tsdb.path={home / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
            )

    def ask(self, path: str, **parameters: str) -> Any:
        """What its API answers; None as long as it does not."""
        asked = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def values(self, query: str) -> list[Any]:
        """The series that a query gives now."""
        return (self.ask("query", query=query) or {"result": []})["result"]


@pytest.fixture
def prometheus(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[Prometheus]:
    """See above; a group of two clients is behind the gateway."""
    group, topic, port = unique("g"), unique("t"), free_port()
    create_topic(kafka_broker.address, topic, 4)
    gateway = GatewayProcess(
        tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address, "--http-port", str(port)
    )
    with Running(tmp_path / "coordinator", "--zookeeper", kafka_zk_hosts) as leading, gateway:
        leading.ready("leading")
        clients = [Librdkafka(gateway.address, group, topic) for _ in range(2)]
        shared(clients, 4)
        started = Prometheus(tmp_path / "prometheus", leading.port, port)
        try:
            yield started
        finally:
            started.process.kill()
            started.process.wait(PATIENCE_S)
            for one in clients:
                one.close()


def test_each_query_of_the_dashboard_and_each_alert_is_answered(prometheus: Prometheus) -> None:
    wait_until(lambda: len(prometheus.values("up == 1")) == 2, PATIENCE_S, "both to be read")
    # two of each series, so that a rate has something to go by
    wait_until(
        lambda: (
            prometheus.values("sum(rate(zkcoord_gateway_bytes_total[1m]))")
            and prometheus.values("sum(rate(zkcoord_rebalances_total[1m]))")
        ),
        PATIENCE_S,
        "rates",
    )
    for query in dashboard():
        found = prometheus.values(query.expression)
        assert found or query.expression.endswith(SELDOM), query
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    wait_until(
        lambda: all(
            rule["health"] == "ok"
            for group in prometheus.ask("rules")["groups"]
            for rule in group["rules"]
        ),
        PATIENCE_S,
        "every alert to have been looked at",
    )
    assert {rule["name"] for rule in rules} == {alert.name for alert in alerts()}
    assert prometheus.values('ALERTS{alertstate="firing"}') == []
