"""`zkcoord offsets delete` on a real ZooKeeper: what goes, what is refused, who comes meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.admin.world import World, world
from zkcoord.cli.main import main
from zkcoord.core.model import TopicPartition
from zkcoord.zk.port import MultiResult, Op, Unanswered
from zkcoord.zk.sync.client import SyncClient

Run = Callable[..., tuple[int, str, str]]
GROUP = "a b"


@pytest.fixture
def here(zk_hosts: str) -> Iterator[World]:
    """A group without members: offsets of orders, of payments, and of a topic that is gone."""
    with world(zk_hosts) as found:
        found.topic("orders", 3)
        found.topic("payments", 1)
        found.group(GROUP, topics=("orders", "payments"))
        found.client.ensure_path(found.layout.ids(GROUP))
        for topic, numbers in (("orders", range(3)), ("payments", range(1)), ("gone", range(2))):
            for number in numbers:
                found.offset(GROUP, topic, number, 5 + number)
        yield found


@pytest.fixture
def run(zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str, group: str = GROUP) -> tuple[int, str, str]:
        status = main(["offsets", "delete", group, *arguments, "--zookeeper", zk_hosts])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def stored(here: World, topic: str) -> list[str]:
    path = here.layout.offset_topic(GROUP, topic)
    return sorted(here.client.get_children(path)) if here.client.exists(path) else ["no topic"]


def test_a_dry_run_deletes_nothing(here: World, run: Run) -> None:
    status, out, err = run("--topic", "orders:0,2", "--topic", "gone")
    assert status == 0 and "nothing was deleted; add --execute" in err
    assert [line.split()[-3:] for line in out.splitlines()[1:]] == [
        ["gone", "0", "5"],
        ["gone", "1", "6"],
        ["orders", "0", "5"],
        ["orders", "2", "7"],
    ]
    assert (stored(here, "orders"), stored(here, "gone")) == (["0", "1", "2"], ["0", "1"])


def test_partitions_and_whole_topics(here: World, run: Run) -> None:
    """Of a topic that Kafka does not have any more, too; its node goes with the last offset."""
    chosen = ("--topic", "orders:0,2", "--topic", "gone", "--execute", "--json")
    status, out, err = run(*chosen)
    found = json.loads(out)
    assert status == 0 and err == "" and found["executed"] and found["refusal"] is None
    assert [
        (one["topic"], one["partition"], one["deleted_offset"]) for one in found["partitions"]
    ] == [
        ("gone", 0, 5),
        ("gone", 1, 6),
        ("orders", 0, 5),
        ("orders", 2, 7),
    ]
    assert stored(here, "orders") == ["1"] and stored(here, "gone") == ["no topic"]
    assert stored(here, "payments") == ["0"]
    status, out, err = run(*chosen)
    assert (status, out) == (1, "") and "no offsets of" in err


def test_what_is_named_and_has_no_offset_is_said_and_the_others_go(here: World, run: Run) -> None:
    chosen = ("--topic", "orders:0,1,9", "--topic", "wdie", "--topic", "payments:0,7")
    vain = (
        "zkcoord offsets: the group a b has no offsets of orders:9, wdie, payments:7: correct"
        " --topic, or see zkcoord offsets show 'a b'"
    )
    status, out, err = run(*chosen)
    assert (status, err) == (1, f"{vain} (nothing was deleted)\n") and len(out.splitlines()) == 4
    assert stored(here, "orders") == ["0", "1", "2"]
    status, out, err = run(*chosen, "--execute", "--json")
    assert (status, err) == (1, f"{vain} (3 offsets were deleted)\n")
    found = json.loads(out)
    assert found["refusal"] is None and len(found["partitions"]) == 3
    assert found["missing"] == [
        {"topic": "orders", "partition": 9},
        {"topic": "wdie", "partition": None},
        {"topic": "payments", "partition": 7},
    ]
    assert (stored(here, "orders"), stored(here, "payments")) == (["2"], [])
    status, out, err = run("--topic", "orders:2", "--topic", "wdie", "--execute")
    assert status == 1 and "has no offsets of wdie:" in err and "DELETED-OFFSET" in out
    status, _, err = run("--topic", "gone:7", "--topic", "wdie", "--execute")
    assert status == 1 and "has no offsets of gone:7, wdie:" in err and err.count("\n") == 1


def test_the_help_offers_only_what_works(capsys: pytest.CaptureFixture[str]) -> None:
    def help_of(command: str) -> str:
        with pytest.raises(SystemExit):
            main(["offsets", command, "--help"])
        return capsys.readouterr().out

    assert "--all-topics" not in help_of("delete")
    assert "TOPIC[:" not in help_of("accept")
    assert main(["offsets", "show", "g", "--topic", "t", "--all-topics", "--zookeeper", "a"]) == 2
    assert "both given" in capsys.readouterr().err


def test_what_was_committed_beside_goes_as_well(here: World, run: Run) -> None:
    """In the same transaction; of what is kept it stays."""
    for topic, number in (("orders", 0), ("orders", 1), ("gone", 0)):
        path = here.layout.commit_metadata(GROUP, TopicPartition(topic, number))
        here.client.ensure_path(path)
    status, _, _ = run("--topic", "orders:0", "--topic", "gone", "--execute")
    root = here.layout.commit_metadata_root(GROUP)
    assert status == 0 and here.client.get_children(root) == ["orders"]
    assert here.client.get_children(f"{root}/orders") == ["1"]


def test_what_is_no_offset_goes_as_well(here: World, run: Run) -> None:
    here.client.set(here.layout.offset(GROUP, TopicPartition("orders", 1)), b"junk")
    status, _, _ = run("--topic", "orders:1", "--execute")
    assert status == 0 and stored(here, "orders") == ["0", "2"]


def test_what_a_member_reads_is_refused_and_the_rest_is_not(here: World, run: Run) -> None:
    here.member(GROUP, "m", {"orders": 1})
    for more in ((), ("--execute",)):
        status, out, err = run("--topic", "orders:0", "--topic", "payments", *more)
        assert (status, out) == (1, "") and "read orders" in err and err.count("\n") == 1
    assert stored(here, "orders") == ["0", "1", "2"] and stored(here, "payments") == ["0"]
    status, _, _ = run("--topic", "payments", "--execute")
    assert status == 0 and stored(here, "payments") == ["no topic"]


def test_what_is_owned_is_refused(here: World, run: Run) -> None:
    here.member(GROUP, "m", {"payments": 1})
    here.owner(GROUP, "orders", 1, "m")
    status, _, err = run("--topic", "orders", "--execute")
    assert status == 1 and "orders-1" in err and stored(here, "orders") == ["0", "1", "2"]


def test_what_no_session_owns_is_not_owned(here: World, run: Run) -> None:
    """Nobody could stop its owner, or wait for the end of that session."""
    here.put(here.layout.owner(GROUP, TopicPartition("orders", 1)), b"junk-0")
    assert run("--topic", "orders", "--execute")[0] == 0
    assert stored(here, "orders") == ["no topic"]


def test_who_begins_to_read_meanwhile_keeps_its_offset(
    here: World, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start re-writes the offset, so the transaction that was on its way fails as a whole."""
    multi = SyncClient.multi
    once = []

    def late(client: SyncClient, ops: Any) -> MultiResult:
        if not once:
            once.append(1)
            here.member(GROUP, "late", {"orders": 1})
            here.owner(GROUP, "orders", 1, "late")
            here.client.set(here.layout.offset(GROUP, TopicPartition("orders", 1)), b"6")
        return multi(client, ops)

    monkeypatch.setattr(SyncClient, "multi", late)
    status, _, err = run("--topic", "orders", "--execute")
    assert status == 1 and "read orders" in err and stored(here, "orders") == ["0", "1", "2"]


