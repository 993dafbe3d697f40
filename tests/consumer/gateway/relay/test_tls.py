"""TLS to brokers, and the files of both sides while they change."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import ssl
from pathlib import Path

import pytest

from consumer.gateway.relay.tls import GatewayTls, TlsFiles
from tests.consumer.gateway.relay.scenes import (
    FETCH,
    FILES,
    WAIT_S,
    Relay,
    Sides,
    broker_tls,
    client_tls,
    echoes,
    request,
    server_tls,
    stage,
)
from tests.guardian.test_tls import CERTIFICATE, KEY
from zkcoord.errors import ConfigurationError
from zkcoord.tls import kafka_tls
from zkcoord.zk.options import Tls

PEM = Path(__file__).parents[3] / "zk" / "pem"
AUTHORITY, SERVER, CLIENT = (str(PEM / f"{name}.pem") for name in ("ca", "server", "client"))
NAMES = str(Path(__file__).parents[3] / "gateway" / "pem" / "names.pem")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was worth a warning."""
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def served(
    tls: TlsFiles | None, at_broker: ssl.SSLContext | None, host: str = "127.0.0.1"
) -> list[bytes]:
    """What one client in plain text gets: [] where it is closed without an answer."""

    async def run() -> list[bytes]:
        _, relay = await stage(Sides.NONE, GatewayTls(None, tls), at_broker)
        relay.host = host
        reader, writer = await relay.client()
        writer.write(request(FETCH, 1, b"body"))
        try:
            return [await asyncio.wait_for(reader.readexactly(12), WAIT_S)]
        except (asyncio.IncompleteReadError, ConnectionError):
            await asyncio.wait_for(relay.gone.wait(), WAIT_S)
            return []
        finally:
            writer.close()

    return asyncio.run(run())


def of_server() -> ssl.SSLContext:
    """A broker of the authority, that has no alternative name but `localhost`."""
    return Tls(None, SERVER).server_context(SERVER, FILES, True)


def wants_certificates() -> ssl.SSLContext:
    """A broker that knows the authority's clients only."""
    return Tls(AUTHORITY, CERTIFICATE, KEY).server_context(CERTIFICATE, FILES, True)


def test_a_broker_that_is_believed(caplog: pytest.LogCaptureFixture) -> None:
    assert served(broker_tls(), server_tls())
    assert served(broker_tls(ssl_cafile=AUTHORITY), of_server(), "localhost")
    unchecked = broker_tls(ssl_cafile=AUTHORITY, ssl_check_hostname=False)
    assert served(unchecked, of_server(), "127.0.0.1")
    assert served(broker_tls(ssl_certfile=CLIENT), wants_certificates())
    assert lines(caplog) == []


