"""A session that is ready before a client needs it, on a real server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from consumer.gateway.members import spare_sessions
from consumer.gateway.members.spare_sessions import SpareSessions
from tests.harness.wait import wait_until
from zkcoord.stack.servers import ZooKeeperServer
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Closed, Committed, Connected, Create, Port, PortEvent, Refused

PATIENCE_S = 60.0


class Loop:
    """A thread that does what is posted, in order."""

    def __init__(self) -> None:
        self.work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (thunk := self.work.get()) is not None:
            thunk()

    def do(self, thunk: Callable[[], None]) -> None:
        """On the thread; waits for it."""
        done = threading.Event()
        self.work.put(lambda: (thunk(), done.set())[0])
        assert done.wait(PATIENCE_S)


class Somebody:
    """Who wants a session, with a queue of its own."""

    def __init__(self, loop: Loop, spares: SpareSessions) -> None:
        self.loop = loop
        self.events: list[PortEvent] = []
        self.posted = 0
        self.ports: list[Port] = []
        self.ensemble = spares.of_member(self._post)
        self.open()

    def _post(self, thunk: Callable[[], None]) -> None:
        self.posted += 1
        self.loop.work.put(thunk)

    def open(self) -> None:
        self.loop.do(lambda: self.ports.append(self.ensemble.open(self.events.append)))

    def has(self, kind: type) -> bool:
        return any(isinstance(event, kind) for event in self.events)

    def connected(self) -> Somebody:
        wait_until(lambda: self.has(Connected), PATIENCE_S, "a session")
        return self

    def writes(self, path: str) -> None:
        """An ephemeral node of its session."""
        done: list[object] = []
        op = Create(path, b"", ephemeral=True)
        self.loop.do(lambda: self.ports[-1].multi([op], done.append))
        wait_until(lambda: done, PATIENCE_S, "an answer")
        assert isinstance(done[0], Committed)

    def close(self) -> None:
        self.loop.do(self.ports[-1].close)
        wait_until(lambda: self.has(Closed), PATIENCE_S, "its end")


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = Loop()
    yield found
    found.work.put(None)
    found.thread.join(PATIENCE_S)


def spares_of(hosts: str, loop: Loop) -> SpareSessions:
    zk = ZkOptions(hosts, session_timeout_ms=3_000, connect_timeout_ms=PATIENCE_S * 1_000)
    return SpareSessions(zk, loop.work.put)


def ready(spares: SpareSessions) -> None:
    """Wait for the spare one."""
    wait_until(lambda: spares._spare and spares._spare.is_ready, PATIENCE_S, "a spare session")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_sessions, "AFTER_S", 0.01)


def test_the_second_one_has_a_session_that_was_there(zk_hosts: str, loop: Loop) -> None:
    spares = spares_of(zk_hosts, loop)
    first = Somebody(loop, spares).connected()
    ready(spares)
    spare = spares._spare
    assert spare is not None
    second = Somebody(loop, spares).connected()
    assert second.ports[0] is spare.port and second.ports[0] is not first.ports[0]
    second.writes("/of-the-second")
    assert second.posted, "what comes of it goes by its own queue"
    ready(spares)
    assert spares._spare is not spare
    for one in (first, second):
        one.close()
    assert first.events.count(second.events[0]) == 0
    loop.do(spares.close)


def test_one_that_has_ended_is_not_given_out(zk_hosts: str, loop: Loop) -> None:
    spares = spares_of(zk_hosts, loop)
    first = Somebody(loop, spares).connected()
    ready(spares)
    spare = spares._spare
    assert spare is not None
    loop.do(spare.port.close)
    wait_until(lambda: spare.is_over, PATIENCE_S, "its end")
    second = Somebody(loop, spares).connected()
    assert second.ports[0] is not spare.port
    ready(spares)
    for one in (first, second):
        one.close()
    loop.do(spares.close)


def test_while_the_ensemble_is_away_a_member_waits_as_it_did(
    own_zk_server: ZooKeeperServer, loop: Loop
) -> None:
    """It had a session, though it has not made it itself: it keeps trying."""
    zk = ZkOptions(own_zk_server.address, session_timeout_ms=3_000, connect_timeout_ms=200)
    spares = SpareSessions(zk, loop.work.put)
    Somebody(loop, spares).connected()
    ready(spares)
    second = Somebody(loop, spares).connected()
    own_zk_server.kill()
    wait_until(lambda: len(second.events) > 1, PATIENCE_S, "that it is away")
    second.open()  # as where its session was over
    third = Somebody(loop, spares)
    wait_until(lambda: third.has(Refused), PATIENCE_S, "a refusal")
    own_zk_server.start()
    wait_until(
        lambda: sum(isinstance(event, Connected) for event in second.events) > 1,
        PATIENCE_S,
        "a session again",
    )
    assert not second.has(Refused)
    loop.do(spares.close)


def test_after_the_end_none_is_made(zk_hosts: str, loop: Loop) -> None:
    spares = spares_of(zk_hosts, loop)
    first = Somebody(loop, spares).connected()
    ready(spares)
    spare = spares._spare
    assert spare is not None
    loop.do(spares.close)
    wait_until(lambda: spare.is_over, PATIENCE_S, "its end")
    second = Somebody(loop, spares).connected()
    assert second.ports[0] is not spare.port and spares._timer is None
    for one in (first, second):
        one.close()
