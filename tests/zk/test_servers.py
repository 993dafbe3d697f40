"""Servers configured as people configure them: TLS with a demanded client certificate, quotas,
connection limits, demanded SASL.

The certificates in `pem/` are for these tests only and valid for a century; the server's names
`localhost` alone, so its address 127.0.0.1 is a wrong name.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, since_3_6, start_server
from tests.zk.port_contract import Session
from tests.zk.real import Loop
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import ZooKeeperOptions, ZooKeeperServer
from zkcoord.zk.options import Tls
from zkcoord.zk.port import (
    Create,
    Created,
    GetData,
    PortEvent,
    Refused,
    Rejected,
    SetData,
    WatchMode,
    ZkError,
)

PEM = Path(__file__).parent / "pem"
MUTUAL = Tls(ca=str(PEM / "ca.pem"), cert=str(PEM / "client.pem"))
QUOTA_BYTES = 20
WAIT_S = 60.0

pytestmark = since_3_6(
    "they know no listener with TLS beside the plain one, enforce no quotas and demand no SASL"
)


@pytest.fixture(scope="module")
def secure(
    java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ZooKeeperServer, int]]:
    """A server with TLS on a second port (returned with it), and enforced quotas."""
    port = free_port()
    config = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(PEM / "server.pem"),
        "ssl.trustStore.location": str(PEM / "ca.pem"),
        "ssl.clientAuth": "need",
    }
    server = start_server(
        tmp_path_factory.mktemp("secure"),
        java,
        ZooKeeperOptions(
            force_sync=False, config=config, properties={"zookeeper.enforceQuota": "true"}
        ),
    )
    # a virtual machine's first handshake takes its time
    Session(Loop(f"localhost:{port}", tls=MUTUAL)).close()
    yield server, port
    server.kill()


@pytest.fixture(scope="module")
def strict(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server that serves two connections per address and demands SASL of every session."""
    home = tmp_path_factory.mktemp("strict")
    (home / "jaas.conf").write_text(
        'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_u="p"; };\n',
        encoding="utf-8",
    )
    properties = {
        "java.security.auth.login.config": str(home / "jaas.conf"),
        "zookeeper.authProvider.sasl": (
            "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        ),
        "zookeeper.sessionRequireClientSASLAuth": "true",
    }
    server = start_server(
        home,
        java,
        ZooKeeperOptions(force_sync=False, connections_per_host_max=2, properties=properties),
    )
    yield server
    server.kill()


def reason_of(hosts: str, **options: object) -> str:
    """The sentence of a port that must be refused."""
    loop = Loop(hosts, **options)
    events: list[PortEvent] = []
    loop.open(events.append)
    loop.drain(lambda: bool(events), "the first event")
    assert isinstance(events[0], Refused), events
    return events[0].reason


def test_tls_with_a_client_certificate(secure: tuple[ZooKeeperServer, int]) -> None:
    """The same calls, many at once and with answers larger than a TLS record."""
    s = Session(Loop(f"localhost:{secure[1]}", tls=MUTUAL))
    block = bytes(100_000)
    s.do(Create("/tls", b""), Create("/tls/big", block))
    sizes: list[int] = []
    for _ in range(50):
        s.port.read(
            [GetData("/tls/big"), GetData("/tls")], lambda r: sizes.append(len(r.answers[0].data))
        )  # type: ignore[union-attr]
    s.wait(lambda: len(sizes) == 50, "fifty answers")
    assert set(sizes) == {len(block)}
    s.close()


def test_a_wrong_host_name_is_refused(secure: tuple[ZooKeeperServer, int]) -> None:
    reason = reason_of(f"127.0.0.1:{secure[1]}", tls=MUTUAL, connect_timeout_ms=1_500)
    assert "TLS failed" in reason and "IP address mismatch" in reason


def test_an_unknown_authority_is_refused(secure: tuple[ZooKeeperServer, int]) -> None:
    reason = reason_of(f"localhost:{secure[1]}", tls=Tls(), connect_timeout_ms=1_500)
    assert "TLS failed" in reason and "CERTIFICATE_VERIFY_FAILED" in reason


def test_plain_text_to_a_tls_port_is_refused(secure: tuple[ZooKeeperServer, int]) -> None:
    assert "no ZooKeeper server answers" in reason_of(
        f"localhost:{secure[1]}", connect_timeout_ms=500
    )


def test_tls_to_a_plain_port_is_refused(secure: tuple[ZooKeeperServer, int]) -> None:
    assert "TLS failed" in reason_of(
        f"localhost:{secure[0].port}",
        tls=MUTUAL,
        connect_timeout_ms=3_000,
        session_timeout_ms=1_000,
    )


def test_an_exceeded_quota_has_its_name(secure: tuple[ZooKeeperServer, int]) -> None:
    """Also as the first error of a multi."""
    client = connect(secure[0].address)
    client.create("/quota", b"")
    client.create(
        "/zookeeper/quota/quota/zookeeper_limits",
        f"count=-1,bytes=-1;byteHardLimit={QUOTA_BYTES};countHardLimit=-1".encode(),
        makepath=True,
    )
    client.create("/zookeeper/quota/quota/zookeeper_stats", b"count=1,bytes=0")
    disconnect(client)
    s = Session(Loop(secure[0].address))
    s.do(SetData("/quota", b"small", 0))
    assert s.multi(
        Create("/beside", b""), SetData("/quota", bytes(QUOTA_BYTES + 1), 1)
    ) == Rejected(1, ZkError.QUOTA_EXCEEDED)
    assert s.missing("/beside")
    s.close()


def test_demanded_sasl_is_said_by_a_real_server(strict: ZooKeeperServer) -> None:
    assert "demands SASL" in reason_of(strict.address)


def _closed_at_once(sock: socket.socket) -> bool:
    sock.settimeout(0.2)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_a_full_server_is_said(strict: ZooKeeperServer) -> None:
    """The connection limit shows as a connection that the server closes at once. (A connection of
    an earlier test may leave a place meanwhile: filled again, asked again.)
    """
    with ExitStack() as stack:

        def refused_when_full() -> bool:
            wait_until(
                lambda: _closed_at_once(
                    stack.enter_context(socket.create_connection(("127.0.0.1", strict.port)))
                ),
                WAIT_S,
                "the server to be full",
            )
            return "maxClientCnxns" in reason_of(strict.address, connect_timeout_ms=400)

        wait_until(refused_when_full, WAIT_S, "a refusal that names the limit")


def test_paths_without_a_chroot(secure: tuple[ZooKeeperServer, int]) -> None:
    """The root of the server's own tree: paths go out and come back as they are."""
    s = Session(Loop(secure[0].address))
    s.watch("/plain", WatchMode.RECURSIVE)
    assert s.do(Create("/plain", b""), Create("/plain/n-", b"", sequential=True)).results == (
        Created("/plain"),
        Created("/plain/n-0000000000"),
    )
    assert s.seen() == [
        ("CREATED", "/plain"),
        ("CREATED", "/plain/n-0000000000"),
    ] and "plain" in s.names("/")
    s.close()
