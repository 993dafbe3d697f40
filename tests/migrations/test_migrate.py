"""`zkcoord migrate` on a real ZooKeeper and a real broker: there and back, what is refused, what a
dry run writes (nothing), and the backup.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrations.restoring import BOTH
from tests.check.old_world import OldWorld, old_world
from tests.harness.tree import tree_of
from tests.harness.wait import wait_until
from tests.migrations.conftest import Run
from tests.migrations.groups import PATIENCE_S, BothStores, run_folder
from zkcoord.core.classic.state import ClassicMember, ClassicPhase, ClassicState
from zkcoord.znodes.classic.documents import encode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import LAYOUTS, Layout

pytestmark = pytest.mark.kafka

THERE = {0: 10, 1: 20, 2: 30}


def states(out: str) -> dict[str, str]:
    return {one["group"]: one["state"] for one in json.loads(out)["groups"]}


def test_there_and_back(stores: BothStores, run: Run) -> None:
    """Old consumers' offsets, coordinated, Kafka's, what was consumed there, and back."""
    group = stores.group("billing", THERE)
    assert run("verify", "1", "--only", group)[0] == 1
    status, out, err = run("apply", "1")
    assert status == 0 and "1 group: 1 done" in out and "backup and journal are in" in err
    assert stores.mark(group) == stores.incarnation() and stores.in_zookeeper(group) == THERE
    assert run("verify", "1")[0] == 0 and run("verify", "2")[0] == 1
    status, out, _ = run("apply", "coordinated-to-kafka", "--verbose")
    assert status == 0 and f"{group}: {stores.topic}-1 in Kafka: - -> 20" in out
    assert stores.in_kafka(group) == THERE and stores.in_zookeeper(group) == THERE
    assert run("verify", "2")[0] == 0
    consumer = stores.plain_consumer(group)
    wait_until(lambda: consumer.poll(500), PATIENCE_S, "records of Kafka's own consumer")
    consumer.commit()
    consumer.close()
    gone_on = stores.in_kafka(group)
    assert gone_on != THERE and all(gone_on[n] >= THERE[n] for n in THERE)
    status, _, err = run("rollback", "1")
    assert status == 1 and group in err and "1 of 1 groups are refused" in err
    assert run("rollback", "2")[0] == 0 and stores.in_zookeeper(group) == gone_on
    assert run("rollback", "1")[0] == 0 and stores.mark(group) == ""
    assert run("verify", "1", "--rollback")[0] == 0
    assert [
        line.split()[0].partition("-")[2]
        for line in run("list")[1].splitlines()
        if line.startswith("2")
    ] == [
        "0001-forward",
        "0002-forward",
        "0001-back",
        "0002-back",
        "0001-back",
    ], "one of them was refused"


def test_a_dry_run_writes_nothing_anywhere(stores: BothStores, run: Run) -> None:
    """By the transaction and child counters of every node that ZooKeeper has, and by all logs that
    Kafka keeps offsets in.
    """
    groups = [
        stores.group("one", THERE),
        stores.group("two", THERE, {0: 5, 1: 3}),
        stores.group("three", {0: 5}, {0: 90, 3: 1}),
    ]
    stores.client.create(f"/consumers/{groups[0]}/offsets/{stores.topic}/3", b"seven")
    before, logs = tree_of(stores.client), stores.log_ends_of_offsets_topic()
    for step in ("1", "2"):
        for more in ((), ("--rollback",), ("--take", "highest"), ("--allow-rewind",)):
            assert run("plan", step, *more)[0] in (0, 1)
        assert run("verify", step)[0] == 1
    assert tree_of(stores.client) == before and stores.written_since(logs, groups) == 0
    run("apply", "2", "--allow-rewind")
    assert tree_of(stores.client) == before and stores.written_since(logs, groups) > 0, (
        "it would have been seen"
    )
    run("apply", "1", "--only", groups[1])
    assert tree_of(stores.client) != before


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_nothing_is_done_while_clients_lead_it(
    stores: BothStores, layout: Layout, run: Run
) -> None:
    """They are registered nowhere."""
    group = stores.group("led", THERE)
    paths = ClassicPaths(layout)
    member = ClassicMember("m-1", None, "c", "h", 30_000, 30_000, (("own", b""),))
    led = ClassicState(ClassicPhase.STABLE, 7, "consumer", "own", "m-1", (member,))
    stores.client.create(paths.state(group), encode_state(led), makepath=True)
    before = tree_of(stores.client)
    for command in (("apply", "1"), ("plan", "2"), ("apply", "2"), ("rollback", "2")):
        status, out, err = run(*command, "--only", group)
        assert status == 1 and "members that one of them leads ('m-1')" in out, (command, out, err)
    assert tree_of(stores.client) == before
    empty = ClassicState(ClassicPhase.EMPTY, 8)
    stores.client.set(paths.state(group), encode_state(empty))
    assert run("apply", "1", "--only", group)[0] == 0


def test_nothing_is_done_while_the_other_protocol_is_live(
    stores: BothStores, kafka_zk_hosts: str, run: Run
) -> None:
    group = stores.group("busy", THERE)
    consumer = stores.plain_consumer(group)
    before = tree_of(stores.client)
    for command in (("apply", "1"), ("apply", "2"), ("rollback", "2"), ("rollback", "1")):
        status, out, err = run(*command, "--only", group)
        assert (
            status == 1
            and "live members of Kafka's own protocol hold the group id (plain on" in out
        ), (command, out, err)
    assert tree_of(stores.client) == before
    consumer.close()
    with old_world(kafka_zk_hosts) as old:
        old.member(group, f"{group}_a", {stores.topic: 1})
        assert run("apply", "1", "--only", group)[0] == 0, "old consumers may go on"
        status, out, _ = run("apply", "2", "--only", group)
        assert (
            status == 1
            and f"old consumers are registered in ZooKeeper ({group}_a): stop them first" in out
        )
        assert stores.in_kafka(group) == {}
        left_behind(old, group, stores.topic)
        status, out, _ = run("apply", "2", "--only", group)
        assert status == 1 and "1 partition has an owner node" in out
    assert run("apply", "2", "--only", group)[0] == 0 and stores.in_kafka(group) == THERE


def test_a_report_that_cannot_be_written_is_said_before_anything_is_done(
    stores: BothStores, tmp_path: Path, run: Run
) -> None:
    group = stores.group("unsaid", THERE)
    for bad in (tmp_path, tmp_path / "none" / "report.json"):
        status, out, err = run("apply", "2", "--only", group, "--report", str(bad))
        assert (status, out) == (2, "") and "correct --report" in err
    assert stores.in_kafka(group) == {}


def left_behind(old: OldWorld, group: str, topic: str) -> None:
    """An owner node of a session that lives, though nobody is registered."""
    old.owner(group, topic, 0, f"{group}_a")
    old.session(f"{group}_a").delete(f"/consumers/{group}/ids/{group}_a")


def test_one_group_that_is_refused_stops_none_of_the_others(
    stores: BothStores, tmp_path: Path, run: Run
) -> None:
    good, bad = stores.group("good", THERE), stores.group("bad", THERE, {0: 99})
    status, out, err = run("apply", "2", "--json", "--report", str(tmp_path / "report.json"))
    assert status == 1 and states(out) == {good: "done", bad: "refused"}
    assert (
        json.loads((tmp_path / "report.json").read_text())
        == json.loads((run_folder(tmp_path) / "report.json").read_text())
        == json.loads(out)
    )
    assert f"1 of 2 groups are refused ({bad})" in err
    assert stores.in_kafka(good) == THERE and stores.in_kafka(bad) == {0: 99}
    stores.set(bad, 0, 99)
    status, out, err = run("apply", "2", "--json")
    assert (
        status == 0 and states(out) == {good: "done before", bad: "done"} and "going on in" in err
    )
    assert stores.in_kafka(bad) == {**THERE, 0: 99}


def test_the_backup_and_both_stores_restored(stores: BothStores, tmp_path: Path, run: Run) -> None:
    """A run that rewinds Kafka, which is what is put back; ZooKeeper, which moved on, too. And
    restoring is restored.
    """
    group = stores.group("billing", THERE, {0: 50, 2: 1, 3: 7})
    assert run("apply", "2", "--allow-rewind")[0] == 0
    assert stores.in_kafka(group) == {**THERE, 3: 7}
    folder = run_folder(tmp_path)
    assert (folder / "zookeeper-offsets.txt").read_text() == "".join(
        f"/consumers/{group}/offsets/{stores.topic}/{n}:{offset}\n" for n, offset in THERE.items()
    )
    assert (folder / "kafka-offsets.csv").read_text() == "".join(
        f"{group},{stores.topic},{n},{offset}\n" for n, offset in {0: 50, 2: 1, 3: 7}.items()
    )
    stores.commit(group, {0: 60, 1: 60})
    stores.set(group, 1, 60)
    moved_on = stores.in_zookeeper(group), stores.in_kafka(group)
    before = tree_of(stores.client)
    assert run("restore", folder.name, "--dry-run")[0] == 0 and tree_of(stores.client) == before
    for store in BOTH:
        status, out, _ = run("restore", folder.name, "--store", store)
        assert status == 1 and "would go back while the other store stays ahead" in out
    assert run("restore", folder.name)[0] == 0
    assert (stores.in_zookeeper(group), stores.in_kafka(group)) == (THERE, {0: 50, 2: 1, 3: 7})
    assert run("restore", str(run_folder(tmp_path)))[0] == 0
    assert (stores.in_zookeeper(group), stores.in_kafka(group)) == moved_on


def test_a_group_that_only_kafka_has(stores: BothStores, run: Run) -> None:
    """It is named in full; what it did not have in ZooKeeper is gone again after a restoration."""
    group = stores.group("new", None, THERE)
    assert run("rollback", "2", "--only", "no*such")[0] == 1
    assert run("rollback", "2", "--only", group)[0] == 0
    assert stores.in_zookeeper(group) == THERE and stores.mark(group) == stores.incarnation()
    (name,) = [line.split()[0] for line in run("list")[1].splitlines() if line.endswith("yes")]
    assert run("restore", name)[0] == 0
    assert stores.in_zookeeper(group) == {} and stores.in_kafka(group) == THERE


def test_offsets_of_a_tool_for_go(stores: BothStores, run: Run) -> None:
    last_processed = {n: offset - 1 for n, offset in THERE.items()}
    group = stores.group("go", THERE, last_processed)
    status, out, _ = run("rollback", "2", "--only", group)
    assert status == 1 and "one behind ZooKeeper's everywhere" in out and "--off-by-one" in out
    assert run("rollback", "2", "--only", group, "--off-by-one", "correct")[0] == 0
    assert stores.in_zookeeper(group) == stores.in_kafka(group) == THERE


def test_bad_use(run: Run, tmp_path: Path) -> None:
    assert run("apply", "3")[0] == 2
    status, _, err = run("plan", "1", "--jobs", "0")
    assert status == 2 and err == "zkcoord migrate: --jobs is 0: write a number from 1 to 64\n"
    status, _, err = run("restore", str(tmp_path))
    assert status == 2 and "cannot be read" in err
