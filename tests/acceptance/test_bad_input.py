"""Bad input gets one line that says what to do and a status that is not 0, in bounded time; and
nothing that was committed is lost by it, nor is anybody disturbed who did nothing wrong.

What one module refuses by itself is tested beside it (`tests/cli/test_main.py`,
`tests/config/test_sources.py`, `tests/consumer/test_options.py`); here are whole processes, and
newcomers in a group that is at work.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.structs import TopicPartition

from consumer.errors import BrokersUnreachableError, ConsumerOptionError
from tests.harness.command import Running, environment
from tests.harness.kafka import clean_groups, create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import consumer
from tests.kafka.test_processes import PATIENCE_S, Process, process
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

CLOSED_PORT = "127.0.0.1:1"
PARTITIONS, EACH = 2, 10


def last_words(module: str, *arguments: str, home: Path, **variables: str) -> tuple[int, str]:
    """Exit status and standard error of a program that is expected to refuse; it fails the test
    when it does not end by itself.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environment(home, **variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=home,
        check=False,
    )
    return done.returncode, done.stderr


def assert_one_line(status: int, errors: str, *parts: str) -> None:
    """One line with all `parts`, no traceback, not a success."""
    assert status not in (0, None) and "Traceback" not in errors, errors
    assert len(errors.splitlines()) == 1, errors
    for part in parts:
        assert part in errors, errors


CLI, CONSUMER = "zkcoord.cli.main", "consumer.verifiable"
SOMEWHERE = ("--zookeeper", CLOSED_PORT)


@pytest.mark.parametrize(
    ("module", "arguments", "parts"),
    [
        (CLI, ("coordinator", *SOMEWHERE, "--assignor", "best"), ("'best'", "sticky")),
        (CLI, ("coordinator", *SOMEWHERE, "--layout", "old"), ("draft or isolated",)),
        (
            CLI,
            ("coordinator", *SOMEWHERE, "--lease-max-ms", "long"),
            ("--lease-max-ms", "whole number"),
        ),
        (
            CLI,
            ("coordinator", *SOMEWHERE, "--sesion-timeout-ms", "9000"),
            ("'--sesion-timeout-ms'", "--session-timeout-ms"),
        ),
        (
            CLI,
            ("coordinator", *SOMEWHERE, "--no-journal", "--journal-dir", "x"),
            ("--journal-dir", "--no-journal"),
        ),
        (
            CLI,
            ("groups", "describe", "owners", *SOMEWHERE),
            ("'owners'", "choose a name other than"),
        ),
        (CLI, ("journal", "--dir", "nowhere"), ("nowhere", "--journal-dir")),
        (CLI, ("guard", "--pid", "1"), ("--socket",)),
        (CLI, ("guard", "--socket", "s", "--pid", str(2**22 + 1)), ("cannot be guarded",)),
        (CLI, ("guard", "--", "/no/such/program"), ("/no/such/program",)),
        (CLI, ("stack", "sideways"), ("'sideways'", "up")),
        (CLI, ("stack", "up", "--dir", "/proc/nobody"), ("/proc/nobody", "--dir")),
        (CONSUMER, ("--group", "g", "--topic", "t"), ("--zookeeper",)),
        (CONSUMER, (*SOMEWHERE, "--group", "g"), ("--topic or --pattern",)),
        (CONSUMER, (*SOMEWHERE, "--group", "g", "--topic", "t", "--colour"), ("--colour",)),
        (
            CONSUMER,
            (*SOMEWHERE, "--group", "g", "--topic", "t", "--session-timeout-ms", "x"),
            ("--session-timeout-ms",),
        ),
        (CONSUMER, (*SOMEWHERE, "--group", "a/b", "--topic", "t"), ("'a/b'", "a / parts")),
        (
            CONSUMER,
            (*SOMEWHERE, "--group", "offsets", "--topic", "t"),
            ("'offsets'", "choose a name other than"),
        ),
        (
            CONSUMER,
            (*SOMEWHERE, "--group", "g", "--topic", "t", "--consumer-id", "a b"),
            ("'a b'",),
        ),
        (
            CONSUMER,
            (*SOMEWHERE, "--group", "g", "--topic", "t", "--assignor", "be st"),
            ("'be st'", "'sticky'"),
        ),
        (
            CONSUMER,
            (*SOMEWHERE, "--group", "g", "--topic", "t", "--connection-timeout-ms", "300"),
            (CLOSED_PORT, "300 ms", "zookeeper_connect"),
        ),
        (
            CONSUMER,
            (
                "--zookeeper",
                "nobody.invalid:2181",
                "--group",
                "g",
                "--topic",
                "t",
                "--connection-timeout-ms",
                "2500",
            ),
            ("nobody.invalid", "resolved"),
        ),
    ],
)
def test_a_program_refuses_in_one_line(
    module: str, arguments: tuple[str, ...], parts: tuple[str, ...], tmp_path: Path
) -> None:
    status, errors = last_words(module, *arguments, home=tmp_path)
    assert_one_line(status, errors, *parts)
    assert not list(tmp_path.glob(".zkcoord-stack*")), "and leaves nothing behind"


@pytest.mark.parametrize(
    "variable", [{"ZKCOORD_LEASE_MAX_MS": "12s"}, {"ZKCOORD_LEASE_MAX": "12000"}]
)
def test_a_coordinator_refuses_a_bad_environment(variable: dict[str, str], tmp_path: Path) -> None:
    status, errors = last_words(CLI, "coordinator", *SOMEWHERE, home=tmp_path, **variable)
    assert_one_line(status, errors, "ZKCOORD_LEASE_MAX_MS")


