"""A group that changes from the coordinator to a leader among its clients and back, while real
clients of two gateways consume.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bench.gateway_clients import (
    COOPERATIVE,
    RANGE,
    Client,
    command_of,
    options_of,
    running,
    shares,
    when,
)
from tests.gateway.clients import (
    PATIENCE_S,
    V3,
    V4,
    GatewayProcess,
    Librdkafka,
    begin_at_start,
    shared,
)
from tests.gateway.foreign import ToolchainMissingError
from tests.gateway.own_assignor import OwnAssignor
from tests.harness.command import Running
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from zkcoord.cli.main import main
from zkcoord.stack.java import Java
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 50
KNOWN = {"auto.commit.interval.ms": 200}
RUNS = {"client-led": "its leader, a client,", "coordinated": "the coordinator"}
CHANGES = tuple(RUNS)
VICTIMS = ("coordinator", "gateway", "client")
KILLS_SEED = 36
EAGER = {**KNOWN, "partition.assignment.strategy": "range,roundrobin"}


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = unique("change")
    create_topic(kafka_broker.address, name, PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


@pytest.fixture
def gateways(
    kafka_broker: KafkaBroker, kafka_zk_hosts: str, tmp_path: Path
) -> Iterator[list[GatewayProcess]]:
    """Two beside a coordinator."""
    with (
        coordinator(kafka_zk_hosts),
        GatewayProcess(tmp_path / "one", kafka_zk_hosts, kafka_broker.address) as one,
        GatewayProcess(tmp_path / "two", kafka_zk_hosts, kafka_broker.address) as two,
    ):
        yield [one, two]


def runs(
    group: str, machine: str, hosts: str, capsys: pytest.CaptureFixture[str]
) -> dict[str, str | None]:
    """What `groups machine` says."""
    capsys.readouterr()
    arguments = ["groups", "machine", group, *filter(None, [machine])]
    assert main([*arguments, "--zookeeper", hosts, "--json"]) == 0
    said: dict[str, str | None] = json.loads(capsys.readouterr().out)
    return said


def is_run_by(group: str, machine: str, hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wait until it is, and nobody has still to go over."""
    want = {"runs": RUNS[machine], "waits": None}
    wait_until(
        lambda: want.items() <= runs(group, "", hosts, capsys).items(), PATIENCE_S, f"{machine}"
    )


def all_taken(taken: Callable[[], Iterable[tuple[int, int]]], records: int) -> None:
    """Wait until somebody has had each record: partitions, and offsets in each."""
    every = {(n, offset) for n in range(PARTITIONS) for offset in range(records)}
    wait_until(lambda: set(taken()) == every, PATIENCE_S, "all records")


@pytest.mark.parametrize("habits", [KNOWN, EAGER], ids=["cooperative", "eager"])
def test_a_group_changes_while_its_members_run(
    gateways: list[GatewayProcess],
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    habits: dict[str, object],
) -> None:
    group = unique("g")
    begin_at_start(gateways[0].address, group, topic, PARTITIONS)
    clients = [
        Librdkafka(gateways[number % 2].address, group, topic, **habits) for number in range(3)
    ]
    clients += [
        Librdkafka(gateways[0].address, group, topic, **{**habits, "group.instance.id": "static"})
    ]
    shared(clients, PARTITIONS)
    records = EACH
    for machine, leads in [
        ("client-led", "its leader, a client,"),
        ("coordinated", "the coordinator"),
    ]:
        deadline = time.monotonic() + PATIENCE_S
        said = [runs(group, machine, kafka_zk_hosts, capsys)]
        while said[-1]["runs"] != leads:
            assert time.monotonic() < deadline, said[-1]
            said.append(runs(group, "", kafka_zk_hosts, capsys))
        assert all(one["runs"] or one["waits"] for one in said), "it had members all the time"
        shared(clients, PARTITIONS)
        assert not runs(group, "", kafka_zk_hosts, capsys)["waits"]
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        records += EACH
        all_taken(lambda: (one for c in clients for one in c.taken), records)
    for one in clients:
        assert not any(what == "lost" for what, _ in one.calls), one.calls
        assert one.errors == []
        one.close()
    taken = [record for one in clients for record in one.taken]
    assert len(taken) == len(set(taken)), "nothing was read twice"


def gives_up_first(calls: list[tuple[str, tuple[int, ...]]]) -> set[int]:
    """What a client has given up before it was given anything."""
    given = next((at for at, (what, those) in enumerate(calls) if what == "assigned" and those), 0)
    return {one for what, those in calls[:given] for one in those if what == "revoked"}


