"""Which broker clients are led to who mean none, while one of them is dead."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from consumer.gateway.address import Address
from consumer.gateway.relay import broker as broker_module
from consumer.gateway.relay.broker import AWAY_S, TRIED_MAX, BrokerChoice, Way, abort
from tests.consumer.gateway.relay.scenes import FETCH, WAIT_S, Relay, Sides, echoes, request, stage
from zkcoord.stack.ports import free_port

ONE, TWO, THREE = (Address("kafka", port) for port in (1, 2, 3))
KNOWN = {3: THREE, 1: ONE, 2: TWO}


def order(found: Way | None) -> list[Address]:
    """In which they are tried."""
    return [] if found is None else list(found.addresses)


def test_who_was_away_just_now_is_tried_last() -> None:
    now_s = [100.0]
    choice = BrokerChoice(lambda: now_s[0])
    assert order(choice.among({})) == []
    assert choice.among({1: ONE}) == Way((ONE,))
    assert order(choice.among(KNOWN)) == [ONE, TWO, THREE]
    choice.failed(ONE, "away")
    assert order(choice.among(KNOWN)) == [TWO, THREE, ONE]
    choice.failed(TWO, "away")
    choice.failed(THREE, "away")
    assert order(choice.among(KNOWN)) == [ONE, TWO, THREE]
    choice.reached(TWO)
    assert order(choice.among(KNOWN)) == [TWO, ONE, THREE]
    now_s[0] += AWAY_S
    assert order(choice.among(KNOWN)) == [ONE, TWO, THREE]
    many = {n: Address("kafka", n) for n in range(1, 100)}
    assert len(order(choice.among(many))) == TRIED_MAX


def test_a_broker_that_is_away_is_said_once_until_it_is_reached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    choice = BrokerChoice()
    for _ in range(3):
        choice.failed(ONE, "the broker at kafka:1 does not answer")
    assert len(caplog.records) == 1 and "led to another one" in caplog.text
    choice.reached(ONE)
    choice.failed(ONE, "away")
    choice.among({2: TWO})  # it is not a broker any more
    choice.failed(ONE, "away")
    assert len(caplog.records) == 3


@pytest.mark.parametrize("sides", [Sides.NONE, Sides.BROKER])
def test_a_client_that_begins_is_led_past_a_dead_broker(
    sides: Sides, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        broker, relay = await stage(sides)
        dead = Address("127.0.0.1", free_port())
        lives = Address("127.0.0.1", broker.port)
        choice = leads_to(relay, {0: dead, 1: lives})
        for _ in range(2):
            reader, writer = await relay.client()
            await asyncio.wait_for(echoes(reader, writer), WAIT_S)
            writer.close()
            assert order(choice.among({0: dead, 1: lives})) == [lives, dead]
        assert relay.connection.figures.broker_failures == 0

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert len(caplog.records) == 1


def test_a_broker_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection, and says nothing of TLS."""
    monkeypatch.setattr(broker_module, "TRY_S", 0.05)

    async def run() -> None:
        broker, relay = await stage(Sides.BROKER)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent_at = Address("127.0.0.1", silent.getsockname()[1])
            leads_to(relay, {0: silent_at, 1: Address("127.0.0.1", broker.port)})
            reader, writer = await relay.client()
            await asyncio.wait_for(echoes(reader, writer), WAIT_S)
            writer.close()

    asyncio.run(run())


def test_where_all_are_dead_the_client_is_closed() -> None:
    async def run() -> None:
        _, relay = await stage(Sides.NONE)
        leads_to(relay, {n: Address("127.0.0.1", free_port()) for n in range(3)})
        reader, writer = await relay.client()
        writer.write(request(FETCH, 1))
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
        assert relay.connection.figures.broker_failures == 1
        writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("who", ["broker", "client"])
def test_whose_broker_goes_is_left(who: str) -> None:
    async def run() -> None:
        _, relay = await stage(Sides.NONE)
        at_broker: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(
            lambda _, broker: at_broker.append(broker), "127.0.0.1", 0
        )
        relay.broker.port = server.sockets[0].getsockname()[1]
        reader, writer = await relay.client()
        writer.write(request(FETCH, 1))
        while not at_broker:
            await asyncio.sleep(0.01)
        (at_broker[0] if who == "broker" else writer).close()
        await asyncio.wait_for(relay.gone.wait(), WAIT_S)
        assert relay.connection.left == (who == "broker")
        writer.close()
        at_broker[0].close()
        server.close()

    asyncio.run(run())


def leads_to(relay: Relay, brokers: dict[int, Address]) -> BrokerChoice:
    """Any of these is behind the relay."""
    choice = BrokerChoice()
    relay.upstream = lambda: choice.among(brokers)  # type: ignore[method-assign]
    return choice


def test_what_is_closed_already_is_ended_without_a_word() -> None:
    """A transport of TLS has no protocol any more then (asyncio of Python 3.11.2)."""

    class Closed:
        """As such a one."""

        _ssl_protocol: Any = None

        def abort(self) -> None:
            """See `asyncio.Transport`."""
            self._ssl_protocol._abort()

    abort(Closed())  # type: ignore[arg-type]  # as far as it is used
