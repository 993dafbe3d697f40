"""A gateway as a process is watched and ended."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from consumer.gateway.operation.open_files import OWN, PER_CONNECTION
from tests.gateway import looking_often
from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.gateway.raw_client import RawClient
from tests.harness.command import Running, run
from tests.harness.kafka import create_topic, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.cli.main import main
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 6
LONG_NAME = "o" * 300


class Watched:
    """A gateway with a port for HTTP."""

    def __init__(self, home: Path, zookeeper: str, broker: str, **how: Any) -> None:
        home.mkdir()
        self.port = free_port()
        options = ("--http-port", str(self.port))
        self.process = GatewayProcess(home, zookeeper, broker, *options, **how)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def sample(self, name: str) -> float:
        """The value of a series."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
        raise AssertionError(f"no {name}")


@pytest.fixture
def gateway(kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path) -> Iterator[Watched]:
    """One beside a coordinator."""
    watched = Watched(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address)
    with coordinator(kafka_zk_hosts), watched.process:
        yield watched


@pytest.fixture
def looking(kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path) -> Iterator[Watched]:
    """The same, and it looks for split groups all the time."""
    program = looking_often.__name__
    watched = Watched(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address, program=program)
    with coordinator(kafka_zk_hosts), watched.process:
        yield watched


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic."""
    name = unique("wire")
    create_topic(kafka_broker.address, name, PARTITIONS)
    return name


def test_it_is_watched_and_ends_in_order(gateway: Watched, topic: str) -> None:
    wait_until(lambda: gateway.get("/ready") == (200, "serving\n"), PATIENCE_S, "ready")
    group = unique("g")
    clients = [Librdkafka(gateway.process.address, group, topic) for _ in range(2)]
    shared(clients, PARTITIONS)
    wait_until(
        lambda: gateway.sample('zkcoord_gateway_parked{kind="heartbeat"}') == 2,
        PATIENCE_S,
        "heartbeats that are parked",
    )
    wait_until(
        lambda: gateway.sample("zkcoord_gateway_coordinator_leads") == 1,
        PATIENCE_S,
        "that a coordinator is seen",
    )
    assert gateway.sample("zkcoord_gateway_members") == 2
    assert gateway.sample("zkcoord_gateway_clients_remembered") == 2
    assert gateway.sample("zkcoord_gateway_brokers") == 1
    assert gateway.sample('zkcoord_gateway_requests_total{api="JoinGroup"}') >= 4
    assert gateway.sample('zkcoord_gateway_answers_total{code="MEMBER_ID_REQUIRED"}') == 2
    assert gateway.sample('zkcoord_gateway_requests_total{api="OffsetFetch"}') >= 2
    assert gateway.sample('zkcoord_gateway_permission_questions_total{right="read"}') >= 2
    assert gateway.sample('zkcoord_gateway_answer_seconds_count{api="SyncGroup"}') >= 2
    for way in ("from_clients", "to_clients", "from_brokers", "to_brokers"):
        assert gateway.sample(f'zkcoord_gateway_bytes_total{{way="{way}"}}') > 0
    assert json.loads(gateway.get("/groups")[1]) == {
        "groups": [{"group": group, "members": 2, "partitions": PARTITIONS, "in_kafka": []}],
        "left_off": 0,
        "client_led": [],
        "client_led_left_off": 0,
    }
    assert gateway.process.stop() == 0
    line = "the gateway ends: 2 clients of 1 groups are handed over"
    assert gateway.process.log().count(line) == 1
    assert "0 sessions are left" in gateway.process.log()
    for client in clients:
        client.close()


def test_a_client_that_goes_to_the_brokers_by_itself_is_named(
    looking: Watched, topic: str, kafka_broker: KafkaBroker
) -> None:
    group = unique("g")
    ours = Librdkafka(looking.process.address, group, topic)
    shared([ours], PARTITIONS)
    theirs = Librdkafka(kafka_broker.address, group, topic, **{"client.id": "by-itself"})
    shared([theirs], PARTITIONS)
    wait_until(
        lambda: looking.sample("zkcoord_gateway_groups_split") == 1, PATIENCE_S, "a split group"
    )
    (found,) = json.loads(looking.get("/groups")[1])["groups"]
    assert found["group"] == group and "by-itself" in found["in_kafka"][0]
    assert looking.process.log().count("is split: members of it are here, and 1 in") == 1
    theirs.close()
    wait_until(
        lambda: looking.sample("zkcoord_gateway_groups_split") == 0, PATIENCE_S, "one coordinator"
    )
    ours.close()


def signalled_again(gateway: GatewayProcess) -> bool:
    """Send one more, which does not count as long as it may be the same; whether it was heard."""
    gateway.process.send_signal(signal.SIGTERM)
    return "SIGTERM again" in gateway.log() or gateway.process.poll() is not None


def is_refused(port: int) -> bool:
    """Whether nobody listens there any more."""
    try:
        socket.create_connection(("127.0.0.1", port), 60).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("again", [True, False])
def test_one_that_cannot_close_its_sessions_is_not_ready_and_ends_in_time_or_at_once(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path, topic: str, again: bool
) -> None:
    server, slash, chroot = kafka_zk_hosts.partition("/")
    with Proxy(int(server.rpartition(":")[2])) as proxy, coordinator(kafka_zk_hosts):
        gateway = Watched(
            tmp_path / "gateway", f"{proxy.address}{slash}{chroot}", kafka_broker.address
        )
        with gateway.process as process:
            client = Librdkafka(process.address, unique("g"), topic)
            shared([client], PARTITIONS)
            proxy.black_hole()
            process.process.send_signal(signal.SIGTERM)
            wait_until(lambda: gateway.get("/ready") == (503, "stopping\n"), PATIENCE_S, "no")
            wait_until(lambda: is_refused(process.port), PATIENCE_S, "its ports to be closed")
            if again:
                wait_until(lambda: signalled_again(process), PATIENCE_S, "that it hears the second")
            assert process.process.wait(PATIENCE_S) == 0
            assert ("SIGTERM again: the gateway ends at once" in process.log()) == again
            assert ("1 clients of 1 groups" in process.log()) != again
            proxy.heal()
            client.close()


def test_clients_are_described_and_what_was_decided_for_them_can_be_replayed(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    tmp_path: Path,
    topic: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    group, home = unique("g"), tmp_path / "coordinator"
    home.mkdir()
    leads = Running(home, "--zookeeper", kafka_zk_hosts)
    with leads, GatewayProcess(tmp_path / "g", kafka_zk_hosts, kafka_broker.address) as gateway:
        first = Librdkafka(gateway.address, group, topic, **{"client.id": LONG_NAME})
        other = Librdkafka(
            gateway.address, group, topic, **{"client.id": "two", "group.instance.id": "named"}
        )
        shared([first, other], PARTITIONS)
        asked = ["groups", "describe", group, "--zookeeper", kafka_zk_hosts]
        assert main([*asked, "--json"]) == 0
        members = json.loads(capsys.readouterr().out)["members"]
        said = {one["client_id"]: one for one in members}
        assert set(said) == {LONG_NAME[:255], "two"}, "and no registration failed"
        for one in said.values():
            assert one["library"].startswith("confluent-kafka-python ")
            assert (one["gateway"], one["host"]) == (gateway.address, "127.0.0.1")
        assert (said[LONG_NAME[:255]]["instance"], said["two"]["instance"]) == (None, "named")
        assert main([*asked, "--members", "--verbose"]) == 0
        assert gateway.address in capsys.readouterr().out
        first.close()
        shared([other], PARTITIONS)
        other.close()
        assert leads.signal() == 0
    assert main(["journal", "--group", group, "--journal-dir", str(leads.journal)]) == 0
    assert "member joined" in capsys.readouterr().out
    assert main(["replay", str(leads.journal), "--group", group]) == 0
    assert "identical" in capsys.readouterr().out.splitlines()[-1]
    (recording,) = leads.journal.glob("inputs-*.jsonl")
    assert b"confluent-kafka-python " in recording.read_bytes()


def test_few_open_files_are_said_and_kept_to(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """Of three clients the one for which there are no files is turned away, the others are not."""
    limit = OWN + 2 * PER_CONNECTION
    watched = Watched(tmp_path / "gateway", kafka_zk_hosts, kafka_broker.address, files=limit)
    with watched.process as gateway, contextlib.ExitStack() as clients:
        assert f"{limit} files, which is enough for 2 clients" in gateway.log()
        wait_until(
            lambda: not watched.sample("zkcoord_gateway_connections"),
            PATIENCE_S,
            "no other one",
        )
        for _ in range(2):
            client = clients.enter_context(RawClient(gateway.address))
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            assert client.ask(request, 4, MetadataResponse).brokers
        third = clients.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 60))
        assert third.recv(1) == b"", "it is closed"
        assert client.ask(request, 4, MetadataResponse).brokers


def test_a_port_that_another_process_has_is_no_wrong_option(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> None:
    """Status 1, not 2: systemd begins it again (RestartPreventExitStatus)."""
    command = ("gateway", "--zookeeper", kafka_zk_hosts, "--brokers", kafka_broker.address)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        for options in (
            ("--listen", f"127.0.0.1:{port}"),
            ("--listen", f"127.0.0.1:{free_port()}", "--broker-ports", f"0={port}"),
            ("--listen", f"127.0.0.1:{free_port()}", "--http-port", port),
        ):
            ended = run(tmp_path, *command, *options)
            assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
            assert port in ended.stderr and "Traceback" not in ended.stderr
