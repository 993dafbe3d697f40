"""The proxy against a real server: each fault does what its name says, and only that."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from tests.harness.proxy import Op, Proxy, Way
from tests.harness.wait import wait_until
from tests.harness.zookeeper import CLIENT_TIMEOUT_S, connect, disconnect

LIMIT_S = 60.0
SHORT_S = 3.0


@pytest.fixture
def direct(zk_hosts: str) -> Iterator[KazooClient]:
    """A client that does not go through the proxy: what the server really holds."""
    client = connect(zk_hosts)
    yield client
    disconnect(client)


@pytest.fixture(params=[CLIENT_TIMEOUT_S])
def through(
    request: pytest.FixtureRequest, zk_hosts: str, zk_proxy: Proxy
) -> Iterator[KazooClient]:
    """A client through the proxy, in the same chroot as `direct`; its session timeout may be a
    parameter.
    """
    client = connect(zk_proxy.address + "/" + zk_hosts.partition("/")[2], timeout_s=request.param)
    yield client
    zk_proxy.heal()
    disconnect(client)


def test_it_passes_everything(through: KazooClient, direct: KazooClient, zk_proxy: Proxy) -> None:
    through.create("/large", b"x" * 900_000)
    assert direct.get("/large")[0] == b"x" * 900_000
    assert through.get("/large")[0] == b"x" * 900_000
    assert zk_proxy.requests[Op.CONNECT] == 1
    assert zk_proxy.requests[Op.CREATE] + zk_proxy.requests[Op.CREATE2] == 1
    assert len(zk_proxy.links()) == 1


def test_a_cut_connection_comes_back_with_the_same_session(
    through: KazooClient, zk_proxy: Proxy
) -> None:
    session = through.client_id
    states: list[str] = []
    through.add_listener(states.append)
    zk_proxy.cut()
    wait_until(
        lambda: states[-2:] == [KazooState.SUSPENDED, KazooState.CONNECTED],
        LIMIT_S,
        "the client to reconnect",
    )
    assert through.client_id == session


@pytest.mark.parametrize("through", [SHORT_S], indirect=True)
def test_a_black_hole_tells_nobody(
    through: KazooClient, direct: KazooClient, zk_proxy: Proxy
) -> None:
    through.create("/here", ephemeral=True)
    session = through.client_id
    zk_proxy.black_hole()
    answer = through.exists_async("/here")
    wait_until(lambda: direct.exists("/here") is None, LIMIT_S, "the session to time out")
    assert not answer.ready() or isinstance(answer.exception, ConnectionLoss)
    zk_proxy.heal()
    wait_until(lambda: through.connected and through.client_id != session, LIMIT_S, "a new session")


def test_one_direction_of_a_black_hole(
    through: KazooClient, direct: KazooClient, zk_proxy: Proxy
) -> None:
    zk_proxy.black_hole([Way.TO_CLIENT])
    answer = through.create_async("/executed")
    wait_until(lambda: direct.exists("/executed"), LIMIT_S, "the request to be executed")
    assert not answer.ready()
    zk_proxy.heal()
    assert answer.get(timeout=LIMIT_S) == "/executed"


def test_a_delay_is_at_least_what_was_asked_for(through: KazooClient, zk_proxy: Proxy) -> None:
    zk_proxy.delay_ms(150)
    started = time.monotonic()
    through.exists("/")
    assert time.monotonic() - started >= 0.3
    zk_proxy.heal()


def test_a_swallowed_reply_was_executed(
    through: KazooClient, direct: KazooClient, zk_proxy: Proxy
) -> None:
    fault = zk_proxy.swallow_replies(1, [Op.SET])
    through.create("/node", b"0")
    with pytest.raises(ConnectionLoss):
        through.set("/node", b"1")
    assert fault.fired == 1
    assert direct.get("/node")[0] == b"1"
    wait_until(lambda: through.connected, LIMIT_S, "the client to reconnect")
    through.retry(through.set, "/node", b"2")
    assert direct.get("/node")[0] == b"2"


def test_a_dropped_request_was_not_executed(
    through: KazooClient, direct: KazooClient, zk_proxy: Proxy
) -> None:
    fault = zk_proxy.drop_requests(1, [Op.DELETE])
    through.create("/node")
    with pytest.raises(ConnectionLoss):
        through.delete("/node")
    assert fault.fired == 1
    assert direct.exists("/node") is not None
    wait_until(lambda: through.connected, LIMIT_S, "the client to reconnect")
    through.retry(through.delete, "/node")
    with pytest.raises(NoNodeError):
        direct.get("/node")


def test_refuse_affects_only_new_connections(through: KazooClient, zk_proxy: Proxy) -> None:
    zk_proxy.refuse()
    assert through.exists("/") is not None
    late = KazooClient(hosts=zk_proxy.address)
    with pytest.raises(KazooTimeoutError):
        late.start(timeout=1)
    zk_proxy.heal()
    late.start(timeout=LIMIT_S)
    disconnect(late)


def test_one_link_of_several(through: KazooClient, zk_hosts: str, zk_proxy: Proxy) -> None:
    other = connect(zk_proxy.address)
    states: list[str] = []
    through.add_listener(states.append)
    oldest, newest = zk_proxy.links()
    newest.black_hole()
    pending = other.exists_async("/")
    assert through.exists("/") is not None
    assert not pending.ready() and states == []
    newest.heal()
    assert pending.get(timeout=LIMIT_S) is not None
    oldest.cut()
    wait_until(lambda: KazooState.SUSPENDED in states, LIMIT_S, "the first client to notice")
    assert other.exists("/") is not None
    disconnect(other)
