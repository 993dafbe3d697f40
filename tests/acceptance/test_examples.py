"""The programs in docs/examples that keep offsets outside, and the code in docs/consumer.md: run as
they stand, on real servers.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.stack.servers import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
PARTITIONS, EACH, STAGES = 4, 120, 3
SESSION_MS = 3_000


class Program:
    """A running program and the lines that it has written."""

    def __init__(self, *command: str) -> None:
        self.child = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self.child.stdout, self.lines), (self.child.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Iterator[str], into: list[str]) -> None:
        into.extend(line.rstrip("\n") for line in stream)

    def said(self, word: str) -> list[str]:
        """Lines that begin with a word."""
        return [line for line in list(self.lines) if line.startswith(word)]

    def at_work(self) -> bool:
        """Is the last thing that it said that it works on a batch?"""
        return bool(self.lines) and self.lines[-1].startswith("work")

    def end(self) -> int:
        """Wait for its end."""
        status = self.child.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return status

    def kill(self) -> None:
        """kill -9, also of one that stands still."""
        if self.child.poll() is None:
            self.child.kill()
        self.end()


@contextmanager
def programs() -> Iterator[ExitStack]:
    """Whatever is started in it ends with it."""
    with ExitStack() as running:
        yield running


def start(running: ExitStack, *command: str) -> Program:
    """A program that does not outlive the test."""
    program = Program(*command)
    running.callback(program.kill)
    return program


def stored(database: Path) -> dict[int, list[int]]:
    """The offsets in the table, by partition."""
    found: dict[int, list[int]] = {}
    if database.exists():
        with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as db:
            if db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'results'").fetchone()[
                0
            ]:
                for partition, offset in db.execute(
                    "SELECT partition, offset FROM results ORDER BY partition, offset"
                ):
                    found.setdefault(partition, []).append(offset)
    return found


def claims(database: Path) -> dict[int, int]:
    """The latest claim of each partition."""
    with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as db:
        return dict(db.execute("SELECT partition, claim FROM positions"))


def test_exactly_once_into_a_database(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """Processes are killed with -9 in the middle of their work, and one stands still while others
    take its partitions: its late transaction is refused. Each record is in the table once.
    """
    topic, database = (
        create_topic(kafka_broker.address, unique("exactly"), PARTITIONS),
        tmp_path / "results.db",
    )
    arguments = (
        str(ROOT / "docs" / "examples" / "exactly_once_sqlite.py"),
        "--zookeeper",
        kafka_zk_hosts,
        "--topic",
        topic,
        "--group",
        topic,
        "--database",
        str(database),
        "--session-timeout-ms",
        str(SESSION_MS),
        "--work-ms",
        "200",
    )
    with coordinator(kafka_zk_hosts), programs() as running:
        zombie, *others = [start(running, *arguments) for _ in range(2)]
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        stand_still_at_work(zombie)
        held = int(zombie.lines[-1].split()[1])
        before = claims(database)[held]
        wait_until(
            lambda: claims(database)[held] > before,
            PATIENCE_S,
            f"another claim of what it holds; {others[0].errors}",
        )
        os.kill(zombie.child.pid, signal.SIGCONT)
        wait_until(
            lambda: zombie.said("refused"),
            PATIENCE_S,
            f"the refusal; {zombie.lines[-5:]}; {zombie.errors}",
        )
        for stage, victim in enumerate((zombie, others[0]), 1):
            produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH, stage * EACH)
            wait_until(
                victim.at_work,
                PATIENCE_S,
                f"work to be killed in; {victim.lines[-5:]}; {victim.errors}",
            )
            others.append(start(running, *arguments))
            victim.kill()
        wait_until(
            lambda: sum(map(len, stored(database).values())) >= PARTITIONS * EACH * STAGES,
            PATIENCE_S,
            f"all records; {others[-1].errors}",
        )
        assert stored(database) == {n: list(range(EACH * STAGES)) for n in range(PARTITIONS)}


def stand_still_at_work(program: Program) -> None:
    """Stop it between a poll and the transaction of what that gave."""

    def stopped() -> bool:
        if program.at_work():
            os.kill(program.child.pid, signal.SIGSTOP)
            wait_until(
                lambda: (
                    Path(f"/proc/{program.child.pid}/stat")
                    .read_text()
                    .rpartition(")")[2]
                    .split()[0]
                    == "T"
                ),
                PATIENCE_S,
                "its standstill",
            )
            wait_until(
                lambda: unread(program) == 0,
                PATIENCE_S,
                "all that it had written before to be read",
            )
            threading.Event().wait(0.05)  # and noted
            if program.at_work():
                return True
            os.kill(program.child.pid, signal.SIGCONT)
        return False

    wait_until(
        stopped, PATIENCE_S, f"work to be stopped in; {program.lines[-5:]}; {program.errors}"
    )


def unread(program: Program) -> int:
    """How many bytes of its standard output nobody has taken yet."""
    assert program.child.stdout is not None
    (count,) = struct.unpack(
        "i", fcntl.ioctl(program.child.stdout, termios.FIONREAD, struct.pack("i", 0))
    )
    return int(count)


def blocks() -> list[str]:
    """The Python code in docs/consumer.md."""
    return re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "docs" / "consumer.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )


@pytest.mark.parametrize(
    "code",
    blocks(),
    ids=lambda code: next((line for line in reversed(code.splitlines()) if line.strip()), "")[:40],
)
def test_the_code_in_the_guide(kafka_broker: KafkaBroker, kafka_zk_hosts: str, code: str) -> None:
    """Each block is a program that handles records, on a topic of its own; `handle` ends it after
    the fifth.
    """
    topic = create_topic(kafka_broker.address, unique("guide"), 1)
    produce_numbered(kafka_broker.address, topic, 1, 5)
    here = (
        code.replace("zk1:2181,zk2:2181/kafka", kafka_zk_hosts)
        .replace("kafka1:9092", kafka_broker.address)
        .replace('"orders"', repr(topic))
        .replace('"billing"', repr(topic))
    )
    head = (
        "def handle(record):\n    print('handled', record.offset, flush=True)\n    if record.offset"
        " == 4:\n        raise SystemExit(0)\n"
    )
    with coordinator(kafka_zk_hosts), programs() as running:
        program = start(running, "-c", head + here)
        assert program.end() == 0, program.errors
    assert program.said("handled") == [f"handled {n}" for n in range(5)]