# newcomers in a group that is at work


@dataclass
class Group:
    """A group at work: coordinator and one member as processes, all records consumed and
    committed.
    """

    hosts: str
    broker: KafkaBroker
    name: str
    member: Process

    def command(self, **changed: str) -> tuple[str, ...]:
        """How a newcomer of the same group is started, with some things different."""
        options = {
            "zookeeper": self.hosts,
            "group": self.name,
            "topic": self.name,
            "assignor": "range",
            **changed,
        }
        return tuple(
            word
            for name, value in options.items()
            for word in (f"--{name.replace('_', '-')}", value)
        )

    def stored(self) -> dict[str, bytes]:
        """The committed offsets by partition."""
        client = connect(self.hosts)
        try:
            return {
                n: client.get(Layout.DRAFT.offset(self.name, TopicPartition(self.name, int(n))))[0]
                for n in client.get_children(Layout.DRAFT.offset_topic(self.name, self.name))
            }
        finally:
            disconnect(client)

    def told(self) -> int:
        """How often the member's assignment has changed in any way."""
        return sum(
            len(self.member.of(event))
            for event in ("registered", "assigned", "revoke", "revoked", "lost")
        )


@pytest.fixture(scope="module")
def group(kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    hosts = kafka_broker.zookeeper
    clean_groups(hosts)
    name = create_topic(kafka_broker.address, unique("atwork"), PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    with Running(tmp_path_factory.mktemp("coordinator"), "--zookeeper", hosts) as leader:
        leader.ready("leading")
        with process(
            "--zookeeper",
            hosts,
            "--group",
            name,
            "--topic",
            name,
            "--commit",
            "sync",
            "--assignor",
            "range",
            "--consumer-id",
            "steward",
        ) as member:
            found = Group(hosts, kafka_broker, name, member)
            done = {str(n): str(EACH).encode() for n in range(PARTITIONS)}
            wait_until(
                lambda: member.of("committed") and found.stored() == done,
                PATIENCE_S,
                f"everything consumed and committed; {member.errors}",
            )
            yield found
            produce_numbered(kafka_broker.address, name, PARTITIONS, EACH, EACH)
            wait_until(
                lambda: sum(map(len, member.delivered().values())) >= 2 * PARTITIONS * EACH,
                PATIENCE_S,
                "that the member goes on after all that",
            )
            member.child.terminate()
            assert member.end() == 0, member.errors
            assert member.delivered() == {
                f"{name}-{n}": list(range(2 * EACH)) for n in range(PARTITIONS)
            }
    clean_groups(hosts)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"consumer_id": "steward"}, ("'steward' is in use", "consumer_id of its own")),
        ({"layout": "isolated"}, ("zookeeper_layout='draft'",)),
        ({"assignor": "sticky"}, ("INCONSISTENT_GROUP_PROTOCOL",)),
        (
            {
                "bootstrap_servers": "BROKER",
                "zookeeper": CLOSED_PORT,
                "connection_timeout_ms": "300",
            },
            (CLOSED_PORT, "zookeeper_connect"),
        ),
        ({"bootstrap_servers": "BROKER", "zookeeper": "HOSTS/nowhere"}, ("/nowhere", "chroot")),
        ({"zookeeper": "HOSTS/nowhere"}, ("/nowhere", "chroot")),
        ({"zookeeper": "SERVER"}, ("no live broker", "chroot")),
    ],
)
def test_a_bad_newcomer_is_refused_and_nobody_else_notices(
    group: Group, changed: dict[str, str], parts: tuple[str, ...]
) -> None:
    stored, told = group.stored(), group.told()
    places = {
        "BROKER": group.broker.address,
        "HOSTS": group.hosts,
        "SERVER": group.hosts.partition("/")[0],
    }
    for word, place in places.items():
        changed = {name: value.replace(word, place) for name, value in changed.items()}
    with process(*group.command(**changed)) as newcomer:
        status = newcomer.end()
    assert_one_line(status, "".join(newcomer.errors), *parts)
    assert newcomer.delivered() == {}
    assert group.stored() == stored and group.told() == told


@pytest.mark.kafka
def test_without_a_reset_policy_and_an_offset_nothing_is_invented(group: Group) -> None:
    other = unique("noreset")
    with process(*group.command(group=other, reset="none")) as newcomer:
        status = newcomer.end()
    assert_one_line(status, "".join(newcomer.errors), "auto_offset_reset", group.name)
    client = connect(group.hosts)
    try:
        assert client.exists(Layout.DRAFT.offset(other, TopicPartition(group.name, 0))) is None
    finally:
        disconnect(client)


@pytest.mark.kafka
def test_brokers_that_cannot_be_used_are_one_sentence(group: Group) -> None:
    with pytest.raises(
        BrokersUnreachableError,
        match=f"answers at {CLOSED_PORT} within 300 ms .*ECONNREFUSED.*: start it, or correct",
    ) as caught:
        consumer(group.hosts, "g", "t", bootstrap_servers=CLOSED_PORT, bootstrap_timeout_ms=300)
    assert caught.value.retriable
    with pytest.raises(ConsumerOptionError, match="no live broker with a SSL listener"):
        consumer(group.hosts, "g", "t", security_protocol="SSL")