@pytest.mark.parametrize("happened", [False, True])
def test_a_lost_answer(
    here: World, run: Run, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    multi = SyncClient.multi
    once: list[int] = []

    def lost(client: SyncClient, ops: list[Op]) -> MultiResult:
        if once:
            return multi(client, ops)
        once.append(1)
        if happened:
            multi(client, ops)
        return Unanswered()

    monkeypatch.setattr(SyncClient, "multi", lost)
    status, out, _ = run("--topic", "orders", "--execute", "--json")
    assert status == 0 and len(json.loads(out)["partitions"]) == 3
    assert stored(here, "orders") == ["no topic"]


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        ((), 2, "which offsets"),
        (("--all-topics",), 2, "zkcoord groups delete"),
        (("--topic", "orders:x"), 2, "--topic is"),
        (("--topic", "nowhere"), 1, "no offsets of nowhere"),
        (("--topic", "orders", "--execute", "--dry-run"), 2, "leave one of them out"),
    ],
)
def test_bad_use_is_one_sentence(
    here: World, run: Run, arguments: tuple[str, ...], status: int, part: str
) -> None:
    found, out, err = run(*arguments)
    assert (found, out) == (status, "") and part in err and err.count("\n") == 1


def test_an_unknown_group(here: World, run: Run) -> None:
    status, _, err = run("--topic", "orders", group="nobody")
    assert status == 1 and "no group nobody" in err
