"""What a gateway does about brokers that come while it runs."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer.gateway.address import Address
from consumer.gateway.cluster import ClusterSeen
from consumer.gateway.options import GatewayOptions
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.service import Gateway
from consumer.gateway.turns import Turns
from zkcoord.errors import UnavailableError
from zkcoord.stack.ports import free_port
from zkcoord.zk.options import ZkOptions

WAIT_S = 60.0
NEW = {7: Address("broker", 9092)}


def play(
    scene: Callable[[Gateway], Awaitable[None]],
    look: Callable[[], ClusterSeen],
    **ports: int,
) -> None:
    """Run a scene of a gateway that has found no broker yet."""
    listen = Address("127.0.0.1", free_port())
    port_of = {int(name.removeprefix("broker_")): port for name, port in ports.items()}

    async def run() -> None:
        options = GatewayOptions(listen, (), port_of=port_of, guardian=False)
        gateway = Gateway(options, ZkOptions("127.0.0.1:1"), {})
        gateway._events = asyncio.get_running_loop()
        gateway.cluster.look = look  # type: ignore[method-assign]
        try:
            await asyncio.wait_for(scene(gateway), WAIT_S)
        finally:
            gateway._ports.close()
            gateway.pool.shutdown()

    asyncio.run(run())


def test_a_broker_that_is_new_is_listened_for_once() -> None:
    """Each Metadata that names a broker which is not known may begin a look, beside the usual
    one.
    """

    async def scene(gateway: Gateway) -> None:
        await asyncio.gather(*(gateway._look() for _ in range(8)))
        assert list(gateway._ports.servers) == [7]

    play(scene, lambda: ClusterSeen(NEW), broker_7=free_port())


def test_many_answers_that_name_a_new_broker_begin_one_look() -> None:
    looks: list[int] = []
    go_on = threading.Event()

    def look() -> ClusterSeen:
        looks.append(1)
        go_on.wait(WAIT_S)
        return ClusterSeen(NEW)

    async def scene(gateway: Gateway) -> None:
        gateway.place(7, Address("broker", 9092))
        while not looks:
            await asyncio.sleep(0.01)
        for _ in range(20):
            gateway.place(7, Address("broker", 9092))
        go_on.set()
        await asyncio.gather(*gateway._tasks)
        gateway.place(7, Address("broker", 9092))
        assert len(looks) == 1 and not gateway._tasks and 7 in gateway._ports.servers

    play(scene, look, broker_7=free_port())


def test_a_new_broker_whose_port_is_taken_is_said_once_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taken, free = socket.create_server(("127.0.0.1", 0)), free_port()

    async def scene(gateway: Gateway) -> None:
        for _ in range(2):
            await gateway._look()
        assert list(gateway._ports.servers) == [8]
        errors = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
        assert len(errors) == 1 and "the port of broker 7" in errors[0]
        taken.close()
        await gateway._look()
        assert set(gateway._ports.servers) == {7, 8}

    seen = ClusterSeen({**NEW, 8: Address("broker", 9093)})
    play(scene, lambda: seen, broker_7=taken.getsockname()[1], broker_8=free)


def test_of_many_who_come_at_once_as_many_are_let_in_as_there_is_room_for() -> None:
    """All are accepted before the first one is asked for; whoever is turned away takes no place."""

    async def scene(gateway: Gateway) -> None:
        gateway.options = replace(gateway.options, connections_max=4, connections_per_address_max=3)
        coming = [cast(ClientConnection, gateway._accept(-1)) for _ in range(6)]
        for number, one in enumerate(coming):
            one.peer = "10.0.0.1" if number < 4 else f"10.0.0.{number}"
        assert [gateway.admits(one) for one in coming] == [True] * 3 + [False, True, False]
        assert gateway.admits(coming[0]), "it is asked again behind its handshake"
        assert gateway.connections == 4
        gateway.members.post = lambda work: None  # type: ignore[method-assign]
        gateway.closed(coming[3])
        assert gateway.connections == 4
        gateway.closed(coming[0])
        assert gateway.connections == 3 and gateway.admits(coming[5])

    play(scene, lambda: ClusterSeen(NEW))


def test_who_is_left_by_its_broker_has_more_time_to_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    async def scene(gateway: Gateway) -> None:
        later: list[Callable[[], None]] = []
        monkeypatch.setattr(gateway.members, "post", lambda work: work())
        monkeypatch.setattr(gateway.groups, "disconnected", lambda n: told.append(f"gone {n}"))
        monkeypatch.setattr(gateway.groups, "another_request", lambda n: told.append(f"end {n}"))
        gateway._events = cast(
            Any, SimpleNamespace(call_later=lambda s, post, work: later.append(partial(post, work)))
        )
        for number, left in ((1, True), (2, False)):
            gone = SimpleNamespace(number=number, turns=Turns(), left=left)
            gateway.closed(cast(Any, gone))
        assert told == ["end 1", "gone 2"]
        later.pop()()
        assert told == ["end 1", "gone 2", "gone 1"] and not later

    play(scene, lambda: ClusterSeen(NEW))


def test_since_when_no_broker_answers_is_known() -> None:
    answers = iter([UnavailableError("none"), UnavailableError("none"), ClusterSeen({})])

    def look() -> ClusterSeen:
        found = next(answers)
        if isinstance(found, UnavailableError):
            raise found
        return found

    async def scene(gateway: Gateway) -> None:
        assert gateway.silent_since_s is None
        await gateway._look()
        first = gateway.silent_since_s
        await gateway._look()
        assert first is not None and gateway.silent_since_s == first
        await gateway._look()
        assert gateway.silent_since_s is None

    play(scene, look)
