"""A client, a relay and a broker that answers what it is told to, on real sockets."""

from __future__ import annotations

import asyncio
import enum
import ssl
import struct
from collections.abc import Awaitable, Callable

from consumer.gateway import frames
from consumer.gateway.address import Address
from consumer.gateway.frames import Head
from consumer.gateway.relay.broker import Way
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.relay.door import ClientTls, Door
from consumer.gateway.relay.rewriting import Place
from consumer.gateway.relay.tls import PLAIN_TLS, GatewayTls, TlsFiles
from tests.guardian.test_tls import CERTIFICATE, KEY
from zkcoord.tls import kafka_tls
from zkcoord.zk.options import Tls

WAIT_S = 60.0
FETCH, HEARTBEAT = frames.FETCH, frames.HEARTBEAT


FILES = ("ca", "cert", "key")


class Sides(enum.Enum):
    """Who speaks TLS."""

    NONE = 0
    CLIENT = 1
    BROKER = 2
    BOTH = 3


SIDES = Sides.NONE


def server_tls() -> ssl.SSLContext:
    """Of `localhost` and 127.0.0.1."""
    return Tls(None, CERTIFICATE, KEY).server_context(CERTIFICATE, FILES, True)


def client_tls(believed: str = CERTIFICATE) -> ssl.SSLContext:
    """Of who believes `server_tls`."""
    return ssl.create_default_context(cafile=believed)


def broker_tls(**more: object) -> TlsFiles:
    """As the gateway speaks to brokers."""
    options = {"security_protocol": "SSL", "ssl_cafile": CERTIFICATE, **more}
    return TlsFiles(lambda: kafka_tls(options)["ssl_context"], [options["ssl_cafile"]])


def gateway_tls(sides: Sides) -> GatewayTls:
    """Both sides of a relay."""
    clients = TlsFiles(server_tls, (CERTIFICATE, KEY))
    return GatewayTls(
        clients if sides in (Sides.CLIENT, Sides.BOTH) else None,
        broker_tls() if sides in (Sides.BROKER, Sides.BOTH) else None,
    )


def request(key: int, correlation: int, body: bytes = b"", version: int = 0) -> bytes:
    """A frame with a head and any body."""
    head = struct.pack(">hhih", key, version, correlation, 2) + b"me"
    return struct.pack(">i", len(head) + len(body)) + head + body


def answer(correlation: int, body: bytes = b"") -> bytes:
    """A broker's frame."""
    return struct.pack(">ii", 4 + len(body), correlation) + body


class Broker:
    """Answers each request with its own body, after `hold` is set where there is one."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.hold: asyncio.Event | None = None
        self.got: list[int] = []
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        """Listen."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]

    def end(self) -> None:
        """Its connections are closed; it goes on."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                if length > Relay.frame_bytes_max:
                    break
                frame = await reader.readexactly(length)
                head = frames.decode_head(frame)
                self.got.append(head.correlation_id)
                if self.hold is not None:
                    await self.hold.wait()
                acks = frame[-2:] if head.key == frames.PRODUCE else b"\0\1"
                if acks != b"\0\0":
                    writer.write(answer(head.correlation_id, frame[12:]))
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass  # the scene is over
        writer.close()


class Relay:
    """A gateway of one connection. A Heartbeat is answered here, later where `park`; with `hold`
    it also holds up what comes behind.
    """

    frame_bytes_max = 32 * 1024 * 1024

    def __init__(self, broker: Broker, tls: GatewayTls = PLAIN_TLS) -> None:
        self.broker = broker
        self.host = "127.0.0.1"
        self.tls = tls
        self.door: ClientTls | None = ClientTls(tls.clients) if tls.clients else None
        self.demands_login = False
        self.relays_groups = self.any_broker = False
        self.turned_to: list[int] = []
        self.port = 0
        self.parked: list[Head] = []
        self.park = self.hold = False
        self.full = False
        self.connection: ClientConnection
        self.passed: list[int] = []
        self.gone = asyncio.Event()
        self.accepted = self.closings = 0

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()

        def accept() -> asyncio.Protocol:
            self.accepted += 1
            self.connection = ClientConnection(self, 1)
            return self.connection if self.door is None else Door(self.connection, self.door)

        server = await loop.create_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def client(
        self, name: str = "localhost", tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, as the relay listens; `name` is the host that a handshake names."""
        if self.door is None:
            return await asyncio.open_connection("127.0.0.1", self.port)
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=tls or client_tls(), server_hostname=name
        )

    def admits(self, connection: ClientConnection) -> bool:
        """Room."""
        return not self.full

    def turn_to(self, broker_id: int) -> None:
        """Noted."""
        self.turned_to.append(broker_id)

    def broker_tls(self) -> ssl.SSLContext | None:
        """As it was made."""
        return self.tls.to_brokers()

    def upstream(self) -> Way | None:
        """The broker."""
        return Way((Address(self.host, self.broker.port),))

    def means_no_broker(self) -> bool:
        """As it is told."""
        return self.any_broker

    def others(self) -> tuple[tuple[int, Address], ...]:
        """None."""
        return ()

    def place(self) -> Place:
        """Nothing is rewritten here."""
        return lambda broker, address: address

    def serve(self, connection: ClientConnection, head: Head, frame: bytes) -> bytes | bool | None:
        """Heartbeats."""
        if head.key != HEARTBEAT:
            return False
        if self.park:
            self.parked.append(head)
            if self.hold:
                connection.hold_up(head)
            return None
        return answer(head.correlation_id, b"ours")

    def passes(self, connection: ClientConnection, head: Head) -> None:
        """Noted."""
        self.passed.append(head.correlation_id)

    def closed(self, connection: ClientConnection) -> None:
        """Noted."""
        self.closings += 1
        self.gone.set()


Scene = Callable[[Broker, Relay, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def play(scene: Scene) -> None:
    """Run a scene with a client that is connected."""

    async def run() -> None:
        broker, relay = await stage(SIDES)
        reader, writer = await relay.client()
        await asyncio.wait_for(scene(broker, relay, reader, writer), WAIT_S)
        writer.close()

    asyncio.run(run())


async def stage(
    sides: Sides, tls: GatewayTls | None = None, at_broker: ssl.SSLContext | None = None
) -> tuple[Broker, Relay]:
    """A broker, and a relay before it."""
    if at_broker is None and sides in (Sides.BROKER, Sides.BOTH):
        at_broker = server_tls()
    broker = Broker(at_broker)
    await broker.start()
    relay = Relay(broker, gateway_tls(sides) if tls is None else tls)
    await relay.start()
    return broker, relay


async def echoes(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes = b"hello"
) -> None:
    """One request to the broker, and its answer."""
    writer.write(request(FETCH, 7, body))
    assert await frame_of(reader) == (7, body)


async def frame_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The next answer: its correlation id, and its body."""
    length, correlation = struct.unpack(">ii", await reader.readexactly(8))
    return correlation, await reader.readexactly(length - 4)
