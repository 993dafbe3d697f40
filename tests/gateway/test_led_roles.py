"""A client-led group where ZooKeeper's nodes have ACLs: the documented rights are enough for all
that is done with it, and nobody else decides for it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from tests.gateway.clients import PATIENCE_S, GatewayProcess, Librdkafka, shared
from tests.gateway.led_stages import everything
from tests.gateway.own_assignor import OwnAssignor
from tests.harness.command import Running, run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import disconnect
from tests.security.principals import PASSWORDS, STRANGER, client_as, flags
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.paths import Layout

pytestmark = pytest.mark.kafka

PARTITIONS = 6
EACH = 20
KNOWN = {"auto.commit.interval.ms": 200}
PATHS = ClassicPaths(Layout.DRAFT)
RUNS = {"client-led": "its leader, a client,", "coordinated": "the coordinator"}


def user(name: str) -> tuple[str, ...]:
    """A user's credentials, for a command line."""
    return ("--zookeeper-user", name, "--zookeeper-password", PASSWORDS[name])


class Closed:
    """A server whose nodes have the ACLs of the table, a broker beside it, and who runs there."""

    def __init__(self, broker: KafkaBroker, hosts: str, home: Path) -> None:
        self.broker, self.hosts, self.home = broker, hosts, home
        self.asks = ("--zookeeper", hosts)
        self.topic = create_topic(broker.address, unique("roles"), PARTITIONS)
        self.produced = 0
        self.begun = 0

    def produce(self) -> None:
        """More records."""
        produce_numbered(self.broker.address, self.topic, PARTITIONS, EACH)
        self.produced += EACH

    def all_taken(self, clients: list[OwnAssignor]) -> None:
        """Wait until these have taken every record."""
        every = {(n, offset) for n in range(PARTITIONS) for offset in range(self.produced)}
        wait_until(
            lambda: {one for client in clients for one in client.taken} == every,
            PATIENCE_S,
            "all records",
        )

    def says(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of this user."""
        return run(self.home, *arguments, *self.asks, *user(name))

    def coordinator(self) -> Running:
        """A coordinator with its user."""
        self.begun += 1
        home = self.home / f"coordinator-{self.begun}"
        return Running(home, *self.asks, *user("coord"), *flags(), "--secure")

    def gateway(self, name: str, of: str = "coord") -> GatewayProcess:
        """A gateway with the rights of this user."""
        return GatewayProcess(
            self.home / name, self.hosts, self.broker.address, *user(of), *flags()
        )

    @contextmanager
    def as_user(self, name: str) -> Iterator[KazooClient]:
        """A plain client."""
        client = client_as(self.hosts, name)
        yield client
        disconnect(client)

    def as_table_says(self) -> None:
        """No node has another ACL than that of its place."""
        found = self.says("coord", "acl", "audit", *flags())
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """See the class."""
    home = tmp_path_factory.mktemp("roles")
    with everything(home) as (broker, hosts):
        one = Closed(broker, hosts, home)
        applied = one.says("coord", "acl", "apply", "--execute", *flags())
        assert applied.returncode == 0, applied.stdout + applied.stderr
        yield one


def runs(closed: Closed, group: str, machine: str) -> None:
    """Wait until a reader is told that this runs it, and that nobody has still to go over."""

    def is_run() -> bool:
        found = closed.says("viewer", "groups", "machine", group, "--json")
        assert found.returncode == 0, found.stderr
        told = json.loads(found.stdout)
        return bool(told["runs"] == RUNS[machine] and told["waits"] is None)

    wait_until(is_run, PATIENCE_S, f"{machine}")


def nobody_is_registered(closed: Closed, group: str) -> bool:
    """A gateway answers who leaves before it has taken away what is registered for them."""
    with closed.as_user("coord") as zk:
        return not zk.get_children(Layout.DRAFT.ids(group))


@pytest.mark.parametrize("told", [(), flags()], ids=["no-roles", "roles"])
def test_who_runs_a_group_is_said_by_who_may(
    closed: Closed, tmp_path: Path, told: tuple[str, ...]
) -> None:
    """Clients of a coordinator's and of a member's gateway go over and back. The word is not
    anybody's to change, whether the command was told who is what or not.
    """
    group = unique("g")
    with (
        closed.coordinator(),
        closed.gateway("three") as one,
        closed.gateway("four", "app") as two,
    ):
        clients = [Librdkafka(where.address, group, closed.topic, **KNOWN) for where in (one, two)]
        shared(clients, PARTITIONS)
        for machine in RUNS:
            for other in ("app", "viewer"):
                refused = closed.says(other, "groups", "machine", group, machine)
                assert refused.returncode == 1, refused.stderr
                # what is not there yet, and what is there and may not be written
                words = ("give a coordinator's credentials", "has not ZooKeeper's right")
                assert any(word in refused.stderr for word in words), refused.stderr
            said = closed.says("coord", "groups", "machine", group, machine, *told)
            assert said.returncode == 0, said.stderr
            runs(closed, group, machine)
            shared(clients, PARTITIONS)
            closed.as_table_says()
            for other in ("app", "viewer", STRANGER):
                with closed.as_user(other) as zk:
                    refuses_all(zk, PATHS.pin(group))
        for client in clients:
            assert not [kind for kind, _ in client.calls if kind == "lost"], client.calls
            assert client.errors == []
            client.close()
        assert closed.says("coord", "groups", "machine", group, "auto").returncode == 0
        wait_until(
            lambda: nobody_is_registered(closed, group), PATIENCE_S, "the clients to be gone"
        )
        done = closed.says("coord", "groups", "delete", group, "--execute", *told)
        assert done.returncode == 0, done.stderr
        closed.as_table_says()


def refuses_all(zk: KazooClient, path: str) -> None:
    """Nobody of these may change, delete or give away a node."""
    attempts: list[Callable[[], object]] = [
        lambda: zk.set(path, b"{}"),
        lambda: zk.delete(path),
        lambda: zk.set_acls(path, OPEN_ACL_UNSAFE),
        lambda: zk.create(f"{path}/more", b""),
    ]
    for attempt in attempts:
        with pytest.raises(NoAuthError):
            attempt()


def test_the_documented_rights_are_enough(closed: Closed, tmp_path: Path) -> None:
    """Joins, a leave, a death, the coordinator's, a gateway's; what an operator and a reader ask.
    Meanwhile nobody else may decide anything.
    """
    group = unique("g")
    with (
        closed.coordinator() as first,
        closed.gateway("one") as one,
        closed.gateway("two", "app") as two,
    ):
        both = [one.address, two.address]
        closed.produce()
        clients = [OwnAssignor(tmp_path / str(n), both, group, closed.topic) for n in range(3)]
        shared(clients, PARTITIONS)
        closed.all_taken(clients)
        gone = [clients.pop(), clients.pop(0)]
        gone[0].close()
        shared([gone[1], *clients], PARTITIONS)
        gone[1].kill()
        shared(clients, PARTITIONS)
        first.process.kill()
        with closed.coordinator() as second:
            second.ready("leading")
            clients += [OwnAssignor(tmp_path / "later", both, group, closed.topic)]
            shared(clients, PARTITIONS)
            one.restart()
            closed.produce()
            closed.all_taken([*gone, *clients])
            described = closed.says("viewer", "groups", "describe", group)
            assert described.returncode == 0 and closed.topic in described.stdout
            closed.as_table_says()
            with closed.as_user("coord") as zk:
                blobs = [
                    f"{PATHS.blobs(group)}/{name}" for name in zk.get_children(PATHS.blobs(group))
                ]
            decides = [PATHS.group(group), PATHS.state(group), PATHS.round(group), *blobs]
            for other in ("app", "viewer", STRANGER):
                with closed.as_user(other) as zk:
                    for path in decides:
                        refuses_all(zk, path)
                    if other != "app":
                        for above in (PATHS.requests, PATHS.presences(group)):
                            with pytest.raises(NoAuthError):
                                zk.create(f"{above}/{'0' * 32}", b"", ephemeral=True)
            refused = closed.says("coord", "groups", "delete", group, "--execute")
            assert refused.returncode == 1 and "stop them first" in refused.stderr
            for client in clients:
                client.close()
            assert closed.says("app", "groups", "delete", group, "--execute").returncode == 1
            done = closed.says("coord", "groups", "delete", group, "--execute")
            assert done.returncode == 0, done.stderr
            closed.as_table_says()
