"""The shared servers themselves: a chroot of one's own, counters, a quorum that loses and regains
members.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.wait import wait_until
from tests.harness.zookeeper import Ensemble, connect, disconnect, srvr_stats
from zkcoord.stack.java import Java
from zkcoord.stack.servers import ZooKeeperServer

WAIT_S = 60.0


def test_wait_until_returns_the_answer() -> None:
    answers = iter([None, [], "yes"])
    assert wait_until(lambda: next(answers), 5, "an answer") == "yes"


def test_wait_until_says_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"in vain for the impossible; the last answer was 0"):
        wait_until(lambda: 0, 0.05, "the impossible")


def test_a_server_that_starts_finds_its_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: Java
) -> None:
    """The clean-up of 3.4 makes them at the same moment: one of both ended ("Unable to create data
    directory").
    """
    server = ZooKeeperServer(tmp_path, 1, java, owned=True)
    found: list[list[bool]] = []

    def launch(*arguments: Any) -> None:
        found.append([(tmp_path / name / "version-2").is_dir() for name in ("data", "txn")])

    monkeypatch.setattr(server.program, "launch", launch)
    for _ in range(2):
        server.launch()
    assert found == [[True, True]] * 2


def test_each_test_has_an_empty_chroot(zk_hosts: str) -> None:
    client = connect(zk_hosts)
    assert client.get_children("/") == []
    disconnect(client)


def test_requests_are_counted_by_the_server(own_zk_server: ZooKeeperServer) -> None:
    client = connect(own_zk_server.address, timeout_s=60)
    before = srvr_stats(own_zk_server.port).received
    for _ in range(100):
        client.exists("/")
    after = srvr_stats(own_zk_server.port).received
    disconnect(client)
    assert 100 <= after - before <= 110


def test_a_server_survives_kill_and_pause(own_zk_server: ZooKeeperServer) -> None:
    client = connect(own_zk_server.address)
    client.create("/kept", b"1")
    own_zk_server.kill()
    assert not own_zk_server.alive()
    own_zk_server.start()
    wait_until(lambda: client.connected, WAIT_S, "the client to be connected again")
    assert client.retry(client.get, "/kept")[0] == b"1"
    own_zk_server.pause()
    wait_until(lambda: own_zk_server.mode() is None, WAIT_S, "the server to be silent")
    own_zk_server.resume()
    wait_until(
        lambda: own_zk_server.mode() == "standalone", WAIT_S, "the server to answer after the pause"
    )
    disconnect(client)


@pytest.mark.ensemble
def test_an_ensemble_serves_without_one_member(ensemble: Ensemble) -> None:
    leader = ensemble.leader().number
    assert len(ensemble.followers()) == 2
    client = connect(ensemble.hosts)
    client.create("/kept", b"1")
    ensemble.kill(leader)
    wait_until(lambda: ensemble.leader().number != leader, WAIT_S, "another leader")
    wait_until(lambda: client.connected, WAIT_S, "the client to be connected again")
    client.retry(client.set, "/kept", b"2")
    ensemble.restart(leader)
    survivor = connect(ensemble.members[leader].address)
    survivor.retry(survivor.sync, "/")
    assert survivor.retry(survivor.get, "/kept")[0] == b"2"
    disconnect(survivor)
    disconnect(client)


@pytest.mark.ensemble
def test_each_member_of_an_ensemble_is_stopped_and_continued_alone(ensemble: Ensemble) -> None:
    """A follower that is stopped answers nobody, the others serve; continued, it catches up.
    Without two of three there is no quorum, and nobody serves.
    """
    first, second = (member.number for member in ensemble.followers())
    client = connect(ensemble.leader().address)
    ensemble.pause(first)
    client.create("/meanwhile", b"1")
    wait_until(
        lambda: (
            ensemble.members[first].mode() is None and ensemble.members[second].mode() == "follower"
        ),
        WAIT_S,
        "one to be silent and one to serve",
    )
    ensemble.kill(second)
    wait_until(lambda: not client.connected, WAIT_S, "the end of service without a quorum")
    ensemble.resume(first)
    ensemble.restart(second)
    for number in (first, second):
        late = connect(ensemble.members[number].address)
        late.retry(late.sync, "/")
        assert late.retry(late.get, "/meanwhile")[0] == b"1"
        disconnect(late)
    disconnect(client)
