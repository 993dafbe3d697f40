"""One client's connection through the relay, on real sockets, to a broker that answers what it is
told to: in plain text, and by TLS on each side and on both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.relay import broker as broker_module
from consumer.gateway.relay import connection as connection_module
from consumer.gateway.relay import expected as expected_module
from consumer.gateway.relay.connection import EXPECTED_MAX
from consumer.gateway.relay.expected import FAIR_BYTES, HELD_BY_ALL_BYTES_MAX, HELD_BYTES_MAX
from tests.consumer.gateway.recordings import framed, requests
from tests.consumer.gateway.relay import scenes
from tests.consumer.gateway.relay.scenes import (
    FETCH,
    HEARTBEAT,
    Broker,
    Relay,
    Sides,
    answer,
    echoes,
    frame_of,
    play,
    request,
)

LIST_OFFSETS = 2


@pytest.fixture(autouse=True, params=Sides, ids=lambda sides: sides.name)
def sides(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who speaks TLS."""
    monkeypatch.setattr(scenes, "SIDES", request.param)


def test_answers_come_in_the_order_of_the_requests() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        broker.hold = asyncio.Event()
        writer.write(request(FETCH, 1, b"one"))
        writer.write(request(HEARTBEAT, 2))
        writer.write(request(FETCH, 3, b"three"))
        while not relay.parked:
            await asyncio.sleep(0.01)
        relay.connection.answer_later(relay.parked[0], answer(2, b"ours"))
        broker.hold.set()
        assert [await frame_of(reader) for _ in range(3)] == [
            (1, b"one"),
            (2, b"ours"),
            (3, b"three"),
        ]

    play(scene)


def test_what_is_parked_holds_back_what_is_behind_it() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        writer.write(request(HEARTBEAT, 1) + request(FETCH, 2, b"two"))
        while broker.got != [2] or not relay.parked:
            await asyncio.sleep(0.01)
        relay.connection.answer_later(relay.parked[0], answer(1))
        assert [(await frame_of(reader))[0] for _ in range(2)] == [1, 2]
        writer.write(request(FETCH, 3))
        assert await frame_of(reader) == (3, b"")

    play(scene)


def test_a_connection_that_fetches_is_shared() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(request(HEARTBEAT, 1) + request(LIST_OFFSETS, 2))
        assert [(await frame_of(reader))[0] for _ in range(2)] == [1, 2]
        assert not relay.connection.is_shared
        writer.write(request(FETCH, 3))
        assert (await frame_of(reader))[0] == 3
        assert relay.connection.is_shared

    play(scene)


@pytest.mark.parametrize(
    ("name", "version", "is_shared"),
    [("sarama", 3, True), ("librdkafka", 3, False), ("sarama", 2, False)],
)
def test_a_library_that_asks_one_thing_at_a_time(name: str, version: int, is_shared: bool) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version="1")

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(framed(version, asked) + request(HEARTBEAT, 1))
        while not broker.got:
            await asyncio.sleep(0.01)
        assert relay.connection.is_shared is is_shared

    play(scene)


@pytest.mark.parametrize("seed", range(8))
def test_frames_in_any_pieces(seed: int) -> None:
    """Requests and answers of all sizes, cut anywhere, arrive whole and in order."""
    draw = random.Random(seed)

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wanted, data = [], b""
        for correlation in range(40):
            body = draw.randbytes(draw.choice((0, 1, 50, 5_000, 300_000)))
            key = draw.choice((FETCH, FETCH, HEARTBEAT))
            data += request(key, correlation, b"" if key == HEARTBEAT else body)
            wanted.append((correlation, b"ours" if key == HEARTBEAT else body))

        async def send() -> None:
            at = 0
            while at < len(data):
                size = draw.choice((1, 2, 3, 5, 11, 4_096, 100_000, 1_000_000))
                writer.write(data[at : at + size])
                await writer.drain()
                await asyncio.sleep(0)
                at += size

        sending = asyncio.create_task(send())
        assert [await frame_of(reader) for _ in wanted] == wanted
        await sending

    play(scene)


