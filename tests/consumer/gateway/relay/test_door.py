"""Who comes in by TLS and who does not, what is said of it, and how often."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from consumer.gateway.address import Address
from consumer.gateway.options import BEGIN, GatewayOptions
from consumer.gateway.relay import door
from consumer.gateway.relay.door import ADDRESSES_MAX, SAID_AGAIN_S, ClientTls, TurnedAway
from consumer.gateway.relay.tls import GatewayTls, TlsFiles
from tests.consumer.gateway.relay.scenes import (
    FILES,
    WAIT_S,
    Relay,
    Sides,
    client_tls,
    echoes,
    request,
    stage,
)
from tests.guardian.test_tls import CERTIFICATE, KEY
from zkcoord.zk.options import Tls

ROOT = Path(__file__).parents[4]
NAMES = str(ROOT / "tests" / "gateway" / "pem" / "names.pem")
AUTHORITY = str(ROOT / "tests" / "zk" / "pem" / "ca.pem")
CLIENT = str(ROOT / "tests" / "zk" / "pem" / "client.pem")

Act = Callable[[Relay], Awaitable[None]]


def enact(act: Act, tls: GatewayTls | None = None) -> None:
    """Do something with a relay that clients reach by TLS."""

    async def run() -> None:
        _, relay = await stage(Sides.CLIENT, tls)
        await asyncio.wait_for(act(relay), WAIT_S)

    asyncio.run(run())


def turned_away(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Lines about clients that were turned away."""
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


async def refused(relay: Relay, **how: object) -> None:
    """A client that does not get in, whether it sees that in its handshake or (TLS 1.3) after."""
    with pytest.raises((OSError, asyncio.IncompleteReadError)):
        reader, writer = await relay.client(**how)  # type: ignore[arg-type]
        await echoes(reader, writer)
    await relay.gone.wait()
    assert relay.closings == 1


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n", request(18, 1), b"\x16\x03\x01" + b"\xff" * 90],
)
def test_what_is_no_tls_is_closed_with_one_line(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(relay: Relay) -> None:
        for n in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(data)
            assert await reader.read() == b""
            writer.close()
            while relay.closings <= n:
                await asyncio.sleep(0)
            assert relay.connection.figures.tls_failures == 1
        await echoes(*await relay.client())

    enact(act)
    (line,) = turned_away(caplog)
    assert "127.0.0.1" in line and "TLS" in line and "Traceback" not in caplog.text


def test_who_only_looks_for_the_port_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async def act(relay: Relay) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.close()
        await relay.gone.wait()

    enact(act)
    assert turned_away(caplog) == []


def test_a_handshake_has_its_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(door, "HANDSHAKE_S", 0.2)

    async def act(relay: Relay) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"\x16\x03\x01\x02\x00")  # the head of a ClientHello of 512 bytes
        assert await reader.read() == b""
        await relay.gone.wait()
        writer.close()

    enact(act)
    assert "no TLS handshake within" in turned_away(caplog)[0]


def test_where_is_no_room_no_handshake_begins() -> None:
    async def act(relay: Relay) -> None:
        relay.full = True
        assert relay.door is not None
        relay.door.context = None  # type: ignore[assignment,method-assign]  # nobody may ask for it
        with pytest.raises(OSError):
            await relay.client()
        await relay.gone.wait()

    enact(act)


@pytest.mark.parametrize("seed", range(20))
def test_who_goes_whenever_is_forgotten_once(seed: int) -> None:
    """Clients that are gone after any number of turns of the loop, before their handshake is done
    and after.
    """
    draw = random.Random(seed)

    async def act(relay: Relay) -> None:
        for _ in range(10):
            coming = asyncio.ensure_future(relay.client())
            for _ in range(draw.randrange(30)):
                await asyncio.sleep(0)
            if draw.random() < 0.3:
                await asyncio.wait([coming])
            coming.cancel()
            try:
                _, writer = await coming
            except (asyncio.CancelledError, OSError):
                pass
            else:
                writer.transport.abort()
        reader, writer = await relay.client()  # who came before has been accepted before
        await echoes(reader, writer)
        writer.transport.abort()
        while relay.closings < relay.accepted:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert relay.closings == relay.accepted

    enact(act)


