"""What was done is done, whether or not it can be printed: the exit status and standard error say
so, and doing it again is recognised where it would do more.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.world import World, world
from tests.harness.command import PATIENCE_S, environment
from tests.harness.kafka import create_topic, produce_numbered, unique
from zkcoord.admin.offsets.untold import AboutToBeWritten, Untold, refusal
from zkcoord.cli.main import main
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker
from zkcoord.zk.sync.client import SyncClient

pytestmark = pytest.mark.kafka
Shell = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[2]
SHIFT = ("offsets", "reset", "billing", "--all-topics", "--shift-by", "-1", "--execute")
LOST = ">/dev/full", ">&-", ">&3"  # 3 is a pipe whose reader is gone
SAYS = "standard output does not take"


@pytest.fixture(scope="module")
def topic(kafka_broker: KafkaBroker) -> str:
    name = create_topic(kafka_broker.address, unique("orders"), 2)
    produce_numbered(kafka_broker.address, name, 2, 20)
    return name


@pytest.fixture
def here(kafka_zk_hosts: str, topic: str) -> Iterator[World]:
    """The group billing, without members: 10 and 15 stored."""
    with world(kafka_zk_hosts) as found:
        found.group("billing", topics=(topic,))
        found.client.ensure_path(found.layout.ids("billing"))
        found.offset("billing", topic, 0, 10)
        found.offset("billing", topic, 1, 15)
        yield found


@pytest.fixture
def shell(kafka_zk_hosts: str, tmp_path: Path) -> Shell:
    """A command as a shell runs it, its standard output as it says; its status is the command's."""

    def run(arguments: tuple[str, ...], to: str = "") -> subprocess.CompletedProcess[str]:
        words = (
            sys.executable,
            "-m",
            "zkcoord.cli.main",
            *arguments,
            "--zookeeper",
            kafka_zk_hosts,
        )
        line = f'exec 3> >(true); wait $!; "$@" {to}'
        return subprocess.run(
            ["bash", "-c", line, "bash", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=environment(tmp_path),
        )

    return run


def stored(here: World, topic: str) -> list[int]:
    return [
        int(here.client.get(here.layout.offset("billing", TopicPartition(topic, n)))[0])
        for n in range(2)
    ]


@pytest.mark.parametrize(
    ("to", "form"), [(LOST[0], ()), (LOST[1], ("--json",)), (LOST[2], ()), (LOST[0], ("--export",))]
)
def test_a_shift_that_cannot_be_printed_is_done_once(
    here: World, topic: str, shell: Shell, to: str, form: tuple[str, ...]
) -> None:
    done = shell((*SHIFT, *form), to)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert f"2 partitions were reset; {SAYS}" in done.stderr
    assert stored(here, topic) == [9, 14]
    again = shell(SHIFT)
    assert (again.returncode, again.stdout) == (1, "") and again.stderr.count("\n") == 1
    assert "has shifted 2 partitions of billing already" in again.stderr
    assert f"{topic}-0 from 10 to 9" in again.stderr and "--again" in again.stderr
    assert stored(here, topic) == [9, 14]
    meant = shell((*SHIFT, "--again"))
    assert meant.returncode == 0 and stored(here, topic) == [8, 13]
    assert shell(SHIFT).returncode == 0 and stored(here, topic) == [7, 12], "the last one was told"


def test_an_interrupted_shift_is_not_done_twice(
    here: World,
    topic: str,
    kafka_zk_hosts: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """It is killed between the transaction and the next line of the program; one partition is
    chosen, the other is not kept from being shifted.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    multi = SyncClient.multi

    def interrupted(client: SyncClient, ops: Any) -> Any:
        multi(client, ops)
        raise KeyboardInterrupt

    one = ("offsets", "reset", "billing", "--topic", f"{topic}:0", "--shift-by", "-1", "--execute")
    with monkeypatch.context() as patched:
        patched.setattr(SyncClient, "multi", interrupted)
        assert main([*one, "--zookeeper", kafka_zk_hosts]) == 130
    assert stored(here, topic) == [9, 15]
    capsys.readouterr()
    assert main([*SHIFT, "--zookeeper", kafka_zk_hosts]) == 1
    said = capsys.readouterr().err
    assert "1 other was not" in said and f"{topic}-0 from 10 to 9" in said
    rest = ("offsets", "reset", "billing", "--topic", f"{topic}:1", "--shift-by", "-1", "--execute")
    assert main([*rest, "--zookeeper", kafka_zk_hosts]) == 0
    assert stored(here, topic) == [9, 14]


@pytest.mark.parametrize(
    "command",
    [
        ("offsets", "reset", "billing", "--all-topics", "--to-earliest", "--execute"),
        ("offsets", "accept", "billing", "--all-topics", "--execute"),
        ("groups", "mode", "billing", "coordinated", "--timeout-ms", "1"),
        ("migrate", "apply", "2", "--only", "billing"),
        ("groups", "delete", "billing", "--execute"),
    ],
)
def test_what_was_done_and_cannot_be_printed(
    here: World, shell: Shell, command: tuple[str, ...]
) -> None:
    done = shell(command, LOST[0])
    assert done.returncode == 0 and SAYS in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("groups", "list"),
        ("groups", "describe", "billing"),
        ("offsets", "show", "billing"),
        ("check",),
        ("migrate", "plan", "2"),
        ("offsets", "reset", "billing", "--all-topics", "--shift-by", "-1"),
    ],
)
def test_what_was_asked_for_and_cannot_be_printed(
    here: World, topic: str, shell: Shell, command: tuple[str, ...]
) -> None:
    done = shell(command, LOST[len(command) % 2])
    assert done.returncode == 1 and done.stderr.splitlines()[-1].count(SAYS) == 1, done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert stored(here, topic) == [10, 15]


def test_what_is_kept_survives_junk_and_a_torn_line(tmp_path: Path) -> None:
    untold = Untold(tmp_path / "new", "zk g")
    rows = [AboutToBeWritten(TopicPartition("t", n), 10, 9, None if n else 4) for n in range(3)]
    assert untold.found() == ("", [])
    untold.write("--shift-by -1", 1_000, rows[:2])
    untold.write("--shift-by -1", 2_000, rows[2:])
    (path,) = (tmp_path / "new").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(path.read_bytes() + b'7\n{"rows": [[1], 2, null]}\n{"t": "x", "rows": [["t"')
    assert untold.found() == ("--shift-by -1 of 1970-01-01T00:00:01.000Z", rows)
    versions = {row.tp: row.version for row in rows}
    assert refusal("g", "it", rows, versions) == "", "nothing of it has happened"
    assert "shifted 1 partition of" in refusal("g", "it", rows, {**versions, rows[0].tp: 5})
    untold.told()
    untold.told()
    assert untold.found() == ("", []) and not untold.problem
    (tmp_path / "file").write_text("")
    nowhere = Untold(tmp_path / "file" / "x", "zk g")
    nowhere.write("--shift-by -1", 1, rows)
    assert "cannot be written" in nowhere.problem