def produce(correlation: int, acks: int, version: int) -> bytes:
    """The beginning of a Produce, with its acks at the end."""
    body = b"" if version < 3 else struct.pack(">h", -1)
    if version >= 9:
        body = b"\0" + b"\0"
    return request(frames.PRODUCE, correlation, body + struct.pack(">h", acks), version)


@pytest.mark.parametrize("version", [0, 3, 8, 9])
def test_a_produce_without_acks_has_no_answer(version: int) -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(produce(1, 0, version) + produce(2, 1, version) + request(HEARTBEAT, 3))
        assert [(await frame_of(reader))[0] for _ in range(2)] == [2, 3]

    play(scene)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 7) + b"\0" * 7,
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihhih", 12, 1, 0, 1, 500) + b"me",
        b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n",
        struct.pack(">ihhih", 10 + 2, 1, 0, 1, 2) + b"\xff\xfe",
        struct.pack(">ihhih", 2**24, frames.PRODUCE, 9, 1, 0) + b"\xff\xff\xff\xff\x07",
    ],
)
def test_what_is_no_frame_ends_the_connection(data: bytes) -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(data)
        assert await reader.read() == b""
        await relay.gone.wait()
        assert broker.got == []

    play(scene)


def test_who_asks_too_much_at_once_is_closed() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        writer.write(b"".join(request(HEARTBEAT, n) for n in range(EXPECTED_MAX + 5)))
        assert await reader.read() == b""

    play(scene)


def test_a_broker_that_ends_ends_its_client() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        broker.port = 1  # nobody listens there
        writer.write(request(FETCH, 1))
        assert await reader.read() == b""

    play(scene)


