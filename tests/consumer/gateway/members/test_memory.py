"""What gateways write into ZooKeeper, on a real server: clients that are remembered, and where
gateways are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from consumer.gateway.address import Address
from consumer.gateway.members.memory import ClientMemory
from consumer.gateway.neighbours import Neighbours
from consumer.gateway.own_session import OwnSession
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.security.principals import ROLES, digest
from zkcoord.core.model import TopicPartition
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import OPEN_ACL
from zkcoord.znodes.gateway_nodes import AnnouncedGateway, RememberedClient, encode_gateway
from zkcoord.znodes.paths import Layout

WAIT_S = 60.0
LAY = Layout.DRAFT
GROUP = "g"
CLIENT = RememberedClient(
    "m",
    None,
    4,
    "range",
    ("range",),
    ("t",),
    frozenset([TopicPartition("t", 0)]),
    10_000,
    60_000,
    by="this one",
)


class Gateway:
    """A gateway's own session, with what uses it."""

    def __init__(
        self,
        hosts: str,
        port: int = 9192,
        roles: Roles | None = None,
        user: str = "",
        options: dict[str, str] | None = None,
    ) -> None:
        self.loop = Loop("gateway")
        who = digest(user) if user else None
        zk = ZkOptions(hosts, session_timeout_ms=6_000, digest=who, roles=roles)
        self.session = OwnSession(KazooEnsemble(zk, self.loop.post), boot_ms)
        self.memory = ClientMemory(self.session, LAY, OPEN_ACL, "this one")
        self.known: tuple[AnnouncedGateway, ...] | None = None
        self.neighbours = Neighbours(
            LAY, OPEN_ACL, roles, Address("gw", port), lambda k: setattr(self, "known", k), options
        )
        self.session.use(self.neighbours)
        self.loop.attach(self.session)
        self.loop.post(self.session.start)
        self.loop.start()

    def ask(self, question: Callable[[Callable[..., None]], None]) -> Any:
        """What a question with a callback is answered."""
        answers: list[Any] = []
        self.loop.post(lambda: question(lambda *answer: answers.append(answer)))
        return wait_until(lambda: answers, WAIT_S, "an answer")[0]

    def write(self, client: RememberedClient, member: str = "c", known: bool = False) -> None:
        """Remember a client."""
        self.ask(lambda done: self.memory.write(GROUP, client, member, known, done))

    def read(self, *nodes: str) -> Any:
        """What is remembered of clients."""
        return self.ask(lambda done: self.memory.read([(GROUP, node) for node in nodes], done))[0]

    def close(self) -> None:
        """Its end."""
        self.loop.post(self.session.close)
        wait_until(lambda: self.session.finished, WAIT_S, "the session's end")
        self.loop.stop()
        self.loop.join(WAIT_S)
        assert self.loop.failure is None


@contextmanager
def gateway(hosts: str, port: int = 9192, **more: Any) -> Iterator[Gateway]:
    """While it is there."""
    it = Gateway(hosts, port, **more)
    try:
        wait_until(lambda: it.session.port is not None, WAIT_S, "a session")
        yield it
    finally:
        it.close()


@pytest.fixture
def client(zk_hosts: str) -> Iterator[KazooClient]:
    """Somebody else."""
    found = connect(zk_hosts)
    yield found
    disconnect(found)


def test_a_client_is_remembered_and_forgotten(zk_hosts: str, client: KazooClient) -> None:
    client.create(LAY.registration(GROUP, "c"), b"", makepath=True)
    with gateway(zk_hosts) as one, gateway(zk_hosts, 9292) as other:
        assert one.read(CLIENT.node) == [None]
        one.write(CLIENT)
        assert other.read("nobody", CLIENT.node) == [None, CLIENT]
        later = replace(CLIENT, generation=5)
        one.write(later, known=True)
        assert other.read(CLIENT.node) == [later]
        last = replace(CLIENT, generation=6)
        other.write(last)
        one.write(later)
        assert other.read(CLIENT.node) == [later]
        client.delete(LAY.client(GROUP, CLIENT.node))
        one.write(last, known=True)
        assert other.read(CLIENT.node) == [last]
        one.loop.post(lambda: one.memory.forget(GROUP, CLIENT.node, "c"))
        wait_until(lambda: other.read(CLIENT.node) == [None], WAIT_S, "it is forgotten")


