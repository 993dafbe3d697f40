"""`zkcoord console` on real servers: what it shows of a real group, when its ensemble is away, how
it ends, and what it refuses.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.admin.world import world
from tests.console.running import running, told
from tests.harness.command import Running, run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import fresh_chroot
from tests.kafka.groups import PATIENCE_S, Taken, consumer, settled
from zkcoord.cli.main import main
from zkcoord.console import cli
from zkcoord.stack.servers import KafkaBroker, ZooKeeperServer

PARTITIONS = 4
ANSWERS_WITHIN_S = 5.0
ENDS_WITHIN_S = 3.0
BUSY_S = 10.0
"""For a machine on which all takes longer: nothing is asserted of a time that it can break."""

OFTEN = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}


@pytest.mark.kafka
@pytest.mark.slow
def test_a_real_group(kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path) -> None:
    topic, group = create_topic(kafka_broker.address, unique("orders"), PARTITIONS), unique("bill")
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 20)
    taken: Taken = {}
    with (
        Running(tmp_path / "coordinator", "--zookeeper", kafka_zk_hosts) as coordinator,
        running(
            tmp_path / "console",
            "--zookeeper",
            kafka_zk_hosts,
            "--journal-dir",
            str(coordinator.journal),
        ) as console,
        consumer(kafka_zk_hosts, group, topic, client_id="first", **OFTEN) as one,
    ):
        settled([one], topic, PARTITIONS, taken)
        page = console.shows(f"/group?name={group}", "Stable", "first", "rebalance?")
        (member,) = set(re.findall(rf"{group}_[-\w.]+-\d+-[0-9a-f]{{8}}", page))
        assert f"<td>{member}</td>" in page, "who owns it"
        console.shows("/", group, "Stable", "verdict v-", "Coordinator ")
        console.shows(f"/topic?name={topic}", group)
        console.shows("/coordinator", "Terms, brokers, topics", "<time")
        with console.open(f"/live/group?name={group}") as stream:
            assert stream.next()
            with consumer(kafka_zk_hosts, group, topic, client_id="second", **OFTEN) as two:
                settled([one, two], topic, PARTITIONS, taken)
                row = told(stream, "members", "second").rpartition("<td>second")[0]
                (*_, joined) = re.findall(rf"{group}_[-\w.]+-\d+-[0-9a-f]{{8}}", row)
                assert joined != member
                assert "member joined" in told(stream, "events", joined)
                told(stream, "chart", joined)
        page = console.shows(f"/group?name={group}", "member left")
        addresses = re.findall(r'href="(rebalance\?[^"]+)"', page)
        story = console.get("/" + addresses[0].replace("&amp;", "&"))
        assert story[0] == 200 and "What moved" in story[1]
        stories = [console.get("/" + one.replace("&amp;", "&"))[1] for one in set(addresses)]
        assert any(f"<td>{member}</td>" in found for found in stories), "from or to whom"
        settled([one], topic, PARTITIONS, taken)
        wait_until(
            lambda: "v-ok" in console.get(f"/group?name={group}")[1] or one.poll(50),
            PATIENCE_S,
            "a verdict",
        )


def test_the_ensemble_goes_and_comes_back(own_zk_server: ZooKeeperServer, tmp_path: Path) -> None:
    hosts = fresh_chroot(own_zk_server.address)
    with running(tmp_path, "--zookeeper", hosts, "--connect-timeout-ms", "1000") as console:
        with world(hosts) as here:
            here.leader()
            here.topic("orders", 2)
            here.group("billing")
            here.member("billing", "m1", {"orders": 1})
            here.owner("billing", "orders", 0, "m1")
            page = console.shows("/", "billing", "Stable", "coord.example")
            assert "data-stale" not in page and "No lag and no verdicts" in page
            console.shows("/group?name=billing", "m1", "1 partitions have no member: orders-1")
            own_zk_server.kill()
            with console.open("/live/overview") as stream:
                told(stream, "status", "data-stale")
            for path in ("/", "/group?name=billing", "/group?name=another", "/coordinator"):
                status, page = console.get(path, ANSWERS_WITHIN_S + BUSY_S)
                assert status == 200 and "What is shown is" in page and "old: " in page, page
            console.shows("/group?name=billing", "notice bad", "That is not known now.")
            own_zk_server.start()
            wait_until(lambda: here.client.connected, PATIENCE_S, "the ensemble")
            wait_until(
                lambda: "data-stale" not in console.get("/")[1], PATIENCE_S, "what is fresh again"
            )
            console.shows("/group?name=billing", "<dt>Generation</dt><dd>31</dd>")
        assert "Traceback" not in console.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_with_open_pages(number: signal.Signals, tmp_path: Path) -> None:
    """Also while nobody answers."""
    with (
        running(tmp_path, "--zookeeper", "127.0.0.1:1") as console,
        ExitStack() as stack,
    ):
        pages = ("overview", "group?name=billing", "coordinator")
        streams = [stack.enter_context(console.open(f"/live/{page}")) for page in pages]
        assert all(stream.next() for stream in streams)
        began = time.monotonic()
        status = console.signal(number)
        assert status == 0, console.log
        assert time.monotonic() - began < ENDS_WITHIN_S + BUSY_S
        assert "Traceback" not in console.log


def test_without_the_extra_it_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("jinja2", "starlette", "uvicorn"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, name, None)
            assert main(["console", "--zookeeper", "127.0.0.1:1"]) == 2
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"zkcoord console: {cli.MISSING_EXTRA}\n")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found = run(tmp_path, "console", "--zookeeper", "127.0.0.1:1", "--listen", address)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (1, "", 1), found.stderr
    assert "cannot be listened on" in found.stderr and "choose another" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--listen", "9407"), "write ADDRESS:PORT"),
        (("--listen", "h:99999"), "write ADDRESS:PORT"),
        (("--interval-ms", "5"), "--interval-ms is 5"),
        (("--interval-ms", "soon"), "soon"),
        (("--layout", "moon"), "moon"),
        (("--listn", "h:1"), "write --listen"),
        (("billing",), "billing"),
    ],
)
def test_wrong_use(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", "--zookeeper", "127.0.0.1:1", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["console", "--help"])
    out = capsys.readouterr().out
    assert "examples:" in out and "--journal-dir" in out and "behind a proxy" in out
