"""What is shown of a migration: the table, every offset, and the bar."""

from __future__ import annotations

import pytest

from migrations.model import KafkaOffset, MigrationPlan, ZkNote, ZkOffset
from migrations.running import GroupOutcome
from migrations.view import Bar, table_of
from zkcoord.core.model import TopicPartition

TP = TopicPartition("orders", 1)


def test_the_table() -> None:
    done = GroupOutcome(
        "done",
        MigrationPlan(
            "billing",
            (ZkNote("orders", "", "7", 0), ZkOffset(TP, None, 5, None), KafkaOffset(TP, 4, None)),
            same=3,
        ),
    )
    refused = GroupOutcome(
        "refused", MigrationPlan("audit", warnings=("a thing",)), ("somebody lives",)
    )
    lines = table_of([done, refused], verbose=True).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["GROUP", "STATE", "ZOOKEEPER", "KAFKA", "UNCHANGED"],
        ["billing", "done", "2", "1", "3"],
        ["audit", "refused", "0", "0", "0"],
    ]
    assert lines[3:] == [
        "billing: the offsets of orders are said to be of 7",
        "billing: orders-1 in ZooKeeper: - -> 5",
        "billing: orders-1 in Kafka: 4 -> -",
        "audit: somebody lives",
        "audit: note: a thing",
        "2 groups: 1 done, 1 refused",
    ]
    assert table_of([], verbose=False) == "0 groups\n"


def test_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar(4) as advance:
        advance(3)
        advance(1)
    assert "4/4" in capsys.readouterr().err