@pytest.mark.parametrize("what", ["nothing", "waits", "silent", "means it", "holds it up"])
def test_who_means_no_broker_and_waits_for_none_does_not_notice_that_its_broker_is_gone(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A client that has come where clients begin, and whose heartbeat is parked or was answered a
    moment ago. Any other is closed, as by its broker.
    """

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.any_broker = what != "means it"
        await echoes(reader, writer)
        if what == "silent":
            monkeypatch.setattr(expected_module, "LIVELY_S", 0.0)
        if what == "waits":
            broker.hold = asyncio.Event()
            writer.write(request(FETCH, 2))
            while broker.got != [7, 2]:
                await asyncio.sleep(0.01)
        if what == "nothing":
            relay.park = True
            writer.write(request(HEARTBEAT, 3))
            while not relay.parked:
                await asyncio.sleep(0.01)
        if what == "holds it up":
            relay.connection.hold_up(Head(FETCH, 0, 4, "me"))
        lost = relay.connection._broker
        broker.end()
        if what == "nothing":
            relay.connection.answer_later(relay.parked[0], answer(3, b"ours"))
            assert await frame_of(reader) == (3, b"ours")
            while relay.connection._broker is lost:  # it is not read while a heartbeat is parked
                await asyncio.sleep(0.01)
            await echoes(reader, writer)
            assert relay.connection._broker is not lost and not relay.connection.left
        else:
            assert await reader.read() == b"" and relay.connection.left

    play(scene)


def test_who_has_no_broker_any_more_and_asks_nothing_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a client whose host is gone would stay for ever: nobody else looks for it."""

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.any_broker = True
        await echoes(reader, writer)
        monkeypatch.setattr(connection_module, "IDLE_S", 0.0)
        relay.connection.drop_if_slow()
        await echoes(reader, writer)
        broker.end()
        while relay.connection._broker is not None:
            await asyncio.sleep(0.01)
        relay.connection.drop_if_slow()
        assert await reader.read() == b""

    play(scene)


def test_a_question_that_its_broker_never_answers_ends_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is held up, so nobody would see that it has gone."""

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = relay.hold = True
        broker.hold = asyncio.Event()
        writer.write(request(HEARTBEAT, 1))
        while not relay.parked:
            await asyncio.sleep(0.01)
        connection = relay.connection
        asked = connection.ask(Head(FETCH, 0, 9, "us"), request(FETCH, 9), relay.parked[0])
        connection.drop_if_slow()
        await asyncio.sleep(0)
        assert not asked.done()
        monkeypatch.setattr(expected_module, "ASKED_S", -1.0)
        connection.drop_if_slow()
        assert await reader.read() == b"" and asked.cancelled()

    play(scene)


def test_no_room() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.full = True
        with contextlib.suppress(
            ConnectionError
        ):  # TLS does not say goodbye to whom it does not know
            again, more = await relay.client()
            assert await again.read() == b""
            more.close()
        assert relay.gone.is_set()

    play(scene)


def test_a_client_that_does_not_read_stops_its_broker() -> None:
    """What waits for it is bounded, however much it has asked for."""

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        large = bytes(4 * 1024 * 1024)
        for n in range(20):
            writer.write(request(FETCH, n, large))
        await asyncio.sleep(0)
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # the client stops reading
        sending = asyncio.create_task(writer.drain())
        while "client" not in relay.connection._broker_paused:
            await asyncio.sleep(0.01)
        transport = relay.connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 8 * 1024 * 1024
        reader._transport.resume_reading()  # type: ignore[attr-defined]  # and goes on
        assert [(await frame_of(reader))[0] for _ in range(20)] == list(range(20))
        await sending

    play(scene)


def test_a_client_that_does_not_read_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of ours do not gather either."""
    count, body = 2_000, bytes(20_000)
    monkeypatch.setattr(
        Relay, "serve", lambda relay, client, head, frame: answer(head.correlation_id, body)
    )

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # the client reads nothing
        await asyncio.sleep(0)

        async def send() -> None:
            for n in range(count):
                writer.write(request(HEARTBEAT, n, bytes(10_000)))
                await writer.drain()

        sending = asyncio.create_task(send())
        while relay.accepted == 0 or "unread" not in relay.connection._client_paused:
            await asyncio.sleep(0.01)
        transport = relay.connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 4 * 1024 * 1024
        assert not sending.done()
        reader._transport.resume_reading()  # type: ignore[attr-defined]  # and goes on
        assert [(await frame_of(reader))[0] for _ in range(count)] == list(range(count))
        await sending

    play(scene)


def test_large_requests_without_an_answer_are_not_all_kept() -> None:
    count, body = 40, bytes(1_000_000)

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        for n in range(count):
            writer.write(request(HEARTBEAT, n, body))
        held = HELD_BYTES_MAX // len(body) + 1
        while relay.accepted == 0 or not relay.connection._client_paused:
            await asyncio.sleep(0.01)
        assert len(relay.parked) == held
        for n in range(count):
            while len(relay.parked) <= n:
                await asyncio.sleep(0.001)
            relay.connection.answer_later(relay.parked[n], answer(n))
            assert (await frame_of(reader))[0] == n
        assert relay.connection.figures.held_bytes == 0

    play(scene)


def test_large_answers_are_made_when_there_is_room_for_them() -> None:
    """Behind one that is parked; the next one in turn always has room."""
    count, body = 40, bytes(1_000_000)

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        for n in range(count + 1):
            writer.write(request(HEARTBEAT, n))
        while len(relay.parked) <= count:
            await asyncio.sleep(0.01)
        first, *others = relay.parked
        made: list[int] = []

        async def make() -> None:
            for head in others:
                await relay.connection.room(head)
                made.append(head.correlation_id)
                relay.connection.answer_later(head, answer(head.correlation_id, body))

        making = asyncio.create_task(make())
        await asyncio.sleep(0.2)
        assert len(made) == HELD_BYTES_MAX // len(body) + 1
        await relay.connection.room(first)
        relay.connection.answer_later(first, answer(0))
        assert [(await frame_of(reader))[0] for _ in range(count + 1)] == list(range(count + 1))
        await making
        assert relay.connection.figures.held_bytes == 0

    play(scene)


def test_what_is_held_up_waits_while_the_broker_is_asked() -> None:
    """One request is at the broker, one is parked and asks the broker twice, two come behind: at
    once, and later.
    """

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = relay.hold = True
        broker.hold = asyncio.Event()
        writer.write(
            request(FETCH, 1, b"one") + request(HEARTBEAT, 2) + request(FETCH, 3, b"three")
        )
        while not relay.parked:
            await asyncio.sleep(0.01)
        (head,) = relay.parked
        connection = relay.connection
        asked = [
            connection.ask(Head(FETCH, 0, n, "us"), request(FETCH, n, bytes([n])), head)
            for n in (21, 22)
        ]
        writer.write(request(HEARTBEAT, 4))
        await asyncio.sleep(0.1)
        assert len(relay.parked) == 1 and relay.passed == [1], "what came behind was served"
        broker.hold.set()
        assert [frame[4:] for frame in await asyncio.gather(*asked)] == [b"\x15", b"\x16"]
        assert broker.got == [1, 21, 22]
        connection.answer_later(head, answer(2, b"two"))
        assert await frame_of(reader) == (1, b"one")
        assert await frame_of(reader) == (2, b"two")
        relay.hold = False
        connection.go_on(head)
        assert await frame_of(reader) == (3, b"three")
        while len(relay.parked) < 2:
            await asyncio.sleep(0.01)
        connection.answer_later(relay.parked[1], answer(4, b"four"))
        assert await frame_of(reader) == (4, b"four")
        await echoes(reader, writer)

    play(scene)


def test_only_the_request_that_holds_up_its_client_lets_it_go_on() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        writer.write(request(HEARTBEAT, 1))
        while not relay.parked:
            await asyncio.sleep(0.01)
        relay.hold = True
        writer.write(request(HEARTBEAT, 2) + request(FETCH, 3))
        while len(relay.parked) < 2:
            await asyncio.sleep(0.01)
        earlier, holding = relay.parked
        connection = relay.connection
        connection.answer_later(earlier, answer(1))
        connection.go_on(earlier)
        assert await frame_of(reader) == (1, b"")
        own = await connection.ask(Head(FETCH, 0, 9, "us"), request(FETCH, 9, b"own"), holding)
        assert (own[4:], broker.got) == (b"own", [9]), "what comes behind was asked before"
        connection.answer_later(holding, answer(2))
        connection.go_on(holding)
        assert [(await frame_of(reader))[0] for _ in range(2)] == [2, 3]

    play(scene)


def test_an_answer_to_something_else_is_not_believed() -> None:
    """Of our own questions, and of what is rewritten: its client is closed."""

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await echoes(reader, writer)
        connection = relay.connection
        asked = connection.ask(Head(FETCH, 0, 77, "us"), request(FETCH, 78))
        await relay.gone.wait()
        assert asked.cancelled()

    play(scene)


def test_nobody_is_asked_for_who_has_gone_or_is_answered() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = relay.hold = True
        writer.write(request(HEARTBEAT, 1) + request(HEARTBEAT, 2))
        while not relay.parked:
            await asyncio.sleep(0.01)
        (head,) = relay.parked
        connection = relay.connection
        question = Head(FETCH, 0, 7, "us"), request(FETCH, 7)
        connection.answer_later(head, answer(1))
        assert connection.ask(*question, head).cancelled()
        connection.go_on(head)
        while len(relay.parked) < 2:
            await asyncio.sleep(0.01)
        broker.hold = asyncio.Event()
        under_way = connection.ask(*question, relay.parked[1])
        connection.close()
        await relay.gone.wait()
        assert under_way.cancelled()
        assert connection.ask(*question, relay.parked[1]).cancelled()
        connection.go_on(head)

    play(scene)


def test_who_goes_waits_for_no_room() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay.park = True
        writer.write(request(HEARTBEAT, 1) + request(HEARTBEAT, 2))
        while len(relay.parked) < 2:
            await asyncio.sleep(0.01)
        large = bytes(HELD_BYTES_MAX + 1)
        relay.connection.answer_later(relay.parked[1], large)
        waiting = asyncio.create_task(relay.connection.room(relay.parked[1]))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        relay.connection.close()
        await waiting

    play(scene)


@pytest.mark.parametrize("size", [FAIR_BYTES - 100, FAIR_BYTES + 1_000])
def test_while_much_is_kept_for_all_who_has_much_is_not_served(size: int) -> None:
    """A request that is half there, and requests that wait for their answers."""

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await echoes(reader, writer)
        connection, others = relay.connection, HELD_BY_ALL_BYTES_MAX
        connection.figures.held_bytes += others
        relay.park = True
        body = bytes(size // 2)
        writer.write(request(HEARTBEAT, 1, body) + request(HEARTBEAT, 2, body))
        while len(relay.parked) < 2:
            await asyncio.sleep(0.01)
        assert bool(connection._client_paused) == (size > FAIR_BYTES)
        for head in relay.parked:
            connection.answer_later(head, answer(head.correlation_id))
            await frame_of(reader)
        assert not connection._client_paused and connection.figures.held_bytes == others
        writer.write(request(HEARTBEAT, 3, bytes(2 * size))[:size])
        if size > FAIR_BYTES:
            assert await reader.read() == b"", "it is closed"
        else:
            while connection.figures.held_bytes != others + size:
                await asyncio.sleep(0.01)
            connection.close()
        await relay.gone.wait()
        connection.answer_later(relay.parked[0], answer(1))
        assert connection.figures.held_bytes == others

    play(scene)


def test_every_request_of_a_group_is_read_whole_before_it_is_judged() -> None:
    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # an answer of FindCoordinator would be rewritten, and these are none
        others = (HEARTBEAT, frames.FIND_COORDINATOR)
        found = [framed(version, r) for key, version, r in requests() if key not in others]
        for data in found:
            writer.write(data[:9])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(data[9:])
        for _ in found:
            await frame_of(reader)
        assert len(broker.got) == len(found)

    play(scene)


def test_who_says_nonsense_and_goes_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    """A request without its answer yet, what is none, and the end of the connection: all of it is
    there when the relay reads on.
    """

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while relay.accepted == 0 or relay.connection._transport is None:
            await asyncio.sleep(0)
        relay.connection._client_paused.by("test")
        writer.write(request(FETCH, 1) + struct.pack(">i", -1))
        await writer.drain()
        socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())).shutdown(
            socket.SHUT_WR
        )
        for _ in range(200):  # so that its end is seen, where TLS looks for it
            await asyncio.sleep(0)
        relay.connection._client_paused.no_more_by("test")
        await relay.gone.wait()

    play(scene)
    assert [r for r in caplog.records if r.name == "asyncio"] == []


def test_who_does_not_let_go_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads nothing more is closed all the same, soon."""
    monkeypatch.setattr(broker_module, "CLOSE_S", 0.1)

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while relay.accepted == 0 or relay.connection._transport is None:
            await asyncio.sleep(0)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        transport = relay.connection._transport
        transport.write(bytes(16 * 1024 * 1024))
        relay.connection.close()
        await relay.gone.wait()

    play(scene)


def test_who_speaks_tls_to_a_plain_port_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """The most frequent mistake with one, which only the gateway's log can show."""
    caplog.set_level("INFO")

    async def scene(
        broker: Broker, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        assert await reader.read() == b""
        assert "speaks TLS to a port without it" in caplog.text

    play(scene)
