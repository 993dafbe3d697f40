"""What servers of an ensemble say of themselves, from real ones and from strangers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from zkcoord.console import ensemble as module
from zkcoord.console.ensemble import NOT_ALLOWED, SILENT, ServersAsker, asked, read_srvr
from zkcoord.zk.options import ZkOptions


@contextmanager
def stranger(answer: bytes | None) -> Iterator[int]:
    """It answers anything with this, and closes; None: it says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held = []

        def serve() -> None:
            try:
                while True:
                    one, _ = listening.accept()
                    held.append(one)
                    if answer is not None:
                        one.recv(4)
                        one.sendall(answer)
                        one.shutdown(socket.SHUT_WR)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        for one in held:
            one.close()


def test_a_real_server(zk_hosts: str) -> None:
    ensemble = ServersAsker(ZkOptions(zk_hosts))
    (seen,) = ensemble.newest()
    assert seen.problem == "" and seen.mode == "standalone"
    assert seen.version.count(".") == 2 and seen.latency.count("/") == 2
    assert int(seen.connections) >= 0 and int(seen.nodes) > 0
    assert ensemble.newest()[0] is seen, "one that is new is enough"


def test_servers_that_do_not_answer_take_nothing_from_the_others(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 5.0)
    (real,) = ZkOptions(zk_hosts).servers
    with stranger(None) as silent, stranger(b"This ZooKeeper instance is not currently") as odd:
        with stranger(b"...This ZooKeeper instance is not currently serving requests\n") as alone:
            with socket.create_server(("127.0.0.1", 0)) as gone:
                port = gone.getsockname()[1]
            found = asked([("127.0.0.1", n) for n in (silent, odd, alone, port)] + [real], None, {})
    problems = [one.problem for one in found]
    assert problems[0] == SILENT and problems[1] == NOT_ALLOWED
    assert "no quorum" in problems[2] and "refused" in problems[3].lower() and not problems[4]
    assert [one.address for one in found][3] == f"127.0.0.1:{port}"


def test_who_never_ends_to_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread for each server, however often somebody looks."""
    monkeypatch.setattr(module, "DEADLINE_S", 0.05)
    asks, over = [], threading.Event()

    def never(server: tuple[str, int], _: object) -> module.ServerSeen:
        asks.append(server)
        over.wait()
        return module.ServerSeen("late")

    monkeypatch.setattr(module, "_ask", never)
    asking: dict[tuple[str, int], threading.Thread] = {}
    for _ in range(3):
        (seen,) = asked([("zk1", 2181)], None, asking)
        assert seen == module.ServerSeen("zk1:2181", problem=SILENT)
    assert asks == [("zk1", 2181)]
    over.set()
    asking["zk1", 2181].join()
    assert asked([("zk1", 2181)], None, asking)[0].address == "late" and len(asks) == 2


def test_what_a_stranger_says_is_short() -> None:
    name = '"><script>alert(1)</script>\x1b[2J' + "x" * 10_000
    said = f"Zookeeper version: {name}\nMode: {name}\nLatency min/avg/max: {name}\n"
    seen = read_srvr("a:1", said.encode())
    assert all(len(text) < 200 for text in (seen.mode, seen.version, seen.latency))
    assert "\x1b" not in seen.mode
    assert read_srvr("a:1", b"\xff\xfe").problem == NOT_ALLOWED
    old = read_srvr(
        "a:1", b"Zookeeper version: 3.4.14-4c25d48, built on 03/06/2019\nMode: leader\n"
    )
    assert (old.version, old.mode, old.latency) == ("3.4.14", "leader", "")
