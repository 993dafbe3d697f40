"""Groups named as Kafka and ZooKeeper allow: members, a coordinator, HTTP, journals, recordings and
every tool, on real servers, in both layouts.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.command import PATIENCE_S, Running
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import consumer
from zkcoord.cli.main import main
from zkcoord.coordinator.input_recorder import input_files
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.acl.table import ANY, MATRIX, members_may
from zkcoord.znodes.paths import LAYOUTS, Layout

GROUPS = ("team:billing", "a b", "grüße", "it's 100% (a,b) *[x]?")
RECORDS = 10


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = create_topic(kafka_broker.address, unique("orders"), 2)
    produce_numbered(kafka_broker.address, name, 2, RECORDS)
    return name


@pytest.mark.kafka
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_group_lives_under_its_name(
    topic: str,
    kafka_zk_hosts: str,
    tmp_path: Path,
    layout: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Running(tmp_path / "c", "--zookeeper", kafka_zk_hosts, "--layout", layout) as process:
        process.ready("leading")
        with contextlib.ExitStack() as stack:
            for group in GROUPS:
                lives(stack, kafka_zk_hosts, group, topic, layout)
            served = json.loads(process.get("/groups")[1])["groups"]
            assert {one["group"] for one in served} == set(GROUPS)
            for group in GROUPS:
                described(kafka_zk_hosts, group, topic, layout, capsys)
        for group in GROUPS:
            changed(kafka_zk_hosts, group, topic, layout, tmp_path, capsys)
        for group in GROUPS:
            assert main(["journal", "--group", group, "--dir", str(process.journal), "--json"]) == 0
            told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            assert {"rebalance"} <= {one["kind"] for one in told if one.get("group") == group}
        (recorded,) = input_files(process.journal)
        process.signal()
        for group in GROUPS:
            assert main(["replay", str(recorded), "--group", group]) == 0
            assert f"{group}: " in capsys.readouterr().out


def lives(stack: contextlib.ExitStack, hosts: str, group: str, topic: str, layout: str) -> None:
    """Two members share the topic, and commit all of it."""
    ours = [
        stack.enter_context(
            contextlib.closing(consumer(hosts, group, topic, zookeeper_layout=layout))
        )
        for _ in range(2)
    ]
    taken: set[tuple[int, int]] = set()

    def all_taken() -> bool:
        for one in ours:
            for tp, records in one.poll(50).items():
                taken.update((tp.partition, record.offset) for record in records)
        return len(taken) == 2 * RECORDS and all(len(one.assignment()) == 1 for one in ours)

    wait_until(all_taken, PATIENCE_S, f"all records in {group}")
    for one in ours:
        one.commit()


def described(
    hosts: str, group: str, topic: str, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--zookeeper", hosts, "--layout", layout)
    assert main(["groups", "list", *where]) == 0
    assert group in capsys.readouterr().out.splitlines()
    assert main(["groups", "describe", group, "--json", *where]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["group"] == group and found["state"] == "Stable" and len(found["members"]) == 2
    prefix = quote(group, safe="")
    assert all(one["consumer_id"].startswith(f"{prefix}_") for one in found["members"])
    assert [row["current_offset"] for row in found["offsets"]] == [RECORDS] * 2
    for what in ("--members", "--state"):
        assert main(["groups", "describe", group, what, *where]) == 0
        assert capsys.readouterr().out.splitlines()[1].startswith(group)
    assert main(["groups", "rebalance", group, *where]) == 0
    assert main(["check", "--only", group, "--zookeeper", hosts]) in (0, 1)
    capsys.readouterr()


def changed(
    hosts: str,
    group: str,
    topic: str,
    layout: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ("--zookeeper", hosts, "--layout", layout)
    chosen = ("offsets", "reset", group, "--topic", topic)
    assert main([*chosen, "--to-current", "--export", *where]) == 0
    table = tmp_path / "offsets.csv"
    table.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main([*chosen, "--shift-by", "-4", "--execute", *where]) == 0
    back = ("offsets", "reset", group, "--from-file", str(table), "--execute")
    assert main([*back, "--json", *where]) == 0
    text = capsys.readouterr().out
    assert [
        row["new_offset"] for row in json.loads(text[text.rindex('{\n "group"') :])["partitions"]
    ] == [RECORDS] * 2
    assert main(["groups", "delete", group, "--execute", *where]) == 0
    capsys.readouterr()
    assert main(["groups", "describe", group, *where]) == 1
    assert "no group" in capsys.readouterr().err


@pytest.mark.parametrize("group", GROUPS)
def test_members_have_the_same_rights_in_each(group: str) -> None:
    """Each node of the table, with this group's name in it and an ordinary one's."""
    paths = {
        rule.path(layout).replace(ANY, "{}", 1).replace(ANY, "x")
        for layout in LAYOUTS.values()
        for rule in MATRIX
        if ANY in rule.path(layout)
    }
    assert len(paths) > 20
    for path in paths:
        assert members_may(path.format(group)) == members_may(path.format("billing")), path


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_its_places_are_found_again(group: str, layout: Layout) -> None:
    for path in (
        layout.group(group),
        layout.mode(group),
        layout.registration(group, "m"),
        layout.channel(group, "m"),
    ):
        assert getattr(layout.locate(path), "group", None) == group, path
