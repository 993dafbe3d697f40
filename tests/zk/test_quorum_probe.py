"""What servers say of themselves without a session: real ones, of a quorum and without, killed,
silent, of an old release, behind TLS, and things that are no ZooKeeper.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.proxy import Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import Ensemble
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.zk.quorum_probe import ServerAnswer, ask, ask_all, nobody_serves

TIMEOUT_S = 2.0
SOON_S = 0.2
WAIT_S = 60.0
SERVES, SERVES_NOT, UNKNOWN = ServerAnswer.SERVES, ServerAnswer.SERVES_NOT, ServerAnswer.UNKNOWN


@pytest.mark.parametrize(
    ("answers", "nobody"),
    [
        ([SERVES_NOT], True),
        ([UNKNOWN], False),
        ([SERVES], False),
        ([SERVES_NOT, SERVES_NOT, SERVES_NOT], True),
        ([SERVES_NOT, SERVES_NOT, UNKNOWN], True),
        ([SERVES_NOT, UNKNOWN, UNKNOWN], False),
        ([SERVES_NOT, SERVES_NOT, SERVES], False),
        ([SERVES_NOT, SERVES_NOT, UNKNOWN, UNKNOWN], False),
        ([SERVES_NOT, SERVES_NOT, SERVES_NOT, UNKNOWN, UNKNOWN], True),
        ([], False),
    ],
    ids=lambda case: str(case),
)
def test_most_say_so_and_none_says_otherwise(answers: list[ServerAnswer], nobody: bool) -> None:
    assert nobody_serves(answers) is nobody


@pytest.mark.slow
def test_an_ensemble_with_a_quorum_without_and_again(ensemble: Ensemble) -> None:
    servers = [("127.0.0.1", member.port) for member in ensemble.members.values()]
    assert ask_all(servers, None, TIMEOUT_S) == [SERVES] * 3
    ensemble.kill(1)
    assert ask(servers[0], None, TIMEOUT_S) is SERVES_NOT
    wait_until(
        lambda: ask_all(servers, None, TIMEOUT_S).count(SERVES) == 2, WAIT_S, "the others to serve"
    )
    ensemble.kill(2)
    wait_until(
        lambda: ask_all(servers, None, TIMEOUT_S) == [SERVES_NOT] * 3,
        WAIT_S,
        "the last one to say that it serves nobody",
    )
    ensemble.restart(2)
    wait_until(
        lambda: ask_all(servers, None, TIMEOUT_S)[1:] == [SERVES, SERVES], WAIT_S, "a quorum again"
    )


def test_a_stopped_server_says_nothing(own_zk_server: ZooKeeperServer) -> None:
    server = ("127.0.0.1", own_zk_server.port)
    assert ask(server, None, TIMEOUT_S) is SERVES
    own_zk_server.pause()  # a signal: its threads stop a moment later
    wait_until(lambda: ask(server, None, SOON_S) is UNKNOWN, WAIT_S, "a server that says nothing")
    own_zk_server.resume()
    assert ask(server, None, TIMEOUT_S) is SERVES


def test_a_server_of_an_old_release(old_zk_server: ZooKeeperServer) -> None:
    assert ask(("127.0.0.1", old_zk_server.port), None, TIMEOUT_S) is SERVES


def test_a_network_that_swallows(zk_proxy: Proxy) -> None:
    zk_proxy.black_hole()
    host, port = zk_proxy.address.rsplit(":", 1)
    assert ask((host, int(port)), None, SOON_S) is UNKNOWN


def test_a_name_that_nobody_has() -> None:
    assert ask(("no-such-host.invalid", 2181), None, TIMEOUT_S) is UNKNOWN


def test_a_name_with_several_addresses_serves_nobody_when_none_of_them_does(
    monkeypatch: pytest.MonkeyPatch, zk_server: ZooKeeperServer
) -> None:
    def addresses(*ports: int) -> None:
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda *_, **__: [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports
            ],
        )

    addresses(free_port(), free_port())
    assert ask(("zookeeper", 2181), None, TIMEOUT_S) is SERVES_NOT
    addresses(free_port(), zk_server.port)
    assert ask(("zookeeper", 2181), None, TIMEOUT_S) is SERVES


@contextmanager
def saying(answer: bytes) -> Iterator[int]:
    """The port of a server that gives this answer to whatever it is asked, once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(64)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(WAIT_S)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"This ZooKeeper instance is not currently serving requests\n", SERVES_NOT),
        (b"Zookeeper version: 3.9\nMode: observer\n", SERVES),
        (b"srvr is not executed because it is not in the whitelist.\n", UNKNOWN),
        (b"", UNKNOWN),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", UNKNOWN),
        (b"\xff" * 200_000, UNKNOWN),
    ],
    ids=["no quorum", "an observer of one", "not allowed", "nothing", "no ZooKeeper", "endless"],
)
def test_what_an_answer_means(said: bytes, answer: ServerAnswer) -> None:
    with saying(said) as port:
        assert ask(("127.0.0.1", port), None, TIMEOUT_S) is answer
