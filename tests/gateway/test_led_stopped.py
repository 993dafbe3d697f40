"""Who stands still in a rebalance of a client-led group, for longer than a session lasts, and goes
on; and a gateway that does not hear of what an operator says of a group: real processes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, begin_at_start, shared
from tests.gateway.own_assignor import OwnAssignor
from tests.gateway.test_changing import is_run_by, runs
from tests.harness.command import Running
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.paths import Layout

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

PARTITIONS = 6
EACH = 20
ALONE = "--no-gateways-in-metadata"


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic with records."""
    name = create_topic(kafka_broker.address, unique("stopped"), PARTITIONS)
    produce_numbered(kafka_broker.address, name, PARTITIONS, EACH)
    return name


def all_stored(hosts: str, group: str, topic: str, records: int) -> None:
    """Wait until the group has committed so many records of each partition."""
    zk = connect(hosts)
    paths = [f"{Layout.DRAFT.offset_topic(group, topic)}/{n}" for n in range(PARTITIONS)]
    wait_until(
        lambda: all(zk.exists(path) and zk.get(path)[0] == b"%d" % records for path in paths),
        PATIENCE_S,
        "the commits of all",
    )
    disconnect(zk)


def all_taken(clients: list[OwnAssignor] | list[Librdkafka], records: int) -> None:
    """Wait until somebody has taken each record."""
    every = {(n, offset) for n in range(PARTITIONS) for offset in range(records)}
    wait_until(lambda: {r for one in clients for r in one.taken} == every, PATIENCE_S, "records")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """It stands still meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("who", ["leader", "follower", "gateway", "coordinator"])
def test_who_stands_still_loses_nothing_and_harms_nobody(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    tmp_path: Path,
    who: str,
    static: bool,
) -> None:
    group, asks = unique("g"), ("--zookeeper", kafka_zk_hosts)
    servers = kafka_zk_hosts, kafka_broker.address, ALONE
    with ExitStack() as stack:
        leads = stack.enter_context(Running(tmp_path / "first", *asks))
        leads.ready("leading")
        stack.enter_context(Running(tmp_path / "second", *asks))
        gateways = [
            stack.enter_context(GatewayProcess(tmp_path / name, *servers)) for name in ("a", "b")
        ]
        clients: list[OwnAssignor] = []

        def joins(gateway: GatewayProcess) -> OwnAssignor:
            number = len(clients)
            more = {"group_instance_id": f"i{number}"} if static else {}
            home = tmp_path / f"client-{number}"
            clients.append(OwnAssignor(home, gateway.address, group, topic, **more))
            stack.callback(clients[-1].kill)
            return clients[-1]

        victim = joins(gateways[0])
        shared([victim], PARTITIONS)  # so it leads, as long as it is there
        for _ in range(2):
            joins(gateways[1])
        shared(clients, PARTITIONS)
        if who == "follower":
            victim = clients[1]
        others = [one for one in clients if one is not victim or who == "coordinator"]
        others.append(joins(gateways[1]))
        pids = {"gateway": gateways[0].process.pid, "coordinator": leads.process.pid}
        with stopped(pids.get(who, victim.process.pid)):
            produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
            shared(others, PARTITIONS)
            all_taken(clients, 2 * EACH)
            all_stored(kafka_zk_hosts, group, topic, 2 * EACH)
        shared(clients, PARTITIONS)
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        all_taken(clients, 3 * EACH)
        all_stored(kafka_zk_hosts, group, topic, 3 * EACH)


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
@pytest.mark.parametrize("words", [1, 2, 4])
def test_a_gateway_that_hears_of_no_word_follows_when_it_does(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    strategy: str,
    words: int,
) -> None:
    """Its connection to ZooKeeper stands still, but shorter than its session lasts."""
    group = unique("g")
    host, _, chroot = kafka_zk_hosts.partition("/")
    with (
        Running(tmp_path / "coordinator", "--zookeeper", kafka_zk_hosts) as leads,
        Proxy(int(host.rpartition(":")[2])) as proxy,
        GatewayProcess(tmp_path / "a", kafka_zk_hosts, kafka_broker.address, ALONE) as one,
        GatewayProcess(
            tmp_path / "b", f"{proxy.address}/{chroot}", kafka_broker.address, ALONE
        ) as deaf,
    ):
        leads.ready("leading")
        begin_at_start(one.address, group, topic, PARTITIONS)
        clients = [
            Librdkafka(
                (one, deaf)[number % 2].address,
                group,
                topic,
                **{"partition.assignment.strategy": strategy, "auto.commit.interval.ms": 200},
            )
            for number in range(4)
        ]
        shared(clients, PARTITIONS)
        all_taken(clients, EACH)
        proxy.black_hole()
        machines = (["client-led", "coordinated"] * 2)[:words]
        for machine in machines:
            runs(group, machine, kafka_zk_hosts, capsys)
        produce_numbered(kafka_broker.address, topic, PARTITIONS, EACH)
        proxy.heal()
        is_run_by(group, machines[-1], kafka_zk_hosts, capsys)
        shared(clients, PARTITIONS)
        all_taken(clients, 2 * EACH)
        all_stored(kafka_zk_hosts, group, topic, 2 * EACH)
        for client in clients:
            assert not [kind for kind, _ in client.calls if kind == "lost"], client.calls
            client.close()
        taken = [record for client in clients for record in client.taken]
        assert len(taken) == len(set(taken)), "nothing was read twice"
