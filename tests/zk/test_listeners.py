"""Whether brokers take a connection."""

from __future__ import annotations

import socket

import pytest

from zkcoord.stack.ports import HOST
from zkcoord.zk import listeners
from zkcoord.zk.listeners import takes_connections


def test_one_that_listens_is_enough() -> None:
    with socket.create_server((HOST, 0)) as here, socket.socket() as bound:
        bound.bind((HOST, 0))
        there, not_there = here.getsockname()[1], bound.getsockname()[1]
        assert takes_connections([f"{HOST}:{not_there}", f"{HOST}:{there}"])
        assert not takes_connections([f"{HOST}:{not_there}"])
    assert not takes_connections([])


@pytest.mark.parametrize("text", ["", ":", "a:70000000000", "[::1", "\N{SNOWMAN}" * 80, "x:9:9"])
def test_what_is_no_address_takes_none(text: str) -> None:
    assert not takes_connections([text])


def test_a_host_alone_is_asked_at_kafkas_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as here:
        monkeypatch.setattr(listeners, "KAFKA_PORT", here.getsockname()[1])
        assert takes_connections([HOST])
