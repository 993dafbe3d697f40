"""The pages for who comes from another consumer: their programs and commands, as they stand, in the
order of the page, on a real broker. A group reads on through all of it: each program must get what
comes behind the one before it, and nothing else.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.test_examples import PATIENCE_S, Program, programs, start
from tests.docs.pages import blocks, commands, marked, page
from tests.gateway.clients import GatewayProcess
from tests.harness.command import run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from tests.legacy.jars import V1_1, compiled, release_classpath
from zkcoord.consumer import KafkaConsumer
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

EACH = 5
PAGES = ("from-kafka-python", "from-confluent-kafka", "from-the-old-consumer")
# the record behind the last one that is wanted ends the program, as if its handler had failed
HANDLE = """
import os

def handle(record):
    offset = record.offset() if callable(record.offset) else record.offset
    if offset == int(os.environ.get("STOP_AT", "-1")):
        raise SystemExit(0)
    print("handled", offset, flush=True)
"""
JAVA = """
import java.util.*;
import kafka.consumer.*;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

public class Billing {
    static void handle(MessageAndMetadata<byte[], byte[]> message) {
        System.out.println("handled " + message.offset());
    }

    public static void main(String[] arguments) {
%s
    }
}
"""

IN_ITS_PLACE = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
"""A program that becomes the one that its arguments name."""


class Reader:
    """Runs the programs and commands of a page, for a topic and a group of its own."""

    def __init__(self, name: str, home: Path, zookeeper: str, broker: str) -> None:
        self.name, self.home, self.broker = name, home, broker
        self.topic, self.group = create_topic(broker, unique("moves"), 1), unique("g")
        self.said = {
            "zk1:2181,zk2:2181/kafka": zookeeper,
            "zk1:2181/kafka": zookeeper,
            "kafka1:9092": broker,
            '"orders"': f'"{self.topic}"',
            '"billing"': f'"{self.group}"',
        }
        self.next = 0

    def text(self, mark: str) -> str:
        """A program of the page, for what is here."""
        found = marked(self.name, mark)
        for written, here in self.said.items():
            found = found.replace(written, here)
        return found

    def does(self, mark: str) -> None:
        """Its commands; each must succeed."""
        here = {**self.said, "billing": self.group}
        for words in commands(self.name, mark):
            ended = run(self.home, *(here.get(word, word) for word in words))
            assert ended.returncode == 0, (words, ended.stdout, ended.stderr)

    @contextmanager
    def reads_on(self, *command: str, until_end: bool) -> Iterator[Program]:
        """A program that gets the next records and nothing else. `until_end`: it ends by itself, at
        the record behind them, which stays for the next; else it is told to end.
        """
        wanted = [f"handled {n}" for n in range(self.next, self.next + EACH)]
        self.next += EACH
        produced = EACH + 1 if until_end and self.next == EACH else EACH
        produce_numbered(self.broker, self.topic, 1, produced)
        os.environ["STOP_AT"] = str(self.next)
        with programs() as running:
            program = start(running, *command)
            yield program
            if not until_end:
                wait_until(lambda: len(program.said("handled")) >= EACH, PATIENCE_S, "the records")
                program.child.send_signal(signal.SIGTERM)
            status = program.end()
            assert program.said("handled") == wanted, (program.lines, program.errors)
            assert status in ((0,) if until_end else (0, 128 + signal.SIGTERM)), program.errors

    def python(self, mark: str) -> None:
        """A Python program of the page that commits each record."""
        with self.reads_on("-c", HANDLE + self.text(mark), until_end=True):
            pass


@pytest.fixture
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What programs are told by the environment is gone after the test."""
    monkeypatch.setenv("STOP_AT", "")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("undisturbed")
def test_from_kafka_python_and_back(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    reader = Reader("from-kafka-python", tmp_path, kafka_zk_hosts, kafka_broker.address)
    with coordinator(kafka_zk_hosts):
        for step in ("before", "after"):
            reader.python(step)
        reader.does("back")
        reader.python("before")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("undisturbed")
def test_from_confluent_kafka_both_ways_and_back(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    reader = Reader("from-confluent-kafka", tmp_path, kafka_zk_hosts, kafka_broker.address)
    home = tmp_path / "gateway"
    with coordinator(kafka_zk_hosts):
        reader.python("before")
        with GatewayProcess(home, kafka_zk_hosts, kafka_broker.address) as gateway:
            reader.said["gw1.example:9192"] = gateway.address
            reader.python("after: gateway")
            reader.python("after: member")
        reader.does("back")
        reader.python("before")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("undisturbed")
def test_from_the_old_consumer_and_back(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, java: Java, tmp_path: Path
) -> None:
    reader = Reader("from-the-old-consumer", tmp_path, kafka_zk_hosts, kafka_broker.address)
    source = tmp_path / "Billing.java"
    source.write_text(JAVA % reader.text("before"), encoding="utf-8")
    classes = release_classpath(V1_1, java)
    path = os.pathsep.join([compiled(source, java, class_path=classes), classes])
    flags = ("-Xmx192m", "-XX:+UseSerialGC")
    old = ("-c", IN_ITS_PLACE, str(java.executable), *flags, "-cp", path, "Billing")
    with coordinator(kafka_zk_hosts):
        with reader.reads_on(*old, until_end=False):
            pass
        reader.does("there")
        with reader.reads_on("-c", HANDLE + reader.text("after"), until_end=False):
            pass
        reader.does("back")
        with reader.reads_on(*old, until_end=False):
            pass


def test_each_program_of_these_pages_is_run() -> None:
    """A block of code without a mark would be run by nobody."""
    for name in PAGES:
        unmarked = [b for b in blocks(page(name)) if b.language and not b.mark]
        assert not unmarked, (name, unmarked)
    run_here = Path(__file__).read_text(encoding="utf-8")
    marks = {block.mark for name in PAGES for block in blocks(page(name)) if block.mark}
    assert all(f'"{mark}"' in run_here for mark in marks), marks


def test_calls_of_the_table_exist() -> None:
    """docs/from-confluent-kafka.md: on both sides."""
    from confluent_kafka import Consumer

    table = page("from-confluent-kafka").partition("<!-- calls -->\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    assert len(rows) > 10
    for theirs, ours in rows:
        for kind, words in ((Consumer, theirs), (KafkaConsumer, ours)):
            names = re.findall(r"`(\w+)(?:\([^)]*\))?`", words)
            missing = [n for n in names if not hasattr(kind, n) and n not in NO_METHODS]
            assert not missing, (kind, missing)


NO_METHODS = {"error_cb", "ConsumerRebalanceListener"}
"""What the table names beside methods: an option, and a class."""