def test_who_goes_on_with_a_client_says_so_before_it_is_registered(
    zk_hosts: str, client: KazooClient
) -> None:
    client.create(LAY.registration(GROUP, "c"), b"", makepath=True)
    late: list[str] = []
    with gateway(zk_hosts) as one, gateway(zk_hosts, 9292) as other:
        other.memory = ClientMemory(other.session, LAY, OPEN_ACL, "the other one")

        def released(by: Gateway, member: str = "c") -> bool:
            asked = by.ask(lambda done: by.memory.release(GROUP, CLIENT.node, member, done))
            return not asked[0]

        def claimed(client: RememberedClient) -> None:
            other.loop.post(lambda: other.memory.claim(GROUP, client, lambda: late.append("late")))
            other.read("nobody")  # it was answered by then

        one.write(CLIENT)
        (read,) = other.read(CLIENT.node)
        one.write(replace(CLIENT, generation=5))
        claimed(read)
        newest = replace(CLIENT, generation=5, by="the other one")
        assert one.read(CLIENT.node) == [newest] and not late, "what was written since stays"
        one.write(replace(CLIENT, generation=6), known=True)
        assert not released(one), "it has written over the claim, late"
        (read,) = other.read(CLIENT.node)
        assert read.generation == 6
        claimed(read)
        assert not released(one) and released(other, "c")
        claimed(read)
        assert late == ["late"] and released(one)
        one.write(CLIENT)
        assert not released(one, "d"), "its membership is another one's"
        assert one.read(CLIENT.node) == [CLIENT] and released(one) and not late[1:]
        assert one.read(CLIENT.node) == [None]


def test_whether_a_registration_is_there(zk_hosts: str, client: KazooClient) -> None:
    client.create(LAY.registration(GROUP, "c"), b"", makepath=True)
    with gateway(zk_hosts) as one:

        def is_member(name: str) -> Any:
            return one.ask(lambda done: one.memory.is_member(GROUP, name, done))[0]

        assert is_member("c") is True and is_member("d") is False
        one.loop.post(one.session.close)
        wait_until(lambda: one.session.port is None, WAIT_S, "the session's end")
        assert is_member("c") is None


def test_who_has_lost_the_membership_writes_nothing(zk_hosts: str, client: KazooClient) -> None:
    client.create(LAY.registration(GROUP, "c"), b"", makepath=True)
    with gateway(zk_hosts) as one:
        one.write(CLIENT)
        client.delete(LAY.registration(GROUP, "c"))
        one.write(replace(CLIENT, generation=5))
        one.loop.post(lambda: one.memory.forget(GROUP, CLIENT.node, "c"))
        assert one.read(CLIENT.node) == [CLIENT]
        one.write(replace(CLIENT, generation=5), "")
        assert one.read(CLIENT.node) == [CLIENT]


def test_what_is_no_client_is_not_remembered(zk_hosts: str, client: KazooClient) -> None:
    client.create(LAY.client(GROUP, "a"), b"{", makepath=True)
    with gateway(zk_hosts) as one:
        assert one.read("a") == [None]


def test_without_a_connection_there_is_no_answer_of_it(zk_hosts: str) -> None:
    with gateway(zk_hosts) as one:
        one.loop.post(one.session.close)
        wait_until(lambda: one.session.finished, WAIT_S, "the session's end")
        assert one.read(CLIENT.node) is None
        one.write(CLIENT)


def test_gateways_know_each_other(zk_hosts: str, client: KazooClient) -> None:
    with gateway(zk_hosts) as one:
        wait_until(lambda: one.known == (AnnouncedGateway(0, "gw", 9192),), WAIT_S, "itself")
        with gateway(zk_hosts, 9292) as other:
            both = (AnnouncedGateway(0, "gw", 9192), AnnouncedGateway(1, "gw", 9292))
            wait_until(lambda: one.known == both, WAIT_S, "the other one")
            wait_until(lambda: other.known == both[::-1], WAIT_S, "the first one")
            client.create(f"{LAY.gateways}/gateway-0000000009", b"{}")
            client.create(f"{LAY.gateways}/junk", encode_gateway("evil", 1))
            client.create(f"{LAY.gateways}/gateway-0000000007", encode_gateway("no:1", 1))
            third = encode_gateway("third", 1)
            client.create(f"{LAY.gateways}/gateway-0000000008", third, ephemeral=True)
            three = (*both, AnnouncedGateway(8, "third", 1))
            wait_until(lambda: one.known == three, WAIT_S, "what can be read")
            client.delete(f"{LAY.gateways}/gateway-0000000008")
        wait_until(lambda: one.known == both[:1], WAIT_S, "that the other one is gone")


