"""A certificate with the right common name and no alternative name is refused wherever TLS is made
in Python: to ZooKeeper, by companions, to brokers.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.guardian.test_tls import CERTIFICATE, KEY
from zkcoord import tls
from zkcoord.errors import ConfigurationError
from zkcoord.guardian import wire
from zkcoord.guardian.handover import TlsOptions
from zkcoord.zk.options import Tls

COMMON_NAME = str(Path(__file__).parents[1] / "guardian" / "data" / "common_name.pem")
KAFKA = {"security_protocol": "SSL", "ssl_check_hostname": True}
Context = Callable[[str], ssl.SSLContext]
MADE = re.compile(r"(?:= |kafka\.)(?:KafkaConsumer|KafkaAdminClient)\((?:\n|\*\*)")
CONTEXTS: dict[str, Context] = {
    "zookeeper": lambda ca: Tls(ca=ca).context(),
    "guardian": lambda ca: wire.tls_context(TlsOptions(ca_file=ca)),
    "kafka": lambda ca: tls.kafka_tls({**KAFKA, "ssl_cafile": ca})["ssl_context"],
}


@pytest.fixture
def serve() -> Iterator[Callable[[str, str | None], int]]:
    """A port that speaks TLS with a certificate, for one connection."""
    ends: list[Callable[[], object]] = []

    def start(certificate: str, key: str | None) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        listener = socket.create_server(("127.0.0.1", 0))

        def answer() -> None:
            try:
                plain, _ = listener.accept()
                plain.settimeout(30)
                with plain, context.wrap_socket(plain, server_side=True) as client:
                    client.recv(1)
            except OSError:  # it was refused
                return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        ends.extend((thread.join, listener.close))
        return int(listener.getsockname()[1])

    yield start
    for end in ends:
        end()


@pytest.mark.parametrize("where", CONTEXTS)
@pytest.mark.parametrize(
    ("certificate", "key", "accepted"), [(COMMON_NAME, None, False), (CERTIFICATE, KEY, True)]
)
def test_a_common_name_alone(
    serve: Callable[[str, str | None], int],
    where: str,
    certificate: str,
    key: str | None,
    accepted: bool,
) -> None:
    port = serve(certificate, key)
    context = CONTEXTS[where](certificate)
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
        if accepted:
            context.wrap_socket(plain, server_hostname="localhost").close()
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match="ostname mismatch"):
                context.wrap_socket(plain, server_hostname="localhost")


def test_what_the_user_gave_is_left_alone() -> None:
    given = ssl.create_default_context()
    assert tls.kafka_tls({**KAFKA, "ssl_context": given}) == {}
    assert tls.kafka_tls({"security_protocol": "PLAINTEXT"}) == tls.kafka_tls({}) == {}
    assert not tls.kafka_tls({**KAFKA, "ssl_check_hostname": False})["ssl_context"].check_hostname


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_crlfile"])
def test_files_that_cannot_be_used_are_named(name: str, tmp_path: Path) -> None:
    for path in (tmp_path / "missing.pem", tmp_path):
        with pytest.raises(ConfigurationError, match=path.name):
            tls.kafka_tls({**KAFKA, name: str(path)})


def test_every_client_for_kafka_is_made_with_it() -> None:
    """`kafka_client` makes them, and whoever makes one without it says so itself. The demo's, which
    speaks to a broker of its own in plain text, is left out.
    """
    root = Path(__file__).parents[2]
    texts = {
        path: path.read_text(encoding="utf-8")
        for room in ("zkcoord", "consumer", "migrations")
        for path in (root / room).rglob("*.py")
        if "demo" not in path.parts
    }
    makers = [path for path, text in texts.items() if MADE.search(text)]
    assert makers
    for path in (*makers, root / "zkcoord" / "kafka_client" / "clients.py"):
        assert "kafka_tls(" in texts[path], path