@pytest.mark.parametrize("order", ["end, None", "None, end", "end, transport", "transport, end"])
def test_who_goes_as_its_handshake_is_done(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    """What asyncio gives back, and when it tells the door of the end, in any order."""
    doors: list[door.Door] = []

    async def start_tls(
        _loop: object, plain: asyncio.Transport, one: door.Door, *_: object, **_more: object
    ) -> asyncio.Transport | None:
        doors.append(one)
        if order.startswith("end"):
            one.connection_lost(None)
        return plain if "transport" in order else None

    monkeypatch.setattr(asyncio.SelectorEventLoop, "start_tls", start_tls)

    async def act(relay: Relay) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        inside = order == "transport, end"
        while not doors or (relay.connection._transport is None if inside else not relay.closings):
            await asyncio.sleep(0)
        if order.endswith("end"):
            doors[0].connection_lost(None)
        for _ in range(10):
            await asyncio.sleep(0)
        assert relay.connection._transport is None and relay.closings == 1
        writer.close()

    enact(act)


def asking(required: bool) -> GatewayTls:
    """Clients are asked for certificates."""
    own = Tls(AUTHORITY, CERTIFICATE, KEY)
    return GatewayTls(TlsFiles(lambda: own.server_context(CERTIFICATE, FILES, required), ()))


def with_certificate(path: str, key: str | None = None) -> ssl.SSLContext:
    """A client that shows one."""
    context = client_tls()
    context.load_cert_chain(path, key)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("required", [True, False])
def test_certificates_of_clients(
    required: bool, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    known, none = with_certificate(CLIENT), client_tls()
    strange = with_certificate(CERTIFICATE, KEY)
    for context in (known, none, strange):
        context.minimum_version = context.maximum_version = version

    async def good(relay: Relay) -> None:
        await echoes(*await relay.client(tls=known))

    async def bare(relay: Relay) -> None:
        if required:
            await refused(relay, tls=none)
        else:
            await echoes(*await relay.client(tls=none))

    async def bad(relay: Relay) -> None:
        await refused(relay, tls=strange)

    enact(good, asking(required))
    assert turned_away(caplog) == []
    enact(bare, asking(required))
    assert len(turned_away(caplog)) == required
    enact(bad, asking(required))
    assert "its certificate is not believed (self-signed" in turned_away(caplog)[-1]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_1_1_is_too_old(caplog: pytest.LogCaptureFixture) -> None:
    old = client_tls()
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    enact(lambda relay: refused(relay, tls=old))
    assert "UNSUPPORTED_PROTOCOL" in turned_away(caplog)[0]


# the host names of handshakes

OPTIONS = GatewayOptions(Address("0.0.0.0", 9192), (), "gw.test", broker_hosts="b{broker}.Gw.test")


def by_name(act: Act) -> None:
    """With brokers 0 and 1001."""

    async def named(relay: Relay) -> None:
        def broker_of(name: str) -> int | None:
            found = OPTIONS.broker_named(name)
            return found if found in (BEGIN, 0, 1001) else None

        assert relay.door is not None
        relay.door = ClientTls(relay.door.files, broker_of)
        await act(relay)

    own = Tls(None, NAMES)
    enact(named, GatewayTls(TlsFiles(lambda: own.server_context(NAMES, FILES, True), ())))


@pytest.mark.parametrize(
    ("name", "broker_id"),
    [("gw.test", BEGIN), ("GW.test", BEGIN), ("b0.gw.test", 0), ("B1001.gw.TEST", 1001)],
)
def test_a_name_chooses_the_broker(name: str, broker_id: int) -> None:
    async def act(relay: Relay) -> None:
        await echoes(*await relay.client(name, ssl.create_default_context(cafile=NAMES)))
        assert relay.turned_to == [broker_id]

    by_name(act)


@pytest.mark.parametrize(
    "name", ["b7.gw.test", "b00.gw.test", "b.gw.test", "gw.test.x", "localhost", ""]
)
def test_who_names_another_host_or_none_is_refused(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    anyone = ssl.create_default_context(cafile=NAMES)
    anyone.check_hostname = False

    async def act(relay: Relay) -> None:
        await refused(relay, name=name, tls=anyone)

    by_name(act)
    (line,) = turned_away(caplog)
    assert "127.0.0.1" in line and (f"asks for the host {name!r}" in line or "no host" in line)


def test_a_name_that_is_no_text_is_one_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Python calls `sys.unraisablehook` with it."""
    monkeypatch.setattr(sys, "unraisablehook", door.report_names)
    sent, hello = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_tls().wrap_bio(sent, hello, server_hostname="abcdefgh.test")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    data = hello.read().replace(b"abcdefgh", b"\xff\xfe\x00defgh"[:8].replace(b"\0", b"\x80"))

    async def act(relay: Relay) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(data)
        assert await reader.read() == b""
        await relay.gone.wait()
        writer.close()

    by_name(act)
    assert "whose name is no text" in caplog.text
    assert "Traceback" not in caplog.text + capfd.readouterr().err


@pytest.mark.parametrize(
    ("hosts", "name", "found"),
    [
        ("{broker}.gw", "12.gw", 12),
        ("kafka-{broker}", "kafka-3", 3),
        ("kafka-{broker}", "kafka--3", None),
        ("a{broker}a", "a", None),
        ("1{broker}1", "11", None),
        ("1{broker}1", "1111", 11),
        ("b{broker}.x", "b٣.x", None),
        ("b{broker}.x", "b" + "9" * 11 + ".x", None),
        ("b{broker}.x", "b1.x.", 1),
    ],
)
def test_ids_in_names(hosts: str, name: str, found: int | None) -> None:
    options = GatewayOptions(Address("h", 1), (), "begin", broker_hosts=hosts)
    assert options.broker_named(name) == found
    if found is not None:
        assert options.broker_address(found) == Address(name.removesuffix("."), 1)


def test_an_address_is_named_once_a_minute_and_not_all_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    said = TurnedAway(lambda: now)

    def say(address: str) -> bool:
        before = len(caplog.records)
        said.say(address, "why")
        return len(caplog.records) > before

    assert say("a") and not say("a") and say("b")
    now = SAID_AGAIN_S - 1
    assert not say("a")
    now = SAID_AGAIN_S
    assert say("a")
    assert sum(say(str(n)) for n in range(ADDRESSES_MAX + 50)) == ADDRESSES_MAX - 1
    assert len(said.seldom) == ADDRESSES_MAX
    now = 2 * SAID_AGAIN_S
    assert say("c")
