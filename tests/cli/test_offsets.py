"""`zkcoord offsets` on a real ZooKeeper and a real broker: what is shown, what is written, what is
refused.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.world import World, world
from tests.harness.command import PATIENCE_S, environment
from tests.harness.kafka import create_topic, delete_topic, produce_numbered, unique
from tests.harness.proxy import Op as ZkOp
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from zkcoord.admin.offsets.reset_plan import Log
from zkcoord.cli.main import main
from zkcoord.core.model import TopicPartition
from zkcoord.errors import UnavailableError
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.port import MultiResult, Op
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka
Run = Callable[..., tuple[int, str, str]]
RECORDS = 20
LOG = Log(0, RECORDS)


@pytest.fixture
def run(kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """`zkcoord ARGUMENTS --zookeeper HERE` in this process: status, standard output, standard
    error.
    """

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--zookeeper", kafka_zk_hosts])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture(scope="module")
def topic(kafka_broker: KafkaBroker) -> str:
    """Three partitions of 20 records."""
    name = create_topic(kafka_broker.address, unique("orders"), 3)
    produce_numbered(kafka_broker.address, name, 3, RECORDS)
    return name


@pytest.fixture
def here(kafka_zk_hosts: str, topic: str) -> Iterator[World]:
    """The group billing, without members: offsets 5 and 7 stored, none for partition 2."""
    with world(kafka_zk_hosts) as found:
        found.group("billing", topics=(topic,))
        found.client.ensure_path(found.layout.ids("billing"))
        found.offset("billing", topic, 0, 5)
        found.offset("billing", topic, 1, 7)
        yield found


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def stored(
    found: World, topic: str, partition: int, group: str = "billing"
) -> tuple[int, int] | None:
    """Value and version."""
    path = found.layout.offset(group, TopicPartition(topic, partition))
    if found.client.exists(path) is None:
        return None
    data, stat = found.client.get(path)
    return int(data), stat.version


def test_show_has_offsets_logs_lags_and_owners(here: World, topic: str, run: Run) -> None:
    here.member("billing", "billing_a", {topic: 1})
    here.owner("billing", topic, 1, "billing_a")
    status, out, err = run("offsets", "show", "billing")
    assert (status, err) == (0, "")
    assert out.split("\n")[0].split() == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-START-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "INCARNATION",
    ]
    assert rows(out) == [
        ["billing", topic, "0", "5", "0", "20", "15", "-", "-"],
        ["billing", topic, "1", "7", "0", "20", "13", "billing_a", "-"],
        ["billing", topic, "2", "-", "0", "20", "-", "-", "-"],
    ]
    _, out, _ = run("offsets", "show", "--group", "billing", "--topic", f"{topic}:1", "--json")
    (row,) = json.loads(out)["offsets"]
    assert (
        row["partition"],
        row["current_offset"],
        row["log_start_offset"],
        row["lag"],
        row["thread"],
        row["counts"],
        row["version"],
    ) == (1, 7, 0, 13, "billing_a-0", True, 0)


def test_what_is_no_offset_is_said_and_can_be_reset(here: World, topic: str, run: Run) -> None:
    here.client.set(here.layout.offset("billing", TopicPartition(topic, 1)), b"seven")
    status, out, err = run("offsets", "show", "billing")
    assert status == 0 and rows(out)[1][3] == "-" and f"stored for {topic}-1 is no offset" in err
    assert run(
        "offsets", "reset", "billing", "--topic", f"{topic}:1", "--to-offset", "7", "--execute"
    )[0] == 0 and stored(here, topic, 1) == (7, 2)


def test_a_dry_run_shows_the_table_and_writes_nothing(here: World, topic: str, run: Run) -> None:
    status, out, err = run("offsets", "reset", "billing", "--all-topics", "--to-latest")
    assert status == 0 and "nothing was written; add --execute" in err
    assert out.split("\n")[0].split() == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "OLD-OFFSET",
        "NEW-OFFSET",
        "LAG",
    ]
    assert rows(out) == [
        ["billing", topic, "0", "5", "20", "0"],
        ["billing", topic, "1", "7", "20", "0"],
    ], "only topics' partitions that the group knows"
    assert stored(here, topic, 0) == (5, 0)
    status, out, _ = run("offsets", "reset", "billing", "--all-topics", "--to-latest", "--json")
    assert json.loads(out)["executed"] is False and stored(here, topic, 0) == (5, 0)


@pytest.mark.parametrize(
    ("aim", "expected", "warned"),
    [
        (["--to-earliest"], [0, 0, 0], False),
        (["--to-latest"], [20, 20, 20], False),
        (["--to-offset", "12"], [12, 12, 12], False),
        (["--to-offset", "99"], [20, 20, 20], True),
        (["--shift-by", "-6"], [0, 1, None], True),
        (["--by-duration", "P1D"], [0, 0, 0], True),
        (["--to-datetime", "2020-01-31T10:00:00"], [0, 0, 0], True),
        (["--to-datetime", "2099-01-31T10:00:00Z"], [20, 20, 20], True),
    ],
)
def test_each_aim_is_stored(
    here: World, topic: str, run: Run, aim: list[str], expected: list[int | None], warned: bool
) -> None:
    status, out, err = run("offsets", "reset", "billing", "--topic", topic, *aim, "--execute")
    assert status == 0 and "partitions were reset" in err and (err.count("\n") > 1) is warned, err
    found = [stored(here, topic, n) for n in range(3)]
    assert [value[0] if value else None for value in found] == expected
    assert [row[4] for row in rows(out)] == [
        str(value) if value is not None else "-" for value in expected
    ]


def test_the_version_moves_only_with_the_value_and_a_made_topic_node_says_whose_offsets_they_are(
    here: World, topic: str, run: Run
) -> None:
    reset = ("offsets", "reset", "billing", "--topic", f"{topic}:0,1", "--to-offset", "7")
    status, _, err = run(*reset, "--execute")
    assert status == 0 and "1 partition was reset; of 1 that is stored already" in err
    assert (stored(here, topic, 0), stored(here, topic, 1), stored(here, topic, 2)) == (
        (7, 1),
        (7, 0),
        None,
    )
    status, _, err = run(*reset, "--execute")
    assert status == 0 and "reset" not in err and "2 partitions are to have is stored" in err
    rows_again = json.loads(run(*reset, "--execute", "--json")[1])["partitions"]
    assert [(row["written"], row["there_already"]) for row in rows_again] == [(True, True)] * 2
    status, _, err = run(
        "offsets", "reset", "fresh", "--topic", topic, "--to-offset", "3", "--execute"
    )
    assert status == 1 and "no group fresh" in err and "--new-group" in err
    status, _, err = run(
        "offsets",
        "reset",
        "fresh",
        "--topic",
        topic,
        "--to-offset",
        "3",
        "--execute",
        "--new-group",
    )
    assert status == 0, err
    assert [stored(here, topic, n, "fresh") for n in range(3)] == [(3, 0)] * 3
    assert here.client.get(here.layout.offset_topic("fresh", topic))[0] != b""
    assert run("offsets", "show", "fresh")[0] == 0, (
        "offsets alone make a group that can be looked at"
    )


def test_an_export_can_be_given_back(here: World, topic: str, run: Run, tmp_path: Path) -> None:
    status, out, err = run(
        "offsets", "reset", "billing", "--all-topics", "--to-current", "--export"
    )
    assert (status, out) == (0, f"{topic},0,5\n{topic},1,7\n") and err == ""
    (tmp_path / "offsets.csv").write_text(out)
    run("offsets", "reset", "billing", "--all-topics", "--to-latest", "--execute")
    assert stored(here, topic, 0) == (20, 1)
    status, _, err = run(
        "offsets", "reset", "billing", "--from-file", str(tmp_path / "offsets.csv"), "--execute"
    )
    assert status == 0 and (stored(here, topic, 0), stored(here, topic, 1)) == ((5, 2), (7, 2)), err


def test_what_is_stored_of_a_partition_that_kafka_has_not_holds_nothing_up(
    here: World, topic: str, run: Run
) -> None:
    stray = here.layout.offset("billing", TopicPartition(topic, 17))
    here.client.create(stray, b"4")
    status, out, err = run("offsets", "reset", "billing", "--all-topics", "--to-latest")
    assert status == 0 and len(rows(out)) == 2 and f"Kafka has no partition {topic}-17" in err
    parent = here.layout.offset_topic("billing", topic)
    here.client.set(parent, encode_incarnation(OffsetsOf("7.earlier")))
    status, out, err = run("offsets", "accept", "billing", "--all-topics", "--execute")
    assert status == 0 and "1 topic was accepted" in err and f"{topic}-17" in err
    assert here.client.get(stray)[0] == b"4"
    status, _, err = run("offsets", "reset", "billing", "--topic", f"{topic}:17", "--to-latest")
    assert status == 1 and f"Kafka has no partition {topic}-17: leave it out" in err


def test_members_refuse_it_and_an_owner_without_registration_too(
    here: World, topic: str, run: Run
) -> None:
    here.member("billing", "billing_a", {topic: 1})
    status, out, err = run("offsets", "reset", "billing", "--topic", topic, "--to-earliest")
    assert status == 1 and rows(out) and "has members (billing_a)" in err and "--live" in err
    assert "(nothing was written)" in err
    status, out, err = run(
        "offsets", "reset", "billing", "--topic", topic, "--to-earliest", "--export"
    )
    assert (status, err) == (0, ""), "an export is no dry run"
    status, _, err = run(
        "offsets", "reset", "billing", "--topic", topic, "--to-earliest", "--execute"
    )
    assert (
        status == 1
        and "has members (billing_a)" in err
        and "0 of 3 partitions were written" in err
        and stored(here, topic, 0) == (5, 0)
    )
    here.owner("billing", topic, 1, "billing_a")
    here.client.delete(here.layout.registration("billing", "billing_a"))
    status, _, err = run(
        "offsets", "reset", "billing", "--topic", topic, "--to-earliest", "--execute"
    )
    assert (
        status == 1
        and f"{topic}-1" in err
        and "owner node" in err
        and stored(here, topic, 0) == (5, 0)
    )


def test_members_of_the_other_layout_and_old_consumers_refuse_it(
    here: World, kafka_zk_hosts: str, topic: str, run: Run
) -> None:
    with world(kafka_zk_hosts, Layout.ISOLATED) as other:
        other.put(
            Layout.ISOLATED.registration("billing", "billing_h-1-abcd"),
            json.dumps(
                {"version": 1, "subscription": {topic: 1}, "pattern": "static", "timestamp": "1"}
            ).encode(),
            ephemeral=True,
        )
        for more in ([], ["--live"], ["--layout", "isolated", "--live"]):
            status, _, err = run(
                "offsets", "reset", "billing", "--topic", topic, "--to-earliest", "--execute", *more
            )
            assert (
                status == 1
                and "billing_h-1-abcd" in err
                and "old consumers" in err
                and stored(here, topic, 0) == (5, 0)
            ), more


@pytest.mark.parametrize(
    ("arguments", "status", "parts"),
    [
        (["show"], 2, ("name one group",)),
        (["show", "a", "--group", "b"], 2, ("name one group",)),
        (["show", "biling"], 1, ("no group biling", "did you mean billing")),
        (["reset", "billing", "--to-earliest"], 2, ("which partitions",)),
        (
            ["reset", "billing", "--all-topics", "--topic", "t", "--to-earliest"],
            2,
            ("one of them",),
        ),
        (["reset", "billing", "--all-topics"], 2, ("one of the arguments --to-earliest",)),
        (
            ["reset", "billing", "--all-topics", "--to-earliest", "--to-latest"],
            2,
            ("not allowed with",),
        ),
        (["reset", "billing", "--all-topics", "--to-offset", "-1"], 2, ("--to-offset is -1",)),
        (["reset", "billing", "--all-topics", "--to-offset", "x"], 2, ("--to-offset",)),
        (
            ["reset", "billing", "--all-topics", "--to-earliest", "--execute", "--dry-run"],
            2,
            ("--dry-run",),
        ),
        (
            ["reset", "billing", "--all-topics", "--to-current", "--export", "--json"],
            2,
            ("--export and --json are both given",),
        ),
        (["reset", "billing", "--topic", "nowhere", "--to-earliest"], 1, ("no topic nowhere",)),
        (["reset", "billing", "--from-file", "/none.csv"], 2, ("/none.csv",)),
        (["reset", "bad/name", "--all-topics", "--to-earliest"], 2, ("'bad/name'",)),
        (["rest", "billing"], 2, ("'rest'",)),
        (["accept", "billing"], 2, ("which topics",)),
        (["accept", "billing", "--topic", "t:1"], 2, ("whole topics",)),
        (["accept", "billing", "--topic", "nowhere"], 1, ("no topic nowhere",)),
        (["accept", "biling", "--all-topics"], 1, ("no group biling",)),
    ],
)
def test_bad_use_is_one_sentence(
    here: World, run: Run, arguments: list[str], status: int, parts: tuple[str, ...]
) -> None:
    found, out, err = run("offsets", *arguments)
    assert (found, out) == (status, "") and err.count("\n") == 1 and "Traceback" not in err, err
    assert all(part in err for part in parts), err


def test_partitions_that_kafka_does_not_have_and_brokers_that_do_not_answer_refuse_it(
    here: World, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = run(
        "offsets", "reset", "billing", "--topic", f"{topic}:0,3", "--to-earliest", "--execute"
    )
    assert status == 1 and f"no partition {topic}-3" in err
    monkeypatch.setattr("zkcoord.admin.offsets.log_offsets.ENDS_DEADLINE_MS", 300)
    status, _, err = run(
        "offsets",
        "reset",
        "billing",
        "--topic",
        topic,
        "--to-earliest",
        "--execute",
        "--bootstrap-servers",
        "127.0.0.1:1",
    )
    assert (
        status == 1
        and "127.0.0.1:1" in err
        and "--bootstrap-servers" in err
        and stored(here, topic, 0) == (5, 0)
    )


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any], touches: str = "/offsets/"
) -> None:
    """Do something once, between the reading and the sending of the first multi that writes such a
    path.
    """
    real, done = SyncClient.multi, threading.Event()

    def multi(self: SyncClient, ops: list[Op]) -> MultiResult:
        if not done.is_set() and any(touches in op.path for op in ops):
            done.set()
            act()
        return real(self, ops)

    monkeypatch.setattr(SyncClient, "multi", multi)


def test_a_member_that_comes_in_between_is_named_and_keeps_what_it_read(
    here: World, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start ack moves the version before the reset is sent: nothing is written."""

    def comes() -> None:
        here.member("billing", "billing_a", {topic: 1})
        here.owner("billing", topic, 0, "billing_a")
        here.client.set(here.layout.offset("billing", TopicPartition(topic, 0)), b"5")

    meanwhile(monkeypatch, comes)
    status, _, err = run(
        "offsets", "reset", "billing", "--topic", topic, "--to-earliest", "--execute"
    )
    assert status == 1 and "billing_a" in err and "0 of 3 partitions were written" in err
    assert (stored(here, topic, 0), stored(here, topic, 1), stored(here, topic, 2)) == (
        (5, 1),
        (7, 0),
        None,
    )


