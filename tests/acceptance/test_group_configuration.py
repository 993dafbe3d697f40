"""What a group lives under can be seen: the coordinator's options in the group's node, and what
each member asked for and was granted.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from tests.harness.command import PATIENCE_S, Running
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import consumer
from zkcoord.cli.main import main
from zkcoord.core.group.report import CONFIGURED
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka


def test_options_of_the_coordinator_and_of_each_member(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, group = create_topic(kafka_broker.address, unique("orders"), 2), unique("billing")
    arguments = ("--zookeeper", kafka_zk_hosts, "--debounce-ms", "23")
    with Running(tmp_path / "c", *arguments) as process, contextlib.ExitStack() as stack:
        process.ready("leading")
        ours = {
            asked: stack.enter_context(
                contextlib.closing(
                    consumer(
                        kafka_zk_hosts,
                        group,
                        topic,
                        zookeeper_session_timeout_ms=asked,
                        rebalance_timeout_ms=asked + 1,
                    )
                )
            )
            for asked in (6_000, 7_000)
        }

        def settled() -> bool:
            for one in ours.values():
                one.poll(50)
            return all(len(one.assignment()) == 1 for one in ours.values())

        wait_until(settled, PATIENCE_S, "a partition each")
        where = ("--zookeeper", kafka_zk_hosts)

        def described() -> dict[str, object]:
            settled()
            assert main(["groups", "describe", group, "--json", *where]) == 0
            found: dict[str, object] = json.loads(capsys.readouterr().out)
            return found if found["state"] == "Stable" else {}

        found = wait_until(described, PATIENCE_S, "the group at rest")
        configuration = found["configuration"]
        members = configuration.pop("members")
        assert set(configuration) == set(CONFIGURED) and configuration["debounce_ms"] == 23
        assert {one["session_timeout_ms"] for one in members.values()} == set(ours)
        assert {one["rebalance_timeout_ms"] for one in members.values()} == {6_001, 7_001}
        zookeeper = connect(kafka_zk_hosts)
        try:
            data, _ = zookeeper.get(Layout.DRAFT.group(group))
        finally:
            disconnect(zookeeper)
        assert json.loads(data)["configuration"] == configuration