def test_a_broker_of_another_authority_or_name(caplog: pytest.LogCaptureFixture) -> None:
    assert not served(broker_tls(), of_server(), "localhost")
    (line,) = lines(caplog)
    assert "broker at localhost:" in line and "is not believed (unable to get local issuer" in line
    assert not served(broker_tls(ssl_cafile=AUTHORITY), of_server(), "127.0.0.1")
    assert "IP address mismatch" in lines(caplog)[-1] and "ssl_cafile" in lines(caplog)[-1]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_wants_a_certificate(
    version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    context = wants_certificates()
    context.minimum_version = context.maximum_version = version
    with caplog.at_level(logging.INFO):
        assert not served(broker_tls(), context)
    (line,) = (r.getMessage() for r in caplog.records if r.name.startswith("consumer."))
    assert "broker" in line


def test_brokers_without_tls_and_the_reverse(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert not served(broker_tls(), None)
        assert not served(None, server_tls())
    first, second = (r.getMessage() for r in caplog.records if r.name.startswith("consumer."))
    assert "does not answer (ConnectionResetError)" in first and "unanswered" in second


# files that change


class Copies:
    """A certificate and its key as files of the test, of which others are written over them."""

    def __init__(self, folder: Path) -> None:
        self.cert, self.key = str(folder / "cert.pem"), str(folder / "key.pem")
        self.put(CERTIFICATE, KEY)

    def put(self, cert: str, key: str) -> None:
        """Replace both, as others do who renew certificates."""
        for source, path in ((cert, self.cert), (key, self.key)):
            shutil.copy(source, f"{path}.new")
            os.replace(f"{path}.new", path)

    def files(self) -> TlsFiles:
        """As the gateway has them."""
        own = Tls(None, self.cert, self.key)
        return TlsFiles(
            lambda: own.server_context(self.cert, FILES, True), (None, self.cert, self.key)
        )


async def seen(relay: Relay, believed: str) -> bytes:
    """The certificate that a new client sees."""
    reader, writer = await relay.client(tls=client_tls(believed))
    await echoes(reader, writer)
    found = writer.get_extra_info("ssl_object").getpeercert(True)
    writer.close()
    assert isinstance(found, bytes)
    return found


def der(path: str) -> bytes:
    """The certificate in a file."""
    text = Path(path).read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


def test_who_comes_later_sees_the_new_certificate_and_nobody_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copies = Copies(tmp_path)
    files = copies.files()

    async def run() -> None:
        _, relay = await stage(Sides.CLIENT, GatewayTls(files))
        before = await relay.client()
        files.look()
        assert await seen(relay, CERTIFICATE) == der(CERTIFICATE)
        copies.put(NAMES, NAMES)
        assert await seen(relay, CERTIFICATE) == der(CERTIFICATE)
        files.look()
        assert await seen(relay, NAMES) == der(NAMES)
        await echoes(*before)
        before[1].close()

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert [r.getMessage() for r in caplog.records if "read again" in r.getMessage()] == [
        f"TLS files are read again: {copies.cert}, {copies.key}"
    ]


@pytest.mark.parametrize("harm", ["no PEM", "gone", "another key", "half"])
def test_files_that_cannot_be_used_change_nothing_but_the_log(
    harm: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copies = Copies(tmp_path)
    files = copies.files()
    context = files.context
    text = Path(copies.cert).read_text()
    match harm:
        case "no PEM":
            Path(copies.cert).write_text("-----BEGIN CERTIFICATE-----\nnothing\n")
        case "gone":
            os.unlink(copies.key)
        case "another key":
            copies.put(CERTIFICATE, NAMES)
        case _:
            Path(copies.cert).write_text(text[: len(text) // 2])
    for _ in range(3):
        files.look()
    assert files.context is context
    (line,) = lines(caplog)
    assert "stay in use" in line and "listen" not in line and str(tmp_path) in line
    files.look(anyway=True)
    assert len(lines(caplog)) == 2, "who asks is answered"
    copies.put(NAMES, NAMES)
    files.look()
    assert files.context is not context and len(lines(caplog)) == 2


def test_a_link_that_is_turned_is_a_change(tmp_path: Path) -> None:
    """As Kubernetes mounts secrets."""
    for name, source in (("one", CERTIFICATE), ("two", NAMES)):
        (tmp_path / name).mkdir()
        shutil.copy(source, tmp_path / name / "ca.pem")
    (tmp_path / "now").symlink_to("one")
    path = str(tmp_path / "now" / "ca.pem")
    options = {"security_protocol": "SSL", "ssl_cafile": path}
    files = TlsFiles(lambda: kafka_tls(options)["ssl_context"], [path])
    context = files.context
    files.look()
    assert files.context is context
    (tmp_path / "next").symlink_to("two")
    os.replace(tmp_path / "next", tmp_path / "now")
    files.look()
    assert files.context is not context


def test_files_that_cannot_be_used_at_the_beginning(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the key is .*cannot be used"):
        Tls(None, CERTIFICATE, NAMES).server_context(
            CERTIFICATE, ("the CA", "the certificate", "the key"), True
        )
