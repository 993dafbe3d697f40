"""Closing somebody else's session: against a real server, behind a bad network, and against servers
that answer nonsense.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from tests.harness.proxy import Op, Proxy
from tests.harness.wait import wait_until
from tests.harness.zookeeper import Ensemble, connect, disconnect
from zkcoord.guardian import wire
from zkcoord.guardian.handover import Handover
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import ZooKeeperServer

PATIENCE_S = 60.0


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt may take as long as it takes: where attempts are counted, none is given up because
    the machine paused.
    """
    monkeypatch.setattr(wire, "ATTEMPT_FIRST_MS", int(PATIENCE_S * 1000))
    monkeypatch.setattr(wire, "ATTEMPT_MAX_MS", int(PATIENCE_S * 1000))


def close(session: Handover, is_dead: Callable[[], bool] = lambda: True) -> wire.CloseResult:
    (result,) = wire.Closer(is_dead).close_all([session])
    return result


def address(text: str) -> tuple[str, int]:
    host, _, port = text.partition("/")[0].rpartition(":")
    return host, int(port)


@pytest.fixture
def victim(unhurried: None, zk_hosts: str) -> Iterator[KazooClient]:
    """A living client whose session gets closed behind its back (it plays the dead process, whose
    connection may linger).
    """
    client = connect(zk_hosts)
    client.create("/member", b"", ephemeral=True)
    yield client
    disconnect(client)


def session_of(
    client: KazooClient, *servers: tuple[str, int], timeout_ms: int = 10_000
) -> Handover:
    session_id, password = client.client_id
    return Handover(session_id, password, timeout_ms, servers)


def test_a_session_is_closed_and_its_nodes_vanish(
    victim: KazooClient, zk_server: ZooKeeperServer, zk_hosts: str
) -> None:
    result = close(session_of(victim, address(zk_server.address)))
    assert (result.outcome, result.attempts) == (wire.CLOSED, 1)
    observer = connect(zk_hosts)
    assert observer.exists("/member") is None
    disconnect(observer)


def test_closing_twice_finds_it_expired(victim: KazooClient, zk_server: ZooKeeperServer) -> None:
    session = session_of(victim, address(zk_server.address))
    assert close(session).outcome == wire.CLOSED
    assert close(session).outcome == wire.EXPIRED


def test_a_wrong_password_closes_nothing(
    victim: KazooClient, zk_server: ZooKeeperServer, zk_hosts: str
) -> None:
    session = session_of(victim, address(zk_server.address))
    session.password = b"\1" * 16
    states: list[str] = []
    victim.add_listener(states.append)
    assert close(session).outcome == wire.EXPIRED
    # the server cuts the session's connection before it looks at the password: its client comes
    # back to the same session
    wait_until(lambda: states[-1:] == [KazooState.CONNECTED], PATIENCE_S, "the client's return")
    assert KazooState.LOST not in states
    observer = connect(zk_hosts)
    assert observer.exists("/member").ephemeralOwner == victim.client_id[0]
    disconnect(observer)


def test_a_living_process_keeps_its_session(
    victim: KazooClient, zk_server: ZooKeeperServer
) -> None:
    result = close(session_of(victim, address(zk_server.address)), is_dead=lambda: False)
    assert (result.outcome, result.attempts) == (wire.STILL_ALIVE, 0)
    assert victim.exists("/member") is not None


def test_death_is_asked_again_before_every_attempt(
    victim: KazooClient, zk_server: ZooKeeperServer
) -> None:
    answers = iter([True, False])
    result = close(
        session_of(victim, (HOST, free_port()), address(zk_server.address)),
        is_dead=lambda: next(answers),
    )
    assert (result.outcome, result.attempts) == (wire.STILL_ALIVE, 1)
    assert victim.exists("/member") is not None


def test_a_dead_server_first_costs_an_attempt_only(
    victim: KazooClient, zk_server: ZooKeeperServer
) -> None:
    result = close(
        session_of(victim, (HOST, free_port()), ("name.invalid", 2181), address(zk_server.address))
    )
    assert (result.outcome, result.attempts, result.server) == (
        wire.CLOSED,
        2,
        address(zk_server.address),
    )


def test_a_black_hole_first_does_not_hold_it_up(
    victim: KazooClient, zk_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "ATTEMPT_FIRST_MS", 1_000)
    with Proxy(zk_server.port) as proxy:
        proxy.black_hole()
        result = close(session_of(victim, address(proxy.address), address(zk_server.address)))
    assert (result.outcome, result.attempts) == (wire.CLOSED, 2)


