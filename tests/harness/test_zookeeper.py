"""The shared servers themselves: a chroot of one's own, counters, a quorum that loses and regains members."""

from __future__ import annotations

import pytest

from tests.harness.wait import wait_until
from tests.harness.zookeeper import Ensemble, connect, disconnect, srvr_stats
from zkcoord.stack.servers import ZooKeeperServer


def test_wait_until_returns_the_answer() -> None:
    answers = iter([None, [], "yes"])
    assert wait_until(lambda: next(answers), 5, "an answer") == "yes"


def test_wait_until_says_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"in vain for the impossible; the last answer was 0"):
        wait_until(lambda: 0, 0.05, "the impossible")


def test_each_test_has_an_empty_chroot(zk_hosts: str) -> None:
    client = connect(zk_hosts)
    assert client.get_children("/") == []
    disconnect(client)


def test_requests_are_counted_by_the_server(zk_server: ZooKeeperServer, zk_hosts: str) -> None:
    client = connect(zk_hosts, timeout_s=60)
    before = srvr_stats(zk_server.port).received
    for _ in range(100):
        client.exists("/")
    after = srvr_stats(zk_server.port).received
    disconnect(client)
    assert 100 <= after - before <= 110


def test_a_server_survives_kill_and_pause(own_zk_server: ZooKeeperServer) -> None:
    client = connect(own_zk_server.address)
    client.create("/kept", b"1")
    own_zk_server.kill()
    assert not own_zk_server.alive()
    own_zk_server.start()
    wait_until(lambda: client.connected, 30, "the client to be connected again")
    assert client.get("/kept")[0] == b"1"
    own_zk_server.pause()
    assert own_zk_server.mode() is None
    own_zk_server.resume()
    wait_until(lambda: own_zk_server.mode() == "standalone", 30, "the server to answer after the pause")
    disconnect(client)


@pytest.mark.ensemble
def test_an_ensemble_serves_without_one_member(ensemble: Ensemble) -> None:
    leader = ensemble.leader().number
    assert len(ensemble.followers()) == 2
    client = connect(ensemble.hosts)
    client.create("/kept", b"1")
    ensemble.kill(leader)
    wait_until(lambda: ensemble.leader().number != leader, 30, "another leader")
    wait_until(lambda: client.connected, 30, "the client to be connected again")
    client.retry(client.set, "/kept", b"2")
    ensemble.restart(leader)
    survivor = connect(ensemble.members[leader].address)
    survivor.sync("/")
    assert survivor.get("/kept")[0] == b"2"
    disconnect(survivor)
    disconnect(client)