def test_a_member_that_registers_in_between_is_reported_after(
    here: World, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not started anything yet: it begins where the reset says, and the operator is told."""
    meanwhile(monkeypatch, lambda: here.member("billing", "billing_a", {topic: 1}))
    status, _, err = run(
        "offsets", "reset", "billing", "--topic", topic, "--to-earliest", "--execute"
    )
    assert (
        status == 1
        and "billing_a joined the group" in err
        and "3 of 3 partitions were written" in err
        and stored(here, topic, 0) == (0, 1)
    )


def test_a_foreign_write_in_between_is_read_again(
    here: World, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(
        monkeypatch,
        lambda: here.client.set(here.layout.offset("billing", TopicPartition(topic, 0)), b"9"),
    )
    status, out, _ = run(
        "offsets", "reset", "billing", "--topic", f"{topic}:0,1", "--shift-by", "1", "--execute"
    )
    assert (
        status == 0
        and (stored(here, topic, 0), stored(here, topic, 1)) == ((10, 2), (8, 1))
        and [row[3:5] for row in rows(out)] == [["9", "10"], ["7", "8"]]
    )


@pytest.mark.parametrize("happened", [True, False])
def test_a_lost_answer_is_looked_up_and_a_shift_happens_once(
    here: World,
    topic: str,
    zk_proxy: Proxy,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    happened: bool,
) -> None:
    """The connection breaks after the multi, or before it reached the server."""
    sent = []
    real = SyncClient.multi
    monkeypatch.setattr(
        SyncClient, "multi", lambda self, ops: (sent.append(ops), real(self, ops))[1]
    )
    lost = (
        zk_proxy.swallow_replies(1, (ZkOp.MULTI,))
        if happened
        else zk_proxy.drop_requests(1, (ZkOp.MULTI,))
    )
    assert (
        main(
            [
                "offsets",
                "reset",
                "billing",
                "--topic",
                f"{topic}:0,1",
                "--shift-by",
                "2",
                "--execute",
                "--zookeeper",
                f"{zk_proxy.address}/kafka",
            ]
        )
        == 0
    )
    assert (stored(here, topic, 0), stored(here, topic, 1)) == ((7, 1), (9, 1)) and lost.fired == 1
    assert len(sent) == (1 if happened else 2), (
        "what happened is not written twice, what did not is tried again"
    )


def test_a_server_that_goes_away_in_the_middle_is_said_with_what_was_written(
    here: World, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zkcoord.admin.offsets.reset.BATCH_MAX", 1)
    real, sent = SyncClient.multi, []

    def multi(self: SyncClient, ops: list[Op]) -> MultiResult:
        sent.append(ops)
        if len(sent) == 2:
            raise UnavailableError("there is no connection to ZooKeeper")
        return real(self, ops)

    monkeypatch.setattr(SyncClient, "multi", multi)
    status, out, err = run(
        "offsets", "reset", "billing", "--topic", f"{topic}:0,1", "--shift-by", "2", "--execute"
    )
    assert (
        (status, out) == (1, "")
        and "there is no connection" in err
        and "1 of 2 partitions are known to be written" in err
        and err.count("\n") == 1
    )


def test_ctrl_c_ends_the_wait_for_owners(
    here: World, topic: str, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """Beyond a second it says what it waits for; the interrupt leaves what was written, and no
    traceback.
    """
    here.member("billing", "billing_a", {topic: 1})
    here.owner("billing", topic, 0, "billing_a")
    arguments = [
        "offsets",
        "reset",
        "billing",
        "--topic",
        topic,
        "--to-earliest",
        "--execute",
        "--live",
        "--zookeeper",
        kafka_zk_hosts,
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "zkcoord.cli.main", *arguments],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        # progress of more than a second is said before it
        lines = iter(process.stderr.readline, "")
        assert any(f"waiting for the owners of {topic}-0" in line for line in lines)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=40)
    finally:
        process.kill()
        process.wait(40)
    assert process.returncode == 130 and "Traceback" not in err and len(rows(out)) == 3
    assert stored(here, topic, 0) == (0, 1)


def test_offsets_of_an_earlier_topic_do_not_come_back_with_a_reset_of_some_partitions(
    here: World, topic: str, run: Run
) -> None:
    """The stored offsets belong to a topic that was deleted: those that are not reset go on not to
    count.
    """
    here.client.set(
        here.layout.offset_topic("billing", topic), encode_incarnation(OffsetsOf("7.earlier"))
    )
    _, out, _ = run("offsets", "show", "billing")
    assert [row[-5:] for row in rows(out)] == [["7.earlier", "(of", "an", "earlier", "topic)"]] * 2
    assert (
        "left as it is"
        in run("offsets", "reset", "billing", "--topic", topic, "--shift-by", "1")[2]
    )
    status, _, err = run(
        "offsets", "reset", "billing", "--topic", f"{topic}:0", "--to-offset", "5", "--execute"
    )
    assert status == 0 and stored(here, topic, 0) == (5, 1), err
    found = json.loads(run("offsets", "show", "billing", "--json")[1])["offsets"]
    assert [(row["partition"], row["current_offset"], row["counts"]) for row in found] == [
        (0, 5, True),
        (1, 7, False),
    ]
    run("offsets", "reset", "billing", "--topic", topic, "--to-offset", "7", "--execute")
    found = json.loads(run("offsets", "show", "billing", "--json")[1])["offsets"]
    assert [(row["current_offset"], row["counts"]) for row in found] == [(7, True)] * 3


def test_a_topic_that_was_really_made_again(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, run: Run
) -> None:
    """The broker deletes and makes it; what was stored does not count, until it is reset."""
    name = create_topic(kafka_broker.address, unique("again"), 2)
    with world(kafka_zk_hosts) as found:
        produce_numbered(kafka_broker.address, name, 2, 5)
        assert (
            run(
                "offsets", "reset", "g", "--topic", name, "--to-latest", "--execute", "--new-group"
            )[0]
            == 0
        )
        assert [row[6] for row in rows(run("offsets", "show", "g")[1])] == ["0", "0"]
        delete_topic(kafka_broker.address, name)
        wait_until(
            lambda: found.client.exists(found.layout.topic(name)) is None,
            PATIENCE_S,
            "the end of the topic",
        )
        create_topic(kafka_broker.address, name, 2)
        produce_numbered(kafka_broker.address, name, 2, 3)
        shown = run("offsets", "show", "g")[1]
        assert shown.count("(of an earlier topic)") == 2 and [row[6] for row in rows(shown)] == [
            "-",
            "-",
        ]
        assert (
            run("offsets", "reset", "g", "--topic", f"{name}:1", "--to-offset", "1", "--execute")[0]
            == 0
        )
        known = json.loads(run("offsets", "show", "g", "--json")[1])["offsets"]
        assert [(row["current_offset"], row["counts"], row["lag"]) for row in known] == [
            (5, False, None),
            (1, True, 2),
        ]


def test_what_is_made_has_the_acl(here: World, topic: str, run: Run) -> None:
    assert (
        run(
            "offsets",
            "reset",
            "guarded",
            "--topic",
            topic,
            "--to-earliest",
            "--execute",
            "--new-group",
            "--acl",
            "world:anyone:cdrw",
        )[0]
        == 0
    )
    for path in (
        here.layout.offset_topic("guarded", topic),
        here.layout.offset("guarded", TopicPartition(topic, 0)),
    ):
        (entry,), _ = here.client.get_acls(path)
        assert entry.perms == 15


def test_offsets_of_a_moved_ensemble_are_accepted(here: World, topic: str, run: Run) -> None:
    parent = here.layout.offset_topic("billing", topic)
    here.client.set(parent, encode_incarnation(OffsetsOf("7.earlier")))
    here.client.set(here.layout.offset("billing", TopicPartition(topic, 1)), b"99")
    status, out, err = run("offsets", "accept", "billing", "--all-topics")
    assert (
        status == 0
        and rows(out)[0][:4] == ["billing", topic, "2", "7.earlier"]
        and "nothing was written" in err
    )
    assert (
        f"{topic}-1: 99 is outside of the log, which holds 0 to 20" in err
        and here.client.get(parent)[0] == b"7.earlier"
    )
    here.member("billing", "billing_a", {topic: 1})
    status, out, err = run("offsets", "accept", "billing", "--topic", topic)
    assert status == 1 and rows(out) and "billing_a" in err and "(nothing was written)" in err
    status, _, err = run("offsets", "accept", "billing", "--topic", topic, "--execute")
    assert (
        status == 1
        and "billing_a" in err
        and "0 of 1 topic" in err
        and here.client.get(parent)[0] == b"7.earlier"
    )
    here.client.delete(here.layout.registration("billing", "billing_a"))
    status, out, err = run("offsets", "accept", "billing", "--topic", topic, "--execute", "--json")
    assert status == 0 and json.loads(out)["topics"][0]["partitions"] == [0, 1]
    found = json.loads(run("offsets", "show", "billing", "--json")[1])["offsets"]
    assert [(row["current_offset"], row["counts"]) for row in found] == [(5, True), (99, True)]
    status, out, err = run("offsets", "accept", "billing", "--topic", topic, "--execute")
    assert status == 0 and rows(out) == [] and "count already" in err


@pytest.mark.parametrize("always", [False, True])
def test_somebody_who_writes_before_each_write(
    zk_hosts: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    """Every second multi is too late: it takes longer, and every partition is reset in the end.
    Where every one is, it ends with a sentence.
    """
    monkeypatch.setattr(
        "zkcoord.cli.offsets_reset._logs", lambda servers, tps, aim: dict.fromkeys(tps, LOG)
    )
    monkeypatch.setattr("zkcoord.admin.offsets.reset.BATCH_MAX", 1)
    real, sent = SyncClient.multi, []
    with world(zk_hosts) as found:
        found.topic("busy", 120)
        for number in range(120):
            found.offset("g", "busy", number, 9)

        def multi(self: SyncClient, ops: list[Op]) -> MultiResult:
            sent.append(ops)
            if always or len(sent) % 2:
                found.client.set(ops[-1].path, b"9")
            return real(self, ops)

        monkeypatch.setattr(SyncClient, "multi", multi)
        status = main(
            [
                "offsets",
                "reset",
                "g",
                "--topic",
                "busy",
                "--to-offset",
                "4",
                "--execute",
                "--zookeeper",
                zk_hosts,
            ]
        )
        err = capsys.readouterr().err
        assert (status, "all the time" in err) == (int(always), always) and len(sent) == (
            101 if always else 240
        )
        assert stored(found, "busy", 119, "g") == ((9, 0) if always else (4, 2))


def test_more_partitions_than_one_transaction_holds(
    zk_hosts: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs are not asked of a broker here: 1,200 partitions would take it long to make."""
    monkeypatch.setattr(
        "zkcoord.cli.offsets_reset._logs", lambda servers, tps, aim: dict.fromkeys(tps, LOG)
    )
    real, sent = SyncClient.multi, []
    monkeypatch.setattr(
        SyncClient, "multi", lambda self, ops: (sent.append(len(ops)), real(self, ops))[1]
    )
    with world(zk_hosts) as found:
        found.topic("many", 1_200)
        found.group("big")
        assert (
            main(
                [
                    "offsets",
                    "reset",
                    "big",
                    "--topic",
                    "many",
                    "--to-offset",
                    "4",
                    "--execute",
                    "--zookeeper",
                    zk_hosts,
                ]
            )
            == 0
        )
        out, err = capsys.readouterr()
        assert len(rows(out)) == 1_200 and "1200 partitions were reset" in err
        assert max(sent) <= 500 and len([n for n in sent if n > 1]) >= 3
        assert stored(found, "many", 1_199, "big") == (4, 0)
