"""The guardian through TLS: a server in front of ZooKeeper that ends TLS, with and without asking
for a client's certificate.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.guardian.conftest import PATIENCE_S, GuardedApp, closed, reported
from tests.harness.wait import wait_until
from zkcoord.guardian import wire
from zkcoord.guardian.handover import Handover, TlsOptions
from zkcoord.stack.ports import HOST
from zkcoord.stack.servers import ZooKeeperServer

DATA = Path(__file__).parent / "data"
CERTIFICATE, KEY = str(DATA / "cert.pem"), str(DATA / "key.pem")
SESSION_MS = 60_000


class TlsFront:
    """Ends TLS and passes the bytes on to a plain ZooKeeper port; counts the handshakes that went
    well and those that did not.
    """

    def __init__(self, server_port: int, ask_client: bool, host: str = HOST) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(CERTIFICATE, KEY)
        if ask_client:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(CERTIFICATE)
        self.server_port = server_port
        self.good = self.bad = 0
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(plain,), daemon=True).start()

    def relay(self, plain: socket.socket) -> None:
        plain.settimeout(PATIENCE_S)
        try:
            with (
                self.context.wrap_socket(plain, server_side=True) as client,
                socket.create_connection((HOST, self.server_port)) as server,
            ):
                self.good += 1
                while request := client.recv(65536):
                    server.sendall(request)
                    client.sendall(server.recv(65536))
        except OSError:
            self.bad += 1

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@pytest.fixture
def front(zk_server: ZooKeeperServer) -> Iterator[TlsFront]:
    server = TlsFront(zk_server.port, ask_client=False)
    yield server
    server.close()


def test_a_kill_9_behind_tls(
    front: TlsFront, start_app: Callable[..., GuardedApp], observer: KazooClient, report: Path
) -> None:
    app = start_app(
        timeout_ms=SESSION_MS,
        servers=[["localhost", front.port]],
        tls={"ca_file": CERTIFICATE},
        report=str(report),
    )
    assert app.ready["state"] == "Running"
    app.kill()
    wait_until(lambda: observer.exists("/member") is None, PATIENCE_S, "the end of /member")
    (line,) = wait_until(lambda: reported(report), PATIENCE_S, "the report")
    assert closed(line)
    assert 1 <= front.good <= line["attempts"]


def attempt(port: int, tls: TlsOptions | None, expected: str, host: str = "localhost") -> None:
    """Close a session that nobody has: EXPIRED says that the server could be spoken to. It is tried
    for as long as the session could live: not long where it is to fail.
    """
    (result,) = wire.Closer(lambda: True).close_all(
        [Handover(1, b"p" * 16, 200 if expected == wire.GAVE_UP else 30_000, [(host, port)], tls)]
    )
    assert result.outcome == expected


@pytest.mark.parametrize(
    ("tls", "host", "outcome"),
    [
        (TlsOptions(ca_file=CERTIFICATE), "localhost", wire.EXPIRED),
        (TlsOptions(ca_file=CERTIFICATE), "127.0.0.1", wire.EXPIRED),
        (TlsOptions(verify=False), "localhost", wire.EXPIRED),
        (TlsOptions(), "localhost", wire.GAVE_UP),  # not one of the system's authorities
        (
            TlsOptions(ca_file=CERTIFICATE),
            "127.0.0.2",
            wire.GAVE_UP,
        ),  # not the name in the certificate
        (TlsOptions(ca_file=CERTIFICATE, check_hostname=False), "127.0.0.2", wire.EXPIRED),
    ],
)
def test_what_is_verified(
    zk_server: ZooKeeperServer, tls: TlsOptions, host: str, outcome: str
) -> None:
    # the whole of 127/8 is the loopback device on Linux
    server = TlsFront(zk_server.port, ask_client=False, host=host)
    attempt(server.port, tls, outcome, host)
    server.close()


def test_a_server_that_asks_for_a_certificate(zk_server: ZooKeeperServer) -> None:
    server = TlsFront(zk_server.port, ask_client=True)
    attempt(server.port, TlsOptions(ca_file=CERTIFICATE), wire.GAVE_UP)
    attempt(
        server.port,
        TlsOptions(ca_file=CERTIFICATE, cert_file=CERTIFICATE, key_file=KEY),
        wire.EXPIRED,
    )
    server.close()


def test_files_that_cannot_be_used_are_an_oserror(tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate")
    for options in (
        TlsOptions(ca_file=str(junk)),
        TlsOptions(cert_file=str(junk)),
        TlsOptions(cert_file=CERTIFICATE, key_file=str(junk)),
        TlsOptions(ca_file=str(tmp_path / "missing")),
        TlsOptions(ca_file="a\0b"),
        TlsOptions(cert_file=CERTIFICATE, key_password="x" * 2_000),
    ):
        with pytest.raises(OSError):
            wire.tls_context(options)


def test_paths_are_made_absolute_because_the_companion_works_elsewhere() -> None:
    assert TlsOptions("ca.pem", None, "key.pem").absolute().key()[:3] == (
        str(Path.cwd() / "ca.pem"),
        None,
        str(Path.cwd() / "key.pem"),
    )
