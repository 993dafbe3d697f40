"""Ports are held by whoever drew them, and servers bind beside the hold (on Linux, where all of
this runs).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from zkcoord.errors import StackError
from zkcoord.stack import ports

PICK = "import sys; from zkcoord.stack import ports; print(ports._hold(int(sys.argv[1])))"


@pytest.fixture
def one_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The only port that can be drawn; what was held in this test is let go."""
    port = ports.free_port()
    ports._held.pop().close()
    before = list(ports._held)
    monkeypatch.setattr(ports, "PORT_MIN", port)
    monkeypatch.setattr(ports, "PORT_MAX", port)
    yield port
    for hold in ports._held[len(before) :]:
        hold.close()
    ports._held[:] = before


def test_a_drawn_port_is_not_drawn_again_though_nobody_listens_there(one_port: int) -> None:
    assert ports.free_port() == one_port
    with pytest.raises(StackError, match="No free TCP port"):
        ports.free_port()


def test_no_other_process_draws_it(one_port: int) -> None:
    """The mistake of chaos seed 3343: the port of a server that was down was drawn by a test beside
    it.
    """
    other = [sys.executable, "-c", PICK, str(one_port)]
    assert subprocess.run(other, capture_output=True, text=True, check=True).stdout == "True\n"
    ports.free_port()
    assert subprocess.run(other, capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_server_listens_there_goes_and_comes_back(one_port: int) -> None:
    async def serve() -> None:
        for _ in range(2):
            server = await asyncio.start_server(
                lambda _reader, writer: writer.close(), ports.HOST, one_port
            )
            reader, writer = await asyncio.open_connection(ports.HOST, one_port)
            assert await reader.read() == b""
            writer.close()
            server.close()
            await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(ports.HOST, one_port)

    assert ports.free_port() == one_port
    asyncio.run(serve())


def test_a_port_where_a_server_listens_is_not_drawn(one_port: int) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(
            lambda _reader, writer: writer.close(), ports.HOST, one_port
        )
        with pytest.raises(StackError, match="No free TCP port"):
            ports.free_port()
        server.close()
        await server.wait_closed()

    asyncio.run(serve())


def test_different_ports() -> None:
    assert len(set(ports.free_ports(20))) == 20
