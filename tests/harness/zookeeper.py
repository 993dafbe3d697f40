"""Real ZooKeeper servers for tests.

One server per test process serves all tests that need only a server: each gets a chroot of its own
(fixture `zk_hosts`), so they cannot see each other. Tests that need a quorum, a stale follower or a
dead server start an `Ensemble`. The servers do not force their log to disk: no test cuts the power,
and what a killed process has written survives in the kernel anyway.

`srvr_stats` reads the server's own counters: how many requests something costs is asked of the
server, never counted in the client.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.harness.wait import wait_until
from zkcoord.stack import jars
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.probe import four_letter
from zkcoord.stack.servers import ZooKeeperEnsemble, ZooKeeperOptions, ZooKeeperServer

RELEASE_VARIABLE = "ZKCOORD_TEST_ZOOKEEPER"
OLDEST = "3.4.14"
RELEASES = {
    OLDEST: jars.Artifact(
        "org.apache.zookeeper",
        "zookeeper",
        OLDEST,
        Path(__file__).parent / "zookeeper-3.4.14.lock",
        megabytes=2,
        seconds=10,
        alongside=(("org.apache.yetus", "audience-annotations", "0.5.0"),),
    )
}
"""Older servers. `RELEASE_VARIABLE` names the one that every test of this process shall run on,
where the test does not choose itself.
"""

TEST_OPTIONS = ZooKeeperOptions(force_sync=False)
CLIENT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ServerStats:
    """What a server says of itself. `received` and `sent` count packets since it started, pings
    included, and each four-letter question counts as one received.
    """

    received: int
    sent: int
    connections: int
    nodes: int
    mode: str


def srvr_stats(port: int) -> ServerStats:
    """The counters of the server on this port of the loopback address; AssertionError when it does
    not answer.
    """
    answer = wait_until(
        lambda: four_letter(port, "srvr"),
        ANSWER_TIMEOUT_S,
        f"an answer of the server on port {port}",
    )
    return ServerStats(
        int(answer["Received"]),
        int(answer["Sent"]),
        int(answer["Connections"]),
        int(answer["Node count"]),
        answer["Mode"],
    )


def of_release(
    release: str, java: Java, options: ZooKeeperOptions = TEST_OPTIONS
) -> ZooKeeperOptions:
    """Options that run this release; PySpark's where it is empty. Fetches its jars if they are not
    there.
    """
    if not release:
        return options
    return replace(
        options,
        class_path=os.pathsep.join(
            [jars.logging_classpath(), *map(str, jars.resolve(RELEASES[release], java, print))]
        ),
    )


def wanted_release(java: Java, options: ZooKeeperOptions) -> ZooKeeperOptions:
    """What the environment asks for, where the test does not."""
    return (
        options
        if options.class_path
        else of_release(os.environ.get(RELEASE_VARIABLE, ""), java, options)
    )


def since_3_6(why: str) -> pytest.MarkDecorator:
    """For a test of what only newer servers can do: where all run on an older release it is left
    out, and says why.
    """
    return pytest.mark.skipif(
        bool(os.environ.get(RELEASE_VARIABLE)), reason=f"servers before 3.6: {why}"
    )


def start_server(
    home: Path, java: Java, options: ZooKeeperOptions = TEST_OPTIONS
) -> ZooKeeperServer:
    """A running server in `home` that dies with this process."""
    server = ZooKeeperServer(
        home, free_port(), java, owned=True, options=wanted_release(java, options)
    )
    server.start()
    return server


def fresh_chroot(address: str, name: str = "test") -> str:
    """A connect string `host:port,.../<name>-<8 hex>` whose chroot exists and is empty."""
    chroot = f"/{name}-{uuid.uuid4().hex[:8]}"
    client = connect(address)
    client.create(chroot)
    disconnect(client)
    return address + chroot


def connect(hosts: str, timeout_s: float = CLIENT_TIMEOUT_S) -> KazooClient:
    """A started plain client, for looking and for arranging; `timeout_s` is its session timeout."""
    client = KazooClient(hosts=hosts, timeout=timeout_s)
    client.start(timeout=ANSWER_TIMEOUT_S)
    return client


def disconnect(client: KazooClient) -> None:
    """Close the session and its connection."""
    client.stop()
    client.close()


class Ensemble(ZooKeeperEnsemble):
    """Three servers (or `n`) with a quorum, members numbered from 1. Use as a context manager, or
    the fixture `ensemble`.
    """

    def __init__(
        self, home: Path, java: Java, n: int = 3, options: ZooKeeperOptions = TEST_OPTIONS
    ) -> None:
        super().__init__(home, java, owned=True, size=n, options=wanted_release(java, options))

    def __enter__(self) -> Ensemble:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def kill(self, number: int) -> None:
        """kill -9 of one member."""
        self.members[number].kill()

    def pause(self, number: int) -> None:
        self.members[number].pause()

    def resume(self, number: int) -> None:
        self.members[number].resume()

    def restart(self, number: int, wait: bool = True) -> None:
        """Start a killed member again with its data. `wait`: until it serves (it cannot before
        there is a quorum).
        """
        member = self.members[number]
        member.launch()
        if wait:
            member.wait_serving()