def test_clients_that_list_a_cooperative_assignor_of_their_own_give_up_first(
    gateways: list[GatewayProcess],
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Beside one that is known. They have not stopped when they join, so others would be given
    what they still consume.
    """
    group = unique("g")
    runs(group, "client-led", kafka_zk_hosts, capsys)
    clients = [
        OwnAssignor(
            tmp_path / f"c{number}", gateways[number].address, group, topic, cooperative=True
        )
        for number in range(2)
    ]
    try:
        records = EACH
        for machine in ("client-led", "coordinated", "client-led", "coordinated"):
            before = [(len(one.calls), set(one.owned)) for one in clients]
            runs(group, machine, kafka_zk_hosts, capsys)
            is_run_by(group, machine, kafka_zk_hosts, capsys)
            for one, (at, had) in zip(clients, before, strict=True):
                wait_until(
                    lambda one=one, at=at, had=had: gives_up_first(one.calls[at:]) == had,
                    PATIENCE_S,
                    f"a client to give up what it had ({machine})",
                )
            wait_until(
                lambda: sorted(n for one in clients for n in one.owned) == [*range(PARTITIONS)],
                PATIENCE_S,
                f"all to share ({machine})",
            )
            produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
            records += EACH
            all_taken(lambda: (one for c in clients for one in c.taken), records)
        assert not [call for one in clients for call in one.calls if call[0] == "lost"]
        taken = [record for one in clients for record in one.taken]
        assert len(taken) == len(set(taken)), "nothing was read twice"
    finally:
        for one in clients:
            one.kill()


ALIKE = {
    "cooperative": (COOPERATIVE, [f"java {V3}", f"java {V4}", "librdkafka", "franz-go"]),
    "range": (RANGE, [f"java {V3}", "librdkafka", "franz-go", "sarama", "aiokafka"]),
}


@pytest.mark.nightly
@pytest.mark.parametrize("alike", ALIKE)
def test_clients_of_every_language_change_together(
    gateways: list[GatewayProcess],
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    java: Java,
    tmp_path: Path,
    alike: str,
) -> None:
    group = unique("g")
    strategy, kinds = ALIKE[alike]
    records = EACH
    with running() as clients:
        for number, kind in enumerate(kinds):
            options = options_of(kind, strategy, gateways[number % 2].address, group)
            options |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "500"}
            try:
                command = command_of(kind, java, topic, options)
            except ToolchainMissingError as error:
                pytest.skip(str(error))
            clients.append(Client(f"{number}-{kind.replace(' ', '-')}", command, tmp_path))
        for client in clients:
            wait_until(client.is_ready, PATIENCE_S, f"{client.name} to be ready")
            client.say("join")
        for machine in (None, *CHANGES, *CHANGES):
            if machine is not None:
                runs(group, machine, kafka_zk_hosts, capsys)
                is_run_by(group, machine, kafka_zk_hosts, capsys)
                produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
                records += EACH
            when(shares(clients, PARTITIONS), 0.0, f"all to share (after {machine})")
            all_taken(lambda: (one for c in clients for one in c.took()), records)
        assert not [event for client in clients for event in client.events if event.kind == "lost"]


@pytest.mark.nightly
def test_kills_while_a_group_changes(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    java: Java,
    tmp_path: Path,
) -> None:
    """Twelve changes, and in each a kill -9 of the coordinator, of a gateway or of a client, at a
    moment that is drawn.
    """
    group, drawn = unique("g"), random.Random(KILLS_SEED)
    asks = ("--zookeeper", kafka_zk_hosts)
    with ExitStack() as stack:
        leads = stack.enter_context(Running(tmp_path / "c-0", *asks))
        leads.ready("leading")
        gateways = [
            stack.enter_context(
                GatewayProcess(tmp_path / f"g-{n}", kafka_zk_hosts, kafka_broker.address)
            )
            for n in range(2)
        ]
        both = ",".join(one.address for one in gateways)
        clients = stack.enter_context(running())

        def joins(number: int) -> Client:
            options = options_of("librdkafka", COOPERATIVE, both, group)
            options |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "500"}
            command = command_of("librdkafka", java, topic, options)
            client = Client(f"client-{number}", command, tmp_path)
            clients.append(client)
            wait_until(client.is_ready, PATIENCE_S, "a client to be ready")
            client.say("join")
            return client

        living = [joins(number) for number in range(4)]
        when(shares(living, PARTITIONS), 0.0, "all to share")
        records = EACH
        for number, (machine, victim) in enumerate(zip(CHANGES * 6, VICTIMS * 4, strict=True)):
            runs(group, machine, kafka_zk_hosts, capsys)
            threading.Event().wait(drawn.uniform(0.0, 0.6))
            if victim == "coordinator":
                leads.process.kill()
                leads = stack.enter_context(Running(tmp_path / f"c-{number + 1}", *asks))
            elif victim == "gateway":
                gateways[drawn.randrange(2)].restart()
            else:
                living.pop(drawn.randrange(len(living))).kill()
                living.append(joins(len(clients)))
            is_run_by(group, machine, kafka_zk_hosts, capsys)
            when(shares(living, PARTITIONS), 0.0, f"all to share ({machine}, {victim} killed)")
            produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
            records += EACH
        all_taken(lambda: (one for c in clients for one in c.took()), records)
