"""What the servers of the ensemble say of themselves, for the coordinator's page: each is asked
srvr, without a session, when somebody looks and the last answer is not new; all at the same time,
and nobody waits for one that says nothing.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Sequence

from zkcoord.console.views.texts import short
from zkcoord.core.value_type import value
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.options import Server, ZkOptions
from zkcoord.zk.quorum_probe import NOT_SERVING, srvr

FRESH_MS = 5_000
DEADLINE_S = 1.0
TEXT_CHARS_MAX = 60
SILENT = "no answer within a second"
NOT_ALLOWED = "it takes connections, and does not answer srvr (4lw.commands.whitelist)"


@value
class ServerSeen:
    """A server: its words, as it wrote them, or why there are none (`problem`). `latency` is the
    shortest, mean and longest time of a request since it began, ms.
    """

    address: str
    mode: str = ""
    version: str = ""
    latency: str = ""
    connections: str = ""
    waiting: str = ""
    nodes: str = ""
    problem: str = ""


class ServersAsker:
    """See the module. Any thread. Raises `ConfigurationError` for TLS files that cannot be used."""

    def __init__(self, options: ZkOptions) -> None:
        self._servers = options.servers
        self._tls = options.tls.context() if options.tls is not None else None
        self._lock = threading.Lock()
        self._at_ms = -FRESH_MS
        self._seen: tuple[ServerSeen, ...] = ()
        self._asking: dict[Server, threading.Thread] = {}

    def newest(self) -> Sequence[ServerSeen]:
        """What is known of each, in the order in which they were named; one asks, and the others do
        not wait for it.
        """
        if self._lock.acquire(blocking=not self._seen):
            try:
                if boot_ms() - self._at_ms >= FRESH_MS:
                    self._seen = tuple(asked(self._servers, self._tls, self._asking))
                    self._at_ms = boot_ms()
            finally:
                self._lock.release()
        return self._seen


def asked(
    servers: Sequence[Server], tls: ssl.SSLContext | None, asking: dict[Server, threading.Thread]
) -> list[ServerSeen]:
    """What each of them says now. `asking` has who is still being asked from the time before, by a
    name that nobody tells or byte by byte: such a one is not asked once more.
    """
    found = {server: ServerSeen(_address(server), problem=SILENT) for server in servers}

    def put(server: Server) -> None:
        found[server] = _ask(server, tls)

    for server in servers:
        if server not in asking or not asking[server].is_alive():
            asking[server] = threading.Thread(
                target=put, args=(server,), name="zkcoord-srvr", daemon=True
            )
            asking[server].start()
    until = time.monotonic() + DEADLINE_S
    for server in servers:
        asking[server].join(max(0.0, until - time.monotonic()))
    return [found[server] for server in servers]


def _address(server: Server) -> str:
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ask(server: Server, tls: ssl.SSLContext | None) -> ServerSeen:
    address = _address(server)
    try:
        with socket.create_connection(server, DEADLINE_S) as connected:
            answer = srvr(connected, server[0], tls)
    except TimeoutError:
        return ServerSeen(address, problem=SILENT)
    except OSError as error:
        why = getattr(error, "strerror", None) or str(error)
        return ServerSeen(address, problem=short(why, TEXT_CHARS_MAX))
    if NOT_SERVING in answer:
        return ServerSeen(address, problem="it serves nobody: it has no quorum")
    return read_srvr(address, answer)


def read_srvr(address: str, answer: bytes) -> ServerSeen:
    """The answer of a server that serves (ZooKeeper 3.4 to 3.9)."""
    said = {}
    for line in answer.decode("utf-8", "replace").splitlines():
        name, mark, value = line.partition(": ")
        if mark:
            said[name] = short(value.strip(), TEXT_CHARS_MAX)
    if "Mode" not in said:
        return ServerSeen(address, problem=NOT_ALLOWED)
    return ServerSeen(
        address,
        said["Mode"],
        said.get("Zookeeper version", "").partition("-")[0],
        said.get("Latency min/avg/max", ""),
        said.get("Connections", ""),
        said.get("Outstanding", ""),
        said.get("Node count", ""),
    )
