"""The whole stack under one folder, from the command line and as a context manager. Nothing may be
left running, whatever happens to who started it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.kafka import create_topic, produce_numbered
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.errors import StackError
from zkcoord.stack.java import Java
from zkcoord.stack.process import identify
from zkcoord.stack.servers import KRaftNode
from zkcoord.stack.stack import KafkaKind, ServerState, Stack, running_stack

LIMIT_S = 60.0
# A program that uses a stack, tells its status, and waits inside the block.
USER = """
import json, sys, time
from pathlib import Path
from zkcoord.stack.stack import running_stack
with running_stack(Path(sys.argv[1]), kafka=False) as stack:
    print(json.dumps(stack.status().to_json()), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a stack that is taken down even when the test fails."""
    path = tmp_path / "stack"
    yield path
    Stack(path).down()


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zkcoord.stack.cli", *words, "--dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_up_status_down_from_the_command_line(folder: Path) -> None:
    assert command(folder, "status").returncode == 1
    up = command(folder, "up")
    assert up.returncode == 0, up.stderr
    status = json.loads(command(folder, "status", "--json").stdout)
    assert [status[name]["state"] for name in ("zookeeper", "kafka")] == ["running", "running"]
    for name in ("zookeeper", "kafka"):
        assert status[name]["address"] in up.stdout
        assert Path(status[name]["log"]).stat().st_size > 0
    topic = create_topic(status["kafka"]["address"], "orders", 2)
    assert produce_numbered(status["kafka"]["address"], topic, 2, 5) == 10
    again = command(folder, "up")
    assert (
        "already runs" in again.stdout
        and json.loads(command(folder, "status", "--json").stdout) == status
    )
    running = [identify(status[name]["pid"]) for name in ("zookeeper", "kafka")]
    assert command(folder, "down").returncode == 0
    down = json.loads(command(folder, "status", "--json").stdout)
    assert [down[name]["state"] for name in ("zookeeper", "kafka")] == ["stopped", "stopped"]
    assert not any(process is None or process.alive() for process in running)


def test_a_stack_comes_back_at_its_address_with_its_data(folder: Path) -> None:
    first = Stack(folder).up(kafka=False).zookeeper
    assert first is not None
    client = connect(first.address)
    client.create("/kept", b"1")
    disconnect(client)
    Stack(folder).down()
    second = Stack(folder).up(kafka=False).zookeeper
    assert second is not None and second.address == first.address
    client = connect(second.address)
    assert client.get("/kept")[0] == b"1"
    disconnect(client)


def test_a_remembered_port_that_is_taken_is_given_up(folder: Path) -> None:
    first = Stack(folder).up(kafka=False).zookeeper
    assert first is not None
    Stack(folder).down()
    with socket.create_server(("127.0.0.1", int(first.address.rpartition(":")[2]))):
        second = Stack(folder).up(kafka=False).zookeeper
    assert second is not None and second.address != first.address


def test_a_killed_server_is_seen_and_started_again(folder: Path) -> None:
    first = Stack(folder).up(kafka=False).zookeeper
    assert first is not None and first.pid is not None
    killed = identify(first.pid)
    assert killed is not None
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not killed.alive(), LIMIT_S, "the server to be gone")
    status = Stack(folder).status()
    assert (
        status.zookeeper is not None
        and status.zookeeper.state is ServerState.GONE
        and not status.running
    )
    assert Stack(folder).up(kafka=False).running


def test_two_stacks_do_not_collide(folder: Path, tmp_path: Path) -> None:
    one = Stack(folder).up(kafka=False)
    with running_stack(tmp_path / "other", kafka=False) as other:
        two = other.status()
        assert (
            one.zookeeper is not None
            and two.zookeeper is not None
            and one.zookeeper.address != two.zookeeper.address
        )
    assert Stack(folder).status().running and not Stack(tmp_path / "other").status().running


def test_each_stack_without_zookeeper_underneath_is_a_cluster_of_its_own(
    tmp_path: Path, java: Java
) -> None:
    """Else a coordinator that is given the brokers of another stack would believe them."""
    nodes = [Stack(tmp_path / name)._kafka({}, KafkaKind.KRAFT, "", java) for name in "ab"]
    one, two = (node.cluster_id for node in nodes if isinstance(node, KRaftNode))
    assert one != two and len(one) == len(two) == 22


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_program_that_uses_a_stack(tmp_path: Path, number: int) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path / "stack")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    server = identify(json.loads(program.stdout.readline())["zookeeper"]["pid"])
    assert server is not None and server.alive()
    program.send_signal(number)
    assert program.wait(LIMIT_S) != 0
    program.stdout.close()
    wait_until(lambda: not server.alive(), LIMIT_S, "the server to be gone")


def test_a_failing_up_leaves_nothing_running(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zkcoord.stack import stack as under_test

    def fail(self: object) -> None:
        raise StackError("no broker today")

    monkeypatch.setattr(under_test.KafkaBroker, "start", fail)
    with pytest.raises(StackError, match="no broker today"):
        Stack(folder).up()
    status = Stack(folder).status()
    assert status.zookeeper is not None and status.zookeeper.state is ServerState.STOPPED


def test_a_stack_that_is_up_is_not_taken_over(folder: Path) -> None:
    Stack(folder).up(kafka=False)
    with pytest.raises(StackError, match="already up"), running_stack(folder, kafka=False):
        pass
    assert Stack(folder).status().running


def test_an_unreadable_state_is_one_sentence(folder: Path) -> None:
    folder.mkdir()
    (folder / "state.json").write_text("{", encoding="utf-8")
    answer = command(folder, "up", "--no-kafka")
    assert (
        answer.returncode == 1
        and answer.stderr.count("\n") == 1
        and "delete that folder" in answer.stderr
    )
    (folder / "state.json").unlink()


@pytest.mark.parametrize("which", [("--kraft",), ("--kafka", "4")])
def test_no_kafka_is_no_kind_of_kafka(folder: Path, which: tuple[str, ...]) -> None:
    answer = command(folder, "up", "--no-kafka", *which)
    assert answer.returncode == 1 and answer.stderr.count("\n") == 1
    assert "leave it out" in answer.stderr and not folder.exists()


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = command(tmp_path / "file", "up", "--no-kafka")
    assert answer.returncode == 1 and answer.stderr.count("\n") == 1 and "--dir" in answer.stderr
