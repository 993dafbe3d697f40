"""`zkcoord check --kafka`: what only brokers know of groups."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.check.old_world import old_world
from tests.harness.kafka import create_topic, group_member, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S
from zkcoord.admin import kafka_groups
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.cli import check
from zkcoord.cli.main import main
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka


def test_offsets_outside_of_the_logs_and_groups_that_are_live_in_kafka(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group = create_topic(kafka_broker.address, unique("orders"), 2), unique("billing")
    produce_numbered(kafka_broker.address, topic, 2, 20)
    with old_world(kafka_zk_hosts) as here:
        here.member(group, f"{group}_a", {topic: 1})
        for n, offset in enumerate(("20", "21")):
            here.owner(group, topic, n, f"{group}_a")
            here.offset(group, topic, n, offset)
        consumer = group_member(kafka_broker.address, topic, group, client_id="plain")
        try:
            wait_until(
                lambda: consumer.poll(200) or consumer.assignment(), PATIENCE_S, "an assignment"
            )
            status = main(
                ["check", "--kafka", "--json", "--only", group, "--zookeeper", kafka_zk_hosts]
            )
        finally:
            consumer.close()
        found = [
            (one["code"], one["node"], one["what"])
            for one in json.loads(capsys.readouterr().out)["findings"]
            if one["group"]
        ]
        assert status == 3
        assert found == [
            (
                "offset-outside-log",
                f"/consumers/{group}/offsets/{topic}/1",
                "21, and the log holds 0 to 20",
            ),
            ("live-in-kafka", f"/consumers/{group}/ids", "plain on 127.0.0.1"),
        ]
        assert main(["check", "--only", group, "--zookeeper", kafka_zk_hosts]) == 0
    with KafkaGroups((kafka_broker.address,)) as groups:
        assert groups.live_members([group, "never-heard-of"]) == {group: (), "never-heard-of": ()}
        assert groups.committed(["never-heard-of"]) == {"never-heard-of": {}}


def test_offsets_that_only_kafka_has_and_no_broker_to_ask(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    zk_hosts: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Old consumers with offsets.storage=kafka: named. And who asks for Kafka is told that nobody
    answered, here without the half minute in which somebody might.
    """
    topic, group = create_topic(kafka_broker.address, unique("orders"), 2), unique("billing")
    with old_world(kafka_zk_hosts) as here, KafkaGroups((kafka_broker.address,)) as groups:
        here.member(group, f"{group}_a", {topic: 1})
        for n in range(2):
            here.owner(group, topic, n, f"{group}_a")
        groups.commit(group, {TopicPartition(topic, 0): 0})
        command = ["check", "--kafka", "--json", "--only", group, "--fail-on", "warning"]
        assert main([*command, "--zookeeper", kafka_zk_hosts]) == 3
        found = {one["code"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
        assert f"{topic}-0" in found["offsets-only-in-kafka"]["what"]
    with old_world(zk_hosts) as here:
        here.topic("orders", 1)
        here.healthy("sound", "orders", 1)
        monkeypatch.setattr(check, "KafkaGroups", partial(KafkaGroups, deadline_s=1.0))
        monkeypatch.setattr(kafka_groups, "REQUEST_MS", 1_000)
        for more in ([], ["--bootstrap-servers", "127.0.0.1:1"]):
            assert main(["check", "--kafka", "--zookeeper", zk_hosts, *more]) == 1
            out, err = capsys.readouterr()
            assert out == "" and "broker" in err
