"""`PortFixture` on a real server: every port goes through a link of its own, one queue is the
loop.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from types import TracebackType

from tests.zk.link import Link, Mode
from zkcoord.zk.kazoo_port.session import KazooEnsemble, KazooPort
from zkcoord.zk.options import ZkOptions, parse_hosts
from zkcoord.zk.port import Closed, Expired, Port, PortEvent, Refused

DRAIN_DEADLINE_S = 60.0
TERMINAL = (Closed, Expired, Refused)


Tasks = queue.SimpleQueue[Callable[[], None]]


def drain(tasks: Tasks, predicate: Callable[[], bool], what: str) -> None:
    """Run the queue until the predicate is true; AssertionError, naming `what`, when it does not
    become true.
    """
    until = time.monotonic() + DRAIN_DEADLINE_S
    while not predicate():
        try:
            tasks.get(timeout=max(0.0, until - time.monotonic()))()
        except queue.Empty:
            raise AssertionError(f"waited {DRAIN_DEADLINE_S} s for {what}") from None


class Loop:
    """A `PortFixture` without links: sessions of `hosts`, with `options` of `ZkOptions`."""

    def __init__(self, hosts: str, **options: object) -> None:
        self.hosts = hosts
        self.options = options
        self.tasks: Tasks = queue.SimpleQueue()

    def at(self, hosts: str) -> Loop:
        """The same queue, other servers."""
        other = Loop(hosts, **self.options)
        other.tasks = self.tasks
        return other

    def open(self, on_event: Callable[[PortEvent], None]) -> KazooPort:
        """A new session."""
        return KazooEnsemble(ZkOptions(self.hosts, **self.options), self.tasks.put).open(on_event)  # type: ignore[arg-type]

    def drain(self, predicate: Callable[[], bool], what: str) -> None:
        """Run the queue until the predicate is true."""
        drain(self.tasks, predicate, what)

    def cut(self, port: Port) -> None:
        """There is no link to cut."""
        raise AssertionError("there is no link to cut")

    def heal(self, port: Port) -> None:
        """There is no link to heal."""
        raise AssertionError("there is no link to heal")


class RealFixture:
    """`hosts` names ONE server and a chroot of the test's own. `options` go to `ZkOptions` (session
    timeout 10 s unless given).
    """

    def __init__(self, hosts: str, **options: object) -> None:
        servers, self.chroot = parse_hosts(hosts)
        self.server = servers[0]
        self.options: dict[str, object] = {"session_timeout_ms": 10_000, **options}
        self.tasks: Tasks = queue.SimpleQueue()
        self.links: dict[int, Link] = {}
        self.over: dict[int, bool] = {}
        self.ports: list[KazooPort] = []

    def ensemble(self, link: Link, **options: object) -> KazooEnsemble:
        """An ensemble whose only address is the link's."""
        return KazooEnsemble(
            ZkOptions(link.address + self.chroot, **{**self.options, **options}), self.tasks.put
        )  # type: ignore[arg-type]

    def open(self, on_event: Callable[[PortEvent], None], **options: object) -> KazooPort:
        """A new session behind its own link."""
        link = Link(self.server)
        key = len(self.ports)

        def see(event: PortEvent) -> None:
            self.over[key] = self.over.get(key, False) or isinstance(event, TERMINAL)
            on_event(event)

        port = self.ensemble(link, **options).open(see)
        self.links[id(port)] = link
        self.ports.append(port)
        return port

    def link(self, port: Port) -> Link:
        """The port's link."""
        return self.links[id(port)]

    def drain(self, predicate: Callable[[], bool], what: str) -> None:
        """Run the queue until the predicate is true."""
        drain(self.tasks, predicate, what)

    def cut(self, port: Port) -> None:
        """Close the port's connection and refuse new ones."""
        self.link(port).mode = Mode.REFUSE

    def heal(self, port: Port) -> None:
        """Let it connect again."""
        self.link(port).mode = Mode.PASS

    def __enter__(self) -> RealFixture:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for port in self.ports:
            self.link(port).mode = Mode.PASS
            port.close()
        try:
            self.drain(
                lambda: all(self.over.get(i) for i in range(len(self.ports))),
                "the end of every port",
            )
        finally:
            for link in self.links.values():
                link.__exit__()
