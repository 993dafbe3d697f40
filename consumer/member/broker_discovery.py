"""Where the brokers are, from ZooKeeper: `bootstrap_servers` for those who do not give them, and
again when none of the known ones can be reached any more.

At the start a short session of its own reads /brokers/ids (the member's session does not exist
yet). Later the member's session is used. A broker counts with the listener whose security protocol
is the configured one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from consumer.errors import ConsumerOptionError
from consumer.member.one_query import ask
from zkcoord.core.model import Malformed
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import Children, GetChildren, GetData, Node, Port, ReadDone, ReadResult
from zkcoord.znodes.kafka import decode_broker
from zkcoord.znodes.paths import Layout

log = logging.getLogger(__name__)

BROKERS_MAX = 1_000
FOLLOW_EVERY_MS = 2_000
UNREACHED_MS = 1_000


class BrokerReader:
    """Reads all live brokers through a port, in two reads; `done` gets "host:port" of each, sorted
    by id.
    """

    def __init__(
        self, port: Port, layout: Layout, protocol: str, done: Callable[[list[str]], object]
    ) -> None:
        self.port = port
        self.layout = layout
        self.protocol = protocol
        self.done = done

    def begin(self) -> None:
        """Start; on the thread of the port's loop."""
        self.port.read([GetChildren(self.layout.brokers_root)], self._ids)

    def _ids(self, result: ReadResult) -> None:
        answer = result.answers[0] if isinstance(result, ReadDone) else None
        ids = answer.names[:BROKERS_MAX] if isinstance(answer, Children) else ()
        if ids:
            self.port.read(
                [GetData(self.layout.broker(i)) for i in ids], lambda r: self._data(ids, r)
            )
        else:
            self.done([])

    def _data(self, ids: Iterable[str], result: ReadResult) -> None:
        answers = result.answers if isinstance(result, ReadDone) else ()
        found = [
            server
            for i, a in zip(ids, answers, strict=False)
            if isinstance(a, Node) and (server := self._server(i, a.data))
        ]
        self.done(found)

    def _server(self, broker: str, data: bytes) -> str:
        value = decode_broker(broker, data)
        if isinstance(value, Malformed):
            log.warning("the node of broker %s cannot be used: %s", broker, value.reason)
            return ""
        for listener, (host, port) in sorted(value.endpoints.items()):
            if value.protocols.get(listener, listener) == self.protocol:
                return _address(host or value.host, port)
        return (
            _address(value.host, value.port)
            if self.protocol == "PLAINTEXT" and value.port > 0
            else ""
        )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def find_brokers(zk: ZkOptions, layout: Layout, protocol: str, timeout_s: float) -> list[str]:
    """["host:port", ..] of the live brokers. Raises `SessionRefusedError` when ZooKeeper cannot be
    used, `ConsumerOptionError` when no broker is there.
    """

    def read(port: Port, done: Callable[[list[str]], None]) -> None:
        BrokerReader(port, layout, protocol, done).begin()

    found = ask(zk, read, timeout_s)
    if not found:
        raise ConsumerOptionError(
            f"no live broker with a {protocol} listener is registered under"
            f" {zk.chroot}{layout.brokers_root} of {zk.address}: start Kafka, correct the chroot of"
            " zookeeper_connect, or give bootstrap_servers"
        )
    return found


class BrokerDiscovery:
    """Notices that no broker can be reached, and looks where they are now. `look` starts a look at
    ZooKeeper and must return at once.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._stuck_since: float | None = None
        self._looked_at = 0.0

    def note(self, stuck: bool) -> None:
        """Whether, right now, there is something to fetch and no broker to ask."""
        now = time.monotonic()
        if not stuck:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif (
            now - self._stuck_since > UNREACHED_MS / 1000
            and now - self._looked_at > FOLLOW_EVERY_MS / 1000
        ):
            self._looked_at = now
            self._look()
