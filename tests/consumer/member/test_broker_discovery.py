"""Brokers as ZooKeeper has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kazoo.security import make_digest_acl

from consumer.errors import SessionRefusedError
from consumer.member import broker_discovery
from consumer.member.broker_discovery import BrokerDiscovery, BrokerReader, find_listeners
from tests.harness.zookeeper import connect, disconnect
from zkcoord.zk.listeners import Listeners
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Children, GetData, Missing, Node, Read, ReadDone, ReadResult
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

STAT = Stat(1, 1, 0, 0, 0, 0)


class Brokers:
    """A port that knows broker nodes."""

    def __init__(self, nodes: dict[str, bytes] | None) -> None:
        self.nodes = nodes

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        if isinstance(reads[0], GetData):
            done(ReadDone(tuple(Node(self.nodes[r.path.rsplit("/", 1)[1]], STAT) for r in reads)))  # type: ignore[index]
        else:
            done(
                ReadDone(
                    (Missing() if self.nodes is None else Children(tuple(sorted(self.nodes))),)
                )
            )


def broker(*endpoints: str, host: str | None = None, port: int = -1, **protocols: str) -> bytes:
    return json.dumps(
        {
            "version": 5,
            "host": host,
            "port": port,
            "endpoints": list(endpoints),
            "listener_security_protocol_map": protocols,
        }
    ).encode()


def found(nodes: dict[str, bytes] | None, protocol: str = "PLAINTEXT") -> list[str]:
    return [server for servers in listeners(nodes, protocol).values() for server in servers]


def listeners(nodes: dict[str, bytes] | None, protocol: str = "PLAINTEXT") -> Listeners:
    answers: list[Listeners] = []
    port: Any = Brokers(nodes)
    BrokerReader(port, Layout.DRAFT, protocol, answers.append).begin()
    (answer,) = answers
    return answer


def test_the_listener_with_the_right_protocol_is_taken() -> None:
    nodes = {
        "0": broker("INSIDE://a:1", "OUTSIDE://b:2", INSIDE="PLAINTEXT", OUTSIDE="SSL"),
        "1": broker("PLAINTEXT://c:3"),
    }
    assert found(nodes) == ["a:1", "c:3"]
    assert found(nodes, "SSL") == ["b:2"]


def test_each_listener_of_a_protocol_is_there_with_all_brokers() -> None:
    nodes = {
        "0": broker("OUT://a:1", "IN://b:2", OUT="PLAINTEXT", IN="PLAINTEXT"),
        "1": broker("OUT://c:3", "IN://d:4", OUT="PLAINTEXT", IN="PLAINTEXT"),
    }
    assert listeners(nodes) == {"IN": ("b:2", "d:4"), "OUT": ("a:1", "c:3")}


def test_old_formats_addresses_and_rubbish() -> None:
    nodes = {
        "0": json.dumps({"version": 1, "host": "old", "port": 9092}).encode(),
        "1": b"{",
        "2": broker("PLAINTEXT://[::1]:9"),
    }
    assert found(nodes) == ["old:9092", "[::1]:9"]


@pytest.mark.parametrize("nodes", [None, {}])
def test_without_brokers_there_is_an_empty_answer(nodes: dict[str, bytes] | None) -> None:
    assert found(nodes) == []


def test_a_look_is_due_after_a_while_without_any_broker_and_not_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(broker_discovery.time, "monotonic", lambda: now[0])
    looks: list[float] = []
    follower = BrokerDiscovery(lambda: looks.append(now[0]))
    for stuck, later in (
        (True, 0.5),
        (False, 0.0),
        (True, 0.6),
        (True, 0.6),
        (True, 0.5),
        (True, 2.0),
        (True, 0.0),
    ):
        follower.note(stuck)
        now[0] += later
    assert looks == [
        pytest.approx(101.7),
        pytest.approx(104.2),
    ], "after a second without any, then every two seconds"


@pytest.mark.parametrize("node", ["/brokers/ids", "/brokers/ids/0"])
def test_brokers_that_may_not_be_read_are_not_absent(zk_hosts: str, node: str) -> None:
    """Nobody is told to start Kafka."""
    zk = connect(zk_hosts)
    try:
        zk.create("/brokers/ids/0", b"{}", makepath=True)
        zk.set_acls(node, [make_digest_acl("nobody", "x", all=True)])
        with pytest.raises(SessionRefusedError, match=f"this consumer read {node} .NoAuth.: give"):
            find_listeners(ZkOptions(zk_hosts), Layout.DRAFT, "PLAINTEXT", 10)
    finally:
        zk.add_auth("digest", "nobody:x")
        disconnect(zk)