def test_what_a_black_hole_swallows_is_said_again(
    victim: KazooClient, zk_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "ATTEMPT_FIRST_MS", 250)
    zk_proxy.black_hole()
    results: list[wire.CloseResult] = []
    closing = threading.Thread(
        target=lambda: results.append(close(session_of(victim, address(zk_proxy.address))))
    )
    closing.start()
    wait_until(lambda: zk_proxy.links(), PATIENCE_S, "an attempt")
    zk_proxy.heal()
    closing.join(PATIENCE_S)
    assert results[0].outcome in (wire.CLOSED, wire.EXPIRED)


def test_a_lost_reply_to_close_is_cleared_up_by_connecting_again(
    victim: KazooClient, zk_proxy: Proxy
) -> None:
    fault = zk_proxy.swallow_replies(1, [Op.CLOSE])
    result = close(session_of(victim, address(zk_proxy.address)))
    assert fault.fired == 1
    assert (result.outcome, result.attempts) == (wire.EXPIRED, 2)


def test_several_sessions_go_to_the_server_that_served(
    unhurried: None, zk_hosts: str, zk_server: ZooKeeperServer
) -> None:
    clients = [connect(zk_hosts) for _ in range(4)]
    servers = [(HOST, free_port()), address(zk_server.address)]
    results = wire.Closer(lambda: True).close_all(
        [session_of(client, *servers) for client in clients]
    )
    assert [result.outcome for result in results] == [wire.CLOSED] * 4
    assert [result.attempts for result in results] == [2, 1, 1, 1]
    for client in clients:
        disconnect(client)


def test_nobody_there_is_given_up_after_two_session_timeouts() -> None:
    result = close(Handover(1, b"p" * 16, 50, [(HOST, free_port())]))
    assert result.outcome == wire.GAVE_UP
    assert result.elapsed_ms > 2 * 50


def test_any_member_of_an_ensemble_closes_it(unhurried: None, ensemble: Ensemble) -> None:
    members = [(HOST, member.port) for member in ensemble.members.values()]
    client = connect(f"{HOST}:{members[0][1]}")
    client.create("/member", b"", ephemeral=True)
    assert close(session_of(client, members[1])).outcome == wire.CLOSED
    observer = connect(f"{HOST}:{members[2][1]}")
    observer.sync("/")
    assert observer.exists("/member") is None
    disconnect(observer)
    disconnect(client)
    survivor = connect(f"{HOST}:{members[0][1]}")
    session = session_of(survivor, *members)
    ensemble.kill(1)
    assert close(session).outcome == wire.CLOSED
    disconnect(survivor)


@contextmanager
def fake_server(*replies: bytes) -> Iterator[tuple[str, int]]:
    """A server that says the given bytes after each of the first frames of a connection, then hangs
    up.
    """
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(PATIENCE_S)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    for reply in replies:
                        connection.recv(4096)
                        connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[:2]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def granted(session_id: int) -> bytes:
    return frame(struct.pack(">iiqi", 0, 1000, session_id, 16) + b"p" * 16 + b"\0")


def reply(xid: int, error: int) -> bytes:
    return frame(struct.pack(">iqi", xid, 0, error))


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        ((granted(5), reply(-1, 0) + reply(-2, 0) + reply(1, 0)), wire.CLOSED),
        ((granted(5), reply(1, -124)), wire.SASL_REQUIRED),
        ((granted(5), reply(1, -112)), wire.EXPIRED),
        ((granted(6), reply(1, 0)), wire.EXPIRED),
        ((granted(5), reply(1, -118)), wire.GAVE_UP),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), wire.GAVE_UP),
        ((frame(b"short"),), wire.GAVE_UP),
        ((granted(5), frame(b"short")), wire.GAVE_UP),
        ((struct.pack(">i", -1),), wire.GAVE_UP),
        ((struct.pack(">i", 1 << 30),), wire.GAVE_UP),
        ((), wire.GAVE_UP),
    ],
)
def test_every_answer_has_a_name(replies: tuple[bytes, ...], outcome: str) -> None:
    with fake_server(*replies) as server:
        assert (
            close(
                Handover(5, b"p" * 16, 30 if outcome == wire.GAVE_UP else 30_000, [server])
            ).outcome
            == outcome
        )
