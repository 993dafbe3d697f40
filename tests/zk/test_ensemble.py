"""What takes three servers: reads after a sync are fresh on every member, and a session outlives
its server.
"""

from __future__ import annotations

import pytest

from tests.harness.zookeeper import Ensemble
from tests.zk.port_contract import Session
from tests.zk.real import Loop
from zkcoord.zk.kazoo_port.session import KazooPort
from zkcoord.zk.port import (
    Closed,
    Committed,
    Connected,
    Create,
    GetData,
    Node,
    ReadDone,
    ReadResult,
    SetData,
    Suspended,
    Unanswered,
)

SESSION_MS = 9_000
WRITES = 150


def test_a_read_after_a_sync_is_fresh_on_every_member(ensemble: Ensemble) -> None:
    """A write acknowledged through one member is seen by sync + read through every other, every
    time (without the sync a follower answers with the past now and then).
    """
    loop = Loop(ensemble.hosts, session_timeout_ms=30_000)
    writer = Session(loop.at(ensemble.leader().address))
    readers = [Session(loop.at(f.address)) for f in ensemble.followers()]
    writer.do(Create("/a", b"0"))
    fresh = 0
    for i in range(1, WRITES + 1):
        writer.do(SetData("/a", str(i).encode(), i - 1))
        for reader in readers:
            answers: list[ReadResult] = []
            reader.port.sync(lambda result: None)
            reader.port.read([GetData("/a")], answers.append)
            reader.wait(lambda answers=answers: bool(answers), "a read")  # type: ignore[misc]
            result = answers[0]
            assert isinstance(result, ReadDone) and isinstance(result.answers[0], Node)
            assert result.answers[0].data == str(i).encode()
            fresh += 1
    assert fresh == WRITES * len(readers)
    for s in (writer, *readers):
        s.close()


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_session_outlives_its_server(ensemble: Ensemble, how: str) -> None:
    """The member that serves the session dies or hangs: Suspended, then Connected to another with
    the same session and its ephemerals; what was under way is told before.
    """
    s = Session(Loop(ensemble.hosts, session_timeout_ms=SESSION_MS))
    s.do(Create("/a", b""), Create("/e", b"", ephemeral=True))
    port = s.port
    assert isinstance(port, KazooPort) and port.connected_server is not None
    first = port.connected_server
    (number,) = [n for n, member in ensemble.members.items() if member.port == first[1]]
    order: list[object] = []
    if how == "kill":
        ensemble.kill(number)
    else:
        ensemble.pause(number)
        port.multi([SetData("/a", b"x", -1)], order.append)
        port.read([GetData("/a")], order.append)
    s.wait(lambda: any(isinstance(e, Connected) for e in s.events), "another server")
    assert s.events[0] == Suspended() and s.events[-1] == Connected(s.session_id, SESSION_MS)
    assert (
        order == ([Unanswered()] * 2 if how == "pause" else []) and port.connected_server != first
    )
    s.sync()
    assert isinstance(s.multi(SetData("/a", b"y", -1)), Committed)
    assert s.node("/e").stat.ephemeral_owner == s.session_id
    if how == "pause":
        ensemble.resume(number)
    s.close()
    assert Closed() in s.events
