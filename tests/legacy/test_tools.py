"""The old tools of 1.1.1 beside a live zkcoord in the layout `isolated`: they say what they say
without it, see the groups that there are and no other, and their exports can be read back.

In the layout `draft` they do not, which is why there are two: that is shown too, so that the test
is known to be able to fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import Taken, consumer, coordinator, drain
from tests.legacy.consumers import LegacyProcess
from tests.legacy.looking import stored_offsets
from tests.legacy.tools import Answer, Tools
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

WAIT_S = 120.0
PARTITIONS, RECORDS = 3, 20
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def exported(tools: Tools, target: Path) -> tuple[Answer, list[str]]:
    """What the tool says, and its lines, sorted."""
    answer = tools.export(target)
    return answer, (
        sorted(target.read_text(encoding="utf-8").splitlines()) if target.exists() else []
    )


def test_old_tools_beside_zkcoord(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    legacy: LegacyProcess,
    looking: KazooClient,
    java: Java,
    tmp_path: Path,
) -> None:
    tools = Tools(tmp_path / "tools", kafka_zk_hosts, java)
    topic, old, ours = (
        create_topic(kafka_broker.address, unique("tools"), PARTITIONS),
        unique("old"),
        unique("ours"),
    )
    produce_numbered(kafka_broker.address, topic, PARTITIONS, RECORDS)
    member = legacy.consumer(old, {topic: 1}, name="A", auto_commit_enable="false")
    wait_until(
        lambda: sum(map(len, member.records.values())) == PARTITIONS * RECORDS,
        WAIT_S,
        "every record at the old consumer",
    )
    member.commit()
    before = tools.groups(), tools.describe(old), exported(tools, tmp_path / "before")
    assert (
        before[0] == [old]
        and len(before[1].table) == PARTITIONS
        and len(before[2][1]) == PARTITIONS
    ), before

    with (
        coordinator(kafka_zk_hosts, layout=Layout.ISOLATED),
        consumer(
            kafka_zk_hosts, ours, topic, zookeeper_layout="isolated", enable_auto_commit=False
        ) as one,
    ):
        taken: Taken = {}
        drain([one], taken, PARTITIONS * RECORDS)
        one.commit()
        assert tools.groups() == sorted([old, ours])
        assert tools.describe(old) == before[1]
        described = tools.describe(ours)
        assert {
            (row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
            for row in described.table
        } == {(str(n), str(RECORDS), str(RECORDS), "0") for n in range(PARTITIONS)}, described
        owner = next(iter(looking.get_children(f"/consumers/{ours}/ids")))
        assert {row["CONSUMER-ID"] for row in described.table} == {owner}, described
        answer, lines = exported(tools, tmp_path / "during")
        assert (answer.status, answer.err) == (before[2][0].status, before[2][0].err), answer
        assert lines == sorted(
            [
                *before[2][1],
                *(f"/consumers/{ours}/offsets/{topic}/{n}:{RECORDS}" for n in range(PARTITIONS)),
            ]
        )

    looking.set(f"/consumers/{old}/offsets/{topic}/0", b"1")
    member.close()
    looking.set(f"/consumers/{ours}/offsets/{topic}/1", b"1")
    restored = tools.restore(tmp_path / "during")
    assert restored.status == 0, restored
    assert (
        set(stored_offsets(looking, old).values())
        == set(stored_offsets(looking, ours).values())
        == {RECORDS}
    )


def test_the_layout_draft_is_in_their_way(kafka_zk_hosts: str, java: Java, tmp_path: Path) -> None:
    """Its own nodes look like groups."""
    tools = Tools(tmp_path / "tools", kafka_zk_hosts, java)
    with coordinator(kafka_zk_hosts, layout=Layout.DRAFT) as driver:
        wait_until(lambda: driver.core.leading, WAIT_S, "a coordinator that leads")
        assert set(tools.groups()) & {"coordinator", "groups"}
