"""`zkcoord groups health`: what it prints, its exit statuses, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from tests.admin.world import World, world
from tests.cli.test_groups_led import Led, member, state
from tests.harness.command import PATIENCE_S, environment
from tests.harness.kafka import create_topic, delete_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.znodes.classic.test_report import assignment
from zkcoord.cli.groups_health import SAMPLES, WATCHED_MS_MIN, watched_ms
from zkcoord.cli.groups_health_text import GROUP_COLUMNS, health_table, worst_first
from zkcoord.cli.main import main
from zkcoord.core.model import TopicPartition
from zkcoord.health.rules import (
    WATCHED_MS,
    GroupHealth,
    HealthVerdict,
    PartitionHealth,
    of_group,
)
from zkcoord.health.seconds import LagSeconds
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.classic.documents import encode_state

Run = Callable[..., tuple[int, str, str]]
kafka = pytest.mark.kafka
QUICK = ("--samples", "2", "--interval-ms", "100")


@pytest.fixture(scope="module")
def topic(kafka_broker: KafkaBroker) -> str:
    name = create_topic(kafka_broker.address, unique("orders"), 2)
    produce_numbered(kafka_broker.address, name, 2, 20)
    return name


@pytest.fixture
def here(kafka_zk_hosts: str, topic: str) -> Iterator[World]:
    """`billing` has read all, `audit` half of one partition."""
    with world(kafka_zk_hosts) as found:
        for group, offsets in (("billing", (20, 20)), ("audit", (10, 20))):
            found.group(group, topics=(topic,))
            found.client.ensure_path(found.layout.ids(group))
            for number, offset in enumerate(offsets):
                found.offset(group, topic, number, offset)
        yield found


@pytest.fixture
def run(kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """`zkcoord groups health ARGUMENTS` in this process, with a journal that says nothing: status,
    standard output and error.
    """
    where = ["--zookeeper", kafka_zk_hosts, "--journal-dir", str(tmp_path)]

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(["groups", "health", *arguments, *where])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@kafka
def test_a_group_without_lag_is_well_at_the_first_look(here: World, run: Run) -> None:
    status, out, err = run("billing")
    assert (status, err) == (0, "")
    assert rows(out) == [
        [name for name, _ in GROUP_COLUMNS],
        ["billing", "Empty", "OK", "0", "0", "-", "no", "lag"],
    ]


@kafka
def test_groups_that_clients_lead_are_judged_with_the_others(
    here: World, run: Run, topic: str
) -> None:
    led = Led(here)
    led.group("billing", state(member("c")))
    led.group("audit", state())
    has = replace(member("c0"), assignment=led.blob("audit", assignment((topic, (0,)))))
    here.client.set(led.paths.state("audit"), encode_state(state(has)))
    led.group("connect", state(member("w", "sessioned"), kind="connect"))
    here.client.set(here.layout.offset("audit", TopicPartition(topic, 0)), b"21")
    _, out, _ = run("--interval-ms", "100", "--samples", "4")
    by_group = {row[0]: row[1:] for row in rows(out)[1:]}
    assert {name: row[:2] for name, row in by_group.items()} == {
        "audit": ["Stable", "ERROR"],
        "billing": ["Stable", "OK"],
        "connect": ["Stable", "OK"],
    }
    assert by_group["audit"][-2:] == ["owner", "c0"]


@kafka
def test_all_groups_the_worst_first(here: World, run: Run, topic: str) -> None:
    status, out, err = run(*QUICK)
    assert status == 3 and [row[0] for row in rows(out)[1:]] == ["audit", "billing"]
    assert rows(out)[1][:6] == ["audit", "Empty", "UNKNOWN", "10", rows(out)[1][4], f"{topic}-0"]
    # how old the records are
    assert 0 < float(rows(out)[1][4]) < PATIENCE_S
    assert "too little to judge" in out and err == ""


@kafka
def test_a_row_per_partition(here: World, run: Run, topic: str) -> None:
    _, out, _ = run("audit", "--partitions", *QUICK)
    assert [row[:7] for row in rows(out)[1:]] == [
        ["audit", topic, "0", "UNKNOWN", "10", "20", "10"],
        ["audit", topic, "1", "OK", "20", "20", "0"],
    ]


@kafka
def test_json_has_the_numbers_behind_it(here: World, run: Run, topic: str) -> None:
    status, out, _ = run("audit", "billing", "--json", *QUICK)
    found = json.loads(out)
    audit, billing = found["groups"]
    assert (status, found["looks"]) == (3, 2)
    assert audit["worst_partition"] == [topic, 0] and audit["partition_count"] == 2
    assert (billing["verdict"], billing["lag"], billing["lag_seconds"]) == ("OK", 0, 0.0)
    assert billing["partitions"] == [], "only with --partitions"
    (partition,) = audit["partitions"]
    assert not partition["lag_seconds_at_least"] and 0 < partition["lag_seconds"] < PATIENCE_S
    assert (partition["current_offset"], partition["log_end_offset"], partition["lag"]) == (
        10,
        20,
        10,
    )
    assert [(c["offset"], c["log_end_offset"]) for c in partition["commits"]] == [(10, 20)]
    assert partition["commits"][0]["age_ms"] >= 0 and partition["complete"] == 0.1


@kafka
def test_a_group_that_there_is_not(here: World, run: Run) -> None:
    status, out, _ = run("nobody", "billing")
    assert status == 3 and rows(out)[1][:3] == ["nobody", "-", "NOTFOUND"]
    assert rows(out)[2][:3] == ["billing", "Empty", "OK"]


@kafka
def test_without_groups_it_says_so(kafka_zk_hosts: str, run: Run) -> None:
    status, out, err = run()
    assert status == 0 and len(rows(out)) == 1 and "there is no group" in err


@kafka
def test_what_is_no_offset_and_what_is_hidden(here: World, run: Run, topic: str) -> None:
    here.client.set(here.layout.offset("audit", TopicPartition(topic, 0)), b"ten")
    here.offset("closed", topic, 0, 1)
    hidden = (
        here.layout.offset("billing", TopicPartition(topic, 1)),
        here.layout.offsets("closed"),
    )
    for path in hidden:
        here.client.set_acls(path, [make_digest_acl("u", "p", all=True)])
    status, out, err = run("audit", "billing", "closed", *QUICK)
    here.client.add_auth("digest", "u:p")
    for path in hidden:
        here.client.set_acls(path, OPEN_ACL_UNSAFE)
    by_group = {row[0]: row[2] for row in rows(out)}
    assert status == 3
    assert by_group == {
        "GROUP": "VERDICT",
        "audit": "ERROR",
        "billing": "UNKNOWN",
        "closed": "UNKNOWN",
    }
    assert "is no offset ('ten' is no number" in out
    assert "closed: ZooKeeper does not let this client read" in err and err.count("\n") == 1


@kafka
def test_a_topic_that_is_gone_does_not_count(
    kafka_broker: KafkaBroker, here: World, run: Run
) -> None:
    gone = create_topic(kafka_broker.address, unique("gone"), 1)
    here.offset("billing", gone, 0, 5)
    delete_topic(kafka_broker.address, gone)
    wait_until(
        lambda: not here.client.exists(here.layout.topic(gone)), PATIENCE_S, "the topic's end"
    )
    assert run("billing")[0] == 0


@kafka
def test_beyond_its_log(here: World, run: Run, topic: str) -> None:
    here.client.set(here.layout.offset("billing", TopicPartition(topic, 1)), b"21")
    status, out, _ = run("billing", "--interval-ms", "100")
    assert status == 3 and rows(out)[1][2] == "ERROR" and "the log ends at 20" in out


@kafka
def test_watch_draws_after_each_look(here: World, run: Run) -> None:
    status, out, _ = run("billing", "--watch", "--samples", "3", "--interval-ms", "100")
    assert status == 0 and out.count("WORST-PARTITION") == 3
    status, out, _ = run("--watch", "--json", "--samples", "2", "--interval-ms", "100")
    assert status == 3 and [json.loads(line)["looks"] for line in out.splitlines()] == [1, 2]


@kafka
@pytest.mark.slow
def test_ctrl_c_prints_what_is_known_and_progress_goes_to_standard_error(
    here: World, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "zkcoord.cli.main", "groups", "health"),
            *("--zookeeper", kafka_zk_hosts, "--samples", "1000", "--interval-ms", "500"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "look " in line and "of 1000, groups: 2, partitions to be judged still: 1" in line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130 and "Traceback" not in err
    assert [row[0] for row in rows(out)] == ["GROUP", "audit", "billing"]


def test_brokers_that_are_not_there_are_one_sentence(
    zk_hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*more: str) -> str:
        status = main(["groups", "health", "billing", "--zookeeper", zk_hosts, *more])
        out, err = capsys.readouterr()
        assert (status, out, err.count("\n")) == (1, "", 1), err
        return err

    with world(zk_hosts) as here:
        here.topic("orders", 1)
        here.offset("billing", "orders", 0, 5)
        assert "name brokers with --bootstrap-servers" in refused()
        err = refused("--bootstrap-servers", "127.0.0.1:1")
        assert "no broker answers" in err and "no verdict" in err


def test_no_zookeeper_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["groups", "health", "--zookeeper", "127.0.0.1:1", "--connect-timeout-ms", "300"])
    err = capsys.readouterr().err
    assert status == 1 and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--samples", "0"), "--samples is 0"),
        (("--samples", "many"), "many"),
        (("--interval-ms", "5"), "--interval-ms is 5"),
        (("--storage", "kafak"), "write kafka"),
        (("ids",), "refused"),
        (("--sample", "3"), "write --samples"),
        (("--layout", "moon"), "moon"),
    ],
)
def test_wrong_use(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["groups", "health", "--zookeeper", "127.0.0.1:1", *arguments])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "") and err.count("\n") == 1 and words in err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["groups", "health", "--help"])
    out = capsys.readouterr().out
    assert "examples:" in out and "--storage kafka" in out and "NOTFOUND" in out


@pytest.mark.parametrize(
    ("samples", "interval_ms", "expected"),
    [(SAMPLES, 2_000, WATCHED_MS), (1, 2_000, WATCHED_MS_MIN), (11, 1_000, 9_000)],
)
def test_how_long_is_long_enough(samples: int, interval_ms: int, expected: int) -> None:
    assert watched_ms(samples, interval_ms) == expected
    assert expected == WATCHED_MS_MIN or expected < (samples - 1) * interval_ms


def test_the_order_of_groups_and_names_that_are_foreign() -> None:
    def group(name: str, verdict: HealthVerdict, seconds: float) -> GroupHealth:
        part = PartitionHealth(
            TopicPartition("t", 0), verdict, "\x1b[2Jwhy", 1, 2, LagSeconds(seconds, seconds > 50)
        )
        return of_group(name, "Stable", "zookeeper", [part])

    groups = [
        group("a", HealthVerdict.OK, 9),
        group("b\u202e", HealthVerdict.WARN, 1),
        group("c", HealthVerdict.WARN, 58),
        group("d", HealthVerdict.STOP, 0),
    ]
    assert [g.group for g in worst_first(groups)] == ["d", "c", "b\u202e", "a"]
    text = health_table(groups)
    assert ">58" in text and "\x1b" not in text and "\u202e" not in text and text.count("\n") == 5