def test_what_stays_without_its_maker_is_no_gateway(
    zk_hosts: str, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be believed for ever, and has a number that a gateway is to get."""
    evil = encode_gateway("evil", 1)
    client.create(f"{LAY.gateways}/gateway-0000000001", evil, makepath=True)
    with gateway(zk_hosts) as one:
        wait_until(lambda: "has the number that is next" in caplog.text, WAIT_S, "a warning")
        why = "gateway-0000000001': it is not ephemeral, so no gateway made it: delete it"
        wait_until(lambda: why in caplog.text, WAIT_S, "that it is named")
        assert not one.known
        client.delete(f"{LAY.gateways}/gateway-0000000001")
        wait_until(lambda: one.known, WAIT_S, "a number of its own")
        assert [(g.host, g.port) for g in one.known or ()] == [("gw", 9192)]


def test_gateways_that_have_waited_for_a_number_announce_themselves_once(
    zk_hosts: str, client: KazooClient
) -> None:
    """Their own nodes tell them that something has changed, too."""
    client.create(f"{LAY.gateways}/gateway-0000000001", b"{}", makepath=True)
    ports = (9192, 9292, 9392)
    with ExitStack() as stack:
        there = [stack.enter_context(gateway(zk_hosts, port)) for port in ports]
        for one in there:
            wait_until(lambda one=one: one.neighbours._has_no_number, WAIT_S, "no number")  # type: ignore[misc]
        client.delete(f"{LAY.gateways}/gateway-0000000001")
        for one in there:
            wait_until(lambda one=one: len(one.known or ()) == 3, WAIT_S, "all")  # type: ignore[misc]
        assert len(client.get_children(LAY.gateways)) == 3


def test_a_crowd_of_nodes_that_are_no_gateways_hides_none(
    zk_hosts: str, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.ensure_path(LAY.gateways)
    for number in range(300):
        client.create(f"{LAY.gateways}/gateway-{number:010}x", encode_gateway("evil", 1))
        client.create(f"{LAY.gateways}/gateway-{number:010}", encode_gateway("evil", 1))
    with gateway(zk_hosts) as one, gateway(zk_hosts, 9292) as other:
        wait_until(lambda: len(one.known or ()) == 2 == len(other.known or ()), WAIT_S, "both")
    assert caplog.text.count("clients are not told of a gateway by") < 20


def test_gateways_with_other_options_are_named(
    zk_hosts: str, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """What one says nothing about, as an earlier release, is no difference."""
    mine, others = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "3", "c": "4", "d": "5"}
    with gateway(zk_hosts, options=mine) as one:
        wait_until(lambda: one.known, WAIT_S, "itself")
        third = encode_gateway("third", 1)
        client.create(f"{LAY.gateways}/gateway-0000000008", third, ephemeral=True)
        with gateway(zk_hosts, 9292, options=others) as other:
            wait_until(lambda: len(one.known or ()) == len(other.known or ()) == 3, WAIT_S, "all")
            assert (one.neighbours.differing, other.neighbours.differing) == (1, 1)
            for port in (9192, 9292):
                said = f"the gateway at gw:{port} was begun with another b and another c than"
                assert said in caplog.text
            assert "the gateway at third" not in caplog.text
        wait_until(lambda: one.neighbours.differing == 0, WAIT_S, "that the other one is gone")


def test_a_gateway_that_is_told_where_this_one_is_is_named(
    zk_hosts: str, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """What is older is what this one left behind itself."""
    older = encode_gateway("gw", 9192)
    client.create(f"{LAY.gateways}/gateway-0000000000", older, ephemeral=True, makepath=True)
    with gateway(zk_hosts) as one:
        wait_until(lambda: one.known == (AnnouncedGateway(1, "gw", 9192),), WAIT_S, "itself")
        assert "where this one is" not in caplog.text
        client.create(f"{LAY.gateways}/gateway-0000000009", older, ephemeral=True)
        wait_until(lambda: "at gw:9192, where this one is" in caplog.text, WAIT_S, "a warning")


def test_a_session_that_is_lost_is_replaced_and_announced_again(
    zk_hosts: str, client: KazooClient
) -> None:
    with gateway(zk_hosts) as one:
        wait_until(lambda: one.known, WAIT_S, "itself")
        port = one.session.port
        assert port is not None
        one.loop.post(port.close)
        again = (AnnouncedGateway(1, "gw", 9192),)
        wait_until(lambda: one.known == again, WAIT_S, "itself anew")
        assert client.get_children(LAY.gateways) == ["gateway-0000000001"]


def test_where_there_are_roles_only_coordinators_say_where_gateways_are(zk_hosts: str) -> None:
    roles = ROLES
    with gateway(zk_hosts, roles=roles, user="coord") as one:
        wait_until(lambda: one.known, WAIT_S, "itself")
        with gateway(zk_hosts, 9292, roles=roles, user="app") as member:
            wait_until(lambda: member.known == one.known, WAIT_S, "the one that is announced")


def test_what_anybody_could_have_made_is_not_believed(
    zk_hosts: str, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    evil = encode_gateway("evil", 1)
    client.create(f"{LAY.gateways}/gateway-0000000008", evil, ephemeral=True, makepath=True)
    with gateway(zk_hosts, roles=ROLES, user="coord") as one:
        wait_until(lambda: one.known, WAIT_S, "itself")
        assert one.known is not None and [g.host for g in one.known] == ["gw"]
        assert "are not believed" in caplog.text
