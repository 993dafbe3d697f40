"""Clients that are remembered though nobody will ask for them again, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from consumer.gateway.tooling.leftovers import SLACK_MS, Leftovers
from consumer.gateway.tooling.store import GroupStore
from tests.consumer.gateway.members.test_memory import CLIENT, GROUP, LAY
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import Subscription
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.codec import encode_registration
from zkcoord.znodes.gateway_nodes import RememberedClient, encode_client

OVER_MS = CLIENT.session_timeout_ms + SLACK_MS


class Scene:
    """A gateway's look, whose time stands still."""

    def __init__(self, store: GroupStore, client: KazooClient) -> None:
        self.now = 1_000_000
        self.client = client
        self.leftovers = Leftovers(store, LAY, lambda: self.now)

    def remember(self, client: RememberedClient) -> str:
        """A client's node; its path."""
        path = LAY.client(GROUP, client.node)
        self.client.create(path, encode_client(client), makepath=True)
        return path

    def register(self, client: RememberedClient) -> str:
        """Its member's registration."""
        data = encode_registration(
            Subscription({"t": 1}), timestamp_ms=1, instance=client.node, assignors=("range",)
        )
        path = LAY.registration(GROUP, "c1")
        self.client.create(path, data, ephemeral=True, makepath=True)
        return path

    def later(self, ms: int) -> int:
        """How many are forgotten after this time."""
        self.now += ms
        return self.leftovers.look()


@pytest.fixture
def scene(zk_hosts: str) -> Iterator[Scene]:
    """On a server with nothing else."""
    store = GroupStore(ZkOptions(zk_hosts, session_timeout_ms=6_000), LAY)
    client = connect(zk_hosts)
    yield Scene(store, client)
    disconnect(client)
    store.close()


def test_there_is_nothing(scene: Scene) -> None:
    assert scene.later(0) == 0


def test_a_client_without_a_member_is_forgotten_in_the_end(scene: Scene) -> None:
    path = scene.remember(CLIENT)
    assert scene.later(0) == 0
    assert scene.later(OVER_MS - 1) == 0
    assert scene.later(1) == 1
    assert scene.client.exists(path) is None
    assert scene.later(0) == 0


def test_a_member_is_remembered_and_its_time_begins_when_it_is_gone(scene: Scene) -> None:
    path = scene.remember(CLIENT)
    registration = scene.register(CLIENT)
    assert scene.later(0) == scene.later(2 * OVER_MS) == 0
    scene.client.delete(registration)
    assert scene.later(0) == scene.later(OVER_MS - 1) == 0
    scene.register(CLIENT)
    assert scene.later(OVER_MS) == 0
    scene.client.delete(registration)
    assert scene.later(0) == 0
    assert scene.client.exists(path) is not None


def test_who_is_told_something_meanwhile_begins_anew(scene: Scene) -> None:
    path = scene.remember(CLIENT)
    assert scene.later(0) == 0
    scene.client.set(path, encode_client(replace(CLIENT, generation=5)))
    assert scene.later(OVER_MS) == 0
    assert scene.later(OVER_MS) == 1


def test_what_is_no_client_stays(scene: Scene) -> None:
    scene.client.create(LAY.client(GROUP, "junk"), b"{", makepath=True)
    assert scene.later(0) == scene.later(2 * OVER_MS) == 0


def test_without_a_server_it_is_done_later(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    store = GroupStore(ZkOptions("127.0.0.1:1", connect_timeout_ms=100), LAY)
    assert Leftovers(store, LAY, lambda: 0).look() == 0
