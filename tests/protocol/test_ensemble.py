"""The rules on three servers: one dies, and the sessions go on at the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.core import messages as msg
from tests.harness.wait import wait_until
from tests.harness.zookeeper import Ensemble, fresh_chroot
from tests.protocol import heavy_session
from tests.protocol.rig import WAIT_S, Proc, rigged, tps
from tests.protocol.spy import SpyPort, creates, starts
from zkcoord.stack.java import Java
from zkcoord.zk.contact_clock import ContactClockPort
from zkcoord.zk.kazoo_port.session import KazooPort
from zkcoord.zk.port import Suspended

pytestmark = pytest.mark.ensemble


@pytest.fixture(scope="module")
def three(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers for the tests here; each test leaves all of them running."""
    with Ensemble(tmp_path_factory.mktemp("ensemble"), java) as servers:
        yield servers


def server_of(proc: Proc, ensemble: Ensemble) -> int:
    """The member of the ensemble that this process is connected to."""
    port = proc.driver.port
    if isinstance(port, ContactClockPort):
        port = port.port
    assert (
        isinstance(port, SpyPort)
        and isinstance(port.port, KazooPort)
        and port.port.connected_server is not None
    )
    number = port.port.connected_server[1]
    return next(n for n, member in ensemble.members.items() if member.port == number)


def test_a_server_dies_and_nothing_moves(three: Ensemble) -> None:
    """The server of the elected coordinator is killed with -9: the term goes on at another one, no
    partition moves, and a join is served. Then it comes back, and the one of a member dies just
    before its ack goes out: the ack's outcome is unknown, it syncs with its next server, looks, and
    sends it again.
    """
    with rigged(fresh_chroot(three.hosts)) as rig:
        partitions = rig.topic("t", 6)
        c = rig.coordinator()
        a, b = rig.member("a", "t"), rig.member("b", "t")
        c.wait(lambda: len(a.fetching()) == len(b.fetching()) == 3, "half of the partitions each")
        commands, dead = len(c.spy.multis(creates("/channel/"))), server_of(c, three)
        three.kill(dead)
        c.wait(
            lambda: any(isinstance(e, Suspended) for e in c.spy.events),
            "the loss of its connection",
        )
        c.wait(lambda: c.leads and not c.driver.core.reading, "its lead again")
        assert len(c.sessions) == 1 and len(c.spy.multis(creates("/channel/"))) == commands
        three.restart(dead)
        late = rig.member("late").subscribe("t").joined()
        late.wait(lambda: len(late.fetching()) == 2, "its partitions")
        assert (
            sorted(tp for m in (a, b, late) for tp in m.fetching()) == list(partitions)
            and a.said(msg.Lost) == b.said(msg.Lost) == []
        )
        last = rig.member("last")
        victims: list[int] = []

        def strike() -> None:
            victims.append(server_of(last, three))
            three.kill(victims[0])

        last.spy.before(starts, strike)
        last.subscribe("t")
        last.wait(lambda: len(last.fetching()) == 1, "its partition")
        assert len(last.sessions) == 1 and len(last.said(msg.Assigned)) == 1 and victims
        calls = [s.kind for s in last.spy.sent if s.kind == "sync" or s in last.spy.multis(starts)]
        assert calls[0] == "multi" and "sync" in calls[1:]
        mine = [tp for m in (a, b, late, last) for tp in m.fetching()]
        assert sorted(mine) == list(partitions)
        three.restart(victims[0])


def test_without_a_quorum_nobody_hands_out_and_nobody_decides(three: Ensemble) -> None:
    """Two of three servers stop: the coordinator gives up its lead by its own clock, the member its
    lease; with the quorum back the group goes on without a loss of what was stored.
    """
    with rigged(fresh_chroot(three.hosts)) as rig:
        (t0,) = tps("t", 0)
        rig.topic("t", 1)
        c = rig.coordinator("c", session_ms=3_000)
        m = rig.member("m", "t", session_ms=3_000).fetches(t0)
        assert m.commit({t0: 9}).outcome is msg.CommitOutcome.OK
        for number in (1, 2):
            three.pause(number)
        m.wait(lambda: not m.may_hand_out(), "the end of its lease")
        c.wait(lambda: not c.leads, "the end of its lead")
        for number in (1, 2):
            three.resume(number)
        c.wait(lambda: c.leads, "its lead")
        wait_until(m.may_hand_out, WAIT_S, "the lease")
        m.fetches(t0)
        assert rig.offset(t0)[0] == 9 and m.commit({t0: 10}).outcome is msg.CommitOutcome.OK  # type: ignore[index]


def test_the_end_of_a_session_with_as_many_owner_nodes_as_the_cap_admits(three: Ensemble) -> None:
    """kill -9 of a process that holds as many owner nodes as an assignor gives one member: one
    transaction deletes them, every server takes it, and each loads it again after a restart.
    (Without the cap, 40,000 of them destroy an ensemble: `python -m tests.protocol.heavy_session
    --nodes 40000 --topic-chars 40`.)
    """
    heavy_session.survives(three, heavy_session.nodes_within_the_cap())
